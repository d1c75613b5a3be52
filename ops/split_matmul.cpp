// Implements products whose K is divided into parts: their kernels, and when they pay.
#include <kiln/ops/detail/split_matmul.h>

#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/runtime/rehearsing.h>
#include <kiln/ops/detail/workspace.h>
#include <kiln/ops/matmul.h>

#include <algorithm>

namespace kiln::ops::detail {
namespace {

KILN_DIM(PART); // the K of a part

std::int64_t blocks(std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile; }

// The parameters are a, b and the sums [parts, M, N].
template <class A> void record_parts(const OpVariant& v, const Handle* next) {
  const ErasedView<A, 2> a(*next++), b(*next++);
  const ErasedView<A, 3> sums(*next++);
  expects(a.cols() == b.rows(), "a's columns and b's rows");
  expects(a.rows() == sums.extent(1), "a's rows and those of the sums");
  expects(b.cols() == sums.extent(2), "b's columns and those of the sums");
  const auto at = ProgramTile<3>::of(sums); // its batch is a part
  const Scalar<std::int64_t> begin = at.batch * dim_size(PART), end = min(begin + dim_size(PART), a.cols());
  const DotOptions options = dot_options_of(v.options);
  at.tile(sums, at.m, at.n).store(for_range(BK, range(begin, end), zeros<A>(BM, BN), [&](auto k, auto sum) {
    return dot_erased(a.tile(at.m, k).load_as_stored(), b.tile(k, at.n).load_as_stored(), sum, options);
  }));
}

// The parameters are the sums and those of MatmulResult.
template <class A> void record_total(const OpVariant& v, const Handle* next) {
  const ErasedView<A, 3> sums(*next++);
  const MatmulResult<A, 2> result(v, next);
  expects(sums.extent(1) == result.c().rows(), "the rows of the sums and c's");
  expects(sums.extent(2) == result.c().cols(), "the columns of the sums and c's");
  const auto at = ProgramTile<2>::of(result.c());
  result.store(for_range(Scalar<std::int64_t>(0), sums.extent(0), Scalar<std::int64_t>(1), zeros<A>(BM, BN),
                         [&](auto part, auto total) { return total + sums.tile(part, at.m, at.n).load(); }),
               at);
}

void parts_body(const OpVariant& v, const Handle* arguments) {
  with_sum_type(v, [&]<class A>(A) { record_parts<A>(v, arguments); });
}
void total_body(const OpVariant& v, const Handle* arguments) {
  with_sum_type(v, [&]<class A>(A) { record_total<A>(v, arguments); });
}

constinit const OpKernel parts_kernel("matmul_parts", parts_body);
constinit const OpKernel total_kernel("matmul_total", total_body);

// Heuristic for CPUs: products are divided if the result has fewer tiles than there are threads
// (tuning/ops.h). With a fixed order, few columns are divided for any number of rows, since their sums take
// at most a 30th of the memory of an `a` of f32; on one thread that takes 0 to 6 % more time.
std::int64_t cpu_part(Device device, std::int64_t m, std::int64_t n, std::int64_t k, bool fixed) {
  namespace tuning = cpu::tuning;
  if (k < 4 * tuning::least_part_k) return 0;
  const bool few =
      blocks(m, tuning::undivided_tile) * blocks(n, tuning::undivided_tile) < device.properties().num_threads;
  if (fixed ? n > tuning::undivided_tile : !few) return 0;
  return k / 8 > tuning::least_part_k ? tuning::most_part_k : tuning::least_part_k;
}

// Heuristic for GPUs, which is not measured yet: parts are a 32nd of K, but 512 to 4096 long, if the tiles of
// the result leave half of the multiprocessors idle. With a fixed order, the parts grow with n, so that the
// sums take at most a quarter of the memory of an `a` of 16-bit floats.
std::int64_t gpu_part(Device device, const Config& config, std::int64_t m, std::int64_t n, std::int64_t k,
                      bool fixed) {
  constexpr std::int64_t least = 512, most = 4096;
  if (k < 4 * least) return 0;
  const std::int64_t tiles = blocks(m, *config.get("BM")) * blocks(n, *config.get("BN"));
  if (!fixed && 2 * tiles > device.properties().multiprocessors) return 0;
  std::int64_t part = least;
  while (part < most && (part * 32 < k || (fixed && part < 8 * n)))
    part *= 2;
  return k < 4 * part || (fixed && part < 8 * n) ? 0 : part;
}

} // namespace

std::int64_t split_part(Device device, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                        std::uint32_t options) {
  if (m == 0 || n == 0) return 0;
  const bool fixed = options & matmul_fixed_order;
  if (device.is_cpu()) return cpu_part(device, m, n, k, fixed);
  return gpu_part(device, matmul_config(device, dtype, m, n, k), m, n, k, fixed);
}

namespace {

// Parts are as many rows for the threads to share. No tile has more rows than cover the matrix.
Config config_of_parts(Device device, DType dtype, std::int64_t m, std::int64_t n, std::int64_t part,
                       std::int64_t parts) {
  Config config = matmul_config(device, dtype, device.is_cpu() ? m * parts : m, n, part);
  std::int64_t rows = 8;
  while (rows < m)
    rows *= 2;
  config.set(BM = std::min(*config.get("BM"), device.is_cpu() ? rows : std::max<std::int64_t>(rows, 16)));
  config.set(PART = part);
  return config;
}

} // namespace

void launch_split(const char* op, const StreamAt& at, const MatmulCall& call, std::int64_t part) {
  const Device device = at.stream.device();
  const std::int64_t m = call.c.extents[0], n = call.c.extents[1], k = call.a.extents[1],
                     parts = blocks(k, part);
  if (kiln::detail::notes_paths())
    kiln::detail::note_path(std::string(op) + " divides a K of " + std::to_string(k) + " into " +
                            std::to_string(parts) + " parts, whose sums a second kernel adds");
  const DType sum_type = call.variant.compute;
  Workspace workspace(at, Workspace::bytes(sum_type, parts * m * n));
  const Output sums = workspace.take(sum_type, {parts, m, n});

  OpVariant of_parts{sum_type, call.options & (matmul_tf32 | matmul_fixed_order)};
  const Config config = config_of_parts(device, call.a.dtype, m, n, part, parts);
  parts_kernel.launch(at, config, of_parts, {call.a, call.b, sums});

  const Input read(sums.array());
  OpArguments list{read};
  call.add_result(list);
  Config adding{BM = 8, BN = 64};
  if (!device.is_cpu()) adding.set(num_warps = 4);
  total_kernel.launch(at, adding, call.variant, list);
  workspace.free();
}

} // namespace kiln::ops::detail
