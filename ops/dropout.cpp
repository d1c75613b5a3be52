// Implements dropout: a kernel that computes the number of each element, and its random number from that.
#include <kiln/ops/elementwise.h>

#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/elements.h>

namespace kiln::ops {
namespace {

// x, y, the seed, the probability, and the factor of the elements that stay.
template <int Rank> void dropout_body(const detail::OpVariant& v, const detail::Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) {
    const detail::ErasedView<A, Rank> x(arguments[0]), y(arguments[1]);
    const Scalar<std::int64_t> seed(arguments[2]);
    const Scalar<float> probability(arguments[3]);
    const Scalar<A> factor(arguments[4]);
    expects(x.rows() == y.rows(), "x's rows and y's rows");
    expects(x.cols() == y.cols(), "x's columns and y's columns");
    detail::each_element_tile(y, [&](const auto& tile) {
      tile.of(y).store(where(rand(seed, tile.numbers(y)) < probability, A(0), tile.of(x).load() * factor));
    });
  });
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
  const detail::OpVariant variant{detail::compute_dtype({&x, &y})};
  const detail::ElementLaunch launch{op, "dropout", dropout_kernel, dropout_strided,
                                     detail::MergeOrder::as_given};
  const bool matrices = merge_elements(launch, {&y, &x});
  launch_elements(launch, stream, matrices, y, variant,
                  {x,
                   y,
                   static_cast<std::int64_t>(options.seed),
                   {DType::F32, p},
                   {variant.compute, p < 1 ? 1 / (1 - p) : 0}});
}

} // namespace kiln::ops
