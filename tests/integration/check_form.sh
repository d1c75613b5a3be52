#!/bin/bash
# Checks that the C++ code has the form that clang-format-19 writes.
#   check_form.sh SOURCE_DIR
# Prints the files that have another form, and the command that corrects them. Skipped (77) without clang-format-19.
set -eu
cd "$1"
if ! command -v clang-format-19 >/dev/null; then
  echo "skipped: clang-format-19 is not installed"
  exit 77
fi
folders=()
for folder in dsl jit autotune ops collectives tests samples benchmarks; do
  [ ! -d "$folder" ] || folders+=("$folder")
done
sources=()
((${#folders[@]} == 0)) || mapfile -d '' sources < <(find "${folders[@]}" '(' -name '*.h' -o -name '*.cpp' ')' -print0 | LC_ALL=C sort -z)
if ((${#sources[@]} == 0)); then
  echo "skipped: there are no C++ sources in $PWD"
  exit 77
fi

# Each line that would change is a warning: "FILE:LINE:COLUMN: warning: ...".
report=$(printf '%s\0' "${sources[@]}" | xargs -0 clang-format-19 --dry-run 2>&1) || {
  printf '%s\n' "$report"
  echo "check_form: clang-format-19 failed (see above)"
  exit 1
}
mapfile -t other < <(sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: warning: .*/\1/p' <<<"$report" | sort -u)
((${#other[@]} > 0)) || exit 0
printf '%s\n' "${other[@]}"
echo "check_form: clang-format-19 would write these files in another way; this corrects them:"
echo "  clang-format-19 -i ${other[*]}"
exit 1
