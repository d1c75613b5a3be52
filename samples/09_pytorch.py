#!/usr/bin/env python3
# Uses Kiln's ops in PyTorch: samples/09_pytorch.py [TOKENS WIDTH]
#
# Makes PyTorch operators of Kiln's attention and RMSNorm, with their gradients. Tensors are passed without copying, as DLPack
# capsules, whose first member is the DLTensor that the C functions of ops/c_api.h take. torch.compile accepts such operators.
import ctypes
import os
import sys
import time

try:
    import torch
except ImportError:
    print("09_pytorch: skipped, because this Python has no PyTorch (pip install torch)")
    sys.exit(77)

here = os.path.dirname(os.path.abspath(__file__))
kiln = ctypes.CDLL(os.environ.get("KILN_LIBRARY", os.path.join(here, "..", "build", "lib", "libkiln.so")))
kiln.kiln_last_error.restype = ctypes.c_char_p
pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class NormOptions(ctypes.Structure):
    """KilnNormOptions of ops/c_api.h."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("eps", ctypes.c_double),
        ("residual", ctypes.c_void_p),
        ("sum", ctypes.c_void_p),
    ]


class NormBackwardOptions(ctypes.Structure):
    """KilnNormBackwardOptions."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("eps", ctypes.c_double),
        ("residual", ctypes.c_void_p),
        ("dsum", ctypes.c_void_p),
        ("accumulate", ctypes.c_int64),
    ]


class AttentionOptions(ctypes.Structure):
    """KilnAttentionOptions."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("scale", ctypes.c_double),
        ("causal", ctypes.c_int64),
        ("align_last", ctypes.c_int64),
        ("window_before", ctypes.c_int64),
        ("window_after", ctypes.c_int64),
        ("soft_cap", ctypes.c_double),
        ("dropout", ctypes.c_double),
        ("seed", ctypes.c_uint64),
        ("sinks", ctypes.c_void_p),
        ("lse", ctypes.c_void_p),
        ("dsinks", ctypes.c_void_p),
        ("alibi_slopes", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("relative_bias", ctypes.c_void_p),
        ("prefix_lengths", ctypes.c_void_p),
        ("key_lengths", ctypes.c_void_p),
        ("documents", ctypes.c_void_p),
        ("key_documents", ctypes.c_void_p),
    ]


def dl_tensor(tensor):
    """The capsule of a tensor, which must be kept until the call returns, and the address of its DLTensor."""
    capsule = torch.utils.dlpack.to_dlpack(tensor.detach())
    return capsule, ctypes.c_void_p(pointer_of(capsule, b"dltensor"))


def call(name, *arguments):
    """Calls a C function with tensors and structures, and raises an exception if it returns an error code."""
    kept = [dl_tensor(a) if isinstance(a, torch.Tensor) else (a, a) for a in arguments]
    if getattr(kiln, name)(*(plain for _, plain in kept)) != 0:
        raise RuntimeError(kiln.kiln_last_error().decode())


# --- RMSNorm ---------------------------------------------------------------------------------------------------------------


@torch.library.custom_op("kiln::rmsnorm", mutates_args=())
def rmsnorm(x: torch.Tensor, gamma: torch.Tensor, eps: float) -> torch.Tensor:
    y = torch.empty_like(x)
    options = NormOptions(size=ctypes.sizeof(NormOptions), eps=eps)
    call("kiln_rmsnorm", x, gamma, y, ctypes.byref(options))
    return y


@torch.library.custom_op("kiln::rmsnorm_backward", mutates_args=())
def rmsnorm_backward(x: torch.Tensor, gamma: torch.Tensor, dy: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    dx, dgamma = torch.empty_like(x), torch.empty_like(gamma)
    options = NormBackwardOptions(size=ctypes.sizeof(NormBackwardOptions), eps=eps)
    call("kiln_rmsnorm_backward", x, gamma, dy, dx, dgamma, ctypes.byref(options))
    return dx, dgamma


rmsnorm.register_fake(lambda x, gamma, eps: torch.empty_like(x))
rmsnorm_backward.register_fake(lambda x, gamma, dy, eps: (torch.empty_like(x), torch.empty_like(gamma)))


def save_rmsnorm(ctx, inputs, output):
    x, gamma, ctx.eps = inputs
    ctx.save_for_backward(x, gamma)


rmsnorm.register_autograd(
    lambda ctx, dy: (*rmsnorm_backward(*ctx.saved_tensors, dy, ctx.eps), None), setup_context=save_rmsnorm
)

# --- Attention -------------------------------------------------------------------------------------------------------------


def options_of(causal, lse=None):
    """The options, and the capsule that must be kept until the call returns."""
    capsule, address = dl_tensor(lse) if lse is not None else (None, None)
    size = ctypes.sizeof(AttentionOptions)
    return capsule, AttentionOptions(size, causal=int(causal), window_before=-1, window_after=-1, lse=address)


@torch.library.custom_op("kiln::attention", mutates_args=())
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    o = torch.empty(*q.shape[:-1], v.shape[-1], dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
    _kept, options = options_of(causal, lse)
    call("kiln_attention", q, k, v, o, ctypes.byref(options))
    return o, lse


@torch.library.custom_op("kiln::attention_backward", mutates_args=())
def attention_backward(
    dout: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, causal: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    _kept, options = options_of(causal)
    call("kiln_attention_backward", dout, q, k, v, o, lse, dq, dk, dv, ctypes.byref(options))
    return dq, dk, dv


attention.register_fake(
    lambda q, k, v, causal: (q.new_empty(*q.shape[:-1], v.shape[-1]), q.new_empty(q.shape[:-1], dtype=torch.float32))
)
attention_backward.register_fake(
    lambda dout, q, k, v, o, lse, causal: (torch.empty_like(q), torch.empty_like(k), torch.empty_like(v))
)


def save_attention(ctx, inputs, output):
    q, k, v, ctx.causal = inputs
    ctx.save_for_backward(q, k, v, *output)


attention.register_autograd(
    lambda ctx, dout, dlse: (*attention_backward(dout, *ctx.saved_tensors, ctx.causal), None),
    setup_context=save_attention,
)

# --- A layer with both, compared with the same in PyTorch ------------------------------------------------------------------

tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 512
width = int(sys.argv[2]) if len(sys.argv) > 2 else 64
heads, key_heads = 8, 2
torch.manual_seed(int.from_bytes(os.urandom(4), "little"))
x = torch.randn(1, tokens, heads * width)
gamma = torch.rand(heads * width) + 0.5
k, v = torch.randn(2, 1, key_heads, tokens, width)
dout = torch.randn(1, heads, tokens, width)


def ours(x, gamma, k, v):
    q = rmsnorm(x, gamma, 1e-5).unflatten(-1, (heads, width)).transpose(1, 2)  # a view: any strides are fine
    return attention(q, k, v, True)[0]


def theirs(x, gamma, k, v):
    q = torch.nn.functional.rms_norm(x, gamma.shape, gamma, 1e-5).unflatten(-1, (heads, width)).transpose(1, 2)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def run(layer, dtype):
    """The result and the gradients, and the median seconds for both."""
    inputs = [t.to(dtype).requires_grad_() for t in (x, gamma, k, v)]
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        out = layer(*inputs)
        gradients = torch.autograd.grad(out, inputs, dout.to(dtype))
        times.append(time.perf_counter() - begin)
    return [out.detach(), *gradients], sorted(times)[2]


found, seconds = run(ours, torch.float32)
_, peer = run(theirs, torch.float32)
exact, _ = run(theirs, torch.float64)
error = max(float((f - e).norm() / e.norm()) for f, e in zip(found, exact))
right = error <= 1e-5

try:
    attention(k, torch.empty(1, 3, tokens, width), v, True)  # an error: 2 heads of q cannot share 3 key heads
    right = False
except RuntimeError as e:
    right &= "heads" in str(e)

what = f"attention and its gradient, {tokens} tokens, PyTorch {torch.__version__}"
ratio = f"{seconds / peer:.2f} of PyTorch's time"
print(f"{what:48} {seconds * 1e3:9.3f} ms, {ratio}   error {error:.1e}{'' if right else '  WRONG'}")
sys.exit(0 if right else 1)
