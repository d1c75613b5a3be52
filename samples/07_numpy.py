#!/usr/bin/env python3
# Runs Kiln's ops on NumPy arrays: samples/07_numpy.py [ROWS COLUMNS]
#
# Runs Kiln's ops on NumPy arrays without copying them. NumPy arrays, like PyTorch tensors, export DLPack capsules, whose first
# member is the DLTensor that the C functions of ops/c_api.h take.
import ctypes
import os
import sys
import time

try:
    import numpy as np
except ImportError:
    print("07_numpy: skipped, because this Python has no NumPy (on Debian: apt-get install python3-numpy)")
    sys.exit(77)

here = os.path.dirname(os.path.abspath(__file__))
kiln = ctypes.CDLL(os.environ.get("KILN_LIBRARY", os.path.join(here, "..", "build", "lib", "libkiln.so")))
kiln.kiln_last_error.restype = ctypes.c_char_p
pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def call(name, *arguments):
    """Calls a C function with pointers to the DLTensors of arrays, and raises an exception if it returns an error code."""
    capsules = [a.__dlpack__() if hasattr(a, "__dlpack__") else None for a in arguments]  # kept alive until the call returns
    plain = [a if c is None else ctypes.c_void_p(pointer_of(c, b"dltensor")) for a, c in zip(arguments, capsules)]
    if getattr(kiln, name)(*plain) != 0:
        raise RuntimeError(kiln.kiln_last_error().decode())


rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2048
columns = int(sys.argv[2]) if len(sys.argv) > 2 else 4099
x = np.random.default_rng().standard_normal((rows, columns), dtype=np.float32)
y = np.full_like(x, np.nan)
times = []
for _ in range(7):
    begin = time.perf_counter()
    call("kiln_softmax", x, y, None)
    times.append(time.perf_counter() - begin)
seconds = sorted(times)[3]

wide = x.astype(np.float64)
expected = np.exp(wide - wide.max(axis=1, keepdims=True))
expected /= expected.sum(axis=1, keepdims=True)
error = np.linalg.norm(y - expected) / np.linalg.norm(expected)
right = bool(error <= 1e-6)

part = x[:, :200]  # strided operands: one is transposed, the other has every second column
z = np.full((part.shape[1], part[:, ::2].shape[1]), np.nan, dtype=np.float32)
call("kiln_matmul", part.T, part[:, ::2], z, None)
exact = part.T.astype(np.float64) @ part[:, ::2].astype(np.float64)
right &= bool(np.linalg.norm(z - exact) <= 1e-5 * np.linalg.norm(exact))

try:
    call("kiln_softmax", x, np.empty((rows, columns + 1), dtype=np.float32), None)  # an error: the shapes differ
    right = False
except RuntimeError as e:
    right &= "extents" in str(e)

rate = 2 * x.nbytes / seconds * 1e-9
limits = os.environ.get("KILN_SAMPLES_LIMITS", "").split()
share = f"{100 * rate / float(limits[0]):4.0f} % of copy" if limits else ""
what = f"softmax of {rows} x {columns} from NumPy {np.__version__}"
print(f"{what:48} {seconds * 1e3:9.3f} ms {rate:8.1f} GB/s     {share:16} error {error:.1e}{'' if right else '  WRONG'}")
sys.exit(0 if right else 1)
