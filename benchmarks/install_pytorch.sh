#!/bin/bash
# Installs PyTorch into a Python environment of its own, where bench_peers looks for it:
#   benchmarks/install_pytorch.sh [FOLDER]      (default: build/pytorch)
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ $# -gt 1 || ${1:-} == -* ]]; then
  sed -n '2,3s/^# *//p' "benchmarks/${BASH_SOURCE[0]##*/}"
  [[ ${1:-} == -h || ${1:-} == --help ]] # any other option is a mistake
  exit
fi
folder=${1:-build/pytorch}
export PIP_DISABLE_PIP_VERSION_CHECK=1

python3 -m venv "$folder" || {
  echo "install_pytorch.sh: python3 cannot make environments here; on Debian the package python3-venv is missing" >&2
  exit 1
}
pip() { "$folder/bin/python" -m pip --quiet "$@"; }

# The wheel for CPUs, 0.2 GB, if its index can be reached. PyPI has the one with CUDA alone, which does not load without
# NVIDIA's libraries: 3 GB to fetch and 5.4 GB on disk.
if ! pip --timeout 10 --retries 0 install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu torch 2>/dev/null; then
  echo "install_pytorch.sh: download.pytorch.org has no wheel for this machine or cannot be reached; fetching PyPI's, 3 GB" >&2
  pip install --no-cache-dir torch
fi
pip install --no-cache-dir numpy
"$folder/bin/python" -c 'import torch; print("PyTorch", torch.__version__, "on the CPU:", torch.backends.cpu.get_cpu_capability())'
