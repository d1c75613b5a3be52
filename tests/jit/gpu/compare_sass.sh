#!/bin/bash
# Runs compare_sass.py if there is a Python: compare_sass.sh KILN SOURCE_DIR WORK_DIR
command -v python3 >/dev/null || { echo "skipped: there is no python3 here"; exit 77; }
exec python3 "$(dirname "$0")/compare_sass.py" "$@"
