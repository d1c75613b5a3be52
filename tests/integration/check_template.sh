#!/bin/bash
# Runs the commands of samples/template/README.md word for word, and configures its CMake projects that build Kiln as a part:
#   check_template.sh CMAKE SOURCE_DIR BUILD_DIR WORK_DIR COMPILER SANITIZERS
set -eu
cmake=$1 source=$2 build=$3 work=$4 compiler=$5 sanitizers=$6
readme=$source/samples/template/README.md
fail() { echo "check_template: $1"; exit 1; }

rm -rf "$work"
mkdir -p "$work/kiln" "$work/bin"
PATH=$(dirname "$cmake"):$PATH
export HOME=$work KILN_CACHE_DIR=$work/cache CMAKE_GENERATOR=Ninja CXX=$compiler CXXFLAGS=${sanitizers:+-fsanitize=$sanitizers}
unset KILN_COMMAND KILN_TUNE KILN_WISDOM

for sample in "$source"/samples/0*; do
  grep -qF "(${sample##*/})" "$source/samples/README.md" || fail "samples/README.md lacks ${sample##*/}"
done

# The commands begin in Kiln's folder, which is here one that has its build folder and its samples.
ln -s "$build" "$work/kiln/build"
ln -s "$source/samples" "$work/kiln/samples"
cd "$work/kiln"
commands=$(awk '/^```sh/ {inside = 1; next} /^```/ {inside = 0} inside' "$readme")
[ "$(wc -l <<<"$commands")" = 8 ] || fail "the README shows other commands than this test knows"
while read -r command; do
  if [ -n "$sanitizers" ] && [ "$command" = "build/distances --tune" ]; then
    continue # it would measure the sanitizer, for a minute
  fi
  eval "$command" >"$work/log" 2>&1 </dev/null || { cat "$work/log"; fail "\"$command\" failed"; }
  case $command in
  build/distances*)
    cat "$work/log"
    grep -q ': 0 of 10000 results are wrong$' "$work/log" || fail "\"$command\" does not say that its results are right"
    ;;
  ctest*) grep -q '100% tests passed' "$work/log" || fail "ctest ran no test" ;;
  esac
done <<<"$commands"
if [ -z "$sanitizers" ]; then
  build/distances | grep -q 'from the database' || fail "a run after the tuning does not use what it found"
fi

# block N: the Nth project of the README, with Kiln's folder in the place of the one that it names.
block() {
  awk -v wanted="$1" '/^```cmake/ {n++; inside = n == wanted; next} /^```/ {inside = 0} inside' "$readme" |
    sed -e "s,GIT_REPOSITORY /path/to/kiln,SOURCE_DIR $source,; s,GIT_TAG main,,; s,/path/to/kiln,$source,"
}

# configure N: Kiln as a part of another project has no tests, samples or benchmarks, and leaves the project's options alone.
configure() {
  local folder=$work/project$1
  mkdir "$folder"
  block "$1" >"$folder/CMakeLists.txt"
  cp "$source/samples/template/main.cpp" "$folder"
  "$cmake" -S "$folder" -B "$folder/build" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >"$work/log" 2>&1 ||
    { cat "$work/log"; fail "project $1 of the README does not configure"; }
  ctest --test-dir "$folder/build" -N >"$work/log" 2>&1 || { cat "$work/log"; fail "ctest -N failed"; }
  grep -q 'Total Tests: 0' "$work/log" || fail "project $1 has tests of Kiln"
  local targets
  targets=$("$cmake" --build "$folder/build" --target help)
  grep -q 'libkiln.so' <<<"$targets" || fail "project $1 does not build Kiln"
  ! grep -E '^(unit_tests|api_tests|01_vector_add|kiln_demo|bench_peers):' <<<"$targets" || fail "project $1 builds the targets above"
  local mine
  mine=$(grep "\"command\".* -c $folder/main.cpp\"" "$folder/build/compile_commands.json") || fail "project $1 does not compile main.cpp"
  ! grep -oE -e '-(W[^ ]*|f[^ ]*|O[^ ]*)' <<<"${mine//"$CXXFLAGS"/}" || fail "project $1 compiles main.cpp with the options above"
  ! grep -q -e ' -Werror' "$folder/build/compile_commands.json" || fail "project $1 treats warnings in Kiln as errors"
}
configure 2
configure 3
