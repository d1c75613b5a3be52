#!/bin/bash
# Runs tests and samples and keeps the tile IR of the kernels that they record, for the tests that compile them for GPUs.
#   record_kernels.sh FOLDER API_TESTS UNIT_TESTS SOURCE_DIR SAMPLE...
set -u
folder=$1 api_tests=$2 unit_tests=$3 source=$4
shift 4
fail() { echo "record_kernels: $1"; exit 1; }
rm -rf "$folder" && mkdir -p "$folder" && cd "$folder" || exit 1
# A fixed seed, so that every run records the same kernels and variants, and a failure can be repeated.
export KILN_KEEP=tile KILN_KEEP_DIR=$folder KILN_TEST_SEED=1

"$api_tests" >api_tests.log 2>&1 || fail "api_tests failed, see $folder/api_tests.log"
# The files of unit tests with handwritten kernels; random kernels have separate tests.
files=()
for file in test_assign test_assign_kernel test_kernel_launch test_language_edges test_language_kernels test_language_data_kernels \
  test_language_network_kernels test_language_functions test_codegen test_hard test_atomics test_code_size test_device_assert test_compile_policy; do
  files+=("[#$file]~[slow]~[.],")
done
"$unit_tests" -# "${files[*]}" >unit_tests.log 2>&1 || fail "unit_tests failed, see $folder/unit_tests.log"
for sample in "$@"; do
  arguments=(100 100 100)
  case $sample in
  */01_*) arguments=(1000) ;;
  */05_*) ;;
  */llama_block) arguments=(20 30 6 3 16 60) ;;
  */06_*) arguments=("$source/samples/data/camera.png" sharpened.png 90 90) ;;
  *) arguments=(100 1000) ;;
  esac
  "$sample" "${arguments[@]}" >sample.log 2>&1 || fail "$sample ${arguments[*]} failed, see $folder/sample.log"
done
echo "$(find . -name '*.kir' | wc -l) kernels"
