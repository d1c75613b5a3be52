/* Declares Kiln's ops as C functions on DLPack tensors, which NumPy, PyTorch and other libraries can provide
 * without a copy.
 *
 *   DLTensor x = ..., y = ...;
 *   KilnNormOptions options = KILN_NORM_DEFAULTS;
 *   options.eps = 1e-6;
 *   if (kiln_rmsnorm(&x, NULL, &y, &options) != KILN_OK) puts(kiln_last_error());
 *
 * Each C++ op is a function here, with the prefix kiln_ and the same parameters, without the stream. A null
 * pointer stands for an optional tensor that is not given. C has no lambdas; instead, common epilogues are
 * members of KilnMatmulOptions, and common scores and masks are members of KilnAttentionOptions.
 *
 * Each tensor has a dtype of its own: float32, float64, bfloat16, float16, float8_e4m3fn or float8_e5m2, and
 * where the op takes them int8, uint8, int32 or int64. Tensors may have any rank up to 8 that the op takes,
 * and any strides, which count elements; null strides mean row-major order. The tensors of a call are all on
 * the CPU (pinned memory of CUDA counts as such), or all on the same CUDA device. On a CUDA device, functions
 * use its default stream, or the stream of kiln_set_cuda_stream. A function returns when the result has been
 * written to the memory of the output tensor, except after kiln_set_cuda_stream; it does not keep or free any
 * memory. Its return value is KILN_OK or an error code. Shapes, aliasing, accuracy and errors are as in the
 * headers of the C++ ops, which are named below. If a function returns KILN_USER_ERROR because of its
 * arguments, nothing was written. All functions are thread-safe.
 *
 * Options are structs whose first member is their size. KILN_..._DEFAULTS sets it and all other members. A
 * null pointer stands for these defaults, except for a KilnKeyValueCache, which is required. Later versions
 * of Kiln add members at the end; for programs that were compiled with an earlier version, these have their
 * default values. Flags are 0 or 1.
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
/* Returns the error message of the last op that this thread called, or "" if that op returned KILN_OK. The
 * text is valid until this thread calls the next op. */
const char* kiln_last_error(void);
/* From now on, functions that this thread calls for tensors on a CUDA device queue their work on this stream
 * of the device, a CUstream or cudaStream_t, and return without waiting for it. So calls can be captured in a
 * CUDA graph. The stream must live until another one is set, and the tensors of a call until its work has
 * finished. Null stands for the default stream, for which functions wait. */
void kiln_set_cuda_stream(void* stream);

/* --- Products: matmul.h, matmul_backward.h, grouped_matmul.h -------------------------------------------- */

typedef struct {
  size_t size;
  const char* activation; /* "none", "relu", "gelu" or "silu"; null: "none" */
  double alpha, beta;
  const DLTensor *bias, *times, *residual;
  const char* precision; /* of products of float32: "ieee" or "tf32"; null: "ieee" */
  int64_t batch_invariant;
} KilnMatmulOptions;
#define KILN_MATMUL_DEFAULTS {sizeof(KilnMatmulOptions), NULL, 1, 0, NULL, NULL, NULL, NULL, 0}
/* Computes c = activation(alpha a b + bias) * times + residual + beta c for a [.., M, K], b [.., K, N] and c
 * [.., M, N]; the axes in front are batches, to which a and b broadcast. bias is [N]; times and residual have
 * the extents of c, and may be c. a and b may also be both int8 or both uint8, with an int32 result and no
 * epilogue except beta = 1. */
int kiln_matmul(const DLTensor* a, const DLTensor* b, DLTensor* c, const KilnMatmulOptions* options);
/* Computes y[.., M, N] = activation(x[.., M, K] weight[K, N] + bias[N]), and the other options of
 * kiln_matmul. The parameter bias is required, and the option `bias` is an error. */
int kiln_linear(const DLTensor* x, const DLTensor* weight, const DLTensor* bias, DLTensor* y,
                const KilnMatmulOptions* options);

typedef struct {
  size_t size;
  const char* activation; /* of the forward call */
  const DLTensor* before; /* the argument of the activation, alpha a b + bias; null if there is none */
  double alpha;
  DLTensor* dbias;    /* [N], the gradient with respect to the bias; null: not computed */
  int64_t accumulate; /* 1: adds to the present contents of da, db and dbias */
  const char* precision;
  int64_t batch_invariant; /* for da only */
} KilnMatmulBackwardOptions;
#define KILN_MATMUL_BACKWARD_DEFAULTS {sizeof(KilnMatmulBackwardOptions), NULL, NULL, 1, NULL, 0, NULL, 0}
/* Computes the gradients da and db, with respect to a and b, of c = activation(alpha a b + bias) from dc, the
 * gradient with respect to c. Null leaves out a result, but not all of da, db and dbias. */
int kiln_matmul_backward(const DLTensor* a, const DLTensor* b, const DLTensor* dc, DLTensor* da, DLTensor* db,
                         const KilnMatmulBackwardOptions* options);
/* Computes the gradients of kiln_linear, for which weight is b. */
int kiln_linear_backward(const DLTensor* x, const DLTensor* weight, const DLTensor* dy, DLTensor* dx,
                         DLTensor* dweight, const KilnMatmulBackwardOptions* options);

/* Multiplies each group of rows by its own matrix: a [rows, K], b [groups, K, N], offsets [groups + 1], of
 * int32 or int64, and c [rows, N]. The option `bias` is [groups, N]. */
int kiln_grouped_matmul(const DLTensor* a, const DLTensor* b, const DLTensor* offsets, DLTensor* c,
                        const KilnMatmulOptions* options);
typedef struct {
  size_t size;
  double alpha, beta;
} KilnGroupedBackwardOptions;
#define KILN_GROUPED_BACKWARD_DEFAULTS {sizeof(KilnGroupedBackwardOptions), 1, 0}
/* Computes db [groups, K, N], the gradient with respect to b. For the gradient with respect to a, call
 * kiln_grouped_matmul with dc, and with b whose last two axes are exchanged. */
int kiln_grouped_matmul_backward_b(const DLTensor* a, const DLTensor* dc, const DLTensor* offsets,
                                   DLTensor* db, const KilnGroupedBackwardOptions* options);

/* --- Normalisation: softmax.h, norm.h ------------------------------------------------------------------- */

typedef struct {
  size_t size;
  int64_t axis; /* counts from the last axis if negative */
  int64_t batch_invariant;
} KilnSoftmaxOptions;
#define KILN_SOFTMAX_DEFAULTS {sizeof(KilnSoftmaxOptions), -1, 0}
/* Compute softmax and its logarithm along one axis; y may be x. The gradients are computed from the result y
 * and the gradient dy with respect to it; dx may be y or dy. */
int kiln_softmax(const DLTensor* x, DLTensor* y, const KilnSoftmaxOptions* options);
int kiln_log_softmax(const DLTensor* x, DLTensor* y, const KilnSoftmaxOptions* options);
int kiln_softmax_backward(const DLTensor* y, const DLTensor* dy, DLTensor* dx,
                          const KilnSoftmaxOptions* options);
int kiln_log_softmax_backward(const DLTensor* y, const DLTensor* dy, DLTensor* dx,
                              const KilnSoftmaxOptions* options);

typedef struct {
  size_t size;
  double eps;               /* 1e-5 */
  const DLTensor* residual; /* if given, x + residual is normalised instead of x */
  DLTensor* sum;            /* if given, x + residual is stored here; only with residual */
  int64_t batch_invariant;
} KilnNormOptions;
#define KILN_NORM_DEFAULTS {sizeof(KilnNormOptions), 1e-5, NULL, NULL, 0}
/* Normalise x [.., N] along its last axis. y may be x; gamma and beta are [N], or null. */
int kiln_layernorm(const DLTensor* x, const DLTensor* gamma, const DLTensor* beta, DLTensor* y,
                   const KilnNormOptions* options);
int kiln_rmsnorm(const DLTensor* x, const DLTensor* gamma, DLTensor* y, const KilnNormOptions* options);

typedef struct {
  size_t size;
  double eps;
  const DLTensor *residual, *dsum; /* as in NormBackwardOptions of norm.h */
  int64_t accumulate;              /* 1: adds to the present contents of dgamma and dbeta */
  int64_t batch_invariant;         /* for dx only */
} KilnNormBackwardOptions;
#define KILN_NORM_BACKWARD_DEFAULTS {sizeof(KilnNormBackwardOptions), 1e-5, NULL, NULL, 0, 0}
/* Compute the gradients dx, dgamma and dbeta from dy, that with respect to y. Null leaves out gamma, or a
 * result. */
int kiln_layernorm_backward(const DLTensor* x, const DLTensor* gamma, const DLTensor* dy, DLTensor* dx,
                            DLTensor* dgamma, DLTensor* dbeta, const KilnNormBackwardOptions* options);
int kiln_rmsnorm_backward(const DLTensor* x, const DLTensor* gamma, const DLTensor* dy, DLTensor* dx,
                          DLTensor* dgamma, const KilnNormBackwardOptions* options);

/* --- Elementwise: elementwise.h ------------------------------------------------------------------------- */

/* Compute y = activation(x), and y = activation(gate) * up. The inputs broadcast to y, which may be one of
 * them. The activation is named as in KilnMatmulOptions; null stands for "none" in all of these functions, so
 * pass "silu" for SwiGLU. */
int kiln_activation(const DLTensor* x, DLTensor* y, const char* activation);
int kiln_activation_mul(const DLTensor* gate, const DLTensor* up, DLTensor* y, const char* activation);
/* Computes dx from x, the argument of the activation, and dy, the gradient with respect to y. */
int kiln_activation_backward(const DLTensor* x, const DLTensor* dy, DLTensor* dx, const char* activation);
/* Computes dgate and dup, the gradients with respect to gate and up. Null leaves out a result. */
int kiln_activation_mul_backward(const DLTensor* gate, const DLTensor* up, const DLTensor* dy,
                                 DLTensor* dgate, DLTensor* dup, const char* activation);
typedef struct {
  size_t size;
  double probability; /* the probability that an element becomes zero; 0.5 */
  uint64_t seed;
  int64_t first, whole_columns; /* for a part of a tensor, as in DropoutOptions of elementwise.h; 0 */
} KilnDropoutOptions;
#define KILN_DROPOUT_DEFAULTS {sizeof(KilnDropoutOptions), 0.5, 0, 0, 0}
/* Sets elements to zero, which depends on the seed and the number of the element only, and divides the others
 * by 1 - probability. The gradient is kiln_dropout of dy with the same options. */
int kiln_dropout(const DLTensor* x, DLTensor* y, const KilnDropoutOptions* options);

/* --- Attention: attention.h, attention_backward.h ------------------------------------------------------- */

/* In the shapes below, `batches` is the product of the extents of q's axes in front of the heads, or 1 if
 * there are none; batches are numbered in row-major order. Lengths and documents are of int32 or int64. The
 * position of query i is i, or with align_last i + keys - queries. */
typedef struct {
  size_t size;
  double scale;                        /* 0: 1 / sqrt(width) */
  int64_t causal;                      /* 1: a query sees no key after its own position */
  int64_t align_last;                  /* 1: the last query is at the last key; 0: query i is at key i */
  int64_t window_before, window_after; /* how many keys before and after its own a query sees; -1: all */
  double soft_cap;                     /* scores become soft_cap * tanh(score / soft_cap); 0: they do not */
  double dropout;                      /* the probability with which a weight is dropped, from 0 to below 1 */
  uint64_t seed;                       /* determines the weights that are dropped */
  const DLTensor* sinks; /* [heads]: for each head, the score of one more key, whose value is zero */
  DLTensor* lse;         /* a result, the log-sum-exp, [.., heads, queries]; for kiln_attention only */
  DLTensor* dsinks;      /* a result, for kiln_attention_backward only: the gradient with respect to sinks */
  /* Terms that are added to scores, after soft_cap. These tensors get no gradient. */
  const DLTensor* alibi_slopes;  /* [heads]: adds -slope * |key - position| (Press et al., 2021) */
  const DLTensor* bias;          /* [batches, heads, queries, keys], or a shape that broadcasts to that */
  const DLTensor* relative_bias; /* [heads or 1, 2 n + 1]: adds element n + key - position of the head's row;
                                    keys at a distance above n get the element of the distance n */
  /* Masks. A query sees a key if causal, the windows and all masks that are given allow it. */
  const DLTensor* prefix_lengths; /* [batches], requires causal: a query also sees the first prefix_lengths[b]
                                     keys, even those after its position */
  const DLTensor* key_lengths;    /* [batches]: a query sees only the first key_lengths[b] keys */
  const DLTensor* documents;      /* [batches, queries]: a query sees only the keys of its own document */
  const DLTensor* key_documents;  /* [batches, keys]: the documents of the keys; null: those of the queries */
  /* For ragged batches: where each sequence begins, and then where the last one ends: [sequences + 1], of
     int32 or int64. Both or none are given. With them, bias, prefix_lengths, key_lengths, documents and
     key_documents are errors (begin a sequence at each document instead), and so are alibi_slopes and
     relative_bias together with align_last. */
  const DLTensor *query_offsets, *key_offsets;
  int64_t batch_invariant;
  int64_t first_head, whole_heads; /* for dropout with a part of the heads, as in attention_options.h; 0 */
} KilnAttentionOptions;
/* clang-format off */
#define KILN_ATTENTION_DEFAULTS                                                                              \
  {sizeof(KilnAttentionOptions), 0, 0, 0, -1, -1, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,   \
   NULL, NULL, NULL, NULL, 0, 0, 0}
/* clang-format on */
/* Computes o = softmax(scale q k^T) v for q [.., heads, queries, width], k [.., key heads, keys, width],
 * v [.., key heads, keys, width of v] and o [.., heads, queries, width of v]. */
int kiln_attention(const DLTensor* q, const DLTensor* k, const DLTensor* v, DLTensor* o,
                   const KilnAttentionOptions* options);
/* Computes dq, dk and dv, the gradients with respect to q, k and v, from q, k, v, o and lse of
 * kiln_attention, the gradient dout with respect to o, and the same options. Null leaves out a result. */
int kiln_attention_backward(const DLTensor* dout, const DLTensor* q, const DLTensor* k, const DLTensor* v,
                            const DLTensor* o, const DLTensor* lse, DLTensor* dq, DLTensor* dk, DLTensor* dv,
                            const KilnAttentionOptions* options);

/* --- Position embedding and caches: rotary.h, kv_cache.h, decode.h -------------------------------------- */

typedef struct {
  size_t size;
  const char* pairs; /* "halves" or "interleaved"; null: "halves" */
  int64_t width;     /* how many elements at the beginning of a head are rotated, an even number; 0: all */
  double theta;      /* 10000 */
  const DLTensor *cos, *sin; /* [positions, width / 2]; both or none */
  const DLTensor* positions; /* of int32 or int64, broadcast to x without its last axis; null: 0, 1, .. */
  int64_t offset;            /* added to positions */
} KilnRotaryOptions;
#define KILN_ROTARY_DEFAULTS {sizeof(KilnRotaryOptions), NULL, 0, 10000, NULL, NULL, NULL, 0}
/* Rotates pairs of elements of x by angles that depend on the token's position. x and y are [.., tokens, head
 * size]; y may be x. kiln_rotary_backward computes dx from dy, with the options of the forward call. */
int kiln_rotary(const DLTensor* x, DLTensor* y, const KilnRotaryOptions* options);
int kiln_rotary_backward(const DLTensor* dy, DLTensor* dx, const KilnRotaryOptions* options);

/* A contiguous cache, whose keys and values are [batch, key heads, capacity, width], or with `blocks` a paged
 * one, where they are [pages, key heads, page size, width]. A cache of int8 has scales, whose shape is that
 * of keys without the last axis. kiln_attention_decode only reads a cache. */
typedef struct {
  size_t size;
  DLTensor *keys, *values;
  const DLTensor* blocks; /* [batch, pages of a sequence], of int32 or int64: numbers of pages */
  DLTensor *key_scales, *value_scales;
} KilnKeyValueCache;
#define KILN_KEY_VALUE_CACHE_DEFAULTS {sizeof(KilnKeyValueCache), NULL, NULL, NULL, NULL, NULL}
typedef struct {
  size_t size;
  const KilnRotaryOptions* rotary; /* without positions; null: keys are not rotated */
  const DLTensor* q;               /* if given, it is rotated like k, and written to rotated_q */
  DLTensor* rotated_q;
} KilnAppendOptions;
#define KILN_APPEND_DEFAULTS {sizeof(KilnAppendOptions), NULL, NULL, NULL}
/* Adds the keys and values of new tokens to a cache. k and v are [batch, key heads, tokens, width], or for
 * one token without the axis of tokens. lengths is [batch], of int32 or int64: the number of tokens of each
 * sequence before the call, which does not change it. */
int kiln_cache_append(const DLTensor* k, const DLTensor* v, const DLTensor* lengths,
                      const KilnKeyValueCache* cache, const KilnAppendOptions* options);

typedef struct {
  size_t size;
  double scale;
  int64_t appended; /* the number of keys of each sequence in addition to those that lengths counts */
  int64_t causal;   /* 1 by default */
  int64_t window_before;
  double soft_cap;
  const DLTensor* sinks;
  DLTensor* lse;
  int64_t batch_invariant;
} KilnDecodeOptions;
#define KILN_DECODE_DEFAULTS {sizeof(KilnDecodeOptions), 0, 0, 1, -1, 0, NULL, NULL, 0}
/* Computes attention of a few queries with a cache. q and o are [batch, heads, queries, width], or for one
 * query without the axis of queries; lengths is [batch], of int32 or int64. */
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
/* Chooses k of E experts for each of T tokens. logits is [T, E]; the results experts, of int32 or int64, and
 * weights are [T, k]. */
int kiln_route_topk(const DLTensor* logits, DLTensor* experts, DLTensor* weights,
                    const KilnRouteOptions* options);
/* Sorts the T * k pairs of a token and a slot by expert. experts is [T, k]; the results are offsets [E + 1],
 * order [T * k] and place [T, k]. All are of int32 or int64. */
int kiln_group_by_expert(const DLTensor* experts, DLTensor* offsets, DLTensor* order, DLTensor* place);
typedef struct {
  size_t size;
  int64_t slots; /* k, the number of slots of each token; 1 */
} KilnPermuteOptions;
#define KILN_PERMUTE_DEFAULTS {sizeof(KilnPermuteOptions), 1}
/* kiln_permute_rows computes y[i] = x[order[i] / slots], and kiln_combine_rows computes y[t] = the sum over s
 * of weights[t, s] * rows[place[t, s]], where null weights are ones. */
int kiln_permute_rows(const DLTensor* x, const DLTensor* order, DLTensor* y,
                      const KilnPermuteOptions* options);
int kiln_combine_rows(const DLTensor* rows, const DLTensor* place, const DLTensor* weights, DLTensor* y);

#ifdef __cplusplus
}
#endif
KILN_API_END

#endif
