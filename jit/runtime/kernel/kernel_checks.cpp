// Checks the arguments of every launch, and finds the layout classes of views.
#include <kiln/jit/runtime/kernel/kernel_core.h>

#include <kiln/jit/runtime/rehearsing.h>

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <string>

namespace kiln::detail {

namespace {

bool fits_product(std::int64_t& product, std::int64_t factor) {
  return !__builtin_mul_overflow(product, factor, &product);
}

std::string list(const std::uint64_t* values, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i)
    text += (i ? ", " : "") + std::to_string(static_cast<std::int64_t>(values[i]));
  return text + "}";
}

std::string number_text(DType dtype, std::uint64_t bits) {
  const std::uint64_t width = 8 * static_cast<std::uint64_t>(size_of(dtype));
  if (dtype == DType::F64) return fmt::format("{}", std::bit_cast<double>(bits));
  if (dtype == DType::F32) return fmt::format("{}", std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  if (is_float(dtype)) return fmt::format("{} of bits {:#x}", name(dtype), bits);
  if (is_signed(dtype))
    return std::to_string(static_cast<std::int64_t>(bits << (64 - width)) >> (64 - width));
  return std::to_string(bits);
}

constexpr const char* class_names[] = {"Any", "Unit", "Aligned"};

} // namespace

void KernelCore::refuse(std::size_t index, SourceLocation site, const std::string& what) const {
  throw UserError(site, title() + ": argument " + std::to_string(index + 1) + what);
}

void KernelCore::check_view(const Parameter& p, std::size_t index, const std::uint64_t* words,
                            SourceLocation site) const {
  const std::uint64_t* extents = words + p.first_word + 1;
  const std::uint64_t* strides = extents + p.info.rank;
  bool empty = false, overflow = false;
  std::int64_t bytes = size_of(p.info.dtype), reach = 1;
  for (int i = 0; i < p.info.rank; ++i) {
    auto extent = static_cast<std::int64_t>(extents[i]), stride = static_cast<std::int64_t>(strides[i]);
    if (extent < 0)
      refuse(index, site, " has extents " + list(extents, p.info.rank) + "; extents must not be negative");
    empty |= extent == 0;
    std::int64_t magnitude = stride < 0 ? static_cast<std::int64_t>(0 - strides[i]) : stride;
    overflow |= magnitude < 0 || !fits_product(bytes, extent) || !fits_product(magnitude, extent - 1) ||
                __builtin_add_overflow(reach, magnitude, &reach);
  }
  if (empty) return;
  if (overflow || !fits_product(reach, size_of(p.info.dtype)))
    refuse(index, site,
           " with extents " + list(extents, p.info.rank) + " and strides " + list(strides, p.info.rank) +
               " reaches past 64-bit offsets; check both");
  std::uint64_t data = words[p.first_word];
  if (!data)
    refuse(index, site,
           " is null with extents " + list(extents, p.info.rank) + "; pass the array, or an extent of zero");
}

LayoutClass KernelCore::find_class(const Parameter& p, std::uint64_t* words) const {
  int rank = p.info.rank;
  if (rank == 0) return LayoutClass::Any;
  std::uint64_t* extents = words + p.first_word + 1;
  std::uint64_t* strides = extents + rank;
  if (extents[rank - 1] <= 1) strides[rank - 1] = 1; // it is only ever multiplied by 0
  if (strides[rank - 1] != 1) return LayoutClass::Any;
  std::uint64_t bits = words[p.first_word];
  for (int i = 0; i + 1 < rank; ++i)
    if (extents[i] > 1) bits |= strides[i] * static_cast<std::uint64_t>(size_of(p.info.dtype));
  return bits % 16 == 0 ? LayoutClass::Aligned : LayoutClass::Unit;
}

LayoutClass KernelCore::pinned_class(const Parameter& p, std::size_t index, LayoutClass found,
                                     SourceLocation site) const {
  auto pinned = static_cast<LayoutClass>(p.info.layout);
  if (found < pinned)
    refuse(index, site,
           " has layout class " + std::string(class_names[static_cast<int>(found)]) +
               " and the View parameter is pinned to " + class_names[static_cast<int>(pinned)] +
               (pinned == LayoutClass::Unit
                    ? "; pass a view whose last stride is 1"
                    : "; pass a view whose last stride is 1 and whose base and other strides are multiples "
                      "of 16 bytes"));
  return pinned;
}

std::uint64_t KernelCore::check_arguments(std::uint64_t* words, SourceLocation site) const {
  std::uint64_t classes = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    if (p.info.kind == ParameterInfo::Kind::Scalar) continue;
    if (p.view >= 0) check_view(p, i, words, site);
    std::uint64_t misaligned = words[p.first_word] % static_cast<std::uint64_t>(size_of(p.info.dtype));
    if (misaligned)
      refuse(i, site,
             " points to an address that is not a multiple of " + std::to_string(size_of(p.info.dtype)) +
                 " bytes, the size of " + std::string(kiln::name(p.info.dtype)) + "; align the array");
    if (p.view < 0) continue;
    LayoutClass c = find_class(p, words);
    if (p.info.layout != ParameterInfo::not_pinned) c = pinned_class(p, i, c, site);
    classes |= static_cast<std::uint64_t>(c) << (2 * p.view);
  }
  return classes;
}

bool KernelCore::any_stand_in(const std::uint64_t* words) const {
  bool any = false;
  for (const Parameter& p : parameters_)
    any |= p.view >= 0 && is_stand_in(words[p.first_word]);
  return any;
}

std::vector<std::string> KernelCore::texts_of(const std::uint64_t* words) const {
  std::vector<std::string> texts;
  for (const Parameter& p : parameters_) {
    const std::uint64_t* word = words + p.first_word;
    const std::string dtype(kiln::name(p.info.dtype));
    if (p.info.kind == ParameterInfo::Kind::View) {
      const auto* extents = reinterpret_cast<const std::int64_t*>(word + 1);
      texts.push_back(text_of_array(dtype, p.info.rank, extents, extents + p.info.rank));
    } else if (p.info.kind == ParameterInfo::Kind::Pointer) {
      texts.push_back("pointer to " + dtype);
    } else {
      texts.push_back(number_text(p.info.dtype, *word));
    }
  }
  return texts;
}

void KernelCore::check_pointers(const std::uint64_t* words, SourceLocation site) const {
  if (!raw_pointers_ && !any_stand_in(words)) return;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    if (p.info.kind != ParameterInfo::Kind::Scalar && is_stand_in(words[p.first_word]))
      refuse(i, site, " is a stand-in, which has no memory; launch the kernel inside of rehearse()");
    if (p.info.kind == ParameterInfo::Kind::Pointer && !words[p.first_word])
      refuse(i, site,
             " is a null pointer; pass the array, or any other pointer if every access is masked off");
  }
}

void KernelCore::check_each_memory(const std::uint64_t* words, Device device, SourceLocation site) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    if (p.info.kind == ParameterInfo::Kind::Scalar) continue;
    const std::uint64_t* extents = words + p.first_word + 1;
    if (p.view >= 0 && std::find(extents, extents + p.info.rank, 0) != extents + p.info.rank) continue;
    auto* memory = reinterpret_cast<const void*>(words[p.first_word]);
    if (!is_reachable(memory, device)) refuse(i, site, " is " + why_unreachable(memory, device));
  }
}

std::uint64_t KernelCore::layout_bits(std::initializer_list<LayoutClass> layouts, SourceLocation site) const {
  if (layouts.size() != 0 && layouts.size() != static_cast<std::size_t>(views_))
    throw UserError(site, title() + ": " + std::to_string(layouts.size()) +
                              " layout classes are given, and the kernel has " + std::to_string(views_) +
                              " View parameters; give one for each, or none");
  std::uint64_t classes = 0;
  for (const Parameter& p : parameters_) {
    if (p.view < 0) continue;
    LayoutClass c = p.info.rank == 0 ? LayoutClass::Any : LayoutClass::Aligned;
    if (layouts.size() != 0) c = layouts.begin()[p.view];
    if (p.info.layout != ParameterInfo::not_pinned) c = static_cast<LayoutClass>(p.info.layout);
    classes |= static_cast<std::uint64_t>(c) << (2 * p.view);
  }
  return classes;
}

namespace {
[[noreturn]] void does_not_fit(const std::string& number, DType to, const ArgumentPlace& place) {
  SourceLocation site = place.kernel.where;
  if (place.site.line() != 0) site = place.site;
  place.kernel.refuse(place.index, site,
                      ", the number " + number + ", does not fit a Scalar of " + std::string(name(to)) +
                          "; pass a number that it holds exactly");
}
} // namespace

void check_integer_fits(std::int64_t value, DType to, const ArgumentPlace& place) {
  if (value >= 0) return check_unsigned_fits(static_cast<std::uint64_t>(value), to, place);
  bool fits;
  if (is_float(to))
    fits = -value >> (info(to).mantissa_bits + 1) == 0;
  else
    fits = is_signed(to) && value >= -(std::int64_t{1} << (8 * size_of(to) - 2)) * 2;
  if (!fits) does_not_fit(std::to_string(value), to, place);
}

void check_unsigned_fits(std::uint64_t value, DType to, const ArgumentPlace& place) {
  int bits = is_float(to) ? info(to).mantissa_bits + 1 : 8 * size_of(to) - is_signed(to);
  if (bits < 64 && value >> bits != 0) does_not_fit(std::to_string(value), to, place);
}

} // namespace kiln::detail
