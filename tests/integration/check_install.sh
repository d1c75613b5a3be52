#!/bin/bash
# Installs the build, moves the copy, and builds and runs a program outside the tree against it. Also checks the installed
# headers, the symbols that the library exports and the libraries that it needs:
#   check_install.sh CMAKE BUILD_DIR WORK_DIR COMPILER SANITIZERS
set -eu
cmake=$1 build=$2 work=$3 compiler=$4 sanitizers=$5
here=$(cd "$(dirname "$0")" && pwd)
fail() { echo "check_install: $1"; exit 1; }

rm -rf "$work"
"$cmake" --install "$build" --prefix "$work/first" >/dev/null
# The copy must work after it is moved to another folder.
mv "$work/first" "$work/moved"
prefix=$work/moved

"$cmake" -G Ninja -S "$here/outside" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_CXX_FLAGS="${sanitizers:+-fsanitize=$sanitizers}" -DCMAKE_BUILD_TYPE=Release >"$work/configure.log" 2>&1 ||
  { cat "$work/configure.log"; fail "find_package(kiln) failed"; }
"$cmake" --build "$work/build" >"$work/build.log" 2>&1 || { cat "$work/build.log"; fail "the outside program does not build"; }
"$work/build/outside" || fail "the outside program does not run"

# The installed headers are complete, and include no library that users need not have.
includes=$("$compiler" -std=c++20 -M -I"$prefix/include" "$here/outside/main.cpp")
! grep -oE '[^ ]*/(llvm|llvm-c|nlohmann|fmt|CLI)/[^ ]*|[^ ]*/(xxhash|cuda)[.]h' <<<"$includes" || fail "kiln.h includes the headers above"
! grep -rlE '#include *[<"](llvm|nlohmann)' "$prefix/include" || fail "the installed headers above include what is not installed"
for header in $(grep -rhoE '#include *<kiln/[^>]*' "$prefix/include" | sed 's/.*<//' | sort -u); do
  [ -f "$prefix/include/$header" ] || fail "an installed header includes <$header>, which is not installed"
done

library=$(readlink -f "$prefix"/lib*/libkiln.so)
# The names of functions, variables, classes and instantiated ops. Other copies of inline variables and of function templates are
# left out: which of them the library has depends on the compiler. The sanitizers add symbols of their own.
exported=$(nm -D --defined-only "$library" | sed -nE 's/^[^ ]* ([TBDRV] |W (_ZN4kiln3ops))/\2/p' |
  grep -v '^__odr_asan' | c++filt | LC_ALL=C sort -u)
printf '%s\n' "$exported" >"$work/exported_names.txt"
diff "$here/exported_names.txt" "$work/exported_names.txt" ||
  fail "the library exports other names than tests/integration/exported_names.txt lists; if that is meant, copy $work/exported_names.txt there"
needed=$(readelf -d "$library" | grep NEEDED)
! grep -iE 'llvm|cuda|nvidia|nccl|z3' <<<"$needed" || fail "the library needs the libraries above"
if [ -x "$prefix/bin/kiln" ]; then
  ldd "$prefix/bin/kiln" | grep -qF "$prefix" || fail "the installed command does not find the installed library"
  "$prefix/bin/kiln" --help >/dev/null </dev/null || fail "the installed command does not run"
fi
echo "installed copy: $(wc -l <<<"$exported") exported names; needs$(sed 's/.*\[\(.*\)\].*/ \1/' <<<"$needed" | tr -d '\n')"
