// Implements the gradients of layernorm and rmsnorm: a kernel that computes dx, and adds up dgamma and dbeta
// for groups of rows; the sums of the groups are added in order by a second kernel.
#include <kiln/ops/norm.h>

#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/column_sums.h>
#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/detail/known_config.h>
#include <kiln/ops/detail/rows.h>
#include <kiln/ops/detail/workspace.h>

#include <algorithm>
#include <optional>

namespace kiln::ops {
namespace {

using detail::ErasedView;
using detail::Handle;
using detail::OpVariant;
using detail::ProgramRows;
using detail::StreamAt;

// The options of the kernels.
constexpr std::uint32_t centred = 1, has_gamma = 2, has_residual = 4, has_dsum = 8, has_dx = 16,
                        has_dgamma = 32, has_dbeta = 64;

// The parameters are x, residual, gamma, dy, dsum, dx, the sums of dgamma and of dbeta for each group of
// rows, eps, the size of a group, and, if x is not a matrix, the number of tiles. Some are optional. A
// program takes the tiles of a group one after the other. Groups of a matrix are counted in rows, so that a
// config does not change them; a group is a multiple of BM rows. Other groups are counted in tiles.
//
// With normal = (x - mean) scale and w = dy gamma, dx = (w - mean(w) - normal mean(w normal)) scale; for
// rmsnorm, mean and mean(w) are 0. dgamma and dbeta are the sums of dy normal and dy over the rows. Elements
// beyond a row are zero, so that only differences from the mean need a mask. The scale of rows beyond the
// last one is zero, because it could be infinite.
template <class A, int Rank> class NormBackward {
public:
  NormBackward(const OpVariant& v, const Handle* next)
      : variant_(v), x_(*next++), residual_(take<Rows>(has_residual, next)),
        gamma_(take<Vector>(has_gamma, next)), dy_(*next++), dsum_(take<Rows>(has_dsum, next)),
        dx_(take<Rows>(has_dx, next)), dgamma_(take<Sums>(has_dgamma, next)),
        dbeta_(take<Sums>(has_dbeta, next)), eps_(*next++), of_group_(*next++), count_(cast<A>(x_.cols())) {
    if constexpr (Rank != 2) tiles_.emplace(*next);
    expects(x_.rows() == dy_.rows(), "x's rows and dy's rows");
    expects(x_.cols() == dy_.cols(), "x's columns and dy's columns");
    if (gamma_) expects(gamma_->size() == x_.cols(), "gamma's size and x's columns");
  }

  // For rows that fit a tile: everything stays in tiles.
  void record_whole() const {
    expects(x_.cols() <= dim_size(BN), "x's columns and BN, which must cover them");
    const auto col = offset(BN, 0);
    Var dgamma = zeros<A>(BN), dbeta = zeros<A>(BN);
    each_tile([&](const ProgramRows<Rank>& rows) {
      Tile t = normalised(rows, col), d = rows.tile(dy_, col).load(), w = weighted(d, col);
      if (centre()) t = from_mean(t, sum(t, BN, keep) / count_, col);
      Tile scale = scale_of(rows, sum(t * t, BN, keep));
      Tile normal = t * scale;
      if (dx_) store_dx(rows, col, w, normal, scale, sum(w, BN, keep), sum(w * normal, BN, keep));
      if (dgamma_) dgamma = dgamma + sum(d * normal, BM);
      if (dbeta_) dbeta = dbeta + sum(d, BM);
    });
    if (dgamma_) sums_at(*dgamma_, col).store(dgamma);
    if (dbeta_) sums_at(*dbeta_, col).store(dbeta);
  }

  // For rows of any width, in parts: the sums of columns are kept in memory, where each program has a row.
  void record_looped() const {
    for_range(BN, x_.cols(), [&](auto col) {
      if (dgamma_) sums_at(*dgamma_, col).store(zeros<A>(BN));
      if (dbeta_) sums_at(*dbeta_, col).store(zeros<A>(BN));
    });
    each_tile([&](const ProgramRows<Rank>& rows) {
      Tile mean = zeros<A>(BM, 1_c);
      if (centre()) {
        auto total = for_range(BN, x_.cols(), zeros<A>(BM, 1_c), [&](auto col, auto total) {
          return total + sum(normalised(rows, col), BN, keep);
        });
        mean = total / count_;
      }
      const auto centred_at = [&](const auto& col) {
        Tile t = normalised(rows, col);
        return centre() ? from_mean(t, mean, col) : t;
      };
      const auto zero = zeros<A>(BM, 1_c);
      auto [squares, weights, products] = for_range(
          BN, x_.cols(), state(zero, zero, zero), [&](auto col, auto squares, auto weights, auto products) {
            Tile t = centred_at(col), w = weighted(rows.tile(dy_, col).load(), col);
            return state(squares + sum(t * t, BN, keep), weights + sum(w, BN, keep),
                         products + sum(w * t, BN, keep));
          });
      Tile scale = scale_of(rows, squares), of_normal = products * scale, of_weights = weights;
      for_range(BN, x_.cols(), [&](auto col) {
        Tile normal = centred_at(col) * scale, d = rows.tile(dy_, col).load(), w = weighted(d, col);
        if (dx_) store_dx(rows, col, w, normal, scale, of_weights, of_normal);
        if (dgamma_) add_to(sums_at(*dgamma_, col), sum(d * normal, BM));
        if (dbeta_) add_to(sums_at(*dbeta_, col), sum(d, BM));
      });
    });
  }

private:
  using Rows = ErasedView<A, Rank>;
  using Vector = ErasedView<A, 1>;
  using Sums = ErasedView<A, 2>;

  template <class V> std::optional<V> take(std::uint32_t option, const Handle*& next) const {
    return variant_.options & option ? std::optional<V>(V(*next++)) : std::nullopt;
  }
  bool centre() const { return variant_.options & centred; }

  template <class F> void each_tile(const F& body) const {
    const Scalar<std::int64_t> first = program_id(0) * of_group_;
    if constexpr (Rank == 2) {
      const Scalar<std::int64_t> last = min(first + of_group_, x_.rows());
      for_range(BM, range(first, last), [&](auto row) { body(ProgramRows<2>{row}); });
    } else {
      const Scalar<std::int64_t> last = min(first + of_group_, *tiles_);
      for_range(first, last, 1, [&](auto tile) { body(ProgramRows<Rank>::at(x_, tile)); });
    }
  }
  // The rows that were normalised.
  template <class C> auto normalised(const ProgramRows<Rank>& rows, const C& col) const {
    Tile t = rows.tile(x_, col).load();
    if (residual_) t = t + rows.tile(*residual_, col).load();
    return t;
  }
  template <class T, class C> auto weighted(const T& d, const C& col) const {
    Tile w = d;
    if (gamma_) w = w * gamma_->tile(col).load();
    return w;
  }
  template <class T, class M, class C> auto from_mean(const T& t, const M& mean, const C& col) const {
    Tile difference = where(col + arange(BN) < x_.cols(), t - mean, A(0));
    return difference;
  }
  template <class S> auto scale_of(const ProgramRows<Rank>& rows, const S& squares) const {
    Tile row = expand<1>(rows.row + arange(BM));
    Tile scale = where(row < x_.extent(Rank - 2), rsqrt(squares / count_ + eps_), A(0));
    return scale;
  }
  // `weights` and `products` are the sums of w and of w normal.
  template <class C, class W, class N, class S, class T, class P>
  void store_dx(const ProgramRows<Rank>& rows, const C& col, const W& w, const N& normal, const S& scale,
                const T& weights, const P& products) const {
    Tile t = w - normal * (products / count_);
    if (centre()) t = t - weights / count_;
    t = t * scale;
    if (dsum_) t = t + rows.tile(*dsum_, col).load();
    rows.tile(*dx_, col).store(t);
  }
  template <class C> static auto sums_at(const Sums& sums, const C& col) {
    return sums.tile(Scalar<std::int64_t>(program_id(0)), col);
  }
  template <class P, class T> static void add_to(const P& place, const T& t) {
    place.store(place.load() + t);
  }

  const OpVariant variant_;
  Rows x_;
  std::optional<Rows> residual_;
  std::optional<Vector> gamma_;
  Rows dy_;
  std::optional<Rows> dsum_, dx_;
  std::optional<Sums> dgamma_, dbeta_;
  Scalar<A> eps_;
  Scalar<std::int64_t> of_group_;
  Scalar<A> count_;
  std::optional<Scalar<std::int64_t>> tiles_;
};

void whole_body(const OpVariant& v, const Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) { NormBackward<A, 2>(v, arguments).record_whole(); });
}
template <int Rank> void looped_body(const OpVariant& v, const Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) { NormBackward<A, Rank>(v, arguments).record_looped(); });
}

// An option distinguishes the two ops.
constinit const detail::OpKernel backward_whole("norm_backward", whole_body);
constinit const detail::OpKernel backward_looped("norm_backward_looped", looped_body<2>);
constinit const detail::OpKernel backward_strided("norm_backward_strided", looped_body<8>);

// An argument, which may be optional. Where it is not given, `array` is x. `option` is that of the kernels.
struct NormTensor {
  const char* name;
  std::uint32_t option;
  Array array;
  bool given;

  template <class T> // Input or Output
  NormTensor(const char* of, std::uint32_t bit, const T& tensor, const Array& x)
      : name(of), option(bit), array(tensor.given() ? tensor.array() : x), given(tensor.given()) {}
  detail::Argument argument() const { return {name, array}; }
};

void check_results(const detail::Checks& check, const NormTensor& dx, const NormTensor& dgamma,
                   const NormTensor& dbeta, std::initializer_list<const NormTensor*> rows,
                   const NormTensor& gamma) {
  check.that(dx.given || dgamma.given || dbeta.given, "no result is given; pass dx, dgamma or dbeta");
  for (const NormTensor* out : {&dx, &dgamma, &dbeta}) {
    if (!out->given) continue;
    check.writes(out->argument());
    if (gamma.given) check.apart(out->argument(), gamma.argument());
    for (const NormTensor* in : rows) {
      if (!in->given) continue;
      if (out == &dx)
        check.apart_or_same(out->argument(), in->argument());
      else
        check.apart(out->argument(), in->argument());
    }
  }
  for (const auto& [a, b] : {std::pair(&dgamma, &dx), std::pair(&dbeta, &dx), std::pair(&dbeta, &dgamma)})
    if (a->given && b->given) check.apart(a->argument(), b->argument());
}

// The groups of rows that programs take.
struct Groups : detail::RowGroups {
  Config strided; // if x is not a matrix, whose groups are counted in tiles of this config
  std::int64_t tiles = 0;

  // A transposed matrix is read in whole cache lines, by tiles of as many rows.
  Groups(const StreamAt& at, const Array& x, bool matrix, DType compute) : detail::RowGroups{} {
    const Device device = at.stream.device();
    RowGroups& groups = *this;
    if (matrix) {
      groups =
          detail::row_groups(device, x.extents[0], std::max(detail::least_group, detail::rows_of_line(x)));
      return;
    }
    strided = detail::strided_config(at, x, compute);
    tiles = detail::strided_grid(x, strided).x;
    const std::int64_t height = strided.get("BM").value_or(1);
    groups = detail::row_groups(device, tiles, std::max<std::int64_t>(detail::least_group / height, 1));
  }
};

// The names in errors and in `kiln tune`.
struct Names {
  const char *op, *tunable;
};

void launch_backward(const Names& names, const StreamAt& at, std::uint32_t kind, const Input& in,
                     const Input& g, const Input& gradient, const Output& to_x, const Output& to_gamma,
                     const Output& to_beta, const NormBackwardOptions& options) {
  const detail::Checks check(names.op, at);
  check.tensor({"x", in.array()}, 1);
  NormTensor x("x", 0, in, in.array()), dy("dy", 0, gradient, in.array()),
      residual("residual", has_residual, options.residual, in.array()),
      dsum("dsum", has_dsum, options.dsum, in.array()), dx("dx", has_dx, to_x, in.array());
  const NormTensor gamma("gamma", has_gamma, g, in.array()),
      dgamma("dgamma", has_dgamma, to_gamma, in.array()), dbeta("dbeta", has_dbeta, to_beta, in.array());
  check.that(dy.given, "dy is not given; pass the gradient with respect to y");
  for (const NormTensor* rows : {&dy, &residual, &dsum, &dx}) {
    if (!rows->given) continue;
    check.tensor(rows->argument(), 1);
    check.same_extents(x.argument(), rows->argument());
  }
  const std::int64_t n = x.array.extents[x.array.rank - 1];
  for (const NormTensor* vector : {&gamma, &dgamma, &dbeta}) {
    if (!vector->given) continue;
    check.tensor(vector->argument(), 1);
    check.rank(vector->argument(), 1);
    check.equal({vector->name, "'s size and the extent of x's last axis", "", ""}, vector->array.extents[0],
                n);
  }
  check_results(check, dx, dgamma, dbeta, {&x, &dy, &residual, &dsum}, gamma);
  if (n == 0) return;

  for (const NormTensor* t :
       std::initializer_list<const NormTensor*>{&gamma, &residual, &dsum, &dx, &dgamma, &dbeta})
    kind |= t->given ? t->option : 0;
  const OpVariant variant{detail::compute_dtype({&x.array, &dy.array, &residual.array, &dsum.array, &dx.array,
                                                 &gamma.array, &dgamma.array, &dbeta.array}),
                          kind};
  const bool matrices =
      detail::merge_rows(names.op, {&x.array, &dy.array, &residual.array, &dsum.array, &dx.array});
  const Groups groups(at, x.array, matrices, variant.compute);
  const std::int64_t bytes = detail::Workspace::bytes(variant.compute, groups.count * n);
  detail::Workspace workspace(at, (dgamma.given ? bytes : 0) + (dbeta.given ? bytes : 0));
  const auto take = [&](bool given) {
    return given ? workspace.take(variant.compute, {groups.count, n}) : Output();
  };
  const Output of_gamma = take(dgamma.given), of_beta = take(dbeta.given);

  detail::OpArguments list{x.array};
  list.add_if(residual.given, residual.array);
  list.add_if(gamma.given, gamma.array);
  list.add(dy.array);
  list.add_if(dsum.given, dsum.array);
  list.add_if(dx.given, dx.array);
  list.add_if(dgamma.given, of_gamma);
  list.add_if(dbeta.given, of_beta);
  list.add({variant.compute, options.eps});
  list.add(groups.size);
  const Grid grid{groups.count};
  if (matrices) {
    const detail::GridRule rule{[](const std::int64_t* facts, const Config&) { return Grid{facts[0]}; },
                                {groups.count}};
    const auto c = detail::known_row_config(names.tunable, at, x.array, options.batch_invariant,
                                            {backward_whole, variant, list, &backward_looped, rule});
    (c.whole ? backward_whole : backward_looped).launch(at, c.config, variant, list, &grid);
  } else {
    list.add(groups.tiles);
    backward_strided.launch(at, groups.strided, variant, list, &grid);
  }
  const auto store = options.accumulate ? detail::Store::add : detail::Store::replace;
  if (dgamma.given) detail::sum_groups(at, of_gamma.array(), dgamma.array, store);
  if (dbeta.given) detail::sum_groups(at, of_beta.array(), dbeta.array, store);
  workspace.free();
}

} // namespace

void layernorm_backward(StreamAt stream, const Input& x, const Input& gamma, const Input& dy,
                        const Output& dx, const Output& dgamma, const Output& dbeta,
                        const NormBackwardOptions& options) {
  launch_backward({"ops::layernorm_backward", "layernorm_backward"}, stream, centred, x, gamma, dy, dx,
                  dgamma, dbeta, options);
}
void rmsnorm_backward(StreamAt stream, const Input& x, const Input& gamma, const Input& dy, const Output& dx,
                      const Output& dgamma, const NormBackwardOptions& options) {
  launch_backward({"ops::rmsnorm_backward", "rmsnorm_backward"}, stream, 0, x, gamma, dy, dx, dgamma, {},
                  options);
}

} // namespace kiln::ops
