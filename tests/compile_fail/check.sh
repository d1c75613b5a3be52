#!/bin/bash
# Checks that a snippet does not compile and that what the compiler says is short and clear:
#   check.sh SNIPPET COMPILER [FLAG...]
# The n-th line with `error:` must contain the n-th `// expect: sentence` of the snippet, there must be as many of the one as
# of the other (one error a mistake), and the whole output may have 15 lines a mistake at most.
set -u
snippet=$1
shift
fail() {
  echo "$(basename "$snippet"): $1"
  echo "--- the compiler's output:"
  echo "$output"
  exit 1
}

output=$(LC_ALL=C "$@" -std=c++20 -Wall -Wextra -fsyntax-only -fdiagnostics-color=never "$snippet" 2>&1)
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
