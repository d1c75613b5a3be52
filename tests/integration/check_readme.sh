#!/bin/bash
# Compiles and runs the first kernel of the README, word for word, and says how long g++ -O2 takes for it:
#   check_readme.sh README COMPILER INCLUDE_DIR LIBRARY_DIR WORK_DIR SANITIZERS
set -eu
readme=$1 compiler=$2 include=$3 library=$4 work=$5 sanitizers=$6
fail() { echo "check_readme: $1"; exit 1; }
mkdir -p "$work" && cd "$work"

awk '/^```cpp/ && !done {inside = 1; next} /^```/ && inside {inside = 0; done = 1} inside' "$readme" >first_kernel.cpp
grep -q 'int main' first_kernel.cpp || fail "the README's first C++ block is no program"
flags=${sanitizers:+-fsanitize=$sanitizers}

begin=$(date +%s%N)
"$compiler" -std=c++20 -O2 -Wall -Wextra $flags -I"$include" -c first_kernel.cpp -o first_kernel.o || fail "it does not compile"
milliseconds=$((($(date +%s%N) - begin) / 1000000))
echo "the README's kernel compiles in $milliseconds ms with $compiler -O2"
((milliseconds < 5000)) || fail "five times the second that a translation unit may take"

"$compiler" $flags first_kernel.o -L"$library" -lkiln -Wl,-rpath,"$library" -o first_kernel
expected=$(sed -n 's,.*std::printf.*// \(.*\),\1,p' first_kernel.cpp)
[ -n "$expected" ] || fail "the README's program does not say what it prints"
actual=$(./first_kernel)
[ "$actual" = "$expected" ] || fail "it prints \"$actual\" and not \"$expected\""
