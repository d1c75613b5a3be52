// Converts the arguments of a launch to 64-bit words, and checks at compile time that they fit the
// parameters. Part of kernel.h.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/recipe.h>
#include <kiln/jit/runtime/tensor.h>

#include <cstring>
#include <limits>
#include <type_traits>

namespace kiln::detail {
class KernelCore;
} // namespace kiln::detail

KILN_API_BEGIN
namespace kiln::detail {

// Identifies an argument of a call in error messages.
struct ArgumentPlace {
  const KernelCore& kernel;
  Location site; // has no line in calls that are not launches
  std::size_t index;
};
// Throw UserError unless a Scalar parameter of dtype `to` represents the number exactly.
void check_integer_fits(std::int64_t value, DType to, const ArgumentPlace& place);
void check_unsigned_fits(std::uint64_t value, DType to, const ArgumentPlace& place);

// --- Types of arguments ------------------------------------------------------------------------------------

template <class A> struct TensorArgument {
  static constexpr bool is = false;
};
template <class T, int Rank> struct TensorArgument<TensorView<T, Rank>> {
  static constexpr bool is = true;
  using element = T;
  static constexpr int rank = Rank;
};
template <class T, int Rank> struct TensorArgument<Tensor<T, Rank>> : TensorArgument<TensorView<T, Rank>> {};
template <class T, int Rank>
struct TensorArgument<const Tensor<T, Rank>> : TensorArgument<TensorView<const T, Rank>> {};
template <class T, int Rank>
struct TensorArgument<const TensorView<T, Rank>> : TensorArgument<TensorView<T, Rank>> {};
template <class A> inline constexpr bool is_owning_tensor = false;
template <class T, int Rank> inline constexpr bool is_owning_tensor<Tensor<T, Rank>> = true;
template <class T, int Rank> inline constexpr bool is_owning_tensor<const Tensor<T, Rank>> = true;

template <class T, int Rank> const TensorView<T, Rank>& view_of(const TensorView<T, Rank>& v) { return v; }
template <class T, int Rank> TensorView<T, Rank> view_of(Tensor<T, Rank>& t) { return t.view(); }
template <class T, int Rank> TensorView<const T, Rank> view_of(const Tensor<T, Rank>& t) { return t.view(); }

// --- Parameters --------------------------------------------------------------------------------------------

// `accepts<A>()` returns whether a parameter of type P takes an argument of type A, which is deduced from a
// forwarding reference. It reports each mistake in one sentence. The primary template is for types that
// cannot be kernel parameters, which `kernel` has already reported.
template <class P> struct HostArgument {
  static constexpr int words = 1;
  template <class A> static constexpr bool accepts() { return false; }
};

template <class T, int Rank, LayoutClass... Pinned> struct HostArgument<View<T, Rank, Pinned...>> {
  static constexpr int words = 1 + 2 * Rank;

  template <class A> static constexpr bool accepts() {
    using Argument = TensorArgument<std::remove_reference_t<A>>;
    static_assert(Argument::is, "a View parameter takes a TensorView or a Tensor");
    if constexpr (Argument::is) {
      using U = typename Argument::element;
      constexpr bool rank = Argument::rank == Rank;
      constexpr bool dtype = std::is_same_v<std::remove_const_t<U>, std::remove_const_t<T>>;
      constexpr bool writable = std::is_const_v<T> || !std::is_const_v<U>;
      constexpr bool lives = std::is_lvalue_reference_v<A> || !is_owning_tensor<std::remove_reference_t<A>>;
      static_assert(rank, "the argument's number of dimensions is not that of the View parameter");
      static_assert(!rank || dtype, "the argument's element type is not that of the View parameter");
      static_assert(!rank || !dtype || writable,
                    "the argument's elements are const and the View parameter's are not");
      static_assert(lives, "a temporary Tensor is gone before the kernel runs: keep it in a variable");
      return rank && dtype && writable && lives;
    } else {
      return false;
    }
  }
  template <class A> static void write(std::uint64_t* to, A& argument, const ArgumentPlace&) {
    const auto& view = view_of(argument);
    *to = reinterpret_cast<std::uintptr_t>(view.data());
    for (int i = 0; i < Rank; ++i) {
      to[1 + i] = static_cast<std::uint64_t>(view.extent(i));
      to[1 + Rank + i] = static_cast<std::uint64_t>(view.stride(i));
    }
  }
};

template <class T> struct HostArgument<Tile<T>> {
  static constexpr int words = 1;

  template <class A> static constexpr bool accepts() {
    using N = std::remove_cvref_t<A>;
    if constexpr (std::is_same_v<N, T>) {
      return true;
    } else if constexpr (!std::is_arithmetic_v<T>) {
      static_assert(never<A>, "the argument's type is not the Scalar parameter's: convert it");
      return false;
    } else {
      constexpr bool number = std::is_arithmetic_v<N>;
      constexpr bool truth = std::is_same_v<N, bool> != std::is_same_v<T, bool>;
      constexpr bool cut = std::is_floating_point_v<N> && !std::is_floating_point_v<T>;
      constexpr bool narrowed =
          std::is_floating_point_v<N> && std::is_floating_point_v<T> && sizeof(N) > sizeof(T);
      static_assert(number, "a Scalar parameter takes a number");
      static_assert(!number || !truth, "a Scalar<bool> parameter takes a bool, and no other does");
      static_assert(truth || !cut, "a Scalar of integers takes no floating-point number: convert it");
      static_assert(!narrowed, "a double would lose digits in this Scalar parameter: write 0.5f, or convert");
      return number && !truth && !cut && !narrowed;
    }
  }
  template <class A> static void write(std::uint64_t* to, const A& argument, const ArgumentPlace& place) {
    if constexpr (std::is_integral_v<A> && !std::is_same_v<A, T> && !std::is_same_v<A, bool>) {
      if constexpr (std::is_signed_v<A>)
        check_integer_fits(argument, dtype_of<T>, place);
      else
        check_unsigned_fits(argument, dtype_of<T>, place);
    }
    T value = static_cast<T>(argument);
    *to = 0;
    std::memcpy(to, &value, sizeof value);
  }
};

template <class T> struct HostArgument<Tile<T*>> {
  static constexpr int words = 1;

  template <class A> static constexpr bool accepts() {
    using N = std::decay_t<A>;
    constexpr bool pointer = std::is_pointer_v<N>;
    static_assert(pointer, "a raw::Ptr parameter takes a pointer");
    if constexpr (pointer) {
      using U = std::remove_pointer_t<N>;
      constexpr bool dtype = std::is_same_v<std::remove_const_t<U>, std::remove_const_t<T>>;
      constexpr bool writable = std::is_const_v<T> || !std::is_const_v<U>;
      static_assert(dtype, "the pointer's element type is not that of the raw::Ptr parameter");
      static_assert(!dtype || writable, "the pointer is to const and the raw::Ptr parameter's is not");
      return dtype && writable;
    } else {
      return false;
    }
  }
  template <class A> static void write(std::uint64_t* to, const A& argument, const ArgumentPlace&) {
    *to = reinterpret_cast<std::uintptr_t>(static_cast<const void*>(argument));
  }
};

} // namespace kiln::detail
KILN_API_END
