#!/bin/bash
# Runs a program and keeps the tile IR of the kernels that it launches in a folder, which is emptied first.
#   record_kernels.sh FOLDER PROGRAM [ARGUMENT...]
set -eu
export KILN_KEEP=tile KILN_KEEP_DIR=$1
rm -rf "$1" && mkdir -p "$1"
shift
exec "$@"
