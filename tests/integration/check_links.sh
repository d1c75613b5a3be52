#!/bin/bash
# Checks that every relative link in the tree's pages leads to a file, and to a heading where it names one; that the README is
# short; and that pictures made by programs are up to date:
#   check_links.sh SOURCE_DIR [KILN]
set -u
cd "$1" || exit 1
kiln=${2-}
status=0
complain() { echo "check_links: $1"; status=1; }

# The page without its blocks of code.
text() { awk '/^```/ {code = !code; next} !code && !/^    /' "$1"; }

# Anchors of a page's headings, as GitHub makes them.
anchors() { text "$1" | sed -n 's/^##* *//p' | tr 'A-Z ' 'a-z-' | sed 's/[^a-z0-9_-]//g'; }

while IFS= read -r page; do
  while IFS= read -r link; do
    case $link in
    http:* | https:* | mailto:*) continue ;;
    esac
    file=${link%%#*} anchor=
    [ "$file" = "$link" ] || anchor=${link#*#}
    target=$page
    [ -z "$file" ] || target=$(dirname "$page")/$file
    [ -e "$target" ] || { complain "$page: there is no $link"; continue; }
    [ -z "$anchor" ] || anchors "$target" | grep -qxF -- "$anchor" || complain "$page: there is no heading for $link"
  done < <(text "$page" | sed 's/`[^`]*`//g' | grep -oE '\]\([^) ]+|src="[^"]+' | sed 's/^](//; s/^src="//')
done < <(find . -name '.?*' -prune -o -name CMakeCache.txt -prune -o -type d -exec test -e '{}/CMakeCache.txt' \; -prune -o -name '*.md' -print)

lines=$(wc -l <README.md)
((lines <= 140)) || complain "README.md has $lines lines, and 140 are allowed"
LC_ALL=C.UTF-8 awk 'length($0) > 160 {print FILENAME ":" FNR ": more than 160 columns"; wide = 1} END {exit wide}' README.md || status=1

if [ -n "$kiln" ] && command -v python3 >/dev/null; then
  "$kiln" explain linear --config BM=16,BN=16,BK=16,num_warps=1 --json | python3 jit/gpu/dot_layouts.py | cmp -s - jit/gpu/dot_layouts.svg ||
    complain "jit/gpu/dot_layouts.svg is not what jit/gpu/dot_layouts.py draws"
fi
exit $status
