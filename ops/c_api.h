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
 * matmul_backward.h, attention.h, attention_backward.h, softmax.h, norm.h, elementwise.h). All functions are
 * thread-safe.
 */
#ifndef KILN_OPS_C_API_H
#define KILN_OPS_C_API_H

#include <kiln/dsl/api.h>

#include <dlpack/dlpack.h>
#include <stdint.h>

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
int kiln_log_softmax(const DLTensor* x, DLTensor* y);
int kiln_layernorm(const DLTensor* x, const DLTensor* gamma, const DLTensor* beta, DLTensor* y, double eps);
int kiln_rmsnorm(const DLTensor* x, const DLTensor* gamma, DLTensor* y, double eps);
/* Compute y = activation(x), and y = activation(gate) * up. The inputs broadcast to y, which may be one of
 * them. */
int kiln_activation(const DLTensor* x, DLTensor* y, const char* activation);
int kiln_activation_mul(const DLTensor* gate, const DLTensor* up, DLTensor* y, const char* activation);
/* Sets elements to zero with this probability, by the seed and the number of the element. */
int kiln_dropout(const DLTensor* x, DLTensor* y, double probability, uint64_t seed);

/* The options of kiln_attention:
 *
 *   KilnAttentionOptions options = KILN_ATTENTION_DEFAULTS;
 *   options.causal = 1;
 */
typedef struct {
  double scale;                        /* 0: 1 / sqrt(width) */
  int causal;                          /* 1: a query sees no key after its own position */
  int align_last;                      /* 1: the last query is at the last key; 0: query i is at key i */
  int64_t window_before, window_after; /* how many keys around its own a query sees; -1: all */
  double soft_cap;                     /* 0: none */
  double dropout;                      /* the probability with which a weight is dropped, by the seed */
  uint64_t seed;
  const DLTensor* sinks; /* [heads], or null */
  DLTensor* lse;         /* the log-sum-exp, [.., heads, queries], or null; not of kiln_attention_backward */
  DLTensor* dsinks;      /* of kiln_attention_backward only: the gradient of sinks, or null */
} KilnAttentionOptions;
#define KILN_ATTENTION_DEFAULTS {0, 0, 0, -1, -1, 0, 0, 0, 0, 0, 0}
/* Computes o = softmax(scale q k^T) v for q [.., heads, queries, width], k [.., key heads, keys, width],
 * v [.., key heads, keys, width of v] and o [.., heads, queries, width of v]. Null options are the
 * defaults. */
int kiln_attention(const DLTensor* q, const DLTensor* k, const DLTensor* v, DLTensor* o,
                   const KilnAttentionOptions* options);

/* --- Gradients --------------------------------------------------------------------------------------------
 * A null pointer leaves out a result, or gamma. */

/* From the result y of the forward function and its gradient dy. */
int kiln_softmax_backward(const DLTensor* y, const DLTensor* dy, DLTensor* dx);
int kiln_log_softmax_backward(const DLTensor* y, const DLTensor* dy, DLTensor* dx);
/* From the arguments of the forward function, and the gradient of its result. */
int kiln_layernorm_backward(const DLTensor* x, const DLTensor* gamma, const DLTensor* dy, DLTensor* dx,
                            DLTensor* dgamma, DLTensor* dbeta, double eps);
int kiln_rmsnorm_backward(const DLTensor* x, const DLTensor* gamma, const DLTensor* dy, DLTensor* dx,
                          DLTensor* dgamma, double eps);
int kiln_activation_backward(const DLTensor* x, const DLTensor* dy, DLTensor* dx, const char* activation);
int kiln_activation_mul_backward(const DLTensor* gate, const DLTensor* up, const DLTensor* dy,
                                 DLTensor* dgate, DLTensor* dup, const char* activation);
int kiln_matmul_backward(const DLTensor* a, const DLTensor* b, const DLTensor* dc, DLTensor* da,
                         DLTensor* db);
/* z is x weight + bias, to which the activation was applied; null if activation is "none" or null. */
int kiln_linear_backward(const DLTensor* x, const DLTensor* weight, const DLTensor* z, const DLTensor* dy,
                         DLTensor* dx, DLTensor* dweight, DLTensor* dbias, const char* activation);
/* From q, k, v, o and lse of kiln_attention, the gradient dout of o, and the same options. */
int kiln_attention_backward(const DLTensor* dout, const DLTensor* q, const DLTensor* k, const DLTensor* v,
                            const DLTensor* o, const DLTensor* lse, DLTensor* dq, DLTensor* dk, DLTensor* dv,
                            const KilnAttentionOptions* options);

#ifdef __cplusplus
}
#endif
KILN_API_END

#endif
