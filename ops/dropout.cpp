// Implements dropout: a kernel that computes the number of each element, and its random number from that.
#include <kiln/ops/elementwise.h>

#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/elements.h>

namespace kiln::ops {
namespace {

// An option of the kernels: the numbers of neighbours in a row differ by more than 1. This happens if x is
// one column of several, whose rows were merged to one.
constexpr std::uint32_t steps = 1;

// x, y, the seed, the probability, the factor of the elements that stay, and the numbers of the elements: the
// first one, the step from row to row, and the option's from column to column.
template <int Rank> void dropout_body(const detail::OpVariant& v, const detail::Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) {
    const detail::ErasedView<A, Rank> x(arguments[0]), y(arguments[1]);
    const Scalar<std::int64_t> seed(arguments[2]);
    const Scalar<float> probability(arguments[3]);
    const Scalar<A> factor(arguments[4]);
    detail::ElementNumbers numbers{
        Scalar<std::int64_t>(arguments[5]), Scalar<std::int64_t>(arguments[6]), {}};
    if (v.options & steps) numbers.column_step.emplace(arguments[7]);
    expects(x.rows() == y.rows(), "x's rows and y's rows");
    expects(x.cols() == y.cols(), "x's columns and y's columns");
    detail::each_element_tile(y, [&](const auto& tile) {
      tile.of(y).store(
          where(rand(seed, tile.numbers(y, numbers)) < probability, A(0), tile.of(x).load() * factor));
    });
  });
}

// The numbers of the elements of an array with y's extents, as its strides.
Array numbering_of(const Array& y, std::int64_t whole_columns) {
  Array n = y;
  std::int64_t step = 1;
  for (int axis = y.rank - 1; axis >= 0; --axis) {
    n.strides[axis] = step;
    step *= axis == y.rank - 1 ? whole_columns : y.extents[axis];
  }
  return n;
}

constinit const detail::OpKernel dropout_kernel("dropout", dropout_body<2>);
constinit const detail::OpKernel dropout_strided("dropout_strided", dropout_body<8>);

} // namespace

void dropout(detail::StreamAt stream, const Input& in, const Output& out, const DropoutOptions& options) {
  const char* const op = "ops::dropout";
  const detail::Checks check(op, stream);
  Array x = in.array(), y = out.array();
  check.floats({"x", x});
  check.tensor({"y", y}, 1);
  check.same_extents({"x", x}, {"y", y});
  check.writes({"y", y});
  check.apart_or_same({"y", y}, {"x", x});
  const double p = options.probability;
  check.that(p >= 0 && p <= 1, "the probability must be from 0 to 1");
  const std::int64_t columns = y.extents[y.rank - 1];
  check.that(options.first >= 0, "first is negative; pass the number of x's first element");
  check.that(options.whole_columns == 0 || options.whole_columns >= columns,
             "whole_columns is less than x's columns; pass the extent of the whole tensor's last axis");
  Array numbering = numbering_of(y, options.whole_columns > 0 ? options.whole_columns : columns);
  const detail::ElementLaunch launch{op, "dropout", dropout_kernel, dropout_strided,
                                     detail::MergeOrder::as_given};
  const bool matrices = merge_elements(launch, {&y, &x, &numbering});
  const std::int64_t row_step = numbering.strides[numbering.rank - 2],
                     column_step = numbering.strides[numbering.rank - 1];
  const detail::OpVariant variant{detail::compute_dtype({&x, &y}), column_step == 1 ? 0 : steps};
  detail::OpArguments list{x,
                           y,
                           static_cast<std::int64_t>(options.seed),
                           {DType::F32, p},
                           {variant.compute, p < 1 ? 1 / (1 - p) : 0},
                           options.first,
                           row_step};
  list.add_if(column_step != 1, column_step);
  launch_elements(launch, stream, matrices, y, variant, list);
}

} // namespace kiln::ops
