#!/bin/bash
# Installs PyTorch into a virtual environment, in the default folder that bench_peers looks in:
#   benchmarks/install_pytorch.sh [FOLDER]      (default: build/pytorch)
# pip's configuration selects the package index. The default wheel for Linux contains CUDA: it downloads 3 GB and needs
# 5.4 GB on disk. The PyTorch project also has an index of CPU-only wheels, whose address its installation page gives for
# the choice Linux, pip and CPU. They are much smaller, and bench_peers measures the same with them:
#   PIP_INDEX_URL=ADDRESS benchmarks/install_pytorch.sh
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ $# -gt 1 || ${1:-} == -* ]]; then
  sed -n '2,7s/^# \{0,1\}//p' "benchmarks/${BASH_SOURCE[0]##*/}"
  [[ ${1:-} == -h || ${1:-} == --help ]] # other options are an error
  exit
fi
folder=${1:-build/pytorch}
export PIP_DISABLE_PIP_VERSION_CHECK=1

python3 -m venv "$folder" || {
  echo "install_pytorch.sh: python3 cannot create virtual environments; on Debian, install the package python3-venv" >&2
  exit 1
}
"$folder/bin/python" -m pip --quiet install --no-cache-dir torch numpy
"$folder/bin/python" -c 'import torch; print("PyTorch", torch.__version__, "on the CPU:", torch.backends.cpu.get_cpu_capability())'
