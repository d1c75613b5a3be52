/* Declares Kiln's ops as C functions on DLPack tensors, which NumPy, PyTorch and other libraries can provide
 * without a copy.
 *
 *   DLTensor x = ..., y = ...;
 *   if (kiln_softmax(&x, &y) != KILN_OK) puts(kiln_last_error());
 *
 * Each tensor has a dtype of its own: float32, float64, bfloat16 or float16. Tensors may have any rank up to
 * 8 that the C++ op takes, and any strides; null strides mean row-major order. They are all on the CPU or
 * all on the same CUDA device, on whose default stream the functions run. A function returns when the result
 * has been written to the memory of the output tensor; it does not keep or free any memory. Its return value
 * is KILN_OK or an error code. Shapes, accuracy and errors are as in the headers of the C++ ops (matmul.h,
 * softmax.h, norm.h, elementwise.h). All functions are thread-safe.
 */
#ifndef KILN_OPS_C_API_H
#define KILN_OPS_C_API_H

#include <kiln/dsl/api.h>

#include <dlpack/dlpack.h>

KILN_API_BEGIN
#ifdef __cplusplus
extern "C" {
#endif

enum {
  KILN_OK = 0,
  KILN_USER_ERROR = 1,     /* a mistake in the arguments, such as extents that do not match */
  KILN_TARGET_ERROR = 2,   /* the driver or a tool of this machine refused a request */
  KILN_INTERNAL_ERROR = 3, /* a bug in Kiln */
  KILN_OUT_OF_MEMORY = 4
};

/* Returns the version of Kiln, such as "0.1.0". */
const char* kiln_version(void);
/* Returns the error message of the last call of this thread, or "" if that call returned KILN_OK. The text is
 * valid until the next call of this thread. */
const char* kiln_last_error(void);

/* Computes c[.., M, N] = a[.., M, K] b[.., K, N]; the axes in front are batches. */
int kiln_matmul(const DLTensor* a, const DLTensor* b, DLTensor* c);
/* Computes y[.., M, N] = activation(x[.., M, K] weight[K, N] + bias[N]). activation is "none", "relu", "gelu"
 * or "silu"; null means "none". */
int kiln_linear(const DLTensor* x, const DLTensor* weight, const DLTensor* bias, DLTensor* y,
                const char* activation);
/* Normalise along the last axis of x[.., N]. y may be x; gamma and beta are [N]. */
int kiln_softmax(const DLTensor* x, DLTensor* y);
int kiln_layernorm(const DLTensor* x, const DLTensor* gamma, const DLTensor* beta, DLTensor* y, double eps);
int kiln_rmsnorm(const DLTensor* x, const DLTensor* gamma, DLTensor* y, double eps);
/* Compute y = activation(x), and y = activation(gate) * up. The inputs broadcast to y, which may be one of
 * them. */
int kiln_activation(const DLTensor* x, DLTensor* y, const char* activation);
int kiln_activation_mul(const DLTensor* gate, const DLTensor* up, DLTensor* y, const char* activation);

#ifdef __cplusplus
}
#endif
KILN_API_END

#endif
