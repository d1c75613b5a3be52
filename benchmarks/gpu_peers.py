"""Times PyTorch and Triton on a GPU for bench_gpu, which starts this script and communicates with it over pipes.

The script first prints {"torch": VERSION, "triton": VERSION}, with null for a missing package. It then answers each
line "PEER WORK DTYPE EXTENT..." with the seconds of one run, which is the mean of ten runs between two events, or
with "none".
"""
import json
import sys

try:
    import torch
    if not torch.cuda.is_available():
        torch = None
except ImportError:
    torch = None
try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None
if torch is None:
    triton = None

if triton is not None:
    @triton.jit
    def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = i < n
        tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)

    @triton.jit
    def softmax_kernel(x, out, columns, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64) * columns
        i = tl.arange(0, BLOCK)
        t = tl.load(x + row + i, mask=i < columns, other=-float("inf")).to(tl.float32)
        e = tl.exp(t - tl.max(t, 0))
        tl.store(out + row + i, (e / tl.sum(e, 0)).to(out.dtype.element_ty), mask=i < columns)

    @triton.jit
    def layernorm_kernel(x, gamma, beta, out, columns, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64) * columns
        i = tl.arange(0, BLOCK)
        t = tl.load(x + row + i, mask=i < columns, other=0).to(tl.float32)
        mean = tl.sum(t, 0) / columns
        centred = tl.where(i < columns, t - mean, 0)
        scale = tl.rsqrt(tl.sum(centred * centred, 0) / columns + 1e-5)
        g = tl.load(gamma + i, mask=i < columns).to(tl.float32)
        b = tl.load(beta + i, mask=i < columns).to(tl.float32)
        tl.store(out + row + i, (centred * scale * g + b).to(out.dtype.element_ty), mask=i < columns)

    @triton.jit
    def matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        m = tl.program_id(0) * BM + tl.arange(0, BM)
        n = tl.program_id(1) * BN + tl.arange(0, BN)
        k = tl.arange(0, BK)
        total = tl.zeros((BM, BN), tl.float32)
        for begin in range(0, K, BK):
            left = tl.load(a + m[:, None] * K + begin + k[None, :])
            right = tl.load(b + (begin + k[:, None]) * N + n[None, :])
            total = tl.dot(left, right, total)
        tl.store(c + m[:, None] * N + n[None, :], total.to(c.dtype.element_ty))


def make(peer, work, dtype, extents):
    """Returns a function without arguments that queues the work once, or None."""
    t = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    random = lambda *shape: (torch.rand(shape, device="cuda") * 2 - 1).to(t)
    if work == "add":
        x, y = random(extents[0]), random(extents[0])
        out = torch.empty_like(x)
        if peer == "torch":
            return lambda: torch.add(x, y, out=out)
        return lambda: add_kernel[(triton.cdiv(extents[0], 1024),)](x, y, out, extents[0], BLOCK=1024)
    if work in ("softmax", "layernorm"):
        rows, columns = extents
        x = random(rows, columns)
        out = torch.empty_like(x)
        gamma, beta = random(columns), random(columns)
        block = triton.next_power_of_2(columns) if triton else 0
        warps = min(max(block // 256, 1), 16)
        if work == "softmax":
            if peer == "torch":
                return lambda: torch.softmax(x, 1, out=out)
            return lambda: softmax_kernel[(rows,)](x, out, columns, BLOCK=block, num_warps=warps)
        if peer == "torch":
            return lambda: torch.nn.functional.layer_norm(x, (columns,), gamma, beta)
        return lambda: layernorm_kernel[(rows,)](x, gamma, beta, out, columns, BLOCK=block, num_warps=warps)
    if work == "matmul":
        m, n, k = extents
        a, b = random(m, k), random(k, n)
        c = torch.empty((m, n), device="cuda", dtype=t)
        if peer == "torch":
            return lambda: torch.matmul(a, b, out=c)
        if dtype != "f32" and m % 128 == n % 128 == k % 64 == 0:
            return lambda: matmul_kernel[(m // 128, n // 128)](
                a, b, c, m, n, k, BM=128, BN=128, BK=64, num_warps=8, num_stages=3)
    return None


def seconds(run, times=10):
    for _ in range(3):
        run()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / times


print(json.dumps({"torch": torch and torch.__version__, "triton": triton and triton.__version__}), flush=True)
made = (None, None)  # the last request and its function; the next request frees their memory
for line in sys.stdin:
    request = line.split()
    if made[0] != request:
        made = (None, None)
        present = {"torch": torch, "triton": triton}.get(request[0])
        try:
            made = (request, present and make(request[0], request[1], request[2], [int(e) for e in request[3:]]))
        except Exception as e:  # the comparison continues without this peer
            print(f"{line.strip()}: {e}", file=sys.stderr)
            made = (request, None)
    try:
        print(seconds(made[1]) if made[1] else "none", flush=True)
    except Exception as e:
        print(f"{line.strip()}: {e}", file=sys.stderr)
        made = (request, None)
        print("none", flush=True)
