// Implements layernorm and rmsnorm: one kernel for rows that fit a tile, one that loops over parts of a row.
#include <kiln/ops/norm.h>

#include <kiln/jit/cli/support/registry.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/detail/known_config.h>
#include <kiln/ops/detail/narrow_rows.h>
#include <kiln/ops/detail/rows.h>

#include <optional>

namespace kiln::ops {
namespace {

using detail::ErasedView;
using detail::Handle;
using detail::norm_beta, detail::norm_centred, detail::norm_gamma, detail::norm_residual, detail::norm_sum;
using detail::OpVariant;
using detail::ProgramRows;

// The parameters of the kernels, of which some are optional: x, gamma, beta, residual, y, sum, eps.
template <class A, int Rank> struct Parameters {
  using Rows = ErasedView<A, Rank>;
  using Vector = ErasedView<A, 1>;

  Parameters(const OpVariant& v, const Handle* next)
      : variant(v), x(*next++), gamma(take<Vector>(norm_gamma, next)), beta(take<Vector>(norm_beta, next)),
        residual(take<Rows>(norm_residual, next)), y(*next++), sum(take<Rows>(norm_sum, next)), eps(*next) {}

  // The rows that are normalised. `place` gives the tile of a view. With a sum, what is stored there counts.
  template <class P> auto load(const P& place) const {
    Tile t = place(x).load();
    if (residual) t = t + place(*residual).load();
    if (sum) t = place(*sum).rounded(t);
    return t;
  }
  // Multiplies by gamma and adds beta. `place` makes a tile of a vector that broadcasts along the rows.
  template <class T, class P> auto scaled(const T& normal, const P& place) const {
    Tile t = normal;
    if (gamma) t = t * place(*gamma);
    if (beta) t = t + place(*beta);
    return t;
  }

  const OpVariant variant;
  Rows x;
  std::optional<Vector> gamma, beta;
  std::optional<Rows> residual;
  Rows y;
  std::optional<Rows> sum;
  Scalar<A> eps;

private:
  template <class V> std::optional<V> take(std::uint32_t option, const Handle*& next) const {
    return variant.options & option ? std::optional<V>(V(*next++)) : std::nullopt;
  }
};

template <class A, int Rank> void expect_extents(const Parameters<A, Rank>& p) {
  expects(p.x.rows() == p.y.rows(), "x's rows and y's rows");
  expects(p.x.cols() == p.y.cols(), "x's columns and y's columns");
  if (p.gamma) expects(p.gamma->size() == p.x.cols(), "gamma's size and x's columns");
  if (p.beta) expects(p.beta->size() == p.x.cols(), "beta's size and x's columns");
}

// Elements beyond the row are zero, so that only differences from the mean need a mask.
void norm_body(const OpVariant& v, const Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) {
    const Parameters<A, 2> p(v, arguments);
    expect_extents(p);
    expects(p.x.cols() <= dim_size(BN), "x's columns and BN, which must cover them");
    const auto rows = ProgramRows<2>::of(p.x);
    auto col = offset(BN, 0);
    Scalar<A> count = cast<A>(p.x.cols());
    Tile t = p.load([&](const auto& view) { return rows.tile(view, col); });
    if (p.sum) rows.tile(*p.sum, col).store(t);
    if (v.options & norm_centred)
      t = where(col + arange(BN) < p.x.cols(), t - sum(t, BN, keep) / count, A(0));
    Tile scale = rsqrt(sum(t * t, BN, keep) / count + p.eps);
    rows.tile(p.y, col).store(
        p.scaled(t * scale, [&](const auto& vector) { return vector.tile(col).load(); }));
  });
}

// For narrow rows: takes the transposed matrices, so that the elements of a vector are of as many rows.
void norm_narrow_body(const OpVariant& v, const Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) {
    const Parameters<A, 2> p(v, arguments);
    detail::expect_narrow(p.x, p.y);
    auto [col, row] = program_tile(p.x.view(), BN, BM);
    Scalar<A> count = cast<A>(p.x.rows());
    Tile t = p.load([&, col = col, row = row](const auto& view) { return view.tile(col, row); });
    if (p.sum) p.sum->tile(col, row).store(t);
    if (v.options & norm_centred) t = t - sum(t, BN, keep) / count;
    Tile scale = rsqrt(sum(t * t, BN, keep) / count + p.eps);
    p.y.tile(col, row).store(p.scaled(
        t * scale, [&, col = col](const auto& vector) { return expand<1>(vector.tile(col).load()); }));
  });
}

// The sum is stored by the first pass and read by the others, because it may be x or the residual.
template <int Rank> void norm_looped_body(const OpVariant& v, const Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) {
    const Parameters<A, Rank> p(v, arguments);
    expect_extents(p);
    const auto rows = ProgramRows<Rank>::of(p.x);
    Scalar<A> count = cast<A>(p.x.cols());
    const auto first = [&](auto col) {
      Tile t = p.load([&](const auto& view) { return rows.tile(view, col); });
      if (p.sum) rows.tile(*p.sum, col).store(t);
      return t;
    };
    const auto again = [&](auto col) {
      return p.sum ? rows.tile(*p.sum, col).load()
                   : p.load([&](const auto& view) { return rows.tile(view, col); });
    };
    Tile mean = zeros<A>(BM, 1_c);
    const bool centre = v.options & norm_centred;
    if (centre) {
      auto total = for_range(BN, p.x.cols(), zeros<A>(BM, 1_c),
                             [&](auto col, auto total) { return total + sum(first(col), BN, keep); });
      mean = total / count;
    }
    auto squares = for_range(BN, p.x.cols(), zeros<A>(BM, 1_c), [&](auto col, auto squares) {
      Tile t = centre ? again(col) : first(col);
      if (centre) t = where(col + arange(BN) < p.x.cols(), t - mean, A(0));
      return squares + sum(t * t, BN, keep);
    });
    Tile scale = rsqrt(squares / count + p.eps);
    for_range(BN, p.x.cols(), [&](auto col) {
      Tile t = again(col);
      if (centre) t = t - mean;
      rows.tile(p.y, col).store(
          p.scaled(t * scale, [&](const auto& vector) { return vector.tile(col).load(); }));
    });
  });
}

constinit const detail::OpKernel layernorm_narrow("layernorm_narrow", norm_narrow_body);
constinit const detail::OpKernel layernorm_strided("layernorm_strided", norm_looped_body<8>);
constinit const detail::OpKernel rmsnorm_narrow("rmsnorm_narrow", norm_narrow_body);
constinit const detail::OpKernel rmsnorm_strided("rmsnorm_strided", norm_looped_body<8>);

} // namespace

namespace detail {
constinit const OpKernel layernorm_kernel("layernorm", norm_body);
constinit const OpKernel layernorm_looped_kernel("layernorm_looped", norm_looped_body<2>);
constinit const OpKernel rmsnorm_kernel("rmsnorm", norm_body);
constinit const OpKernel rmsnorm_looped_kernel("rmsnorm_looped", norm_looped_body<2>);
} // namespace detail

namespace {

// The kernels of one of the two ops.
struct Kernels {
  const char* op;
  const char* tunable; // its name in `kiln tune`
  const detail::OpKernel &whole, &looped, &narrow, &strided;
};

void check_vector(const detail::Checks& check, const char* name, const char* what, const Input& vector,
                  const Array& x) {
  if (!vector.given()) return;
  check.tensor({name, vector.array()}, 1);
  check.rank({name, vector.array()}, 1);
  check.equal(what, vector.array().extents[0], x.extents[x.rank - 1]);
}

void launch_norm(const Kernels& kernels, const detail::StreamAt& stream, std::uint32_t kind, const Input& in,
                 const Input& gamma, const Input& beta, const Output& out, const NormOptions& options) {
  const detail::Checks check(kernels.op, stream);
  Array x = in.array(), y = out.array(), residual = options.residual.array(), sum = options.sum.array();
  check.tensor({"x", x}, 1);
  check.tensor({"y", y}, 1);
  check.same_extents({"x", x}, {"y", y});
  check_vector(check, "gamma", "gamma's size and the extent of x's last axis", gamma, x);
  check_vector(check, "beta", "beta's size and the extent of x's last axis", beta, x);
  if (options.residual.given()) {
    check.tensor({"residual", residual}, 1);
    check.same_extents({"x", x}, {"residual", residual});
    check.apart_or_same({"y", y}, {"residual", residual});
  } else {
    residual = x;
  }
  if (options.sum.given()) {
    check.that(options.residual.given(), "sum is given without residual; give both, or residual alone");
    check.tensor({"sum", sum}, 1);
    check.same_extents({"x", x}, {"sum", sum});
    check.writes({"sum", sum});
    check.apart_or_same({"sum", sum}, {"x", x});
    check.apart_or_same({"sum", sum}, {"residual", residual});
    check.apart({"y", y}, {"sum", sum});
  } else {
    sum = x;
  }
  check.writes({"y", y});
  check.apart_or_same({"y", y}, {"x", x});
  for (const auto& [name, vector] : {std::pair("gamma", &gamma), std::pair("beta", &beta)}) {
    if (!vector->given()) continue;
    check.apart({"y", y}, {name, vector->array()});
    if (options.sum.given()) check.apart({"sum", sum}, {name, vector->array()});
    kind |= vector == &gamma ? norm_gamma : norm_beta;
  }
  kind |= (options.residual.given() ? norm_residual : 0) | (options.sum.given() ? norm_sum : 0);

  const bool matrices = detail::merge_rows(kernels.op, {&x, &y, &residual, &sum});
  const Array g = gamma.array(), b = beta.array();
  const OpVariant variant{detail::compute_dtype({&x, &y, &residual, &sum, &g, &b}), kind};
  const auto arguments = [&] {
    detail::OpArguments list{x};
    list.add_if(gamma.given(), g);
    list.add_if(beta.given(), b);
    list.add_if(options.residual.given(), residual);
    list.add(y);
    list.add_if(options.sum.given(), sum);
    list.add({variant.compute, options.eps});
    return list;
  };
  if (!matrices) {
    const Config config = detail::strided_config(stream, x, variant.compute);
    const Grid grid = detail::strided_grid(x, config);
    return kernels.strided.launch(stream, config, variant, arguments(), &grid);
  }
  if (const auto narrow =
          detail::narrow_config(stream.stream.device(), {&x, &y, &residual, &sum}, options.batch_invariant)) {
    for (Array* a : {&x, &y, &residual, &sum})
      *a = detail::transposed(*a);
    return kernels.narrow.launch(stream, *narrow, variant, arguments());
  }
  const detail::OpArguments list = arguments();
  const auto c = detail::known_row_config(kernels.tunable, stream, x, options.batch_invariant,
                                          {kernels.whole, variant, list, &kernels.looped});
  (c.whole ? kernels.whole : kernels.looped).launch(stream, c.config, variant, list);
}

} // namespace

void layernorm(detail::StreamAt stream, const Input& x, const Input& gamma, const Input& beta,
               const Output& y, const NormOptions& options) {
  launch_norm({"ops::layernorm", "layernorm", detail::layernorm_kernel, detail::layernorm_looped_kernel,
               layernorm_narrow, layernorm_strided},
              stream, norm_centred, x, gamma, beta, y, options);
}

void rmsnorm(detail::StreamAt stream, const Input& x, const Input& gamma, const Output& y,
             const NormOptions& options) {
  launch_norm({"ops::rmsnorm", "rmsnorm", detail::rmsnorm_kernel, detail::rmsnorm_looped_kernel,
               rmsnorm_narrow, rmsnorm_strided},
              stream, 0, x, gamma, {}, y, options);
}

namespace {

const cli::KernelRegistration registered_layernorm({
    .name = "layernorm",
    .summary = "layer normalisation of rows that fit a tile, f32",
    .record = [](const Config& config) { return detail::record_layernorm(DType::F32, config, true); },
    .config = "BM=1,BN=4096",
    .sizes = "M=4096,N=4096",
    .parameters = "x=M,N gamma=N beta=N y=M,N eps=0.00001",
});
const cli::KernelRegistration registered_rmsnorm({
    .name = "rmsnorm",
    .summary = "root-mean-square normalisation of rows that fit a tile, f32",
    .record =
        [](const Config& config) {
          return detail::rmsnorm_kernel.record(config, {DType::F32, norm_gamma},
                                               {detail::reading(DType::F32, 2),
                                                detail::reading(DType::F32, 1),
                                                detail::writing(DType::F32, 2),
                                                {DType::F32, 0.0}});
        },
    .config = "BM=1,BN=4096",
    .sizes = "M=4096,N=4096",
    .parameters = "x=M,N gamma=N y=M,N eps=0.00001",
});

} // namespace

namespace detail {
std::shared_ptr<ir::Kernel> record_layernorm(DType dtype, const Config& config, bool whole) {
  const DType compute = dtype == DType::F64 ? DType::F64 : DType::F32;
  return (whole ? layernorm_kernel : layernorm_looped_kernel)
      .record(config, {compute, norm_centred | norm_gamma | norm_beta},
              {reading(dtype, 2), reading(dtype, 1), reading(dtype, 1), writing(dtype, 2), {compute, 0.0}});
}
} // namespace detail

} // namespace kiln::ops
