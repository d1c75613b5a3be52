/* Calls Kiln from C, which checks that ops/c_api.h is a header of C11. */
#include <kiln/ops/c_api.h>

#include <string.h>

static DLTensor matrix(float* data, int64_t* shape) {
  DLTensor t;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.device.device_type = kDLCPU;
  t.ndim = 2;
  t.dtype.code = kDLFloat;
  t.dtype.bits = 32;
  t.dtype.lanes = 1;
  t.shape = shape;
  return t;
}

/* Computes y = x / sqrt(mean of x^2 + eps), which are 2 x 3, with the header's macro for options. */
int kiln_test_rmsnorm_in_c(float* x, float* y, double eps) {
  int64_t shape[2] = {2, 3};
  DLTensor in = matrix(x, shape), out = matrix(y, shape);
  KilnNormOptions options = KILN_NORM_DEFAULTS;
  options.eps = eps;
  return kiln_rmsnorm(&in, NULL, &out, &options);
}

/* Whether the macros set the sizes of all structs. */
int kiln_test_sizes_in_c(void) {
  KilnMatmulOptions a = KILN_MATMUL_DEFAULTS;
  KilnMatmulBackwardOptions b = KILN_MATMUL_BACKWARD_DEFAULTS;
  KilnGroupedBackwardOptions c = KILN_GROUPED_BACKWARD_DEFAULTS;
  KilnSoftmaxOptions d = KILN_SOFTMAX_DEFAULTS;
  KilnNormOptions e = KILN_NORM_DEFAULTS;
  KilnNormBackwardOptions f = KILN_NORM_BACKWARD_DEFAULTS;
  KilnDropoutOptions g = KILN_DROPOUT_DEFAULTS;
  KilnAttentionOptions h = KILN_ATTENTION_DEFAULTS;
  KilnRotaryOptions i = KILN_ROTARY_DEFAULTS;
  KilnKeyValueCache j = KILN_KEY_VALUE_CACHE_DEFAULTS;
  KilnAppendOptions k = KILN_APPEND_DEFAULTS;
  KilnDecodeOptions l = KILN_DECODE_DEFAULTS;
  KilnRouteOptions m = KILN_ROUTE_DEFAULTS;
  KilnPermuteOptions n = KILN_PERMUTE_DEFAULTS;
  return a.size == sizeof a && b.size == sizeof b && c.size == sizeof c && d.size == sizeof d &&
         e.size == sizeof e && f.size == sizeof f && g.size == sizeof g && h.size == sizeof h &&
         i.size == sizeof i && j.size == sizeof j && k.size == sizeof k && l.size == sizeof l &&
         m.size == sizeof m && n.size == sizeof n;
}
