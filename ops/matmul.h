// Declares products of matrices, and of batches of matrices, with a fused epilogue.
//
//   ops::matmul(stream, a, b, c);                                  // a is [M, K], b is [K, N], c is [M, N]
//   ops::matmul(stream, a, b, c, {.activation = ops::Activation::gelu});
//   ops::linear(stream, x, weight, bias, y);                       // weight is [K, N], bias is [N]
//   ops::linear(stream, x, torch_weight.transpose(), bias, y);     // for a weight that is [N, K]
//   ops::matmul(stream, q, k.transpose(), scores, {.alpha = 0.125});   // [B, H, M, K], [B, H, N, K]
//   ops::matmul(stream, x, b, y, {.batch_invariant = true});   // a row's bits do not depend on other rows
//   ops::matmul(stream, a, b, c, [](auto sum, auto at, auto bias) {    // an epilogue of your own
//     return relu(sum + bias.tile(at.n).load());
//   }, bias);
//
// The last two axes of a, b and c are those of the matrices; the axes in front of them are batches, to which
// a and b broadcast. Strides are arbitrary; contiguous rows are fastest. The result is
//
//   activation(alpha (a b) + bias) * times + residual + beta c
//
// where bias is [N], and times and residual have the extents of c (they do not broadcast). If K is 0, a b is
// 0. c is read only if beta is not 0. times and residual may each be the same tensor as c; a, b and bias must
// not overlap c.
//
// Each tensor has a float dtype of its own. If a and b have the same dtype, the product uses the instructions
// that the device has for it. Sums are in f32 (f64 if a tensor is of f64), and the result is rounded once. If
// a and b are both of i8 or both of u8, and c is of i32, sums are in i32, where they wrap around; of the
// epilogue, only beta = 1 is supported.
//
// With .precision = Precision::tf32, GPUs may round factors of f32 to 10 bits of mantissa, which lets them
// use tensor cores.
//
// A product with few result tiles and a long K is divided into parts of K of a fixed size. A second kernel
// adds the sums of the parts, in the order of the parts, and applies the epilogue. The sums of the parts are
// in the call's workspace, and `rehearse` reports a note that says so.
//
// With .batch_invariant, a row of c has the same bits in every batch: they depend on its row of a, times,
// residual and c, on b and bias, on N and K, and on the kind of device, but not on M, on the place of the
// row, on the number of threads, or on the configs that the tuner has found. Products of floats are then
// added in the order of K, and whether K is divided depends on N, K and the dtype only. If b is a part of the
// columns of a larger matrix, .whole_columns takes the place of N, so that the parts have the bits of the
// whole product. README.md ("Same bits") shows the cost. The tuner searches only tiles (BM, BN) and numbers
// of warps for such products: BK is that of matmul_config, and a config with another BK is not used.
//
// An epilogue of your own is a lambda without captures. It gets a tile of a b, in f32 (f64 if c is of f64),
// the place of the tile (MatmulPlace), and views of the tensors that follow the lambda, of which there are at
// most 8. It returns the tile that is stored in c. It may read the views and compute element by element; a
// tensor may be c. Options precede the lambda; of them, only precision and batch_invariant may be given. If a
// or b is of f64, c must be, too.
//
// Errors: the functions throw UserError if extents or dtypes do not match, if c overlaps another tensor in a
// way that is not named above, or if several indices of c refer to the same element. They return when the
// work is queued on the stream, and are thread-safe.
//
// The config is the one that the tuner found for the sizes, layouts, options and epilogue (see "Tuning" in
// ops/README), or else that of matmul_config. KILN_TUNE (see autotune/mode.h) determines which configs are
// looked up; with `off`, matmul_config is always used, and also where K is divided among programs. With
// `pinned`, a missing config is an error, but not with .batch_invariant, where a config decides on the speed
// only.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/hook.h>
#include <kiln/ops/detail/stream_at.h>
#include <kiln/ops/dims.h>
#include <kiln/ops/matmul_options.h>

KILN_API_BEGIN
namespace kiln::ops {

void matmul(detail::StreamAt stream, const Input& a, const Input& b, const Output& c,
            const MatmulOptions& options = {});
// Computes y = activation(x weight + bias), which is matmul with a bias; {} for none. The other options apply
// as in matmul, but options.bias is an error, because bias is a parameter.
void linear(detail::StreamAt stream, const Input& x, const Input& weight, const Input& bias, const Output& y,
            const MatmulOptions& options = {});

// The place of the tile that an epilogue gets.
struct MatmulPlace {
  Scalar<std::int64_t> batch; // the index of the product, in row-major order of c's batch axes
  Offset<BM> m;               // its first row and column in c
  Offset<BN> n;
};

namespace detail {
// Calls an epilogue whose tiles are of A.
template <class A> struct MatmulEpilogue {
  static constexpr DType compute = dtype_of<A>;
  using Sum = Tile<A, BM, BN>;

  template <class F, class... V> static Handle record(const Handle* values, const V&... views) {
    const Sum sum(values[0]);
    const MatmulPlace at{Scalar<std::int64_t>(values[1]), Offset<BM>(values[2]), Offset<BN>(values[3])};
    constexpr bool callable = std::is_invocable_v<const F&, const Sum&, const MatmulPlace&, const V&...>;
    static_assert(callable, "the epilogue of matmul takes the tile, its place and one parameter for each "
                            "tensor that follows it: [](auto sum, auto at, auto bias) { ... }");
    if constexpr (callable) {
      using R = std::invoke_result_t<const F&, const Sum&, const MatmulPlace&, const V&...>;
      constexpr bool tile = kiln::detail::TileLike<R> || kiln::detail::IsPoison<R>;
      static_assert(tile, "the epilogue of matmul must return a tile");
      if constexpr (kiln::detail::TileLike<R>) {
        constexpr bool fits =
            kiln::detail::broadcasts_to<kiln::detail::shape_t<R>, kiln::detail::shape_t<Sum>>;
        static_assert(fits, "the epilogue of matmul must return a tile with the dimensions of the sum, or 1");
        if constexpr (fits) {
          const Tile result(F{}(sum, at, views...));
          return kiln::detail::emit_convert(result.record(),
                                            kiln::detail::type_info<A, kiln::detail::shape_t<Sum>>);
        }
      }
    }
    return values[0];
  }
};

void matmul_with(StreamAt stream, const Input& a, const Input& b, const Output& c,
                 const MatmulOptions& options, const Hook& epilogue, const Input* views);

} // namespace detail

template <class C, class F, class... V>
  requires(std::is_class_v<F> && !std::is_convertible_v<const F&, const MatmulOptions&>)
void matmul(detail::StreamAt stream, const Input& a, const Input& b, C&& c, const MatmulOptions& options,
            const F&, const V&... views) {
  constexpr bool pure = detail::is_hook<F>;
  static_assert(pure,
                "the epilogue of matmul has no captures: pass tensors after it, which it gets as views");
  constexpr bool tensors = (detail::is_hook_tensor<V> && ...);
  static_assert(tensors, "what follows the epilogue of matmul are TensorViews and Tensors");
  if constexpr (pure && tensors) {
    using T = typename detail::OutputElement<std::remove_cvref_t<C>>::type;
    using Call = detail::MatmulEpilogue<std::conditional_t<std::is_same_v<T, double>, double, float>>;
    const Input list[] = {Input(views)..., Input()};
    detail::matmul_with(stream, a, b, Output(std::forward<C>(c)), options,
                        detail::hook_of<Call, F, detail::hook_view_t<V>...>, list);
  }
}
template <class C, class F, class... V>
  requires(std::is_class_v<F> && !std::is_convertible_v<const F&, const MatmulOptions&>)
void matmul(detail::StreamAt stream, const Input& a, const Input& b, C&& c, const F& epilogue,
            const V&... views) {
  matmul(stream, a, b, std::forward<C>(c), MatmulOptions(), epilogue, views...);
}

// Returns the config that matmul and linear use for a product of these extents, where a is of `dtype`, if the
// tuner has found none.
Config matmul_config(Device device, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k);

} // namespace kiln::ops
KILN_API_END
