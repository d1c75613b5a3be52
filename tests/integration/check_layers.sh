#!/bin/bash
# No file includes a header of a higher folder (collectives -> ops -> autotune -> jit -> dsl), and each says first what it is.
#   check_layers.sh SOURCE_DIR
set -u
cd "$1" || exit 1
status=0
higher=
for folder in collectives ops autotune jit dsl; do
  if [ -d $folder ]; then
    if [ -n "$higher" ] && grep -rnE "#include *[<\"]kiln/(${higher#|})" --include=*.h --include=*.cpp --include=*.def $folder | grep -v '_main.cpp:'; then
      echo "check_layers: $folder/ includes a higher folder in the lines above"
      status=1
    fi
    while IFS= read -r -d '' file; do
      head -n 1 "$file" | grep -qE '^(//|#|/\*)' && continue
      echo "check_layers: $file does not say in its first line what it is"
      status=1
    done < <(find $folder \( -name '*.h' -o -name '*.cpp' \) -print0)
  fi
  higher="$higher|$folder/"
  [ $folder = ops ] && higher="$higher|kiln[.]h"
done
exit $status
