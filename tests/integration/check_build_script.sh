#!/bin/bash
# Checks build.sh with a CMake, a Ninja and package tools that do nothing but record how they were called:
#   check_build_script.sh SOURCE_DIR WORK_DIR
set -eu
source=$(cd "$1" && pwd) work=$2
fail() { echo "check_build_script: $1"; [ ! -f out ] || sed 's/^/  /' out; exit 1; }
rm -rf "$work" && mkdir -p "$work/tools" "$work/tree" && cd "$work"
cp "$source/build.sh" "$source/CMakePresets.json" tree/
unset CC CXX KILN_JOBS KILN_BUILD_DIR
export FAKE=$PWD XDG_CACHE_HOME=$PWD/cache TMPDIR=$PWD/temporary PATH=$PWD/tools:$PATH
mkdir temporary

# fake NAME: makes a tool of standard input.
fake() {
  { echo '#!/bin/bash'; cat; } >"tools/$1"
  chmod +x "tools/$1"
}
fake cmake <<'E'
echo "cmake $* CC=${CC-} CXX=${CXX-}" >>"$FAKE/calls"
while [ "$1" != -B ]; do shift; done
mkdir -p "$2/bin"
for a; do case $a in -D*) printf '%s\n' "${a#-D}" | sed 's/=/:BOOL=/' >>"$2/new" ;; esac; done
{ cat "$2/new" 2>/dev/null; echo "CMAKE_CXX_COMPILER:FILEPATH=$(command -v "${CXX:-g++}")"; } >"$2/CMakeCache.txt"
rm -f "$2/new"
echo 'echo the demo runs' >"$2/bin/kiln_demo"; chmod +x "$2/bin/kiln_demo"
E
fake ninja <<'E'
echo "ninja $*" >>"$FAKE/calls"
[ ! -f "$FAKE/ninja_output" ] || { cat "$FAKE/ninja_output"; exit 1; }
E
fake ctest <<'E'
echo "ctest $*" >>"$FAKE/calls"
while [ "$1" != --output-junit ]; do shift; done
cp "$FAKE/times.xml" "$2"
E
# Installed is everything except the packages in the file `absent`; candidates exist for all except those in `no_candidate`.
fake dpkg-query <<'E'
for p; do case $p in -*|'${'*) ;; *) grep -qxF "$p" "$FAKE/absent" || echo "$p installed" ;; esac; done
E
fake apt-get <<'E'
echo "apt-get $*" >>"$FAKE/calls"
case " $* " in *" update "*) exit "$(cat "$FAKE/update_code")" ;; esac
! grep -qxF "${!#}" "$FAKE/cannot_install"
E
fake apt-cache <<'E'
if grep -qxF "$2" "$FAKE/no_candidate"; then echo '  Candidate: (none)'; else echo '  Candidate: 1.0'; fi
E
fake id <<'E'
echo 0
E
reset() { rm -rf tree/build tree/other cache ninja_output; : >absent; : >no_candidate; : >cannot_install; echo 0 >update_code; }
# run CODE WORDS...: runs build.sh, which must end with that exit status.
run() {
  local wanted=$1 code=0
  shift
  : >calls
  env "$@" >out 2>&1 </dev/null || code=$?
  [ "$code" = "$wanted" ] || fail "exit status $code, and not $wanted: $*"
  [ -z "$(ls temporary)" ] || fail "a temporary file is left: $*"
}
prints() { grep -qF -- "$1" out || fail "it does not print: $1"; }
prints_not() { ! grep -qF -- "$1" out || fail "it prints: $1"; }
calls() { grep -qF -- "$1" calls || { cat calls; fail "it does not call: $1"; }; }
b=tree/build.sh

# A demo leaves tests out; a build has them again, unless its arguments turn them off.
reset
run 0 $b demo
prints "the demo runs"; calls "-DKILN_TESTS=OFF -DKILN_BENCHMARKS=OFF"
run 0 $b build unit_tests
calls "-DKILN_TESTS=ON -DKILN_BENCHMARKS=ON"; calls "ninja -C build -j"; grep -q 'ninja.* unit_tests$' calls || fail "no target"
run 0 $b demo
! grep -q KILN_TESTS=OFF calls || fail "a demo turns off the tests that a folder has"
run 0 $b build -DKILN_TESTS=OFF unit_tests
calls "-DKILN_TESTS=ON -DKILN_BENCHMARKS=ON -DKILN_TESTS=OFF"; grep -q 'ninja.* unit_tests$' calls || fail "no target"
! grep -q '^ninja.*-D' calls || fail "ninja gets an option of CMake"

# All commands say what they need. The space is that of the build folder's disk.
fake df <<'E'
case "${!#}" in */nearly_full) echo; echo "x 1 1 17 1 x" ;; *) echo; echo "x 1 1 99999 1 x" ;; esac
E
echo '<testcase name="a &lt;b&gt; &amp;&amp; &quot;c&quot; &amp;lt;" classname="x" time="1.5" status="run">' >times.xml
for command in build setup demo test asan tsan clang; do
  run 0 $b $command
  prints "Debian 12"; prints "1.2 GB"; prints "2.2 GB"; prints "MB of disk for"
  prints_not "little room"
  case $command in asan | tsan | clang) calls "-LE slow" ;; esac
done
run 0 $b test -R 'some name'
calls "-R some name"
! grep -q '^ctest.*-LE slow' calls || fail "some tests are left out"
prints '1.5  a <b> && "c" &lt;'
mkdir nearly_full
run 0 KILN_BUILD_DIR="$PWD/nearly_full/a/b" $b build
prints "17 MB of disk for $PWD/nearly_full/a/b"; prints "little room"
run 0 $b build
prints "99999 MB of disk for build"; prints_not "little room"
rm -r nearly_full

# KILN_JOBS.
for jobs in x -3 0 '' 1.5 ' 2' 07 99999; do
  run 1 KILN_JOBS="$jobs" $b build
  prints "KILN_JOBS is '$jobs'"; [ ! -s calls ] || fail "it begins with KILN_JOBS='$jobs'"
done
run 0 KILN_JOBS=3 $b build
calls "ninja -C build -j 3"

# Lack of memory.
killed() { printf '[1/9] x\nFAILED: a.o \ncmake -E env X=1 ccache c++ -c a.cpp\n%s\nninja: build stopped: subcommand failed.\n' "$1" >ninja_output; }
while IFS= read -r line; do
  killed "$line"
  run 1 KILN_JOBS=4 KILN_BUILD_DIR="other folder" $b build 'a b' -DX=1
  prints "lack of memory"; prints "KILN_JOBS=2 KILN_BUILD_DIR=other\\ folder ./build.sh build a\\ b -DX=1"
done <<'E'
Subprocess killed
subprocess killed
Killed
/bin/sh: line 1: 12345 Killed                  ld.lld x
g++: fatal error: Killed signal terminated program cc1plus
clang++: error: unable to execute command: Killed
collect2: fatal error: ld terminated with signal 9 [Killed]
cc1plus: out of memory allocating 65536 bytes after a total of 100 bytes
LLVM ERROR: out of memory
virtual memory exhausted: Cannot allocate memory
terminate called after throwing an instance of 'std::bad_alloc'
E
printf 'FAILED: a.o \ncmake -E env ccache clang++ -c a.cpp\nninja: build stopped: subcommand failed.\n' >ninja_output
run 1 KILN_JOBS=1 $b test -R x
prints "lack of memory"; prints "needs" ; prints "  ./build.sh test -R x"; prints_not "KILN_JOBS=0"
while IFS= read -r line; do
  killed "$line"
  run 1 KILN_JOBS=4 KILN_BUILD_DIR="other folder" $b build 'a b'
  prints_not "lack of memory"; prints "the build failed"; prints "KILN_BUILD_DIR=other\\ folder ./build.sh build a\\ b"
done <<'E'
error: uncaught std::bad_alloc
a.cpp:3:9: error: 'bad_alloc' is not a member of 'std'
   12 | // Killed by signal 9: out of memory
tests/killed_worker.cpp:1:1: error: expected unqualified-id
jit/emit/out_of_memory.h:3:1: error: 'x' was not declared in this scope
E
printf 'FAILED: page\n/bin/false\nninja: build stopped: subcommand failed.\n' >ninja_output
run 1 $b build
prints_not "lack of memory"

# Optional packages: those that no apt source has are remembered, the others are tried again.
reset
printf 'clang-19\nlibdnnl-dev\nlibblis4-openmp\n' >absent
echo 1 >update_code; echo clang-19 >no_candidate; echo libdnnl-dev >cannot_install
run 0 $b setup
[ ! -e cache/kiln/unavailable-packages ] || fail "packages are remembered after a failed update"
prints "apt-get update failed"; prints "lack clang-19"
[ "$(grep -c 'apt-get install' calls)" = 1 ] || fail "without a network, it is not called once"
echo 0 >update_code
run 0 $b setup
prints "could not install libdnnl-dev"; calls "install -y --no-install-recommends libblis4-openmp"
[ "$(cat cache/kiln/unavailable-packages)" = clang-19 ] || fail "not exactly clang-19 is remembered"
prints "$PWD/cache/kiln/unavailable-packages lists them; delete that file"
printf 'clang-19\n' >absent
run 0 $b setup
! grep -q apt-get calls || fail "a remembered package is looked for"
rm cache/kiln/unavailable-packages; : >no_candidate
run 0 $b setup
calls "install -y --no-install-recommends clang-19"
# Needed ones.
echo llvm-22-dev | tee absent >no_candidate
run 1 $b build
prints "none of the apt sources"
echo 1 >update_code
run 1 $b build
prints "lack llvm-22-dev, and apt-get update failed"

# CC and CXX.
reset
for tool in clang-77 clang++-77 gcc-77 g++-77 clang-66; do fake $tool </dev/null; done
run 0 CC=clang-77 $b build
calls "CC=clang-77 CXX=clang++-77"; prints "C++ is compiled with clang++-77"
run 1 CC=gcc-77 $b build
prints "build was configured for the compiler $PWD/tools/clang++-77, and CXX is g++-77"
run 0 CC=gcc-77 KILN_BUILD_DIR=other $b build
calls "CC=gcc-77 CXX=g++-77"
reset
run 0 CXX="$PWD/tools/g++-77" $b build
calls "CC=$PWD/tools/gcc-77 CXX=$PWD/tools/g++-77"
run 1 CC=clang-66 $b build
prints "there is no C++ compiler clang++-66"
run 1 CC=tcc $b build
prints "set CXX as well"
run 1 CC=clang-77 CXX=g++-77 $b build
prints "one family"
run 1 CC=gcc-77 CXX=g++-55 $b build
prints "CXX is g++-55, and there is no such program"
run 0 CC=clang-77 $b clang
! grep -q clang++-77 calls || fail "the preset's compiler is not used"

run 0 $b help
prints "index of CPU-only wheels"
run 1 $b nothing
prints "there is no command 'nothing'"
echo "build.sh is right"
