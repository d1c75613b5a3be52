/* Declares Kiln's ops as C functions on DLPack tensors, which NumPy, PyTorch and other libraries can provide
 * without a copy.
 *
 *   DLTensor x = ..., y = ...;
 *   KilnNormOptions options = KILN_NORM_DEFAULTS;
 *   options.eps = 1e-6;
 *   if (kiln_rmsnorm(&x, NULL, &y, &options) != KILN_OK) puts(kiln_last_error());
 *
 * Each op of C++ is a function with the same name and the same parameters, without the stream. A null pointer
 * stands for a tensor that is not given. Options that the ops of C++ take as lambdas have names here: the
 * epilogues of KilnMatmulOptions, and the scores and masks of KilnAttentionOptions.
 *
 * Each tensor has a dtype of its own: float32, float64, bfloat16, float16, float8_e4m3fn or float8_e5m2, and
 * where the op takes them int8, uint8, int32 or int64. Tensors may have any rank up to 8 that the op takes,
 * and any strides; null strides mean row-major order. They are all on the CPU or all on the same CUDA device,
 * on whose default stream the functions run, or on the one of kiln_set_cuda_stream. A function returns when
 * the result has been written to the memory of the output tensor; it does not keep or free any memory. Its
 * return value is KILN_OK or an error code. Shapes, accuracy and errors are as in the headers of the C++ ops,
 * which are named below. If a function returns KILN_USER_ERROR for its arguments, nothing was written. All
 * functions are thread-safe.
 *
 * Options are structs whose first member is their size. KILN_..._DEFAULTS sets it and all others; a null
 * pointer stands for these defaults. Later versions of Kiln add members at the end, and give programs that
 * were compiled with an earlier version their defaults. Flags are 0 or 1.
 */
#ifndef KILN_OPS_C_API_H
#define KILN_OPS_C_API_H

#include <kiln/dsl/api.h>

#include <dlpack/dlpack.h>
#include <stddef.h>
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
/* From now on, functions that this thread calls for tensors on a CUDA device queue their work on this stream
 * of the device, a CUstream or cudaStream_t, and return without waiting for it. So calls can be captured in a
 * CUDA graph. Null stands for the default stream, for which functions wait. */
void kiln_set_cuda_stream(void* stream);

/* --- Products: matmul.h, matmul_backward.h, grouped_matmul.h -------------------------------------------- */

typedef struct {
  size_t size;
  const char* activation; /* "none", "relu", "gelu" or "silu"; null: "none" */
  double alpha, beta;
  const DLTensor *bias, *times, *residual;
  const char* precision; /* of products of float32: "ieee", "tf32" or "bf16x3"; null: "ieee" */
  int64_t batch_invariant;
} KilnMatmulOptions;
#define KILN_MATMUL_DEFAULTS {sizeof(KilnMatmulOptions), NULL, 1, 0, NULL, NULL, NULL, NULL, 0}
/* Computes c = activation(alpha a b + bias) * times + residual + beta c for a [.., M, K], b [.., K, N] and
 * c [.., M, N]; the axes in front are batches. bias is [N]; times and residual have the extents of c, and may
 * be c. Also int8 and uint8 with a result of int32. */
int kiln_matmul(const DLTensor* a, const DLTensor* b, DLTensor* c, const KilnMatmulOptions* options);
/* Computes y[.., M, N] = activation(x[.., M, K] weight[K, N] + bias[N]), and what else the options say. */
int kiln_linear(const DLTensor* x, const DLTensor* weight, const DLTensor* bias, DLTensor* y,
                const KilnMatmulOptions* options);

typedef struct {
  size_t size;
  const char* activation; /* of the forward call */
  const DLTensor* before; /* its argument, alpha a b + bias; null if there is no activation */
  double alpha;
  DLTensor* dbias;
  int64_t accumulate; /* 1: adds to what da, db and dbias hold */
  const char* precision;
} KilnMatmulBackwardOptions;
#define KILN_MATMUL_BACKWARD_DEFAULTS {sizeof(KilnMatmulBackwardOptions), NULL, NULL, 1, NULL, 0, NULL}
/* Computes the gradients da and db of c = activation(alpha a b + bias) from dc. */
int kiln_matmul_backward(const DLTensor* a, const DLTensor* b, const DLTensor* dc, DLTensor* da, DLTensor* db,
                         const KilnMatmulBackwardOptions* options);
int kiln_linear_backward(const DLTensor* x, const DLTensor* weight, const DLTensor* dy, DLTensor* dx,
                         DLTensor* dweight, const KilnMatmulBackwardOptions* options);

/* Computes products of groups of rows: a [rows, K], b [groups, K, N], offsets [groups + 1], c [rows, N]. The
 * bias is [groups, N]. */
int kiln_grouped_matmul(const DLTensor* a, const DLTensor* b, const DLTensor* offsets, DLTensor* c,
                        const KilnMatmulOptions* options);
typedef struct {
  size_t size;
  double alpha, beta;
} KilnGroupedBackwardOptions;
#define KILN_GROUPED_BACKWARD_DEFAULTS {sizeof(KilnGroupedBackwardOptions), 1, 0}
/* Computes db [groups, K, N]. The gradient of a is kiln_grouped_matmul of dc and b with its last two axes
 * exchanged. */
int kiln_grouped_matmul_backward_b(const DLTensor* a, const DLTensor* dc, const DLTensor* offsets,
                                   DLTensor* db, const KilnGroupedBackwardOptions* options);

/* --- Normalisation: softmax.h, norm.h ------------------------------------------------------------------- */

typedef struct {
  size_t size;
  int64_t axis; /* counts from the last axis if negative */
  int64_t batch_invariant;
} KilnSoftmaxOptions;
#define KILN_SOFTMAX_DEFAULTS {sizeof(KilnSoftmaxOptions), -1, 0}
/* y may be x. The gradients are computed from the result y and its gradient dy. */
int kiln_softmax(const DLTensor* x, DLTensor* y, const KilnSoftmaxOptions* options);
int kiln_log_softmax(const DLTensor* x, DLTensor* y, const KilnSoftmaxOptions* options);
int kiln_softmax_backward(const DLTensor* y, const DLTensor* dy, DLTensor* dx,
                          const KilnSoftmaxOptions* options);
int kiln_log_softmax_backward(const DLTensor* y, const DLTensor* dy, DLTensor* dx,
                              const KilnSoftmaxOptions* options);

typedef struct {
  size_t size;
  double eps;               /* 1e-5 */
  const DLTensor* residual; /* x + residual is normalised */
  DLTensor* sum;            /* x + residual is stored here */
  int64_t batch_invariant;
} KilnNormOptions;
#define KILN_NORM_DEFAULTS {sizeof(KilnNormOptions), 1e-5, NULL, NULL, 0}
/* Normalise along the last axis of x [.., N]. y may be x; gamma and beta are [N], or null. */
int kiln_layernorm(const DLTensor* x, const DLTensor* gamma, const DLTensor* beta, DLTensor* y,
                   const KilnNormOptions* options);
int kiln_rmsnorm(const DLTensor* x, const DLTensor* gamma, DLTensor* y, const KilnNormOptions* options);

typedef struct {
  size_t size;
  double eps;
  const DLTensor *residual, *dsum;
  int64_t accumulate; /* 1: adds to what dgamma and dbeta hold */
} KilnNormBackwardOptions;
#define KILN_NORM_BACKWARD_DEFAULTS {sizeof(KilnNormBackwardOptions), 1e-5, NULL, NULL, 0}
/* Null leaves out gamma, or a result. */
int kiln_layernorm_backward(const DLTensor* x, const DLTensor* gamma, const DLTensor* dy, DLTensor* dx,
                            DLTensor* dgamma, DLTensor* dbeta, const KilnNormBackwardOptions* options);
int kiln_rmsnorm_backward(const DLTensor* x, const DLTensor* gamma, const DLTensor* dy, DLTensor* dx,
                          DLTensor* dgamma, const KilnNormBackwardOptions* options);

/* --- Elementwise: elementwise.h ------------------------------------------------------------------------- */

/* Compute y = activation(x), and y = activation(gate) * up. The inputs broadcast to y, which may be one of
 * them. The activation is named as in KilnMatmulOptions. */
int kiln_activation(const DLTensor* x, DLTensor* y, const char* activation);
int kiln_activation_mul(const DLTensor* gate, const DLTensor* up, DLTensor* y, const char* activation);
int kiln_activation_backward(const DLTensor* x, const DLTensor* dy, DLTensor* dx, const char* activation);
/* Null leaves out a result. */
int kiln_activation_mul_backward(const DLTensor* gate, const DLTensor* up, const DLTensor* dy,
                                 DLTensor* dgate, DLTensor* dup, const char* activation);
typedef struct {
  size_t size;
  double probability; /* of an element to become zero; 0.5 */
  uint64_t seed;
} KilnDropoutOptions;
#define KILN_DROPOUT_DEFAULTS {sizeof(KilnDropoutOptions), 0.5, 0}
/* Sets elements to zero by the seed and the number of the element. */
int kiln_dropout(const DLTensor* x, DLTensor* y, const KilnDropoutOptions* options);

/* --- Attention: attention.h, attention_backward.h ------------------------------------------------------- */

/* `batches` is the product of the axes of q in front of the heads, in row-major order, or 1. Lengths and
 * documents are of int32 or int64. The position of query i is i, or with align_last i + keys - queries. */
typedef struct {
  size_t size;
  double scale;                        /* 0: 1 / sqrt(width) */
  int64_t causal;                      /* 1: a query sees no key after its own position */
  int64_t align_last;                  /* 1: the last query is at the last key; 0: query i is at key i */
  int64_t window_before, window_after; /* how many keys around its own a query sees; -1: all */
  double soft_cap;                     /* 0: none */
  double dropout;                      /* the probability with which a weight is dropped, by the seed */
  uint64_t seed;
  const DLTensor* sinks; /* [heads] */
  DLTensor* lse;         /* the log-sum-exp, [.., heads, queries]; not of kiln_attention_backward */
  DLTensor* dsinks;      /* of kiln_attention_backward only: the gradient of sinks */
  /* What is added to scores, after soft_cap. These tensors get no gradient. */
  const DLTensor* alibi_slopes;  /* [heads]: adds -slope * |key - position| (Press et al., 2021) */
  const DLTensor* bias;          /* [batches, heads, queries, keys], or what broadcasts to that */
  const DLTensor* relative_bias; /* [heads or 1, 2 n + 1]: adds element n + key - position, which farther keys
                                    share with the one at the distance n (as in T5) */
  /* Which keys a query sees, besides causal and the windows, which all must show a key. */
  const DLTensor* prefix_lengths; /* [batches], with causal: it sees the first keys even if they are later */
  const DLTensor* key_lengths;    /* [batches]: it sees the first keys only, as in padded batches */
  const DLTensor* documents;      /* [batches, queries]: it sees the keys of its own document */
  const DLTensor* key_documents;  /* [batches, keys]; null: documents */
  /* Where the sequences of ragged batches begin, and the last one ends: [sequences + 1], of int32 or int64.
     Of what adds to scores and hides keys, only causal, the windows, alibi_slopes and relative_bias work with
     them, the last two if positions count from the first key. */
  const DLTensor *query_offsets, *key_offsets;
  int64_t batch_invariant; /* of kiln_attention only */
} KilnAttentionOptions;
/* clang-format off */
#define KILN_ATTENTION_DEFAULTS                                                                              \
  {sizeof(KilnAttentionOptions), 0, 0, 0, -1, -1, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,   \
   NULL, NULL, NULL, NULL, 0}
/* clang-format on */
/* Computes o = softmax(scale q k^T) v for q [.., heads, queries, width], k [.., key heads, keys, width],
 * v [.., key heads, keys, width of v] and o [.., heads, queries, width of v]. */
int kiln_attention(const DLTensor* q, const DLTensor* k, const DLTensor* v, DLTensor* o,
                   const KilnAttentionOptions* options);
/* From q, k, v, o and lse of kiln_attention, the gradient dout of o, and the same options. Null leaves out a
 * result. */
int kiln_attention_backward(const DLTensor* dout, const DLTensor* q, const DLTensor* k, const DLTensor* v,
                            const DLTensor* o, const DLTensor* lse, DLTensor* dq, DLTensor* dk, DLTensor* dv,
                            const KilnAttentionOptions* options);

/* --- Position embedding and caches: rotary.h, kv_cache.h, decode.h -------------------------------------- */

typedef struct {
  size_t size;
  const char* pairs; /* "halves" or "interleaved"; null: "halves" */
  int64_t width;     /* the elements at the beginning of a head that are turned; 0: all */
  double theta;      /* 10000 */
  const DLTensor *cos, *sin;
  const DLTensor* positions;
  int64_t offset;
} KilnRotaryOptions;
#define KILN_ROTARY_DEFAULTS {sizeof(KilnRotaryOptions), NULL, 0, 10000, NULL, NULL, NULL, 0}
/* x and y are [.., tokens, head size]; y may be x. */
int kiln_rotary(const DLTensor* x, DLTensor* y, const KilnRotaryOptions* options);
int kiln_rotary_backward(const DLTensor* dy, DLTensor* dx, const KilnRotaryOptions* options);

/* A contiguous cache, [batch, key heads, capacity, width], or with `blocks` a paged one, [pages, key heads,
 * page size, width]. Caches of int8 have scales. kiln_attention_decode only reads it. */
typedef struct {
  size_t size;
  DLTensor *keys, *values;
  const DLTensor* blocks; /* [batch, pages of a sequence] */
  DLTensor *key_scales, *value_scales;
} KilnKeyValueCache;
#define KILN_KEY_VALUE_CACHE_DEFAULTS {sizeof(KilnKeyValueCache), NULL, NULL, NULL, NULL, NULL}
typedef struct {
  size_t size;
  const KilnRotaryOptions* rotary; /* null: keys are not turned */
  const DLTensor* q;               /* is turned like k, and written to rotated_q */
  DLTensor* rotated_q;
} KilnAppendOptions;
#define KILN_APPEND_DEFAULTS {sizeof(KilnAppendOptions), NULL, NULL, NULL}
/* k and v are [batch, key heads, tokens, width], or without the axis of tokens; lengths is [batch]. */
int kiln_cache_append(const DLTensor* k, const DLTensor* v, const DLTensor* lengths,
                      const KilnKeyValueCache* cache, const KilnAppendOptions* options);

typedef struct {
  size_t size;
  double scale;
  int64_t appended; /* the keys that each sequence has besides those that lengths counts */
  int64_t causal;   /* 1 by default */
  int64_t window_before;
  double soft_cap;
  const DLTensor* sinks;
  DLTensor* lse;
  int64_t batch_invariant;
} KilnDecodeOptions;
#define KILN_DECODE_DEFAULTS {sizeof(KilnDecodeOptions), 0, 0, 1, -1, 0, NULL, NULL, 0}
/* q and o are [batch, heads, queries, width], or without the axis of queries; lengths is [batch]. */
int kiln_attention_decode(const DLTensor* q, const KilnKeyValueCache* cache, const DLTensor* lengths,
                          DLTensor* o, const KilnDecodeOptions* options);

/* --- Mixtures of experts: routing.h --------------------------------------------------------------------- */

typedef struct {
  size_t size;
  const char* scores; /* "softmax" or "sigmoid"; null: "softmax" */
  int64_t renormalise;
  double scale;
  const DLTensor* bias; /* [E] */
} KilnRouteOptions;
#define KILN_ROUTE_DEFAULTS {sizeof(KilnRouteOptions), NULL, 0, 1, NULL}
/* logits is [T, E]; experts, of int32 or int64, and weights are [T, k]. */
int kiln_route_topk(const DLTensor* logits, DLTensor* experts, DLTensor* weights,
                    const KilnRouteOptions* options);
/* experts is [T, k], offsets [E + 1], order [T k] and place [T, k]. */
int kiln_group_by_expert(const DLTensor* experts, DLTensor* offsets, DLTensor* order, DLTensor* place);
typedef struct {
  size_t size;
  int64_t slots; /* the pairs of a token; 1 */
} KilnPermuteOptions;
#define KILN_PERMUTE_DEFAULTS {sizeof(KilnPermuteOptions), 1}
/* Computes y[i] = x[order[i] / slots], and y[t] = the sum of weights[t, s] rows[place[t, s]]. Null weights
 * are ones. */
int kiln_permute_rows(const DLTensor* x, const DLTensor* order, DLTensor* y,
                      const KilnPermuteOptions* options);
int kiln_combine_rows(const DLTensor* rows, const DLTensor* place, const DLTensor* weights, DLTensor* y);

#ifdef __cplusplus
}
#endif
KILN_API_END

#endif
