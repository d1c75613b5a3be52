#!/bin/bash
# Generates the PTX in ptx/ again: installs Triton's wheel into a private environment (1.1 GB, removed afterwards) and
# compiles kernels.py with it, for which no GPU is needed.
#   regenerate.sh [FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/ptx}
environment=$(mktemp -d)
trap 'rm -rf "$environment"' EXIT
python3 -m venv "$environment"
"$environment/bin/pip" install --quiet triton==3.9.0 numpy
TRITON_CACHE_DIR=$environment/cache TRITON_DEFAULT_FP_FUSION=1 "$environment/bin/python" "$here/kernels.py" "$folder"
