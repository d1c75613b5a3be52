// Defines TensorView, a strided array in memory of the host or a device, which `launch` takes for a View
// parameter.
//
//   std::vector<float> x(m * n);
//   TensorView a(x.data(), {m, n});                // TensorView<float, 2>, row-major
//   TensorView b(x, {m, n});                       // the same, and checks that x is long enough
//   TensorView c(p, {m, n}, {1, m});               // column-major: strides in elements
//   auto t = a.transpose().slice(0, 2, 5);         // views of the same memory
//   TensorView<const float, 2> read_only = a;
//
// A view does not own its memory, which must outlive it. Strides are in elements and may be zero (broadcast)
// or negative. Extents and strides accept any integer types, also mixed. Mistakes (a negative or overflowing
// extent, a null or misaligned pointer, an index out of range) throw UserError with the file and line of the
// caller.
#pragma once

#include <kiln/dsl/api.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <type_traits>
#include <utility>

KILN_API_BEGIN
namespace kiln {

inline constexpr int max_rank = 8;

// One integer of a braced list of extents, strides or axes, converted from any integer type.
struct Extent {
  std::int64_t value = 0;
  constexpr Extent() = default;
  template <class I>
    requires std::is_integral_v<I>
  constexpr Extent(I v) : value(static_cast<std::int64_t>(v)) {}
};

namespace detail {

// Checks and computations that do not depend on the element type. `extents` and `strides` have `rank`
// entries.
void check_view(const void* data, std::int64_t element_bytes, std::int64_t element_alignment, int rank,
                const std::int64_t* extents, const std::int64_t* strides, const std::source_location& here);
void check_container(std::size_t container_size, int rank, const std::int64_t* extents,
                     const std::source_location& here);
void row_major_strides(int rank, const std::int64_t* extents, std::int64_t* strides);
bool is_contiguous(int rank, const std::int64_t* extents, const std::int64_t* strides);
[[noreturn]] void bad_axis(const char* call, std::int64_t axis, int rank, const std::source_location& here);
void check_range(const char* call, int axis, std::int64_t begin, std::int64_t end, std::int64_t extent,
                 const std::source_location& here);
void check_index(const char* call, int axis, std::int64_t index, std::int64_t extent,
                 const std::source_location& here);
void check_permutation(int rank, const Extent* order, const std::source_location& here);
void check_reshape(int rank, const std::int64_t* extents, const std::int64_t* strides, int new_rank,
                   const Extent* new_extents, const std::source_location& here);
void broadcast(int rank, const std::int64_t* extents, const std::int64_t* strides, int new_rank,
               const Extent* new_extents, std::int64_t* new_strides, const std::source_location& here);

template <class C>
concept ContiguousContainer = requires(C& c) {
  { *c.data() };
  { c.size() } -> std::convertible_to<std::size_t>;
} && !requires(C& c) { c.rank(); };
template <class C> using ContainedElement = std::remove_reference_t<decltype(*std::declval<C&>().data())>;

} // namespace detail

// A view of `Rank` dimensions (0 to 8) with elements of type T; const T for a read-only view.
template <class T, int Rank> class TensorView {
  static_assert(Rank >= 0 && Rank <= max_rank, "a TensorView has from 0 to 8 dimensions");

public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using Here = std::source_location;
  static constexpr int rank_value = Rank;

  // An empty view: a null pointer and extents of zero. (A view of rank 0 has one element and cannot be
  // empty.)
  constexpr TensorView()
    requires(Rank > 0)
  = default;

  // A row-major array, and an array with the given strides.
  template <std::size_t N>
    requires(Rank > 0)
  TensorView(T* data, const Extent (&extents)[N], Here here = Here::current()) : data_(data) {
    static_assert(N == Rank, "the number of extents in braces must be that of the dimensions");
    if constexpr (N == Rank) {
      for (int i = 0; i < Rank; ++i)
        extents_[i] = extents[i].value;
      detail::row_major_strides(Rank, extents_, strides_);
      check(here);
    }
  }
  template <std::size_t N, std::size_t M>
    requires(Rank > 0)
  TensorView(T* data, const Extent (&extents)[N], const Extent (&strides)[M], Here here = Here::current())
      : data_(data) {
    static_assert(N == Rank, "the number of extents in braces must be that of the dimensions");
    static_assert(M == Rank, "the number of strides in braces must be that of the dimensions");
    if constexpr (N == Rank && M == Rank) {
      for (int i = 0; i < Rank; ++i)
        extents_[i] = extents[i].value, strides_[i] = strides[i].value;
      check(here);
    }
  }
  // A single number: TensorView<float, 0>(&x). Its type is not deduced from a pointer alone, because
  // TensorView(p) is more often a mistake.
  explicit TensorView(T* data, Here here = Here::current())
    requires(Rank == 0)
      : data_(data) {
    check(here);
  }

  // A view of all elements of a vector, span or array.
  template <detail::ContiguousContainer C>
    requires(Rank == 1 && std::is_convertible_v<detail::ContainedElement<C> (*)[], T (*)[]>)
  TensorView(C&& container, Here here = Here::current())
      : TensorView(container.data(), {container.size()}, here) {}
  template <class U, std::size_t N>
    requires(Rank == 1 && std::is_convertible_v<U (*)[], T (*)[]>)
  TensorView(U (&array)[N], Here here = Here::current()) : TensorView(array, {N}, here) {}
  // A view of the elements of a container in row-major order. Throws UserError if the container has fewer
  // elements than the extents require.
  template <detail::ContiguousContainer C, std::size_t N>
    requires(Rank > 0 && std::is_convertible_v<detail::ContainedElement<C> (*)[], T (*)[]>)
  TensorView(C&& container, const Extent (&extents)[N], Here here = Here::current())
      : TensorView(container.data(), extents, here) {
    detail::check_container(container.size(), Rank, extents_, here);
  }

  // Converts to a read-only view: TensorView<float, 2> to TensorView<const float, 2>.
  template <class U>
    requires(!std::is_same_v<U, T> && std::is_convertible_v<U (*)[], T (*)[]>)
  TensorView(const TensorView<U, Rank>& other) : data_(other.data()) {
    for (int i = 0; i < Rank; ++i)
      extents_[i] = other.extents()[i], strides_[i] = other.strides()[i];
  }

  T* data() const { return data_; }
  static constexpr int rank() { return Rank; }
  std::int64_t extent(int axis) const { return extents_[axis]; }
  std::int64_t stride(int axis) const { return strides_[axis]; }
  const std::int64_t* extents() const { return extents_; }
  const std::int64_t* strides() const { return strides_; }
  std::int64_t rows() const
    requires(Rank >= 2)
  {
    return extents_[Rank - 2];
  }
  std::int64_t cols() const
    requires(Rank >= 2)
  {
    return extents_[Rank - 1];
  }
  // Returns the number of elements.
  std::int64_t size() const {
    std::int64_t n = 1;
    for (int i = 0; i < Rank; ++i)
      n *= extents_[i];
    return n;
  }
  bool empty() const { return size() == 0; }
  bool is_contiguous() const { return detail::is_contiguous(Rank, extents_, strides_); }

  // Returns one element. Throws UserError if an index is out of range.
  template <class... I>
    requires(sizeof...(I) == Rank && (std::is_integral_v<I> && ...))
  T& operator()(I... index) const {
    std::int64_t offset = 0;
    [[maybe_unused]] int axis = 0;
    ((offset += at(axis++, static_cast<std::int64_t>(index))), ...);
    return data_[offset];
  }

  // Returns a view with the last two dimensions exchanged.
  TensorView transpose() const
    requires(Rank >= 2)
  {
    TensorView v = *this;
    v.swap_axes(Rank - 2, Rank - 1);
    return v;
  }
  // Returns a view whose dimension i is dimension order[i] of this view.
  template <std::size_t N>
    requires(Rank > 0)
  TensorView permute(const Extent (&order)[N], Here here = Here::current()) const {
    static_assert(N == Rank, "permute takes each dimension of the view once");
    TensorView v = *this;
    if constexpr (N == Rank) {
      detail::check_permutation(Rank, order, here);
      for (int i = 0; i < Rank; ++i) {
        v.extents_[i] = extents_[order[i].value];
        v.strides_[i] = strides_[order[i].value];
      }
    }
    return v;
  }
  // Returns a view of the elements `begin` to `end` (exclusive) of one dimension.
  TensorView slice(int axis, std::int64_t begin, std::int64_t end, Here here = Here::current()) const
    requires(Rank > 0)
  {
    if (axis < 0 || axis >= Rank) detail::bad_axis("slice", axis, Rank, here);
    detail::check_range("slice", axis, begin, end, extents_[axis], here);
    TensorView v = *this;
    if (end > begin) v.data_ += begin * strides_[axis];
    v.extents_[axis] = end - begin;
    return v;
  }
  // Returns a view of the part at index `i` of one dimension. The result lacks that dimension.
  TensorView<T, (Rank > 0 ? Rank - 1 : 0)> select(int axis, std::int64_t i, Here here = Here::current()) const
    requires(Rank > 0)
  {
    if (axis < 0 || axis >= Rank) detail::bad_axis("select", axis, Rank, here);
    detail::check_index("select", axis, i, extents_[axis], here);
    TensorView<T, Rank - 1> v{typename TensorView<T, Rank - 1>::Unchecked{}};
    v.data_ = data_ + i * strides_[axis];
    for (int from = 0, to = 0; from < Rank; ++from) {
      if (from == axis) continue;
      v.extents_[to] = extents_[from];
      v.strides_[to++] = strides_[from];
    }
    return v;
  }
  // Returns a view of the same elements, in row-major order, with other extents. This view must be
  // contiguous.
  template <std::size_t NewRank>
  TensorView<T, static_cast<int>(NewRank)> reshape(const Extent (&extents)[NewRank],
                                                   Here here = Here::current()) const {
    detail::check_reshape(Rank, extents_, strides_, NewRank, extents, here);
    return TensorView<T, static_cast<int>(NewRank)>(data_, extents, here);
  }
  // Returns a view that repeats dimensions of extent 1, and the whole view along new leading dimensions,
  // without a copy.
  template <std::size_t NewRank>
  TensorView<T, static_cast<int>(NewRank)> broadcast_to(const Extent (&extents)[NewRank],
                                                        Here here = Here::current()) const {
    TensorView<T, static_cast<int>(NewRank)> v{
        typename TensorView<T, static_cast<int>(NewRank)>::Unchecked{}};
    v.data_ = data_;
    for (std::size_t i = 0; i < NewRank; ++i)
      v.extents_[i] = extents[i].value;
    detail::broadcast(Rank, extents_, strides_, NewRank, extents, v.strides_, here);
    v.check(here);
    return v;
  }

private:
  template <class, int> friend class TensorView;
  struct Unchecked {};
  explicit TensorView(Unchecked) {}

  void check(const Here& here) const {
    detail::check_view(data_, sizeof(T), alignof(T), Rank, extents_, strides_, here);
  }
  std::int64_t at(int axis, std::int64_t index) const {
    if (index < 0 || index >= extents_[axis])
      detail::check_index("operator()", axis, index, extents_[axis], Here());
    return index * strides_[axis];
  }
  void swap_axes(int a, int b) {
    std::int64_t e = extents_[a], s = strides_[a];
    extents_[a] = extents_[b], strides_[a] = strides_[b];
    extents_[b] = e, strides_[b] = s;
  }

  T* data_ = nullptr;
  std::int64_t extents_[Rank > 0 ? Rank : 1] = {};
  std::int64_t strides_[Rank > 0 ? Rank : 1] = {};
};

template <class T, std::size_t R>
TensorView(T*, const Extent (&)[R], std::source_location = {}) -> TensorView<T, static_cast<int>(R)>;
template <class T, std::size_t R, std::size_t S>
TensorView(T*, const Extent (&)[R], const Extent (&)[S], std::source_location = {})
    -> TensorView<T, static_cast<int>(R)>;
template <class T, std::size_t N> TensorView(T (&)[N], std::source_location = {}) -> TensorView<T, 1>;
template <detail::ContiguousContainer C>
TensorView(C&&, std::source_location = {}) -> TensorView<detail::ContainedElement<C>, 1>;
template <detail::ContiguousContainer C, std::size_t R>
TensorView(C&&, const Extent (&)[R], std::source_location = {})
    -> TensorView<detail::ContainedElement<C>, static_cast<int>(R)>;

} // namespace kiln
KILN_API_END
