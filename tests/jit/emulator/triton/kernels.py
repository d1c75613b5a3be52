"""Triton kernels whose PTX the emulator runs: written for its tests, compiled without a GPU.

    python kernels.py FOLDER     writes one PTX file for each kernel and architecture

Each file begins with comments that say how to launch it: the kernel, its threads, bytes of shared memory, bytes and
alignment of scratch memory for each program, and of each tensor map in order the swizzle and the box.
"""

import pathlib
import re
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def softmax(x, y, cols, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < cols, other=-float("inf"))
    exponentials = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * stride + at, exponentials / tl.sum(exponentials, axis=0), mask=at < cols)


@triton.jit
def matmul(a, b, c, m, n, k, stride_a, stride_b, stride_c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
           SUM: tl.constexpr, ZERO: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    sum = tl.zeros((BM, BN), SUM)
    for step in range(0, tl.cdiv(k, BK)):
        left = k - step * BK
        x = tl.load(a + rows[:, None] * stride_a + (step * BK + inner)[None, :],
                    mask=(rows[:, None] < m) & (inner[None, :] < left), other=ZERO)
        y = tl.load(b + (step * BK + inner)[:, None] * stride_b + cols[None, :],
                    mask=(inner[:, None] < left) & (cols[None, :] < n), other=ZERO)
        sum = tl.dot(x, y, sum, out_dtype=SUM)
    tl.store(c + rows[:, None] * stride_c + cols[None, :], sum.to(c.dtype.element_ty),
             mask=(rows[:, None] < m) & (cols[None, :] < n))


@triton.jit
def tma_matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Persistent, with descriptors the host makes; b is n x k."""
    tiles_n = tl.cdiv(n, BN)
    tiles = tl.cdiv(m, BM) * tiles_n
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        row = (tile // tiles_n) * BM
        col = (tile % tiles_n) * BN
        sum = tl.zeros((BM, BN), tl.float32)
        for step in range(0, tl.cdiv(k, BK)):
            x = a.load([row, step * BK])
            y = b.load([col, step * BK])
            sum = tl.dot(x, y.T, sum)
        c.store([row, col], sum.to(tl.float16))


@triton.jit
def device_tma_matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same with descriptors that the kernel makes."""
    a_tiles = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BM, BK])
    b_tiles = tl.make_tensor_descriptor(b, [n, k], [k, 1], [BN, BK])
    c_tiles = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BM, BN])
    row = tl.program_id(0) * BM
    col = tl.program_id(1) * BN
    sum = tl.zeros((BM, BN), tl.float32)
    for step in range(0, tl.cdiv(k, BK)):
        sum = tl.dot(a_tiles.load([row, step * BK]), b_tiles.load([col, step * BK]).T, sum)
    c_tiles.store([row, col], sum.to(tl.float16))


@triton.jit
def attention(q, k, v, out, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """One head a program of axis 1; length is a multiple of both blocks."""
    head = tl.program_id(1) * length * D
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    at = tl.arange(0, D)
    queries = tl.load(q + head + rows[:, None] * D + at[None, :])
    most = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    sum = tl.zeros((BM, D), tl.float32)
    end = (tl.program_id(0) + 1) * BM if CAUSAL else length
    for start in range(0, end, BN):
        cols = start + tl.arange(0, BN)
        keys = tl.load(k + head + cols[:, None] * D + at[None, :])
        values = tl.load(v + head + cols[:, None] * D + at[None, :])
        scores = tl.dot(queries, keys.T) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= cols[None, :], scores, -float("inf"))
        next_most = tl.maximum(most, tl.max(scores, axis=1))
        shrink = tl.exp2(most - next_most)
        weights = tl.exp2(scores - next_most[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        sum = tl.dot(weights.to(tl.float16), values, sum * shrink[:, None])
        most = next_most
    tl.store(out + head + rows[:, None] * D + at[None, :], (sum / total[:, None]).to(tl.float16))


@triton.jit
def histogram_and_scan(x, counts, sums, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(counts + values % BINS, 1, mask=at < n)
    tl.store(sums + at, tl.cumsum(values, axis=0), mask=at < n)


def described(dtype, box):
    return f"tensordesc<{dtype}[{', '.join(map(str, box))}]>"


def matrices(elements, sums):
    types = {"a": elements, "b": elements, "c": sums}
    return types | {name: "i32" for name in ("m", "n", "k", "stride_a", "stride_b", "stride_c")}


F16 = "*fp16"
variants = [
    # name, kernel, argument types, constants, warps, stages, architectures
    ("softmax", softmax, {"x": "*fp32", "y": "*fp32", "cols": "i32", "stride": "i32"}, {"BLOCK": 1024}, 4, 2, (80, 90)),
    ("matmul", matmul, matrices(F16, F16), {"BM": 64, "BN": 64, "BK": 32, "SUM": tl.float32, "ZERO": 0.0}, 4, 3, (80, 90)),
    ("matmul_bf16", matmul, matrices("*bf16", "*fp32"), {"BM": 32, "BN": 32, "BK": 32, "SUM": tl.float32, "ZERO": 0.0}, 2, 2, (80,)),
    ("matmul_tf32", matmul, matrices("*fp32", "*fp32"), {"BM": 64, "BN": 32, "BK": 32, "SUM": tl.float32, "ZERO": 0.0}, 4, 3, (80, 90)),
    ("matmul_fp8", matmul, matrices("*fp8e4nv", "*fp32"), {"BM": 64, "BN": 64, "BK": 64, "SUM": tl.float32, "ZERO": 0.0}, 4, 3, (89, 90)),
    ("matmul_s8", matmul, matrices("*i8", "*i32"), {"BM": 64, "BN": 64, "BK": 64, "SUM": tl.int32, "ZERO": 0}, 4, 3, (80, 90)),
    ("matmul_f64", matmul, matrices("*fp64", "*fp64"), {"BM": 32, "BN": 32, "BK": 16, "SUM": tl.float64, "ZERO": 0.0}, 4, 2, (80,)),
    ("tma_matmul", tma_matmul, {"a": described("fp16", (128, 64)), "b": described("fp16", (128, 64)),
                                "c": described("fp16", (128, 128)), "m": "i32", "n": "i32", "k": "i32"},
     {"BM": 128, "BN": 128, "BK": 64}, 8, 3, (90,)),
    ("device_tma_matmul", device_tma_matmul, {"a": F16, "b": F16, "c": F16, "m": "i32", "n": "i32", "k": "i32"},
     {"BM": 64, "BN": 64, "BK": 64}, 4, 3, (90,)),
    ("attention", attention, {"q": F16, "k": F16, "v": F16, "out": F16, "length": "i32", "scale": "fp32"},
     {"D": 64, "BM": 64, "BN": 32, "CAUSAL": False}, 4, 3, (80, 90)),
    ("attention_causal", attention, {"q": F16, "k": F16, "v": F16, "out": F16, "length": "i32", "scale": "fp32"},
     {"D": 64, "BM": 64, "BN": 32, "CAUSAL": True}, 4, 2, (80, 90)),
    ("histogram_and_scan", histogram_and_scan, {"x": "*i32", "counts": "*i32", "sums": "*i32", "n": "i32"},
     {"BLOCK": 512, "BINS": 16}, 4, 2, (80, 90)),
]

# The alignment of pointers and row strides that a caller guarantees when it allocates tensors.
DIVISIBLE = [["tt.divisibility", 16]]


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, kernel, types, constants, warps, stages, architectures in variants:
        signature = dict(types) | {k: "constexpr" for k in constants}
        names = list(signature)
        attributes = {(names.index(a),): DIVISIBLE for a, t in types.items() if t.startswith("*") or a.startswith("stride")}
        for architecture in architectures:
            source = ASTSource(fn=kernel, signature=signature, constexprs={(names.index(k),): v for k, v in constants.items()},
                               attrs=attributes)
            compiled = triton.compile(source, target=GPUTarget("cuda", architecture, 32),
                                      options={"num_warps": warps, "num_stages": stages})
            meta = compiled.metadata
            text = compiled.asm["ptx"]
            code = text[:text.index("\t.section\t.debug")]  # the rest is for debuggers
            code = re.sub(r'"[^"]*/([^"/]+\.py)"', r'"\1"', code)
            head = [f"// kernel {meta.name}", f"// threads {32 * meta.num_warps}", f"// shared {meta.shared}",
                    f"// scratch {meta.global_scratch_size} {meta.global_scratch_align}"]
            for d in getattr(meta, "tensordesc_meta", None) or []:
                head.append("// descriptor " + " ".join(map(str, [d["swizzle"], *d["block_size"]])))
            path = folder / f"{name}.sm_{architecture}.ptx"
            path.write_text("\n".join(head) + "\n" + code)
            print(path.name, " ".join(line[3:] for line in head))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
