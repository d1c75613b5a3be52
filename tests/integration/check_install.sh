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
# The names of functions, variables, classes and instantiated ops, which every compiler exports.
exported=$(nm -D --defined-only "$library" | sed -nE 's/^[^ ]* ([^WuV] |W (_ZN4kiln3ops)|V (_ZT))/\2\3/p' |
  grep -v '^__odr_asan' | c++filt | LC_ALL=C sort -u)
printf '%s\n' "$exported" >"$work/exported_names.txt"
diff "$here/exported_names.txt" "$work/exported_names.txt" ||
  fail "the library exports other names than tests/integration/exported_names.txt lists; if that is meant, copy $work/exported_names.txt there"
# Which other copies of inline functions, of inline variables and of instances of templates (weak and unique symbols) the library
# has depends on the compiler. They must belong to the public headers: the namespaces and the first class, function or variable
# in a mangled name are words between KILN_API_BEGIN and KILN_API_END of an installed header.
nm -D --defined-only "$library" | python3 -c '
import pathlib, re, subprocess, sys

public = set()  # identifiers in the public headers
for header in pathlib.Path(sys.argv[1]).rglob("*.h"):
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", header.read_text(), flags=re.S)
    for marked in re.findall(r"^KILN_API_BEGIN$.*?^KILN_API_END$", text, re.S | re.M):
        public |= set(re.findall(r"\w+", marked))

leaks = []
for line in sys.stdin:
    kind, name = line.split()[-2:]
    if kind not in "WuV" or name.startswith("__odr_asan"):
        continue
    start = re.match(r"_Z(GV|T[VTIS])?Z?NK?(?=4kiln)", name)
    rest = name[start.end():] if start else ""
    owner = [] if start else [name]
    while length := re.match(r"\d+", rest):
        end = length.end() + int(length[0])
        owner.append(rest[length.end():end].removeprefix("kiln_dim_"))  # KILN_DIM(BM) declares kiln_dim_BM
        rest = rest[end:]
    if not public.issuperset(owner):
        leaks.append(name)
if leaks:
    subprocess.run(["c++filt"], input="\n".join(leaks) + "\n", text=True)
    sys.exit(1)
' "$prefix/include" || fail "no public header declares the names above, which the library exports: see dsl/api.h and jit/kiln.map"
needed=$(readelf -d "$library" | grep NEEDED)
! grep -iE 'llvm|cuda|nvidia|nccl|z3' <<<"$needed" || fail "the library needs the libraries above"
if [ -x "$prefix/bin/kiln" ]; then
  ldd "$prefix/bin/kiln" | grep -qF "$prefix" || fail "the installed command does not find the installed library"
  "$prefix/bin/kiln" --help >/dev/null </dev/null || fail "the installed command does not run"
fi
echo "installed copy: $(wc -l <<<"$exported") exported names; needs$(sed 's/.*\[\(.*\)\].*/ \1/' <<<"$needed" | tr -d '\n')"
