#!/bin/bash
# Compiles and runs the programs of the README, word for word, and says how long g++ -O2 takes for each:
#   check_readme.sh README COMPILER INCLUDE_DIR LIBRARY_DIR WORK_DIR SANITIZERS [KILN]
set -eu
readme=$1 compiler=$2 include=$3 library=$4 work=$5 sanitizers=$6 kiln=${7-}
fail() { echo "check_readme: $1"; exit 1; }
mkdir -p "$work" && cd "$work"

# block N: the Nth block of C++.
block() { awk -v wanted="$1" '/^```cpp/ {n++; inside = n == wanted; next} /^```/ {inside = 0} inside' "$readme"; }
flags=${sanitizers:+-fsanitize=$sanitizers}

# run_program N: builds the Nth block, and compares what it prints with what it says that it prints.
run_program() {
  local name=program$1 begin milliseconds expected actual
  block "$1" >"$name.cpp"
  grep -q 'int main' "$name.cpp" || fail "the README's C++ block $1 is no program"
  begin=$(date +%s%N)
  "$compiler" -std=c++20 -O2 -Wall -Wextra $flags -I"$include" -c "$name.cpp" -o "$name.o" || fail "block $1 does not compile"
  milliseconds=$((($(date +%s%N) - begin) / 1000000))
  echo "the README's block $1 compiles in $milliseconds ms with $compiler -O2"
  "$compiler" $flags "$name.o" -L"$library" -lkiln -Wl,-rpath,"$library" -o "$name"
  expected=$(sed -n 's,.*std::printf.*// \(.*\),\1,p' "$name.cpp")
  [ -n "$expected" ] || fail "the README's program $1 does not say what it prints"
  actual=$("./$name")
  [ "$actual" = "$expected" ] || fail "block $1 prints \"$actual\" and not \"$expected\""
}
run_program 1
run_program 2
run_program 3
run_program 4

# The race that the README plants: what kiln emulate says of it, line for line but for the address and the folder, and
# nothing once the barrier is there.
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [ -x "$nvcc" ] && [ -n "$kiln" ]; then
  awk '/^```cuda/ {inside = 1; next} /^```/ {inside = 0} inside' "$readme" >reverse.cu
  options=$(sed -n 's,^    build/bin/kiln emulate reverse.ptx \(.*\),\1,p' "$readme")
  [ -n "$options" ] || fail "the README does not run reverse.ptx"
  normal() { sed -E 's/0x[0-9a-f]+/0x/g; s,\([^ ]*/reverse\.cu:,(reverse.cu:,g' | tr -s ' '; }
  "$nvcc" -ptx -lineinfo -arch=sm_80 reverse.cu
  code=0
  "$kiln" emulate reverse.ptx $options >found || code=$?
  [ $code = 3 ] || fail "kiln emulate ends with exit code $code on the planted race"
  normal <found >found.normal
  awk '/kiln emulate reverse.ptx/ {inside = 1; next} /^[^ ]/ {inside = 0} inside && NF' "$readme" | sed 's/^    //' | normal >expected
  diff expected found.normal || fail "the README shows another report"
  sed -i '/tile\[threadIdx.x\] = /a __syncthreads();' reverse.cu
  "$nvcc" -ptx -lineinfo -arch=sm_80 reverse.cu
  "$kiln" emulate reverse.ptx $options >clean || { cat clean; fail "there is a finding in the repaired kernel"; }
fi
