// Defines assign(), which computes a whole-tensor expression with one fused kernel.
//
//   assign(stream, out, relu(x * scale + bias) + residual);    // out: TensorView<float, R> or Tensor
//   assign(stream, x, x * 2);                                  // in place
//   assign(stream, out, 0);                                    // fill
//
// The operands broadcast to `out`, which has at most 8 axes and any strides; expression.h says what operands
// may be. The dtype of the expression must be that of `out` or a narrower one of the same class, as for
// stores; otherwise write cast<T>(...). An operand that is `out` itself is computed in place. If an operand
// overlaps `out` in another way, the result goes through a temporary of the size of `out`, because the order
// of programs is undefined. `out` must not repeat elements (an axis of stride 0).
//
// assign returns when the work is queued; the memory of all operands must live until the stream has executed
// it. It throws UserError, with the file and line of the caller, if the extents do not broadcast, if a number
// does not fit the dtype that it is converted to, or if `out` repeats elements. It also throws the errors of
// a kernel launch (kernel.h).
//
// Each expression type keeps its compiled variants. A variant depends on the rank after neighbouring axes are
// merged, the pattern of broadcast axes, and the layout classes, but not on extents, addresses and numbers. A
// call that finds its variant does not allocate; small ones (up to 8192 elements) run in the calling thread.
// Thread-safe.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/view.h>
#include <kiln/jit/runtime/assign/expression.h>
#include <kiln/jit/runtime/stream.h>

#include <atomic>

namespace kiln::detail {
struct AssignVariants;
} // namespace kiln::detail

KILN_API_BEGIN
namespace kiln {

namespace detail {

// The state that one expression type has for one dtype of `out`.
struct AssignSite {
  const AssignLeaf* leaves;
  int leaf_count;
  DType out;
  Handle (*record)(const Handle* leaves);
  std::atomic<AssignVariants*> variants{nullptr}; // never destroyed
};
struct AssignTarget {
  void* data;
  int rank;
  const std::int64_t* extents;
  const std::int64_t* strides;
};
void run_assign(Stream& stream, AssignSite& site, const AssignTarget& out, const AssignOperand* operands,
                const Location& here);

template <class E> struct AssignLeaves {
  AssignLeaf list[E::leaves];
  constexpr AssignLeaves() : list{} {
    AssignLeaf* next = list;
    E::describe(next);
  }
};
template <class E> inline constexpr AssignLeaves<E> assign_leaves{};

template <class E> Handle record_whole(const Handle* leaves) { return E::record(leaves).record(); }
template <class T, class E>
inline constinit AssignSite assign_site{assign_leaves<E>.list, E::leaves, dtype_of<T>, &record_whole<E>};

template <class T, int Rank, class E>
void assign_to(Stream& stream, const TensorView<T, Rank>& out, const E& expression, const Location& here) {
  AssignOperand operands[E::leaves];
  AssignOperand* next = operands;
  expression.gather(next);
  run_assign(stream, assign_site<T, E>, {out.data(), Rank, out.extents(), out.strides()}, operands, here);
}

} // namespace detail

template <class T, int Rank, class E>
  requires detail::WholeOperand<E>
void assign(Stream& stream, const TensorView<T, Rank>& out, const E& expression,
            detail::Location here = detail::Location::current()) {
  if constexpr (!detail::IsPoison<E>) {
    constexpr bool writable = !std::is_const_v<T>;
    static_assert(writable, "the output of assign is read-only: pass a TensorView<T, Rank> with a mutable T");
    constexpr bool fits = detail::fits_element<detail::whole_t<E>, std::remove_const_t<T>>();
    static_assert(fits, "the expression's dtype is not the output's: write cast<T>(expression)");
    if constexpr (writable && fits) {
      auto whole = detail::as_whole_of<T>(expression);
      constexpr bool ranks = decltype(whole)::rank <= Rank;
      static_assert(
          ranks, "the expression has more axes than the output, and operands only broadcast to the output");
      if constexpr (ranks) detail::assign_to(stream, out, whole, here);
    }
  }
}
template <class T, int Rank, class E>
  requires detail::WholeOperand<E>
void assign(Stream& stream, Tensor<T, Rank>& out, const E& expression,
            detail::Location here = detail::Location::current()) {
  assign(stream, out.view(), expression, here);
}

// The following overloads report calls that match none of the above.
template <class T, int Rank, class E> void assign(Stream&, const Tensor<T, Rank>&, const E&) {
  static_assert(detail::never<T>,
                "the output of assign is a const or temporary Tensor: keep it in a variable without const");
}
template <class T, int Rank, class E>
  requires(!detail::WholeOperand<E>)
void assign(Stream&, const TensorView<T, Rank>&, const E&) {
  static_assert(detail::never<T>,
                "assign computes with TensorViews, Tensors and numbers: write TensorView(x)");
}
template <class O, class E>
  requires(!detail::IsTensor<O>)
void assign(Stream&, O&&, const E&) {
  static_assert(detail::never<O>, "the output of assign is a TensorView or a Tensor: write TensorView(x)");
}
template <class O, class E>
  requires detail::IsTensor<O>
void assign(O&&, const E&) {
  static_assert(detail::never<O>, "assign begins with the stream: assign(stream, out, expression)");
}

} // namespace kiln
KILN_API_END
