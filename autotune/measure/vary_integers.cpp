// Replaces constant integers, negates others, adds large ones, and clears rows of masks.
#include <kiln/autotune/measure/vary_integers.h>

#include <kiln/autotune/measure/sorted.h>
#include <kiln/autotune/random.h>
#include <kiln/dsl/ir/semantics.h>

#include <algorithm>
#include <cstring>

namespace kiln::tune {

namespace {

bool may_vary(const MemoryPlan& plan, const std::vector<Argument>& arguments, std::size_t argument) {
  const Argument& a = arguments[argument];
  const MemoryPlan::Place& place = plan.places[argument];
  if (place.block < 0 || !plan.blocks[static_cast<std::size_t>(place.block)].read || a.as_given ||
      is_float(a.dtype) || a.fill.kind == Fill::Kind::range || place.bytes == 0)
    return false;
  for (std::size_t i = 0; i < plan.places.size(); ++i) {
    const MemoryPlan::Place& other = plan.places[i];
    const bool overlap = i != argument && other.block == place.block &&
                         other.begin < place.begin + place.bytes && place.begin < other.begin + other.bytes;
    if (overlap && (other.steers || arguments[i].as_given || arguments[i].dtype != a.dtype)) return false;
  }
  return true;
}

// The elements of an argument in the order of their indices.
class Elements {
public:
  Elements(unsigned char* block, const MemoryPlan::Place& place, const Argument& a)
      : first_(block + place.data), dtype_(a.dtype),
        row_(a.extents.size() > 1 ? static_cast<std::size_t>(a.extents.back()) : 0) {
    if (!is_contiguous(a)) places_ = element_places(a);
    size_ = is_contiguous(a) ? static_cast<std::size_t>(place.bytes / size_of(a.dtype)) : places_.size();
  }
  std::size_t size() const { return size_; }
  std::size_t row() const { return row_; } // the size of a row; 0: there are none
  std::int64_t get(std::size_t i) const {
    return static_cast<std::int64_t>(ir::load_cell(dtype_, first_ + place(i)));
  }
  void set(std::size_t i, std::int64_t value) {
    ir::store_cell(dtype_, first_ + place(i), ir::cell_of_integer(dtype_, value));
  }

private:
  std::int64_t place(std::size_t i) const {
    return places_.empty() ? static_cast<std::int64_t>(i) * size_of(dtype_) : places_[i];
  }

  unsigned char* first_;
  DType dtype_;
  std::size_t row_, size_ = 0;
  std::vector<std::int64_t> places_; // empty: they are contiguous
};

struct Facts {
  bool constant = true, negative = false, has_top_bit = false, is_mask = true;
  std::uint64_t largest = 0; // magnitude
};

Facts facts_of(const Elements& elements, DType t) {
  Facts facts;
  const bool is_signed = t != DType::Bool && !is_unsigned(t);
  const int top = 8 * static_cast<int>(size_of(t)) - 1;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::int64_t value = elements.get(i);
    const auto bits = static_cast<std::uint64_t>(value);
    facts.constant &= value == elements.get(0);
    facts.negative |= is_signed && value < 0;
    facts.has_top_bit |= !is_signed && (bits >> top & 1) != 0;
    facts.is_mask &= value == 0 || value == 1;
    facts.largest = std::max(facts.largest, is_signed && value < 0 ? 0 - bits : bits);
  }
  return facts;
}

// Returns a number whose products with others of its kind do not fit into the dtype.
std::int64_t large(DType t, std::uint64_t bits) {
  constexpr int most = 40;
  const int width = std::min(8 * static_cast<int>(size_of(t)) - 2, most);
  const auto magnitude = static_cast<std::int64_t>(bits >> 8 & ((std::uint64_t{1} << width) - 1));
  return bits & 1 ? magnitude : -magnitude;
}

void vary(Elements& elements, DType t, Random& random) {
  const Facts facts = facts_of(elements, t);
  const bool is_signed = t != DType::Bool && !is_unsigned(t);
  const int width = 8 * static_cast<int>(size_of(t));
  const bool small = facts.largest < std::uint64_t{1} << (width - 3);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::uint64_t bits = random.bits();
    const bool some = (bits >> 60) == 0;
    if (facts.constant) {
      const auto value = static_cast<std::int64_t>(t == DType::Bool ? bits & 1 : bits & 15);
      elements.set(i, is_signed ? value - 8 : value);
    } else if (is_signed && !facts.negative && bits & 1) {
      elements.set(i, -1 - elements.get(i));
    }
    if (t == DType::Bool || !some) continue;
    if (is_signed && small) elements.set(i, large(t, bits));
    if (!is_signed && !facts.has_top_bit)
      elements.set(i, elements.get(i) | static_cast<std::int64_t>(std::uint64_t{1} << (width - 1)));
  }
  for (std::size_t row = 0; facts.is_mask && elements.row() > 1 && row < elements.size();
       row += elements.row())
    if (random.below(8) == 0)
      for (std::size_t i = row; i < row + elements.row(); ++i)
        elements.set(i, 0);
  // Rows that are negative throughout, for maxima that start at zero.
  const std::size_t rows = elements.row() > 1 ? elements.size() / elements.row() : 0;
  for (std::size_t row = random.below(8); is_signed && !facts.is_mask && row < rows; row += 8)
    for (std::size_t i = row * elements.row(); i < (row + 1) * elements.row(); ++i)
      if (const std::int64_t value = elements.get(i); value >= 0) elements.set(i, -1 - value);
}

bool is_extent(const std::vector<Argument>& arguments, std::int64_t value) {
  return value > 1 && std::any_of(arguments.begin(), arguments.end(), [&](const Argument& a) {
           return std::count(a.extents.begin(), a.extents.end(), value) > 0;
         });
}

void shorten(Elements& elements, DType t, const std::vector<Argument>& arguments, Random& random) {
  if (t == DType::Bool || !facts_of(elements, t).constant || !is_extent(arguments, elements.get(0))) return;
  const auto length = static_cast<std::size_t>(elements.get(0));
  for (std::size_t i = 0; i < elements.size(); ++i)
    if (random.bits() & 1) elements.set(i, 1 + static_cast<std::int64_t>(random.below(length)));
}

} // namespace

void vary_integers(const MemoryPlan& plan, const std::vector<Argument>& arguments, std::uint64_t seed,
                   Contents& contents) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!may_vary(plan, arguments, i)) continue;
    const Argument& a = arguments[i];
    const MemoryPlan::Place& place = plan.places[i];
    Random random(seed + 0x7000 * (i + 1));
    Elements elements(contents.blocks[static_cast<std::size_t>(place.block)].data(), place, a);
    if (elements.size() == 0) continue;
    if (!place.steers)
      vary(elements, a.dtype, random);
    else if (a.readonly)
      shorten(elements, a.dtype, arguments, random);
  }
}

} // namespace kiln::tune
