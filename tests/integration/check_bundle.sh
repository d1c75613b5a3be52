#!/bin/bash
# Checks the bundle for machines with a GPU: the size of its archive, that the command that make_bundle.sh prints unpacks and
# runs it in an empty folder, its messages if there is no NVIDIA driver, and that its steps run all tests for GPUs.
#   check_bundle.sh SOURCE_DIR BUILD_DIR WORK_DIR
set -u
source=$1 build=$2 work=$3
fail() { echo "check_bundle: $1"; exit 1; }
rm -rf "$work" && mkdir -p "$work" && cd "$work" || exit 1
export KILN_CACHE_DIR=$work/cache RESULTS=$work/results
mkdir -m 700 cache

"$source/tests/bundle/make_bundle.sh" "$build" "$source" "$work/made" "$work/kiln-gpu.tar.gz" >printed || { cat printed; fail "make_bundle.sh fails"; }
[ "$(stat -c %s kiln-gpu.tar.gz)" -le 30000000 ] || fail "the archive has more than 30 MB"
# Runs the printed command in an empty folder whose name has a space. It exits with 77, because there is no driver.
start=$(sed -n 's/^    \(tar .*\)/\1/p' printed)
[ -n "$start" ] || { cat printed; fail "make_bundle.sh prints no command"; }
mkdir "moved here" && mv kiln-gpu.tar.gz "moved here" && rm -r made || exit 1
(cd "moved here" && KILN_CUDA_LIBRARY=$work/none.so bash -c "$start") >answer 2>&1
[ $? = 77 ] || fail "'$start' does not exit with 77 if there is no driver: $(cat answer)"
bundle="$work/moved here/kiln-gpu"
for program in "$bundle"/bin/* "$bundle"/lib/*.so.*; do
  ldd "$program" | grep -q 'not found' && fail "$program lacks a library"
  readelf -d "$program" | grep -E 'RUNPATH|RPATH' | grep -vF '$ORIGIN' && fail "$program looks for libraries elsewhere"
done
ldd "$bundle/bin/kiln_demo" | grep -qF "$bundle/bin/../lib/libkiln.so.0" || fail "the programs do not take the bundle's library"
newest=$(readelf -V "$bundle"/bin/* "$bundle"/lib/*.so.* | grep -o 'GLIBC_2\.[0-9]*' | sort -Vu | tail -1)
[ "$(printf '%s\n' "$newest" GLIBC_2.36 | sort -V | tail -1)" = GLIBC_2.36 ] || fail "the bundle needs $newest, which is newer than 2.36"

"$bundle/bin/01_vector_add" 1000 || fail "the first sample fails"
"$bundle/run" kiln --version || fail "the kiln command does not start"
"$bundle/run" help | grep -q '^usage: ' || fail "there is no help"
RESULTS=/proc/none "$bundle/run" help >answer 2>&1 || fail "help fails if the folder for results cannot be made: $(cat answer)"
"$bundle/run" dance >answer 2>&1 && fail "run accepts the command \"dance\""
grep -q "there is no command or step 'dance'" answer || fail "run does not report that there is no command \"dance\""
for command in "" samples bench "kernels rows"; do
  RESULTS=/proc/none KILN_CUDA_LIBRARY=$work/none.so "$bundle/run" $command >answer 2>&1
  [ $? = 77 ] || fail "run $command does not exit with 77 if there is no driver: $(cat answer)"
  grep -q '^Nothing to run on: no NVIDIA driver: ' answer || fail "run $command does not report that there is no driver: $(cat answer)"
done

# The help mentions every step, and every test that runs on a GPU belongs to one step.
for name in $("$bundle/run" list); do
  "$bundle/run" help | grep -qw -e "$name" || fail "the help does not mention the step $name"
  case $name in
  device | samples | bench | bench-matmul) ;;
  *)
    DEVICE=cuda:0 bash "$bundle/share/step" "$name" --list-test-names-only >of_step
    grep -q . of_step || fail "the step $name has no tests"
    cat of_step >>of_steps
    ;;
  esac
done
"$bundle/bin/cuda_tests" '[gpu],[.gpu],[.gpu_lost]' --list-test-names-only >of_programs
"$bundle/bin/cuda_ops_tests" --list-test-names-only >>of_programs
sort of_programs >expected && sort of_steps | diff - expected >answer || fail "some tests are in no step, or in several: $(cat answer)"

# A step runs and leaves a log. The fake driver of the tests stands in for the GPU.
FAKE_CUDA=sm=90 KILN_CUDA_LIBRARY=$build/lib/libfakecuda.so "$bundle/run" device lost >answer 2>&1
grep -q '^device .* s  ' results/summary.txt || fail "the step device leaves no line in the summary: $(cat answer)"
[ -s results/device.log ] || fail "the step device leaves no log"

# Kernels that were compiled ahead of time are found on a machine without ptxas.
if KILN_CACHE_DIR=$bundle/cache "$bundle/bin/kiln" cache ls | grep -q sm_90a; then
  cp -R "$bundle/cache" ahead
  for sm in 80 90 100; do
    FAKE_CUDA=sm=$sm KILN_CUDA_LIBRARY=$build/lib/libfakecuda.so KILN_PTXAS=none KILN_CACHE_DIR=$work/ahead KILN_COMPILE_POLICY=forbid \
      KILN_SAMPLES_DEVICE=cuda:0 "$bundle/bin/01_vector_add" 1000 >answer 2>&1
    grep -q '^vector add of 1000 ' answer || fail "a kernel for sm_$sm is not in the bundle: $(cat answer)"
  done
fi
exit 0
