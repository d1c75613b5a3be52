// Checks the arguments of TensorView's functions, and computes strides.
#include <kiln/jit/runtime/tensor_view.h>

#include <kiln/dsl/error.h>

#include <string>

namespace kiln::detail {
namespace {

using std::to_string;

std::string list(int rank, const std::int64_t* values) {
  std::string s = "{";
  for (int i = 0; i < rank; ++i)
    s += (i ? ", " : "") + to_string(values[i]);
  return s + "}";
}

std::string list(int rank, const Extent* values) {
  std::int64_t copy[max_rank] = {};
  for (int i = 0; i < rank && i < max_rank; ++i)
    copy[i] = values[i].value;
  return list(rank, copy);
}

bool multiply(std::int64_t& product, std::int64_t factor) {
  return !__builtin_mul_overflow(product, factor, &product);
}

// Whether the distance in bytes from the lowest to the highest element fits in 64 bits.
bool span_fits(int rank, const std::int64_t* extents, const std::int64_t* strides,
               std::int64_t element_bytes) {
  std::int64_t reach = 1;
  for (int i = 0; i < rank; ++i) {
    std::int64_t stride = strides[i];
    if (stride < 0 && __builtin_sub_overflow(std::int64_t{0}, stride, &stride)) return false;
    if (!multiply(stride, extents[i] - 1) || __builtin_add_overflow(reach, stride, &reach)) return false;
  }
  return multiply(reach, element_bytes);
}

} // namespace

void check_view(const void* data, std::int64_t element_bytes, std::int64_t element_alignment, int rank,
                const std::int64_t* extents, const std::int64_t* strides, const std::source_location& here) {
  bool empty = false;
  for (int i = 0; i < rank; ++i) {
    if (extents[i] < 0)
      throw UserError(here, "TensorView's argument 'extents': extent " + to_string(i) + " is " +
                                to_string(extents[i]) + "; extents must not be negative");
    empty |= extents[i] == 0;
  }
  if (empty) return;
  std::int64_t bytes = element_bytes;
  for (int i = 0; i < rank; ++i)
    if (!multiply(bytes, extents[i]))
      throw UserError(here, "TensorView's argument 'extents': " + list(rank, extents) + " elements of " +
                                to_string(element_bytes) + " bytes overflow 64 bits; check the extents");
  if (!span_fits(rank, extents, strides, element_bytes))
    throw UserError(here, "TensorView's argument 'strides': " + list(rank, strides) + " with extents " +
                              list(rank, extents) + " reach past 64-bit offsets; check the strides");
  if (!data)
    throw UserError(here, "TensorView's argument 'data' is null with extents " + list(rank, extents) +
                              "; pass the array, or an extent of zero");
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(element_alignment) != 0)
    throw UserError(here, "TensorView's argument 'data' is not a multiple of " +
                              to_string(element_alignment) +
                              " bytes, which its elements need; align the array");
}

void check_container(std::size_t container_size, int rank, const std::int64_t* extents,
                     const std::source_location& here) {
  std::size_t needed = 1; // check_view has shown that it cannot overflow unless an extent is zero
  for (int i = 0; i < rank; ++i)
    needed *= static_cast<std::size_t>(extents[i]);
  for (int i = 0; i < rank; ++i)
    if (extents[i] == 0) needed = 0;
  if (needed > container_size)
    throw UserError(here, "TensorView's argument 'extents': " + list(rank, extents) + " are " +
                              to_string(needed) + " elements but the container holds " +
                              to_string(container_size) + "; use smaller extents");
}

void row_major_strides(int rank, const std::int64_t* extents, std::int64_t* strides) {
  std::int64_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    strides[i] = stride;
    // An overflow is reported by check_view, or does not matter because another extent is zero.
    if (extents[i] > 0 && !multiply(stride, extents[i])) stride = 1;
  }
}

bool is_contiguous(int rank, const std::int64_t* extents, const std::int64_t* strides) {
  std::int64_t stride = 1;
  for (int i = 0; i < rank; ++i)
    if (extents[i] == 0) return true;
  for (int i = rank - 1; i >= 0; --i) {
    if (extents[i] != 1 && strides[i] != stride) return false;
    stride *= extents[i];
  }
  return true;
}

void bad_axis(const char* call, std::int64_t axis, int rank, const std::source_location& here) {
  throw UserError(here, std::string(call) + "'s argument 'axis' is " + to_string(axis) + "; use 0 to " +
                            to_string(rank - 1));
}

void check_range(const char* call, int axis, std::int64_t begin, std::int64_t end, std::int64_t extent,
                 const std::source_location& here) {
  if (begin < 0 || end < begin || end > extent)
    throw UserError(here, std::string(call) + " of axis " + to_string(axis) + " from " + to_string(begin) +
                              " to " + to_string(end) + "; use 0 <= begin <= end <= " + to_string(extent));
}

void check_index(const char* call, int axis, std::int64_t index, std::int64_t extent,
                 const std::source_location& here) {
  if (index >= 0 && index < extent) return;
  SourceLocation where = here.line() ? SourceLocation(here) : SourceLocation();
  throw UserError(where, std::string(call) + " of a TensorView: index " + to_string(index) + " of axis " +
                             to_string(axis) + " is outside; its extent is " + to_string(extent));
}

void check_permutation(int rank, const Extent* order, const std::source_location& here) {
  unsigned seen = 0;
  for (int i = 0; i < rank; ++i)
    if (order[i].value >= 0 && order[i].value < rank) seen |= 1u << order[i].value;
  if (seen != (1u << rank) - 1)
    throw UserError(here, "permute's argument 'order' is " + list(rank, order) + "; name each of 0 to " +
                              to_string(rank - 1) + " once");
}

void check_reshape(int rank, const std::int64_t* extents, const std::int64_t* strides, int new_rank,
                   const Extent* new_extents, const std::source_location& here) {
  if (!is_contiguous(rank, extents, strides))
    throw UserError(here, "reshape of a view with extents " + list(rank, extents) + " and strides " +
                              list(rank, strides) + ", which is not contiguous; copy it first");
  std::int64_t have = 1, want = 1;
  bool fits = true;
  for (int i = 0; i < rank; ++i)
    have *= extents[i];
  for (int i = 0; i < new_rank; ++i)
    if (new_extents[i].value == 0) want = 0;
  for (int i = 0; i < new_rank; ++i)
    fits = fits && new_extents[i].value >= 0 && multiply(want, new_extents[i].value);
  if (!fits || have != want)
    throw UserError(here, "reshape of " + list(rank, extents) + " to " + list(new_rank, new_extents) +
                              "; both must have the same number of elements");
}

void broadcast(int rank, const std::int64_t* extents, const std::int64_t* strides, int new_rank,
               const Extent* new_extents, std::int64_t* new_strides, const std::source_location& here) {
  bool fits = new_rank >= rank;
  int shift = new_rank - rank;
  for (int i = 0; fits && i < new_rank; ++i) {
    if (i < shift || (extents[i - shift] == 1 && new_extents[i].value != 1))
      new_strides[i] = 0;
    else if (extents[i - shift] == new_extents[i].value)
      new_strides[i] = strides[i - shift];
    else
      fits = false;
  }
  if (!fits)
    throw UserError(here, "broadcast_to of " + list(rank, extents) + " to " + list(new_rank, new_extents) +
                              "; each extent must be kept or be 1, counted from the last");
}

} // namespace kiln::detail
