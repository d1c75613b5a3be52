// Declares the kernels of ops that the tuner, tests and benchmarks launch with configs of their own. Their
// dimensions are those of dims.h.
#pragma once

#include <kiln/ops/detail/op_kernel.h>

KILN_API_BEGIN
namespace kiln::ops::detail {

// --- Kernels on the rows of matrices -----------------------------------------------------------------------

// The first kernel of each kind requires that BN is at least as wide as the rows, and reads them once; the
// looped one works for any BN.
extern const OpKernel softmax_kernel, softmax_looped_kernel; // x, y
// x, gamma, beta, residual, y, sum, eps: those that the options name, and x, y and eps. Without
// norm_centred, the mean is not subtracted; layernorm has this option.
extern const OpKernel layernorm_kernel, layernorm_looped_kernel, rmsnorm_kernel, rmsnorm_looped_kernel;
inline constexpr std::uint32_t norm_centred = 1, norm_gamma = 2, norm_beta = 4, norm_residual = 8,
                               norm_sum = 16;

// --- Products ----------------------------------------------------------------------------------------------

// a, b, bias, times, residual, c, alpha, beta: those that the options name, and a, b and c. The lowest two
// bits of the options are the activation, matmul_tf32 is the precision of f32 factors, and matmul_fixed_order
// the order of sums. Of matrices.
extern const OpKernel matmul_kernel;
inline constexpr std::uint32_t matmul_activation = 3, matmul_bias = 4, matmul_times = 8, matmul_residual = 16,
                               matmul_alpha = 32, matmul_beta = 64, matmul_tf32 = 128,
                               matmul_fixed_order = 256;

// --- Attention ---------------------------------------------------------------------------------------------

// A heuristic config; `masked` if some keys are hidden from some queries.
Config attention_config(Device device, std::int64_t queries, std::int64_t width, std::int64_t values,
                        bool masked);
// A heuristic for the gradients of attention.
Config attention_backward_config(Device device, std::int64_t queries, std::int64_t keys, std::int64_t width,
                                 std::int64_t values);

// --- Recordings for arguments of one dtype -----------------------------------------------------------------

std::shared_ptr<ir::Kernel> record_matmul(DType dtype, const Config& config);
// These record the first kernel or, if not `whole`, the looped one.
std::shared_ptr<ir::Kernel> record_softmax(DType dtype, const Config& config, bool whole);
std::shared_ptr<ir::Kernel> record_layernorm(DType dtype, const Config& config, bool whole);
std::shared_ptr<ir::Kernel> record_attention(DType dtype, const Config& config, bool causal);

// An array of a dtype and rank without memory, with which a kernel can be recorded.
Array reading(DType dtype, int rank);
Array writing(DType dtype, int rank);

} // namespace kiln::ops::detail
KILN_API_END
