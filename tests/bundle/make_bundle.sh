#!/bin/bash
# Makes a folder with all files that a machine with nothing but an NVIDIA driver needs to test and time Kiln there, packs it
# into an archive, and prints the command that unpacks and runs it on that machine:
#   make_bundle.sh BUILD_DIR SOURCE_DIR BUNDLE_DIR ARCHIVE
# An archive of more than 30 MB is an error.
set -eu
build=$1 source=$2 bundle=$3 archive=$4
limit=30000000
rm -rf "$bundle"
mkdir -p "$bundle"/{bin,lib/fallback,share/samples}

put() { install -s --strip-program="${STRIP:-strip}" -m 755 "$1" "$2"; }
# The tests need the library that exports all names.
put "$build/lib/internals/libkiln.so.0" "$bundle/lib/libkiln.so.0"
for program in kiln kiln_demo 01_vector_add 02_fused_expression 03_softmax 04_layernorm 05_matmul 06_stencil llama_block bench_gpu cuda_tests cuda_ops_tests; do
  put "$build/bin/$program" "$bundle/bin/$program"
done
# The shared libraries that the library and the programs need besides the C library, in the versions of this machine.
ldd "$build"/lib/libkiln.so.0 "$bundle"/bin/* | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
  grep -E '/lib(stdc\+\+|gcc_s|z|zstd)\.so' | while read -r library; do
  put "$library" "$bundle/lib/fallback/$(basename "$library")"
done
cp -R "$source/samples/data" "$bundle/share/samples/data"
cp "$source/benchmarks/gpu_peers.py" "$bundle/share/"
cp "$source/LICENSE" "$bundle/"
install -m 755 "$source/tests/bundle/run" "$bundle/run"
install -m 755 "$source/tests/bundle/step" "$bundle/share/step"

# The kernels of bench_gpu and of the samples are compiled ahead of time if there is a ptxas. The fake driver of the tests
# reports the GPU named in FAKE_CUDA and accepts code for it, but runs nothing; the programs' results are wrong and ignored.
# It fills the gigabytes of arrays that bench_gpu allocates; huge pages that malloc keeps for reuse make this fast.
ahead() { # ahead SM PROGRAM [ARGUMENT...]
  local sm=$1
  shift
  FAKE_CUDA="sm=$sm;memory_bytes=$((64 << 30))" KILN_CUDA_LIBRARY=$build/lib/libfakecuda.so KILN_CACHE_DIR=$bundle/cache \
    GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0 KILN_SAMPLES_DEVICE=cuda:0 "$@" >/dev/null 2>&1 || true
}
build=$(cd "$build" && pwd) bundle=$(cd "$bundle" && pwd)
mkdir -m 700 "$bundle/cache"
if KILN_CACHE_DIR=$bundle/cache "$bundle/bin/kiln" compile softmax --arch sm_90a >/dev/null 2>&1; then
  for sm in 80 90 100; do
    ahead $sm "$bundle/bin/bench_gpu" --rounds 1 --peers none --only add,assign,softmax,layernorm,matmul,launch
    ahead $sm "$bundle/bin/01_vector_add" 1000
    for sample in 02_fused_expression 03_softmax 04_layernorm; do
      ahead $sm "$bundle/bin/$sample" 1 4099
    done
    ahead $sm "$bundle/bin/05_matmul" 64 64 64
    ahead $sm "$bundle/bin/llama_block" 64 64 4 2 128 64
    ahead $sm "$bundle/bin/06_stencil" "$source/samples/data/camera.png" /dev/null
  done
fi

# The archive contains one folder, which has the archive's name. The owner of all files is root, everyone may read them, and
# the order is by name.
name=$(basename "$archive" .tar.gz)
tar -czf "$archive" --owner=0 --group=0 --mode=u+rwX,go+rX --sort=name --transform "s,^[.],$name," -C "$bundle" .
bytes=$(stat -c %s "$archive")
echo "$bundle: $(($(du -sb "$bundle" | cut -f1) / 1000000)) MB; $archive: $((bytes / 1000000)) MB. On the machine with the GPU run:"
echo "    tar -xzf $(basename "$archive") && $name/run"
((bytes <= limit)) || { echo "make_bundle.sh: $bytes bytes are more than the $limit that an archive may have" >&2; exit 1; }
