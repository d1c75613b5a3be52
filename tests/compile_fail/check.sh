#!/bin/bash
# Checks that a snippet does not compile and that what the compiler says is short and clear:
#   check.sh SNIPPET HEADERS COMPILER [FLAG...]
# HEADERS is a folder of precompile.sh for the same compiler and flags.
# The n-th line with `error:` must contain the n-th `// expect: sentence` of the snippet, there must be as many of the one as
# of the other (one error a mistake), and the whole output may have 15 lines a mistake at most.
set -u
snippet=$1 headers=$2 compiler=$3
shift 3
fail() {
  echo "$(basename "$snippet"): $1"
  echo "--- the compiler's output:"
  echo "$output"
  exit 1
}

# g++ finds the precompiled form of the first header by itself, in a folder that comes before that of the header.
header=$(sed -n 's,^#include <\(kiln/.*\)>,\1,p;T;q' "$snippet")
precompiled=()
if [ -f "$headers/$header.gch" ]; then precompiled=(-I"$headers"); fi
if [ -f "$headers/$header.pch" ]; then precompiled=(-include-pch "$headers/$header.pch"); fi
output=$(LC_ALL=C "$compiler" "${precompiled[@]}" "$@" -fsyntax-only "$snippet" 2>&1)
status=$?
mapfile -t expected < <(sed -n 's,^.*// expect: *,,p' "$snippet")
mapfile -t errors < <(grep -F 'error:' <<<"$output")
lines=$(wc -l <<<"$output")

((${#expected[@]} > 0)) || fail "has no '// expect: sentence' comment"
((status == 1)) || fail "must fail to compile, but the compiler returned $status"
((${#errors[@]} == ${#expected[@]})) || fail "${#expected[@]} mistake(s), but ${#errors[@]} lines with 'error:'"
for i in "${!expected[@]}"; do
  [[ ${errors[i]} == *"${expected[i]}"* ]] || fail "error $((i + 1)) does not say: ${expected[i]}"
done
((lines <= 15 * ${#expected[@]})) || fail "$lines lines of output, where 15 a mistake are allowed"
