// Implements the norm of gradients with a kernel that adds the squares of groups of elements, and clipping
// with one that multiplies.
#include <kiln/collectives/gradient_norm.h>

#include <kiln/collectives/arrays.h>
#include <kiln/collectives/gather_numbers.h>
#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/copy.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/erased_view.h>
#include <kiln/ops/detail/heuristics.h>
#include <kiln/ops/detail/op_kernel.h>
#include <kiln/ops/detail/workspace.h>
#include <kiln/ops/dims.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace kiln::collectives {
namespace {

using ops::Array, ops::BM, ops::BN;
using ops::detail::Checks, ops::detail::ErasedView, ops::detail::Handle, ops::detail::OpVariant,
    ops::detail::StreamAt, ops::detail::Workspace;

// x [rows, columns], sums [groups of rows, groups of columns] of f64, and the sizes of a group. A program
// adds the squares of one group in order.
void squares_body(const OpVariant& v, const Handle* arguments) {
  ops::detail::with_compute_type(v, [&]<class A>(A) {
    using Number = Scalar<std::int64_t>;
    const ErasedView<A, 2> x(arguments[0]);
    const ErasedView<double, 2> sums(arguments[1]);
    const Number rows(arguments[2]), columns(arguments[3]);
    auto [m, n] = program_tile(sums.view(), each, each);
    Number row = m * rows, column = n * columns, last_row = min(row + rows, x.rows()),
           last_column = min(column + columns, x.cols());
    auto total = for_range(row, last_row, Number(1), zeros<double>(BN), [&](auto i, auto total) {
      return for_range(BN, range(column, last_column), total, [&](auto j, auto total) {
        Tile t = cast<double>(x.tile(i, j).load());
        return total + t * t;
      });
    });
    sums.at(m, n).store(sum(total));
  });
}
constinit const ops::detail::OpKernel squares_kernel("sum_of_squares", squares_body);

void scale_body(const OpVariant& v, const Handle* arguments) {
  ops::detail::with_compute_type(v, [&]<class A>(A) {
    const ErasedView<A, 2> x(arguments[0]);
    const Scalar<A> factor(arguments[1]);
    auto [m, n] = program_tile(x.view(), BM, BN);
    x.tile(m, n).store(x.tile(m, n).load() * factor);
  });
}
constinit const ops::detail::OpKernel scale_kernel("scale_gradient", scale_body);

Array matrix_of(const Checks& check, std::size_t i, const GradientShard& shard, int ranks) {
  const std::string name = "gradients[" + std::to_string(i) + "]";
  const auto require = [&](bool right, const char* mistake) {
    if (!right) check.that(false, (name + mistake).c_str());
  };
  require(shard.gradient.given(), " is not given; pass a tensor");
  const Array& a = shard.gradient.array();
  check.floats({name.c_str(), a});
  require(shard.copies >= 1 && shard.copies <= ranks,
          ".copies is not between 1 and the number of ranks; pass how many ranks have this gradient");
  if (kiln::detail::is_contiguous(a.rank, a.extents, a.strides))
    return contiguous_array(a.data, a.dtype, {1, a.size()});
  require(a.rank == 2 && a.strides[1] == 1 && a.strides[0] >= a.extents[1],
          " is neither contiguous nor a matrix whose rows are contiguous; copy it, or pass its parts");
  return a;
}

std::vector<Array> matrices_of(const Checks& check, const std::vector<GradientShard>& gradients, int ranks) {
  std::vector<Array> matrices;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    matrices.push_back(matrix_of(check, i, gradients[i], ranks));
  return matrices;
}

// The groups of elements whose squares one program adds. They depend on the extents only.
struct Groups {
  std::int64_t rows, columns; // of a group
  std::int64_t row_groups, column_groups;
  std::int64_t count() const { return row_groups * column_groups; }
};
// A heuristic: a group has up to 32768 elements, for which the launch of a program takes little time.
Groups groups_of(const Array& x) {
  constexpr std::int64_t most = 32768;
  const auto groups = [](std::int64_t all, std::int64_t size) { return (all + size - 1) / size; };
  const std::int64_t columns = std::min(std::max<std::int64_t>(x.extents[1], 1), most),
                     rows = std::max<std::int64_t>(most / columns, 1);
  return {rows, most, groups(x.extents[0], rows), groups(x.extents[1], most)};
}

// A heuristic: the sums of a tile stay in registers, and narrow matrices fill tiles.
Config squares_config(Device device) {
  Config config{BN = device.is_cpu() ? 64 : 512};
  if (!device.is_cpu()) config.set(num_warps = 4);
  return config;
}

double norm_of(StreamAt stream, Communicator& comm, const std::vector<GradientShard>& gradients,
               const std::vector<Array>& matrices, const std::string& tag) {
  std::int64_t count = 0;
  for (const Array& x : matrices)
    count += groups_of(x).count();
  std::vector<double> sums(static_cast<std::size_t>(count));
  if (count > 0) {
    Workspace workspace(stream, Workspace::bytes(DType::F64, count));
    const Array all = workspace.take(DType::F64, {count}).array();
    auto* next = static_cast<double*>(all.data);
    for (const Array& x : matrices) {
      const Groups groups = groups_of(x);
      if (groups.count() == 0) continue;
      const Array to = contiguous_array(next, DType::F64, {groups.row_groups, groups.column_groups});
      squares_kernel.launch(stream, squares_config(stream.stream.device()),
                            {ops::detail::compute_dtype({&x})}, {x, to, groups.rows, groups.columns});
      next += groups.count();
    }
    copy(stream.stream, sums.data(), all.data, count * size_of(DType::F64), stream.site);
    workspace.free();
  }
  stream.stream.synchronize();
  double own = 0;
  const double* next = sums.data();
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    double squares = 0;
    for (std::int64_t n = groups_of(matrices[i]).count(); n > 0; --n)
      squares += *next++;
    own += squares / gradients[i].copies;
  }
  std::vector<double> of_ranks(static_cast<std::size_t>(comm.size()));
  gather_numbers(comm, "gradient_norm", {.tag = tag}, &own, of_ranks.data(), sizeof own);
  double total = 0;
  for (double of_rank : of_ranks)
    total += of_rank;
  return std::sqrt(total);
}

void scale(StreamAt stream, const std::vector<Array>& matrices, double factor) {
  for (const Array& x : matrices) {
    if (x.size() == 0) continue;
    const OpVariant variant{ops::detail::compute_dtype({&x})};
    scale_kernel.launch(stream, ops::detail::elements_config(stream.stream.device(), x.extents[1]), variant,
                        {x, {variant.compute, factor}});
  }
}

} // namespace

double gradient_norm(StreamAt stream, Communicator& comm, const std::vector<GradientShard>& gradients,
                     const std::string& tag) {
  const Checks check("gradient_norm", stream);
  return norm_of(stream, comm, gradients, matrices_of(check, gradients, comm.size()), tag);
}

double clip_gradient_norm(StreamAt stream, Communicator& comm, const std::vector<GradientShard>& gradients,
                          double max_norm, const ClipOptions& options) {
  const Checks check("clip_gradient_norm", stream);
  check.that(max_norm >= 0, "max_norm is negative or NaN; pass the largest norm that gradients may have");
  const std::vector<Array> matrices = matrices_of(check, gradients, comm.size());
  const double norm = norm_of(stream, comm, gradients, matrices, options.tag);
  check.that(std::isfinite(norm) || !options.error_if_nonfinite,
             "the norm of the gradients is infinite or NaN; skip the step, or look for the loss that is not "
             "finite");
  if (std::isfinite(norm) && norm > max_norm) scale(stream, matrices, max_norm / norm);
  return norm;
}

} // namespace kiln::collectives
