/* Kiln's ops for other languages: plain C functions over DLPack tensors, as NumPy, PyTorch and others hand
 * them out.
 *
 *   DLTensor x = ..., y = ...;
 *   if (kiln_softmax(&x, &y) != KILN_OK) puts(kiln_last_error());
 *
 * Tensors are of float32, float64, bfloat16 or float16, the same in one call, with any strides (null strides:
 * row-major), all on the CPU or all on one CUDA device, where the functions run in the order of its default
 * stream. They return when the result is written. The memory stays the caller's;
 * results are written in place and may not be read-only memory. Thread-safe.
 */
#ifndef KILN_OPS_C_API_H
#define KILN_OPS_C_API_H

#include <dlpack/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  KILN_OK = 0,
  KILN_USER_ERROR = 1,     /* the arguments: extents that do not match, dtypes, devices */
  KILN_TARGET_ERROR = 2,   /* this machine: a kernel could not be compiled for it */
  KILN_INTERNAL_ERROR = 3, /* a mistake in Kiln */
  KILN_OUT_OF_MEMORY = 4
};

const char* kiln_version(void);
/* What was wrong with this thread's last call that did not return KILN_OK; "" if there was none. Valid until
 * the thread's next call. */
const char* kiln_last_error(void);

/* c[M, N] = a[M, K] b[K, N] */
int kiln_matmul(const DLTensor* a, const DLTensor* b, DLTensor* c);
/* y = activation(x weight + bias[N]); activation: "none", "relu", "gelu" or "silu" */
int kiln_linear(const DLTensor* x, const DLTensor* weight, const DLTensor* bias, DLTensor* y,
                const char* activation);
/* Over the rows of matrices; y may be x. */
int kiln_softmax(const DLTensor* x, DLTensor* y);
int kiln_layernorm(const DLTensor* x, const DLTensor* gamma, const DLTensor* beta, DLTensor* y, double eps);
int kiln_rmsnorm(const DLTensor* x, const DLTensor* gamma, DLTensor* y, double eps);
/* y = activation(x), y = activation(gate) * up */
int kiln_activation(const DLTensor* x, DLTensor* y, const char* activation);
int kiln_activation_mul(const DLTensor* gate, const DLTensor* up, DLTensor* y, const char* activation);

#ifdef __cplusplus
}
#endif

#endif
