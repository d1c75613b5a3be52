#!/bin/bash
# Runs the kiln command with valid and invalid arguments, and checks key lines of its output and its exit codes:
#   check_cli.sh KILN WORK_DIR PLUGIN FAKE_DRIVER
set -u
kiln=$1 work=$2 plugin=$3 driver=$4 source=$(cd "$(dirname "$0")/../.." && pwd)
rm -rf "$work" && mkdir -p "$work" && cd "$work" || exit 1
export KILN_CACHE_DIR=$work/cache
mkdir -m 700 "$KILN_CACHE_DIR"
unset KILN_DEBUG KILN_KEEP KILN_CPU
failures=0

# expect EXIT_CODE REGEX ARGUMENTS...: a line of the command's output must match the extended regular expression.
expect() {
  local code=$1 pattern=$2 out actual
  shift 2
  out=$("$kiln" "$@" 2>&1 </dev/null)
  actual=$?
  if [ $actual != "$code" ] || ! grep -qE -- "$pattern" <<<"$out"; then
    echo "kiln $*: exit code $actual, expected $code and a line that matches \"$pattern\" in:"
    sed 's/^/    /' <<<"$out"
    failures=$((failures + 1))
  fi
}

expect 0 '^usage: kiln' --help
expect 0 '^  explain  ' --help
expect 0 '^kiln [0-9]+\.[0-9]+' --version
expect 0 '^target cpu .*-byte vectors' --version
expect 2 '^usage: kiln'
expect 2 'there is no command "explian"; did you mean explain\?' explian
expect 2 'there is no command "frobnicate"; choose among bench, cache, ' frobnicate
expect 2 'there is no option --fast' --fast
expect 2 '--load needs the name' --load
expect 1 '--load ./nothing.so: .*nothing.so' --load ./nothing.so devices

expect 0 '^  threads  [1-9]' devices
KILN_CUDA_LIBRARY=/nowhere/libcuda.so expect 0 '^cuda: not usable: no NVIDIA driver: cannot open /nowhere/libcuda.so ' devices
export KILN_CUDA_LIBRARY=$driver
expect 0 '^  clocks   1.98 GHz; memory 2.619 GHz, 5120 bits wide$' devices
expect 0 '^  each SM  2048 threads, 65536 registers, 228 KiB shared$' devices
expect 0 '"clock_hz": 1980000000,$' devices --json
FAKE_CUDA=clocks=-1 expect 0 '^  clocks   unknown; memory unknown, 5120 bits wide$' devices
unset KILN_CUDA_LIBRARY
expect 0 '^emulated:sm_90a: a GPU in software, 227 KiB shared per block' devices
expect 0 '"vector_bytes": [1-9]' devices --json
expect 0 '^llama3-70b on 8 x h100, nvlink4, 4096 tokens$' tp plan --model llama3-70b --tp 8
expect 0 '^qkv .* %  (ring|direct), [0-9]+ chunk' tp plan --model llama3-70b --tp 8
expect 0 '"serial_layer_ns": [1-9]' tp plan --tp 2 --tokens 1 --context 1000 --link 50e9,10us --json
expect 1 '--model "llama4" is not known; use one of llama3-8b, ' tp plan --model llama4
expect 1 '8 key heads of llama3-8b can neither be divided among nor repeated on 3 ranks' tp plan --tp 3
expect 1 'the link "fast" is neither one of nvlink3' tp plan --link fast
expect 1 'from 1e6 to 1e18 bytes per second' tp plan --link 1e-300
expect 1 'at most 100000000 tokens' tp plan --tokens 1000000000000000
expect 1 'at most 100000000 tokens' tp plan --tokens 1 --context 9223372036854775807
expect 2 'run `kiln devices --help`' devices --jsno
expect 0 '.' kernels
expect 0 '^[[]' kernels --json

# These commands launch kernels; they use a separate cache.
export KILN_CACHE_DIR=$work/launched
expect 0 '^ok +kernel on cpu +compiles, runs' doctor
KILN_CACH_DIR=/x expect 0 'did you mean KILN_CACHE_DIR' doctor
KILN_CUDA_LIBRARY=/nowhere/libcuda.so expect 1 '^broken +cuda +no NVIDIA driver' doctor
KILN_CPU=abacus expect 1 '"verdict": "broken"' doctor --json
expect 0 '^matmul ' bench
expect 0 '^  time +[0-9].* 95 %: ' bench matmul --shape 64x64x64 --seconds 0.05
expect 0 '"seconds": [0-9]' bench matmul --shape M=64 --seconds 0.05 --json
expect 1 'there is no tunable kernel "matmull"; did you mean matmul' bench matmull
export KILN_CACHE_DIR=$work/cache

# Commands and kernels that a loaded library registers work like the built-in ones.
expect 0 '^  greet  +says hello' --load "$plugin" --help
expect 0 '^hello world$' --load "$plugin" greet world
expect 2 '^usage: kiln greet NAME' --load "$plugin" greet
expect 1 'kiln: "badly" is not a name' --load "$plugin" greet badly
expect 0 '^saxpy +y = a x \+ y' --load "$plugin" kernels
expect 0 '"parameters": "a=2 x=N y=N"' --load "$plugin" kernels --json
expect 1 'there is no kernel saxpi; did you mean saxpy' --load "$plugin" explain saxpi
expect 0 '^kernel saxpy: y = a x \+ y' --load "$plugin" explain saxpy
expect 0 '^  grid +cdiv\(y.extent\(0\), 512\): 2048 programs' --load "$plugin" explain saxpy
expect 0 '^  a +f32 += 2$' --load "$plugin" explain saxpy
expect 0 '^  y +4 MiB +4 MiB +4 MiB' --load "$plugin" explain saxpy
expect 0 '^kernel @saxpy\(%a: f32, %x: view<const f32, 1>, %y: view<f32, 1>\)' --load "$plugin" explain saxpy
expect 0 'cdiv\(y.extent\(0\), 128\): 8 programs' --load "$plugin" explain saxpy --size N=1000 --config BLOCK=128
expect 0 'cli_plugin.cpp:[0-9]+: y.tile\(i\).store' --load "$plugin" explain saxpy --asm --source "$source"
expect 1 "x's and y's extents: 7 != 1048576" --load "$plugin" explain saxpy --size x=7

# With 4 x 4 blocks, the four on the diagonal need the mask.
expect 0 '^  remark +blocks of 256 queries and 256 keys of each head: 6 are computed without the mask, 4 with it, and 6 are skipped$' \
  explain attention_causal
expect 0 'head: 1 are computed without the mask, 3 with it, and 0 are skipped$' \
  explain attention_causal --size T=100,S=40 --config QUERIES=64,KEYS=32,WIDTH=64,VALUES=64
expect 0 '^  grid .* = 32 programs$' explain attention

expect 0 '0 entries' cache ls
expect 0 '"entries": \[\]' cache ls --json
expect 0 'removed 0 entries' cache clear
expect 0 '0 entries, 0 bad' cache verify
expect 2 'kiln cache: A subcommand is required' cache
expect 2 'kiln cache: there is no subcommand "burn"; choose among ls, clear, verify, warm' cache burn

cat >axpy.kir <<'KIR'
kernel @axpy(%a: f32, %x: view<const f32, 1>, %y: view<f32, 1>) {
  %n = view_extent %x {axis = 0} : i64
  %m = view_extent %y {axis = 0} : i64
  %same = eq %n, %m : bool
  expects %same, %n, %m {message = "x's and y's extents"}
  %0 = program_tile %y {dims = [BM]} : i64
  %1 = view_load %x, %0 {axes = [0]} : tile<BM x f32>
  %2 = view_load %y, %0 {axes = [0]} : tile<BM x f32>
  %3 = splat %a : tile<BM x f32>
  %4 = fma %1, %3, %2 : tile<BM x f32>
  view_store %y, %4, %0 {axes = [0]}
}
KIR
expect 0 '^  grid +cdiv\(y.extent\(0\), 64\): 16 programs' explain axpy.kir --config BM=64 --size x=1000 --size y=1000 --size a=2
expect 0 '^  arithmetic +2.048 KFLOP' explain axpy.kir --config BM=64 --size x=1000 --size y=1000
expect 0 'axpy.kir:11: view_store %y' explain axpy.kir --config BM=64 --asm
expect 0 'kiln_hook|define void @kiln_entry' explain axpy.kir --config BM=64 --llvm --debug
expect 1 "axpy.kir:5: .*x's and y's extents: 1000 != 999" explain axpy.kir --config BM=64 --size x=1000 --size y=999 --size a=1
expect 0 '16 programs' explain axpy.kir --config BM=64 --size x=1000,y=1000,a=2
expect 1 'size of y: "many" is not a number' explain axpy.kir --config BM=64 --size x=1000,y=many
expect 1 'the CPU i386 does not run 64-bit code; choose among .*haswell' explain axpy.kir --config BM=64 --cpu i386
expect 1 'dimension BM has no size' explain axpy.kir
expect 1 'has no size or parameter z; it has a, x, y' explain axpy.kir --config BM=64 --size z=3
expect 1 '2 extents for a view of rank 1' explain axpy.kir --config BM=64 --size x=3x4
expect 1 'size of x: "many" is not a number of at least 0' explain axpy.kir --config BM=64 --size x=many
expect 1 'more than 2\^63 bytes' explain axpy.kir --config BM=64 --size x=9000000000000000000
expect 1 'size of x: "-4" is not a number' explain axpy.kir --config BM=64 --size x=-4
expect 1 'kernel axpy has a grid of its own' explain axpy.kir --config BM=64 --grid 4
expect 1 '"two" is not a number' explain axpy.kir --config BM=64 --size a=two
expect 1 'expected any, unit or aligned, found "odd"' explain axpy.kir --config BM=64 --layouts odd
expect 1 '1 classes, but kernel axpy has 2 views' explain axpy.kir --config BM=64 --layouts unit
expect 1 'LLVM knows no CPU named z80' explain axpy.kir --config BM=64 --cpu z80
expect 1 'nothing.kir: cannot be read' explain nothing.kir
expect 1 'there is no kernel axpyy' explain axpyy
expect 2 'KERNEL is required' explain
expect 2 'run `kiln explain --help`' explain axpy.kir --bandwidth -3
cat >by_id.kir <<'KIR'
kernel @by_id(%x: view<f32, 1>) {
  %id = program_id {axis = 0} : i64
  %step = constant {value = 16} : i64
  %at = mul %id, %step : i64
  %v = view_load %x, %at {axes = [0]} : tile<16 x f32>
  view_store %x, %v, %at {axes = [0]}
}
KIR
expect 0 '^  grid +given at launch$' explain by_id.kir
expect 0 '^  grid +given at launch: 3 programs' explain by_id.kir --grid 3 --size x=40
expect 0 '^  x +160 B +160 B +160 B' explain by_id.kir --grid 3 --size x=40
expect 1 '--grid: "few" is not a number' explain by_id.kir --grid few
cat axpy.kir by_id.kir >both.kir
expect 0 '^kernel by_id' explain both.kir --config BM=64
expect 0 '^  grid +cdiv\(y.extent\(0\), 64\)$' explain both.kir --config BM=64
expect 1 'names BX, which the kernel does not use' explain both.kir --config BM=64,BX=2
echo 'kernel @broken(%x: view<f32, 1>) {' >broken.kir
expect 1 'broken.kir:2:' explain broken.kir
head -c 4096 /dev/urandom >noise.kir
expect 1 'noise.kir' explain noise.kir
mkdir folder.kir
expect 1 'folder.kir' explain folder.kir

# Every registered kernel can be explained with the sizes with which it is registered, and reads or writes memory.
for kernel in $("$kiln" kernels | sed -n 's/^\([^ ][^ ]*\) .*/\1/p'); do
  [ "$kernel" = no ] && break
  expect 0 '^  once each +[1-9]' explain "$kernel" --all
  expect 0 '^predicted for the whole grid' explain "$kernel"
done

# The output of --json parses as JSON.
if command -v python3 >/dev/null; then
  "$kiln" explain axpy.kir --config BM=64 --size x=1000 --size y=1000 --size a=2 --json |
    python3 -c 'import json, sys; e = json.load(sys.stdin); assert e["cost"]["flops"] == 2048 and e["grid"]["programs"] == [16], e["cost"]' ||
    failures=$((failures + 1))
fi
# With --json, errors are JSON on the standard output too. Without --json the standard output of a failed command is empty.
expect_error() {
  local code=$1 wanted=$2 out actual
  shift 2
  out=$("$kiln" "$@" 2>error.txt </dev/null)
  actual=$?
  if [ $actual != "$code" ] || [ "$(tr -d '\n' <<<"$out")" != "$wanted" ] || [ ! -s error.txt ]; then
    echo "kiln $*: exit code $actual, expected $code and \"$wanted\" on the standard output, not \"$out\""
    failures=$((failures + 1))
  fi
}
expect_error 1 '{  "error": "nothing.kir: cannot be read: No such file or directory; name a registered kernel or a file with tile IR"}' explain nothing.kir --json
expect_error 1 '' explain nothing.kir
expect_error 1 '{  "error": "--device gpu: \"gpu\" is no device; use \"cpu\", \"cuda:0\" or \"emulated:sm_80\""}' bench matmul --device gpu --json
expect_error 2 '{  "error": "The following argument was not expected: --jobs"}' devices --json --jobs
# Output that cannot be written, as on a full disk, is an error.
if [ -w /dev/full ]; then
  "$kiln" devices >/dev/full 2>error.txt
  if [ $? != 1 ] || ! grep -q 'could not be written' error.txt; then
    echo "kiln devices >/dev/full: a failed write was not reported"
    failures=$((failures + 1))
  fi
fi

[ $failures = 0 ] && echo "all as expected"
exit $((failures != 0))
