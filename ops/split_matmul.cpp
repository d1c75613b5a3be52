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

} // namespace

std::int64_t split_part(Device device, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                        std::uint32_t options) {
  if (std::getenv("KILN_PART")) return std::atoll(std::getenv("KILN_PART"));
  (void)device, (void)dtype, (void)m, (void)n, (void)k, (void)options;
  return 0;
}

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
  Config config = matmul_config(device, call.a.dtype, m, n * parts, part);
  config.set(PART = part);
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
