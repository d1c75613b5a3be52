#!/bin/bash
# Tests `kiln tune`, `bench`, `records` and `cache warm` as a user runs them: their output, their files and their error messages.
#   check_tune.sh KILN WORK_DIR PLUGIN PLUGIN_WITH_CALLS [SANITIZERS]
set -u
kiln=$1 work=$2 plugin=$3 calls=$4 tables=$(realpath "$(dirname "$0")/../../benchmarks/tables")
rm -rf "$work" && mkdir -p "$work" && cd "$work" || exit 1
export KILN_CACHE_DIR=$work/cache
part_seconds=2   # not enough for a whole table of 260 matrix products
both_seconds=60  # enough for more than the first batch of trials
replayed=learned # the model of this search takes minutes under a sanitizer
[ -z "${5:-}" ] || part_seconds=8 both_seconds=300 replayed=random
[ "${5:-}" != thread ] || part_seconds=30
failures=0

# expect EXIT_CODE REGEX ARGUMENT...: a line of kiln's output must match the extended regular expression.
expect() {
  local wanted=$1 pattern=$2 out code
  shift 2
  out=$("$kiln" "$@" 2>&1)
  code=$?
  if [ $code != "$wanted" ] || ! grep -qE -e "$pattern" <<<"$out"; then
    echo "check_tune: kiln $* ended with $code, not $wanted, or printed no line that matches \"$pattern\":"
    sed 's/^/    /' <<<"$out"
    failures=$((failures + 1))
  fi
}

expect 0 '^matmul +c = a b' tune --list
expect 0 '^plain_attention ' tune --plugin "$plugin" --list
expect 1 'name a kernel to tune' tune
expect 1 'there is no tunable kernel "matmull"' tune matmull
expect 1 '\-\-shape 3: matmul has 3 sizes: M, N, K' tune matmul --shape 3
expect 1 'matmul has no size "Q"' tune matmul --shape Q=3
expect 1 '\-\-dtype i8: matmul has f32, f64, bf16, f16' tune matmul --dtype i8
expect 1 'a size is 0, so that there is nothing to measure' tune matmul --shape 0x5x5
expect 1 'nothing.so' tune --plugin ./nothing.so x
expect 2 'run `kiln tune --help`' tune matmul --trials none
expect 2 '\-\-strategy' tune matmul --strategy luck
expect 2 '\-\-trials: 0 is not a number from 1 to 1000000' tune matmul --trials 0
expect 2 '\-\-trials: 99999999999 is not a number from 1 to' tune matmul --trials 99999999999
expect 2 '\-\-budget: nan is not a number from 0.001 to' tune matmul --budget nan
expect 2 '\-\-budget: -1 is not a number' tune matmul --budget -1
expect 2 '\-\-seed: -1 is not a number from 0 to 18446744073709551615' tune matmul --seed -1
expect 2 '\-\-seed: -1 is not a number' bench matmul --seed -1
for option in --shape --dtype; do
  expect 2 "$option: it is empty; give a value or omit the option" tune matmul $option ''
  expect 2 "$option: it is empty" bench matmul $option ''
  expect 2 "$option: it is empty" records why matmul --shape 5x5x5 $option ''
done
expect 1 '^kiln: --device gpu: "gpu" is no device; use "cpu", "cuda:0" or "emulated:sm_80"$' tune matmul --device gpu
expect 1 '^kiln: --device gpu: "gpu" is no device' bench matmul --device gpu
expect 1 '^kiln: --device gpu: "gpu" is no device' cache warm --device gpu
expect 1 '^kiln: --device gpu: "gpu" is no device' records why matmul --shape 5x5x5 --device gpu
expect 1 '^kiln: --device emulated:sm_80,sed=1: an emulated device has no option "sed"' tune matmul --device emulated:sm_80,sed=1
KILN_COMPILE_POLICY=forbid expect 1 'tuning matmul compiles kernels, which the compile policy forbids' tune matmul --shape 64x64x64

expect 0 '^  best +[0-9.]+ (ns|us|ms)  \[.*\{BM=[0-9]+,BN=[0-9]+,whole=[01]\}' tune softmax --shape 100x300 --trials 8 --report run.html --report run.csv
expect 0 'softmax' records list
grep -q '^<!doctype html>' run.html || { echo "check_tune: run.html is not an HTML page"; failures=$((failures + 1)); }
[ "$(wc -l <run.csv)" -ge 9 ] || { echo "check_tune: run.csv lacks trials"; failures=$((failures + 1)); }
# A file that cannot be written is an error before the search. If a file fails later, the summary is printed all the same.
expect 1 '^kiln: --report nowhere/run.html cannot be written: No such file' tune softmax --shape 101x303 --trials 2 --report nowhere/run.html
expect 1 '^kiln: --table . cannot be written: Is a directory' tune softmax --shape 101x303 --table .
expect 1 '^kiln: --report run.pdf: a report is a page or a table' tune softmax --shape 101x303 --trials 2 --report run.pdf
"$kiln" records list | grep -q 303 && { echo "check_tune: it searched before it reported that a file cannot be written"; failures=$((failures + 1)); }
expect 1 '^  best +' tune softmax --shape 101x303 --trials 2 --report /dev/full --report late.csv
grep -q BM late.csv || { echo "check_tune: after one report failed the next was not written"; failures=$((failures + 1)); }
expect 1 '^kiln: the report /dev/full cannot be written: No space' tune softmax --shape 101x303 --trials 2 --report /dev/full
# A file that exceeds the process's limit of file size is an error too.
limited() { (ulimit -f 1 && "$kiln" "$@" 2>&1); }
limited tune softmax --shape 101x303 --trials 2 --report limited.html | grep -q '^kiln: the report limited.html cannot be written: File too large' || {
  echo "check_tune: a report that exceeds the limit of file size is not reported"
  failures=$((failures + 1))
}
limited tune softmax --shape 101x303 --warm --table limited.json | grep -q '^kiln: cannot write limited.json: File too large' || {
  echo "check_tune: a table that exceeds the limit of file size is not reported"
  failures=$((failures + 1))
}

expect 0 '"stopped_by": ' tune softmax --shape M=100,N=300 --trials 4 --json --quiet
expect 0 '"confirmed": true' tune softmax --shape M=100,N=300 --trials 4 --json --quiet
"$kiln" tune softmax --shape 100x300 --trials 8 --quiet 2>&1 | grep '^  best' | grep -q unconfirmed && {
  echo "check_tune: a confirmed best config is marked as unconfirmed"
  failures=$((failures + 1))
}
expect 0 '^  best +' tune --plugin "$plugin" plain_attention --shape 1x64x32 --trials 4
# A kernel of the user's own is known only if its library is loaded.
expect 0 'it was confirmed for exactly this problem' records why --plugin "$plugin" plain_attention --shape 1x64x32 --dtype f32
expect 1 'plain_attention is none of them; give --plugin with the library' records why plain_attention --shape 1x64x32 --dtype f32
# A call of an op with a lambda: its configs are those of a kernel "matmul", and it starts from the config of the plain op.
expect 0 '^relu_product +c = relu\(a b \+ bias\)  \(M=64,N=48,K=32\)' tune --plugin "$calls" --list
expect 0 '^matmul M=64,N=48,K=32 f32(\.aligned){4} on cpu: ' tune --plugin "$calls" relu_product --trials 4
expect 0 '^  best +' tune --plugin "$calls" relu_product --shape M=40 --trials 3 --device emulated:sm_80
expect 0 '^matmul M=64,N=48,K=32 f32(\.aligned){4} on cpu: \{' cache warm --plugin "$calls" matmul
expect 1 'relu_product has no size "X"; it has M, N, K' tune --plugin "$calls" relu_product --shape X=1
expect 0 '^  best +' tune attention_backward_keys --shape 1x2x1x32x32x16 --trials 3
expect 1 'attention_backward_heads launches no kernel "attention_backward_heads" .* it launches ' tune attention_backward_heads --shape 1x2x1x32x32x16 --device emulated:sm_80
expect 0 '^  best +' tune matmul --shape 1x1x1 --trials 3
expect 0 '^  best +' tune softmax --shape 3x40 --trials 2 --device emulated:sm_80

# The budget limits the measurement of the default config too; if it is too short for that, an error says so.
expect 1 'matmul  measuring the default \{.*BM=' tune matmul --shape 2048x2048x2048 --device emulated:sm_80 --budget 1.5
expect 1 '^  measured  nothing: the default \{BM=.*\} did not finish within 1.5 s; give it more time with --budget if it is not an endless loop' tune matmul --shape 2048x2048x2048 --device emulated:sm_80 --budget 1.5

# `cache warm` compiles tuned configs ahead of time, so that launches find the code although the compile policy forbids compiling.
expect 0 '^ +warm +compile the best known configs' cache --help
expect 0 'kiln cache warm --wisdom app.json' cache warm --help
expect 0 '^  best +' tune matmul --shape 48x64x32 --trials 3
expect 0 '^matmul M=48,N=64,K=32 f32\..* on ' records why matmul --shape 48x64x32
expect 0 'it was confirmed for exactly this problem' records why matmul --shape 48x64x32 --dtype f32
config=$("$kiln" records list --json --kernel matmul | grep -o 'BM=[0-9]*,BN=[0-9]*,BK=[0-9]*' | head -1)
launch() { KILN_COMPILE_POLICY=forbid "$kiln" bench matmul --shape 48x64x32 --config "$config" --seconds 0.01 2>&1; }
launch | grep -q 'compile policy forbids' || { echo "check_tune: a launch finds compiled code before the cache is warm"; failures=$((failures + 1)); }
expect 0 '^[1-9][0-9]* compiled, 0 already there' cache warm matmul
launch | grep -q '^  time' || { echo "check_tune: a launch does not find code that is in the warm cache: $(launch)"; failures=$((failures + 1)); }
expect 0 '^0 compiled, [1-9][0-9]* already there' cache warm matmul
expect 0 '^matmul M=48,N=64,K=32 .* on cpu: \{BM=.*\} was there' cache warm matmul
"$kiln" cache clear >cleared
expect 0 'not compiled because the kernel.s code is not registered \(plain_attention\); use --plugin with its library' cache warm
expect 0 '^plain_attention .*: \{' cache warm --plugin "$plugin" plain_attention
expect 1 'no config is known for a kernel "nothing"' cache warm nothing
"$kiln" records export --wisdom --kernel matmul matmul.json >exported 2>&1 || { echo "check_tune: the wisdom file cannot be exported: $(cat exported)"; failures=$((failures + 1)); }
"$kiln" cache clear >cleared
KILN_CACHE_DIR=$work/shipped expect 0 '^matmul M=48,N=64,K=32 .*\}$' cache warm --wisdom matmul.json
KILN_CACHE_DIR=$work/shipped expect 0 '^0 compiled, 0 already there' cache warm
mkdir -m 1777 open
KILN_CACHE_DIR=$work/open expect 1 'nothing was compiled, since the code could not be kept: others can write to the folder .*/open' cache warm --wisdom matmul.json
expect 1 '\-\-wisdom nowhere.json: ' cache warm --wisdom nowhere.json

# Records every config of a small problem as a table, and replays searches on it.
expect 0 '^  best +' tune softmax --shape 16x64 --table table.json.gz --warm
expect 0 '^  table +([0-9]+) of \1 configs$' tune softmax --shape 16x64 --table table.json.gz --warm
expect 2 '\-\-trials excludes --table' tune softmax --shape 16x64 --table some.json --trials 3
expect 2 '\-\-strategy excludes --table' tune softmax --shape 16x64 --table some.json --strategy random
expect 0 '^  table +[0-9]+ of [0-9]+ configs: the others were not measured$' tune matmul --shape 260x256x256 --table some.json --budget $part_seconds
expect 0 '"of": [1-9][0-9]+$' tune matmul --shape 260x256x256 --table some.json --budget $part_seconds --json --quiet
expect 0 'learned' tune --replay table.json.gz --strategy learned --seeds 3
expect 1 'nowhere' tune --replay nowhere.json
expect 1 '\-\-replay searches recorded tables and does not use KERNEL; leave it out' tune matmul --replay table.json.gz
for option in '--report r.html' '--table t.json' '--seed 3' '--effort quick' '--budget 5' --warm; do
  expect 1 "does not use ${option%% *};" tune --replay table.json.gz $option
done
expect 1 '\-\-seeds needs --replay' tune softmax --seeds 3
# Small files that decompress to too much text or hold too many values.
head -c 64M /dev/zero | gzip -1 >zeros.gz
for _ in $(seq 17); do cat zeros.gz; done >text.json.gz
expect 1 '^kiln: cannot read text.json.gz: it holds more than a gigabyte of text' tune --replay text.json.gz
{ printf '[' && yes 0, | head -c 100M | tr -d '\n'; } | gzip -1 >values.json.gz
expect 1 '^kiln: table values.json.gz: it has more than 32000000 values' tune --replay values.json.gz
# Replays searches on the tables in benchmarks/tables.
expect 0 '^matmul M=512,N=512,K=512 ' tune --replay "$tables" --strategy $replayed --seeds 1

# Two processes that tune the same problem at the same time share their trials.
for name in first second; do
  "$kiln" tune matmul --shape 96x96x96 --trials 40 --budget $both_seconds >$name 2>&1 &
done
wait
grep -qE '^  shared +[1-9][0-9]* trials of other searches' first second && grep -q '^  best' first && grep -q '^  best' second || {
  echo "check_tune: two searches of one problem shared no trials:"
  sed 's/^/    /' first second
  failures=$((failures + 1))
}

# After Ctrl-C the measured trials are kept, and the best config is reported as unconfirmed.
# expect_interrupted SIZE PATTERN OPTION...
expect_interrupted() {
  local size=$1 pattern=$2 pid code
  shift 2
  "$kiln" tune matmul --shape "${size}x${size}x${size}" --effort most --quiet "$@" >interrupted 2>&1 &
  pid=$!
  for _ in $(seq 100); do
    sleep 0.2
    grep -rqs "\"M\":$size" "$KILN_CACHE_DIR/tune/v1/rec" && break
  done
  kill -INT $pid
  wait $pid
  code=$?
  if [ $code != 0 ] || ! grep -q interrupted interrupted || ! grep -qE "$pattern" interrupted; then
    echo "check_tune: an interrupted search ended with $code, or does not print \"$pattern\":"
    sed 's/^/    /' interrupted
    failures=$((failures + 1))
  fi
}
expect_interrupted 256 '^  best .*\}  unconfirmed$'
expect_interrupted 257 '^  unconfirmed: the search ended before it measured the best again'
expect_interrupted 258 '"confirmed": false' --json

# Ctrl-C also ends the measurement of the machine before the search; no trial was measured then.
KILN_CACHE_DIR=$work/fresh "$kiln" tune matmul --shape 64x64x64 >interrupted 2>&1 &
pid=$!
for _ in $(seq 100); do
  caught=$(sed -n 's/^SigCgt:[[:space:]]*//p' /proc/$pid/status)
  ((0x${caught:-0} & 2)) && break
  sleep 0.02
done
kill -INT $pid
wait $pid
code=$?
if [ $code != 1 ] || ! grep -q '^matmul .*: 0 trials in .*stopped by interrupted' interrupted; then
  echo "check_tune: a search that was interrupted before it began ended with $code:"
  sed 's/^/    /' interrupted
  failures=$((failures + 1))
fi
[ $failures = 0 ] || { echo "check_tune: $failures failures"; exit 1; }
