#!/bin/bash
# Runs one sample KILN_SAMPLE_RUNS times (default: 3) with random sizes. The sample compares the results of the compiled kernel
# and of the interpreter with double precision; the script checks exit codes, and that a wrong size is rejected.
#   check_samples.sh PROGRAM SOURCE_DIR WORK_DIR LIBRARY
set -u
program=$1 source=$2 work=$3 library=$4
name=$(basename "$program")
fail() { echo "check_samples: $1"; exit 1; }
mkdir -p "$work" && cd "$work" || exit 1
export KILN_SAMPLES_INTERPRET=1 KILN_LIBRARY=$library
size() { echo $((1 + RANDOM % $1)); }

python=python3
$python -c 'import numpy' 2>/dev/null || python=/usr/bin/python3
# PyTorch is where benchmarks/install_pytorch.sh puts it, or in the system's Python.
pytorch=$(dirname "$library")/../pytorch/bin/python
[ "${name#09_}" != "$name" ] && [ -x "$pytorch" ] && python=$pytorch
for ((run = 0; run < ${KILN_SAMPLE_RUNS:-3}; ++run)); do
  case $name in
  01_*) arguments=("$(size 5000)") ;;
  05_*) arguments=("$(size 60)" "$(size 60)" "$(size 60)") ;;
  09_*) arguments=("$(size 50)" "$((2 * $(size 40)))") ;;
  llama_block) arguments=("$(size 40)" "$(size 60)" 6 3 "$((2 * $(size 12)))" "$(size 60)") ;;
  06_*) arguments=("$source/samples/data/camera.png" "$work/sharpened.png" "$(size 90)" "$(size 90)") ;;
  *) arguments=("$(size 50)" "$(size 3000)") ;;
  esac
  echo "$name ${arguments[*]}"
  case $name in
  *.py)
    command -v "$python" >/dev/null || { echo "skipped: $python is not installed"; exit 77; }
    "$python" "$program" "${arguments[@]}"
    ;;
  *) "$program" "${arguments[@]}" ;;
  esac
  code=$?
  [ $code = 77 ] && exit 77 # the sample has printed the reason
  [ $code = 0 ] || fail "$name ${arguments[*]} ended with exit code $code"
done
if [ "$name" = llama_block ] && [ -z "${KILN_SAMPLES_DEVICE:-}" ]; then
  arguments=(--tp 3 "$(size 40)" 6 3 "$((2 * $(size 12)))" "$(size 60)")
  echo "$name ${arguments[*]}"
  KILN_SAMPLES_TRACE=$work/trace.json "$program" "${arguments[@]}" || fail "$name ${arguments[*]} failed"
  grep -q '"gather_matmul #[0-9]* \[attention.qkv\]' "$work/trace.json" || fail "the trace lacks the first product"
  KILN_SAMPLES_LINK=1e8,50us KILN_SAMPLES_TRACE=$work/block.svg "$program" "${arguments[@]}" || fail "$name fails with a link"
  grep -q '>mlp.down</text>' "$work/block.svg" || fail "the picture lacks the last product"
  KILN_SAMPLES_LINK= "$program" --tp 3 1 6 3 "$((2 * $(size 12)))" "$(size 60)" || fail "$name --tp fails with one token"
  if KILN_SAMPLES_LINK=fast "$program" "${arguments[@]}" 2>/dev/null; then fail "$name accepts the link \"fast\""; fi
fi
if [ "${name#06_}" != "$name" ]; then
  [ "$(head -c 4 "$work/sharpened.png" | tail -c 3)" = PNG ] || fail "$name wrote no PNG file"
fi
[ "${name%.py}" = "$name" ] || exit 0
[ "${name#06_}" = "$name" ] || exit 0
if "$program" zero >"$work/wrong" 2>&1; then fail "$name accepts the size \"zero\""; fi
grep -q 'is not a size' "$work/wrong" || fail "$name does not report that \"zero\" is not a size"
