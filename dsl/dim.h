// Defines the dimensions of tiles. Each dimension is a type in C++ and gets its size from the config.
//
//   KILN_DIM(BM); KILN_DIM(BN);      // at namespace scope; libraries declare theirs in their own namespace
//   Tile<float, BM, BN>              // in types
//   zeros<float>(BM, BN * 2_c)       // in calls; 2_c is a constant, products and quotients are dimensions
//   zeros<float>(constant<heads>)    // heads is a constexpr integer
//   Config{BM = 128, BN = 256}       // the sizes, which are bound when a kernel is compiled
//
// Two dimensions are equal if and only if their names and factors are equal. Dimensions of different names
// are different even if a config gives them the same size.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/config.h>

#include <cstdint>
#include <type_traits>

KILN_API_BEGIN
namespace kiln {

// Holds functions whose names a program may use for its own kernels, such as sort and take.
// Argument-dependent lookup finds them through the base class Associated: sort(x, BN) calls the function,
// although `using namespace kiln` does not make its name visible. Where another declaration of
// the name hides it, such as that of a kernel, write tile_functions::sort(x, BN).
namespace tile_functions {
struct Associated {}; // the base class by which C++ finds them
} // namespace tile_functions

// The base class of all dimensions.
struct Dimension : tile_functions::Associated {
  // Reports the use as a number of the host, as in `int n = BM`.
  template <class N>
    requires std::is_arithmetic_v<N>
  constexpr operator N() const {
    static_assert(!std::is_arithmetic_v<N>,
                  "a dimension is not a number: write value(BM) for the size that the config gives it, or "
                  "dim_size(BM) for this size as a scalar of the kernel");
    return {};
  }
};

namespace detail {
Binding bind_dimension(const char* name, std::int64_t size);

template <class D>
concept IsDimension = std::is_base_of_v<Dimension, D>;

// Describes a dimension at run time: numerator * factors / (denominator * divisors).
struct DimInfo {
  static constexpr int max_names = 8;
  std::int64_t numerator = 1, denominator = 1;
  int factors = 0, divisors = 0;
  const char* names[max_names] = {}; // factors, then divisors
};

template <class... D> struct DimList {};

constexpr bool name_less(const char* a, const char* b) {
  while (*a && *a == *b)
    ++a, ++b;
  return static_cast<unsigned char>(*a) < static_cast<unsigned char>(*b);
}
constexpr std::int64_t greatest_common_divisor(std::int64_t a, std::int64_t b) {
  while (b) {
    std::int64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}
} // namespace detail

// A dimension of constant size N. In calls it is written as a literal, 16_c, or constant<N> where N is a
// constexpr integer.
template <std::int64_t N> struct Constant : Dimension {
  static_assert(N > 0, "a dimension must be positive");
  static constexpr std::int64_t value = N;
  static constexpr detail::DimInfo info{N};
  using parts_num = detail::DimList<>;
  using parts_den = detail::DimList<>;
  static constexpr std::int64_t numerator = N, denominator = 1;
};

// A product or quotient of dimensions. It is always reduced and sorted by name, so that equal dimensions are
// the same type.
template <std::int64_t Numerator, std::int64_t Denominator, class Factors, class Divisors> struct Product;
template <std::int64_t Numerator, std::int64_t Denominator, class... F, class... G>
struct Product<Numerator, Denominator, detail::DimList<F...>, detail::DimList<G...>> : Dimension {
  static_assert(sizeof...(F) + sizeof...(G) <= detail::DimInfo::max_names,
                "a product of dimensions has at most 8 names");
  static constexpr detail::DimInfo info{
      Numerator, Denominator, sizeof...(F), sizeof...(G), {F::dimension_name..., G::dimension_name...}};
  using parts_num = detail::DimList<F...>;
  using parts_den = detail::DimList<G...>;
  static constexpr std::int64_t numerator = Numerator, denominator = Denominator;
};

namespace detail {
// Gives all kinds of dimension the same interface: named dimensions have no members parts_num and parts_den.
template <class D> struct Parts {
  using num = typename D::parts_num;
  using den = typename D::parts_den;
  static constexpr std::int64_t numerator = D::numerator, denominator = D::denominator;
};
template <class D>
  requires requires { D::dimension_name; }
struct Parts<D> {
  using num = DimList<D>;
  using den = DimList<>;
  static constexpr std::int64_t numerator = 1, denominator = 1;
};

template <class D, class Sorted> struct InsertDim;
template <class D> struct InsertDim<D, DimList<>> {
  using type = DimList<D>;
};
template <class List, class D> struct PushFront;
template <class... L, class D> struct PushFront<DimList<L...>, D> {
  using type = DimList<D, L...>;
};
template <class D, class First, class... Rest> struct InsertDim<D, DimList<First, Rest...>> {
  static auto pick() {
    if constexpr (name_less(First::dimension_name, D::dimension_name))
      return typename PushFront<typename InsertDim<D, DimList<Rest...>>::type, First>::type{};
    else
      return DimList<D, First, Rest...>{};
  }
  using type = decltype(pick());
};

template <class List, class D> struct RemoveDim { // removes the first occurrence of D
  using type = List;
  static constexpr bool found = false;
};
template <class First, class... Rest, class D> struct RemoveDim<DimList<First, Rest...>, D> {
  using rest = RemoveDim<DimList<Rest...>, D>;
  using type = typename PushFront<typename rest::type, First>::type;
  static constexpr bool found = rest::found;
};
template <class D, class... Rest> struct RemoveDim<DimList<D, Rest...>, D> {
  using type = DimList<Rest...>;
  static constexpr bool found = true;
};

// Computes (Num / Den) * (Add / Sub), one name at a time. Num and Den stay sorted and have no name in common.
template <class Num, class Den, class Add, class Sub> struct Combine {
  using num = Num;
  using den = Den;
};
template <class Num, class Den, class A, class... Add, class Sub>
struct Combine<Num, Den, DimList<A, Add...>, Sub> {
  using cancel = RemoveDim<Den, A>;
  static auto pick() {
    if constexpr (cancel::found)
      return Combine<Num, typename cancel::type, DimList<Add...>, Sub>{};
    else
      return Combine<typename InsertDim<A, Num>::type, Den, DimList<Add...>, Sub>{};
  }
  using next = decltype(pick());
  using num = typename next::num;
  using den = typename next::den;
};
template <class Num, class Den, class S, class... Sub>
struct Combine<Num, Den, DimList<>, DimList<S, Sub...>> {
  using cancel = RemoveDim<Num, S>;
  static auto pick() {
    if constexpr (cancel::found)
      return Combine<typename cancel::type, Den, DimList<>, DimList<Sub...>>{};
    else
      return Combine<Num, typename InsertDim<S, Den>::type, DimList<>, DimList<Sub...>>{};
  }
  using next = decltype(pick());
  using num = typename next::num;
  using den = typename next::den;
};

template <std::int64_t N, std::int64_t D, class Num, class Den> struct Simplest {
  using type = Product<N, D, Num, Den>;
};
template <std::int64_t N> struct Simplest<N, 1, DimList<>, DimList<>> {
  using type = Constant<N>;
};
template <class S> struct Simplest<1, 1, DimList<S>, DimList<>> {
  using type = S;
};
template <std::int64_t N, std::int64_t D, class Num, class Den>
using simplest =
    typename Simplest<N / greatest_common_divisor(N, D), D / greatest_common_divisor(N, D), Num, Den>::type;

template <class A, class B, class PA = Parts<A>, class PB = Parts<B>> struct Multiply {
  using combined = Combine<typename PA::num, typename PA::den, typename PB::num, typename PB::den>;
  using type = simplest<PA::numerator * PB::numerator, PA::denominator * PB::denominator,
                        typename combined::num, typename combined::den>;
};
template <class A, class B, class PA = Parts<A>, class PB = Parts<B>> struct Divide {
  using combined = Combine<typename PA::num, typename PA::den, typename PB::den, typename PB::num>;
  using type = simplest<PA::numerator * PB::denominator, PA::denominator * PB::numerator,
                        typename combined::num, typename combined::den>;
};
template <class A, class B> using product_t = typename Multiply<A, B>::type;
template <class A, class B> using quotient_t = typename Divide<A, B>::type;

// The value of the characters of a literal, as C++ reads an integer: decimal, hexadecimal after 0x, binary
// after 0b, and octal after another 0, with ' between digits.
struct ParsedConstant {
  std::int64_t value = 0;
  bool integer = true, fits = true;
};
template <char... Characters> constexpr ParsedConstant parse_constant() {
  constexpr char text[] = {Characters..., 0};
  constexpr char second = text[0] == '0' ? text[1] : 0;
  constexpr bool hexadecimal = second == 'x' || second == 'X', binary = second == 'b' || second == 'B';
  constexpr int base = hexadecimal ? 16 : binary ? 2 : second ? 8 : 10;
  ParsedConstant parsed;
  for (const char* c = text + (hexadecimal || binary ? 2 : 0); *c; ++c) {
    if (*c == '\'') continue;
    const int digit = *c >= '0' && *c <= '9'   ? *c - '0'
                      : *c >= 'a' && *c <= 'f' ? *c - 'a' + 10
                      : *c >= 'A' && *c <= 'F' ? *c - 'A' + 10
                                               : base;
    if (digit >= base) return {1, false, true};
    if (parsed.value > (INT64_MAX - digit) / base) return {1, true, false};
    parsed.value = parsed.value * base + digit;
  }
  return parsed;
}
} // namespace detail

// The product and the quotient of two dimensions, which are dimensions again. (Their types are deduced,
// because types that the signature names would be instantiated for every operand of every operator.)
template <detail::IsDimension A, detail::IsDimension B> constexpr auto operator*(A, B) {
  return detail::product_t<A, B>{};
}
template <detail::IsDimension A, detail::IsDimension B> constexpr auto operator/(A, B) {
  return detail::quotient_t<A, B>{};
}

// The constant dimension of a constexpr integer: `constexpr int D = 64; offset(constant<D>, 0)` is
// offset(64_c, 0).
template <std::int64_t N> inline constexpr Constant<N> constant{};

inline namespace literals {
// A constant dimension: 16_c has the size 16. The literal is an integer as in C++: 0x10_c and 1'024_c are
// constants too.
template <char... Characters> consteval auto operator""_c() {
  constexpr detail::ParsedConstant parsed = detail::parse_constant<Characters...>();
  static_assert(parsed.integer, "a constant dimension is an integer: write 16_c, 0x10_c or 1'024_c");
  static_assert(parsed.fits, "a constant dimension must fit into 64 bits");
  return Constant<parsed.value>{};
}
} // namespace literals

} // namespace kiln
KILN_API_END

// Declares a named dimension. Use it at namespace scope. `NAME = 128` in a config binds its size.
#define KILN_DIM(NAME)                                                                                       \
  static_assert(*__builtin_FUNCTION() == 0,                                                                  \
                "KILN_DIM belongs at namespace scope, before the function that uses the dimension");         \
  inline constexpr struct kiln_dim_##NAME : ::kiln::Dimension {                                              \
    static constexpr const char* dimension_name = #NAME;                                                     \
    static constexpr ::kiln::detail::DimInfo info{1, 1, 1, 0, {dimension_name}};                             \
    ::kiln::Binding operator=(::kiln::detail::ConfigValue size) const {                                      \
      static const char* const interned = ::kiln::detail::bind_dimension(dimension_name, 1).name;            \
      return ::kiln::Binding::of_interned(interned, size.value);                                             \
    }                                                                                                        \
  } NAME {                                                                                                   \
  }
