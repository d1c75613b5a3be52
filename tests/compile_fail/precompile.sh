#!/bin/bash
# Precompiles the headers with which the snippets begin, because reading them takes most of the time of a snippet:
#   precompile.sh HEADERS COMPILER [FLAG...]
# HEADERS is the folder for the results: for the header kiln/kiln.h, g++ writes kiln/kiln.h.gch and clang kiln/kiln.h.pch.
# The last flag is -I and the folder of the headers.
set -eu
headers=$1 include=${!#}
shift
case ${1##*/} in
*clang*) suffix=pch ;;
*) suffix=gch ;;
esac
rm -rf "$headers"
mkdir -p "$headers"
sed -n 's,^#include <\(kiln/.*\)>,\1,p' "$(dirname "$0")"/*.cpp | sort | uniq -c | while read -r count header; do
  ((count > 1)) || continue
  mkdir -p "$headers/$(dirname "$header")"
  # Both compilers warn that #pragma once has no effect in the file that is given to them.
  "$@" -x c++-header "${include#-I}/$header" -o "$headers/$header.$suffix" 2>"$headers/messages" || { cat "$headers/messages"; exit 1; }
done
