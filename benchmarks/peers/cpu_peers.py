"""Times PyTorch on the CPU for bench_peers, which starts this script and communicates with it over pipes.

The script first prints {"torch": VERSION}, with null if PyTorch is missing. It then answers each line
"torch WORK DTYPE NUMBER..." with the median seconds of one run after a warm-up, or with "none".
PyTorch uses OMP_NUM_THREADS threads. The allocator keeps freed memory, so that results are written to memory that
has been used before, as in a program that calls PyTorch in a loop. Fresh pages would cost several times the work.
"""
import ctypes
import json
import os
import statistics
import sys
import time

os.environ.setdefault("OMP_PROC_BIND", "true")  # pins the threads, as those of the other contenders
try:
    libc = ctypes.CDLL(None)
    libc.mallopt(-4, 0)   # M_MMAP_MAX: large blocks are allocated on the heap too
    libc.mallopt(-1, -1)  # M_TRIM_THRESHOLD: the heap keeps freed memory
except AttributeError:  # this is not glibc
    pass
try:
    import torch
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
except (ImportError, OSError) as e:
    if not isinstance(e, ModuleNotFoundError):
        print(f"PyTorch is installed but cannot be loaded: {e}", file=sys.stderr)
    torch = None

kept = {}  # the weights of the last product, which the next product often uses too


def random(shape, dtype):
    if dtype == "i8":
        return torch.randint(-64, 64, shape, dtype=torch.int8)
    return (torch.rand(shape) * 2 - 1).to({"f32": torch.float32, "bf16": torch.bfloat16}[dtype])


def matmul(dtype, m, n, k, transposed_a, transposed_b):
    def operand(rows, columns, transposed):
        return random((columns, rows), dtype).t() if transposed else random((rows, columns), dtype)
    key = (dtype, n, k, transposed_b)
    if key not in kept:
        kept.clear()
        kept[key] = operand(k, n, transposed_b)
    a, b = operand(m, k, transposed_a), kept[key]
    if dtype == "i8":
        return lambda: torch._int_mm(a, b)
    out = torch.empty((m, n), dtype=a.dtype)
    return lambda: torch.matmul(a, b, out=out)


def make(work, dtype, numbers):
    """Returns a function without arguments that does the work once."""
    functional = torch.nn.functional
    if work == "matmul":
        return matmul(dtype, *numbers)
    kept.clear()
    if work == "batched":
        batches, m, n, k = numbers
        a, b = random((batches, m, k), dtype), random((batches, k, n), dtype)
        out = torch.empty((batches, m, n), dtype=a.dtype)
        return lambda: torch.bmm(a, b, out=out)
    if work == "attention":
        heads, tokens, width, causal = numbers
        q, k, v = (random((1, heads, tokens, width), dtype) for _ in range(3))
        return lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=bool(causal))
    if work == "backward":
        heads, tokens, width = numbers
        q, k, v, gradient = (random((1, heads, tokens, width), dtype) for _ in range(4))
        with torch.enable_grad():
            o = functional.scaled_dot_product_attention(*(x.requires_grad_() for x in (q, k, v)), is_causal=True)
        return lambda: torch.autograd.grad(o, (q, k, v), gradient, retain_graph=True)
    if work == "decode":
        heads, key_heads, keys, width = numbers
        q = random((1, heads, 1, width), dtype)
        k, v = (random((1, key_heads, keys, width), dtype) for _ in range(2))
        return lambda: functional.scaled_dot_product_attention(q, k, v, enable_gqa=heads != key_heads)
    transposed = work.endswith("_transposed")
    work = work.removesuffix("_transposed")
    x = random(tuple(reversed(numbers)), dtype).t() if transposed else random(tuple(numbers), dtype)
    columns = numbers[-1]
    out = torch.empty(tuple(numbers), dtype=x.dtype)
    gamma, beta = random((columns,), dtype), random((columns,), dtype)
    if work == "softmax":
        return lambda: torch.softmax(x, 1, out=out)
    if work == "layernorm":
        return lambda: functional.layer_norm(x, (columns,), gamma, beta)
    if work == "rmsnorm":
        return lambda: functional.rms_norm(x, (columns,), gamma, 1e-5)
    if work in ("layernorm_backward", "rmsnorm_backward"):
        dy = random(tuple(numbers), dtype)
        leaves = [t.detach().requires_grad_() for t in ((x, gamma, beta) if work == "layernorm_backward" else (x, gamma))]
        with torch.enable_grad():
            if work == "layernorm_backward":
                y = functional.layer_norm(leaves[0], (columns,), leaves[1], leaves[2])
            else:
                y = functional.rms_norm(leaves[0], (columns,), leaves[1], 1e-5)
        return lambda: torch.autograd.grad(y, leaves, dy, retain_graph=True)
    if work == "relu_bias":
        def relu_bias():
            torch.add(x, beta, out=out)
            out.relu_()
        return relu_bias
    if work == "chain":
        def chain():
            torch.mul(x, 1.5, out=out)
            out.add_(0.25).relu_().mul_(0.5).sub_(1.0)
        return chain
    if work == "gelu":
        return lambda: functional.gelu(x)
    raise ValueError(f"unknown work '{work}'")


def seconds(run, warm=0.02, measure=0.004):
    """Takes a turn in the same way as race.cpp does for contenders in its own process."""
    def timed(times):
        begin = time.perf_counter()
        for _ in range(times):
            run()
        return (time.perf_counter() - begin) / times
    begin = time.perf_counter()
    once = timed(1)
    if once >= 0.1:
        return once
    while time.perf_counter() - begin < warm:
        once = timed(1)
    batch = max(1, round(50e-6 / max(once, 1e-9)))
    times = []
    begin = time.perf_counter()
    while not times or time.perf_counter() - begin < measure:
        times.append(timed(batch))
    return statistics.median(times)


def main():
    print(json.dumps({"torch": torch and torch.__version__}), flush=True)
    if torch is None:
        return
    torch.set_grad_enabled(False)
    made = (None, None)  # the last request and its function
    for line in sys.stdin:
        request = line.split()
        try:
            if made[0] != request:
                made = (request, None)  # frees the memory of the last request first
                made = (request, make(request[1], request[2], [int(n) for n in request[3:]]))
                made[1]()  # allocates memory that later calls use again
            print(seconds(made[1]) if made[1] else "none", flush=True)
        except Exception as e:  # the comparison continues without this peer
            print(f"PyTorch, {line.strip()}: {e}", file=sys.stderr)
            made = (request, None)
            print("none", flush=True)


main()
