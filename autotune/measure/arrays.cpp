// Allocates arrays, fills them, and checks their guards and contents.
#include <kiln/autotune/measure/arrays.h>

#include <kiln/autotune/measure/decoder.h>
#include <kiln/autotune/measure/vary_integers.h>
#include <kiln/autotune/random.h>
#include <kiln/dsl/error.h>
#include <kiln/dsl/ir/semantics.h>
#include <kiln/jit/runtime/copy.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <numbers>
#include <numeric>

#include <sys/mman.h>
#include <unistd.h>

namespace kiln::tune {

namespace {

constexpr unsigned char guard_byte = 0xC5;
constexpr std::int64_t guard_bytes = 4096;
constexpr std::int64_t alignment = 64;

// Returns one of two byte patterns that a kernel is unlikely to write.
unsigned char poison_byte(DType t, Pattern pattern) {
  if (t == DType::F8E4M3 || t == DType::F8E5M2) return pattern == Pattern::first ? 0xFF : 0x7F; // NaN
  if (is_float(t)) return 0xFF;
  return pattern == Pattern::first ? 0xA5 : 0x7E;
}

void fill_random(unsigned char* to, std::int64_t count, DType t, Random& random, bool positive) {
  const std::int64_t size = size_of(t);
  for (std::int64_t i = 0; i < count; ++i, to += size) {
    if (!is_float(t)) {
      const std::size_t n = t == DType::Bool ? 2 : 8;
      ir::store_cell(t, to, ir::cell_of_integer(t, static_cast<std::int64_t>(random.below(n))));
      continue;
    }
    // A sum of uniform numbers is normal enough here and cheaper than a logarithm: use four numbers of 16
    // bits.
    const std::uint64_t bits = random.bits();
    const auto sum =
        static_cast<double>((bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48));
    double value = (sum / 65536.0 - 2.0) * std::numbers::sqrt3;
    if (positive) value = std::abs(value) + 0.25;
    if (t == DType::F32) {
      const auto f = static_cast<float>(value);
      std::memcpy(to, &f, sizeof f);
    } else {
      ir::store_cell(t, to, ir::cell_of_float(t, value));
    }
  }
}

void fill_range(unsigned char* to, std::int64_t count, DType t, const Fill& fill, Random& random) {
  const auto n = static_cast<std::size_t>(std::max<std::int64_t>(0, fill.most - fill.least)) + 1;
  for (std::int64_t i = 0; i < count; ++i, to += size_of(t)) {
    const std::int64_t value = fill.least + static_cast<std::int64_t>(random.below(n));
    ir::store_cell(t, to,
                   is_float(t) ? ir::cell_of_float(t, static_cast<long double>(value))
                               : ir::cell_of_integer(t, value));
  }
}

void copy_given(unsigned char* to, const Fill& fill, std::int64_t bytes, std::size_t index) {
  const auto wanted = static_cast<std::size_t>(bytes);
  const std::size_t given = fill.bytes ? fill.bytes->size() - fill.first : 0;
  if (given < wanted)
    throw UserError("argument " + std::to_string(index + 1) + " of the measured launch has " +
                    std::to_string(wanted) + " bytes, but only " + std::to_string(given) +
                    " are given for it");
  if (wanted) std::memcpy(to, fill.bytes->data() + fill.first, wanted);
}

// Returns whether all elements of given contents are equal, as those of a new array often are. Such contents
// hide errors, for instance elements at wrong places.
bool is_constant(const Fill& fill, std::int64_t bytes, std::int64_t element) {
  if (!fill.bytes || fill.bytes->size() - fill.first < static_cast<std::size_t>(bytes)) return false;
  const unsigned char* data = fill.bytes->data() + fill.first;
  return bytes <= element ||
         std::memcmp(data, data + element, static_cast<std::size_t>(bytes - element)) == 0;
}

// Puts in only a few special values, since one NaN in a row makes the whole row of a product NaN.
void sprinkle_special(unsigned char* to, std::int64_t count, DType t, Random& random) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr int of_each = 2;
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity})
    for (int i = 0; i < of_each && count > 0; ++i)
      ir::store_cell(
          t, to + static_cast<std::int64_t>(random.below(static_cast<std::size_t>(count))) * size_of(t),
          ir::cell_of_float(t, value));
}

// Returns the smallest normal number; smaller numbers are subnormal.
double least_normal(DType t) {
  switch (t) {
  case DType::F64: return 0x1p-1022;
  case DType::F16: return 0x1p-14;
  case DType::F8E4M3: return 0x1p-6;
  case DType::F8E5M2: return 0x1p-14;
  default: return 0x1p-126; // f32 and bf16
  }
}

// Returns a factor that makes usual numbers large, but not so large that sums or squares of thousands of them
// overflow.
double enlargement(DType t) {
  return t == DType::F8E4M3 || t == DType::F8E5M2 ? 4 : t == DType::F16 ? 32 : 1024;
}

struct Signs {
  bool negative = false; // some number is
  double largest = 0;    // finite magnitude
};
Signs signs_of(const unsigned char* from, std::int64_t count, DType t) {
  Signs signs;
  const Decoder decode(t);
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = decode(from + i * size_of(t));
    signs.negative |= value < 0;
    if (std::isfinite(value)) signs.largest = std::max(signs.largest, std::abs(value));
  }
  return signs;
}

// Negates a sixteenth of the elements if none is negative, and enlarges one in 32 if none is large.
void sprinkle_others(unsigned char* to, std::int64_t count, DType t, bool may_negate, bool may_enlarge,
                     Random& random) {
  const Signs signs = signs_of(to, count, t);
  const double factor = enlargement(t);
  const bool negate = may_negate && !signs.negative, enlarge = may_enlarge && signs.largest < factor;
  const Decoder decode(t);
  for (std::int64_t i = 0; (negate || enlarge) && i < count; ++i, to += size_of(t)) {
    const std::uint64_t bits = random.bits();
    const bool negated = negate && (bits & 15) == 0, enlarged = enlarge && (bits >> 32 & 31) == 0;
    if (!negated && !enlarged) continue;
    const double value = (negated ? -1 : 1) * (enlarged ? factor : 1) * decode(to);
    ir::store_cell(t, to, ir::cell_of_float(t, value));
  }
}

// Replaces half of the elements by zeros and subnormal numbers.
void sprinkle_tiny(unsigned char* to, std::int64_t count, DType t, Random& random) {
  for (std::int64_t i = 0; i < count; ++i, to += size_of(t)) {
    const std::uint64_t bits = random.bits();
    if (bits & 1) continue;
    const double sign = bits & 2 ? -1 : 1;
    const double share = bits & 4 ? 0 : static_cast<double>(bits >> 32) * 0x1p-32;
    ir::store_cell(t, to, ir::cell_of_float(t, sign * share * least_normal(t)));
  }
}

// Makes one row in eight negative throughout, so that a maximum that starts at zero is wrong.
void negate_rows(unsigned char* to, const Argument& a, Random& random) {
  constexpr std::int64_t period = 8, least_rows = 4;
  constexpr double least = 0.25;
  if (a.extents.size() < 2 || !is_contiguous(a) || a.extents.back() == 0) return;
  const std::int64_t row = a.extents.back();
  const std::int64_t rows =
      std::accumulate(a.extents.begin(), a.extents.end() - 1, std::int64_t{1}, std::multiplies<>());
  if (rows < least_rows) return;
  const Decoder decode(a.dtype);
  auto r = static_cast<std::int64_t>(random.below(static_cast<std::size_t>(std::min(period, rows))));
  for (; r < rows; r += period)
    for (unsigned char* at = to + r * row * size_of(a.dtype); at < to + (r + 1) * row * size_of(a.dtype);
         at += size_of(a.dtype))
      ir::store_cell(a.dtype, at, ir::cell_of_float(a.dtype, -std::abs(decode(at)) - least));
}

bool all_guard(const unsigned char* bytes, std::int64_t count) {
  return std::all_of(bytes, bytes + count, [](unsigned char b) { return b == guard_byte; });
}

} // namespace

Array::Array(Device device, const Block& block, Surroundings surroundings)
    : device_(device), bytes_(block.bytes) {
  const std::int64_t offset = block.misalignment;
  if (device.is_cpu() && surroundings == Surroundings::pages) {
    const auto page = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
    // The array's last byte is as close to the end of a page as its alignment allows.
    const std::int64_t whole = (bytes_ + alignment + page) / page * page;
    mapped_bytes_ = static_cast<std::size_t>(whole + 2 * page);
    mapped_ = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped_ == MAP_FAILED) {
      mapped_ = nullptr;
      throw std::bad_alloc();
    }
    auto* first = static_cast<unsigned char*>(mapped_) + page;
    if (mprotect(first, static_cast<std::size_t>(whole), PROT_READ | PROT_WRITE) != 0) {
      munmap(mapped_, mapped_bytes_);
      throw std::bad_alloc();
    }
    before_ = whole - bytes_;
    const std::int64_t excess = ((before_ - offset) % alignment + alignment) % alignment;
    before_ -= excess;
    behind_ = excess;
    data_ = first + before_;
  } else if (device.is_cpu()) {
    buffer_ = Buffer(device, offset + bytes_ + guard_bytes);
    data_ = static_cast<unsigned char*>(buffer_.data()) + offset;
    behind_ = guard_bytes;
  } else if (device.is_emulated()) {
    buffer_ = Buffer(device, offset + std::max<std::int64_t>(bytes_, 1));
    data_ = static_cast<unsigned char*>(buffer_.data()) + offset;
  } else {
    buffer_ = Buffer(device, guard_bytes + offset + bytes_ + guard_bytes);
    data_ = static_cast<unsigned char*>(buffer_.data()) + guard_bytes + offset;
    before_ = behind_ = guard_bytes;
  }
  put_guards();
}

Array::Array(Array&& other) noexcept
    : device_(other.device_), buffer_(std::move(other.buffer_)),
      mapped_(std::exchange(other.mapped_, nullptr)), mapped_bytes_(other.mapped_bytes_), data_(other.data_),
      bytes_(other.bytes_), before_(other.before_), behind_(other.behind_) {}

Array::~Array() {
  if (mapped_) munmap(mapped_, mapped_bytes_);
}

void Array::put_guards() {
  if (device_.is_cpu()) {
    std::memset(data_ - before_, guard_byte, static_cast<std::size_t>(before_));
    std::memset(data_ + bytes_, guard_byte, static_cast<std::size_t>(behind_));
    return;
  }
  Stream& stream = Stream::default_stream(device_);
  if (before_) fill_bytes(stream, data_ - before_, guard_byte, before_);
  if (behind_) fill_bytes(stream, data_ + bytes_, guard_byte, behind_);
  stream.synchronize();
}

void Array::upload(Stream& stream, const unsigned char* from) const {
  if (bytes_ == 0) return;
  if (device_.is_cpu()) {
    std::memcpy(data_, from, static_cast<std::size_t>(bytes_));
    return;
  }
  copy(stream, data_, from, bytes_);
  stream.synchronize();
}

void Array::download(Stream& stream, unsigned char* to) const {
  if (bytes_ == 0) return;
  if (device_.is_cpu()) {
    std::memcpy(to, data_, static_cast<std::size_t>(bytes_));
    return;
  }
  copy(stream, to, data_, bytes_);
  stream.synchronize();
}

bool Array::intact(Stream& stream) const {
  if (device_.is_cpu()) return all_guard(data_ - before_, before_) && all_guard(data_ + bytes_, behind_);
  std::vector<unsigned char> around(static_cast<std::size_t>(before_ + behind_));
  if (before_) copy(stream, around.data(), data_ - before_, before_);
  if (behind_) copy(stream, around.data() + before_, data_ + bytes_, behind_);
  stream.synchronize();
  return all_guard(around.data(), before_ + behind_);
}

// --- Contents ----------------------------------------------------------------------------------------------

std::uint64_t hash_of(const unsigned char* bytes, std::size_t count) {
  // Four lanes, so that hashing runs at memory speed. Every change of a single bit changes the hash.
  std::uint64_t lanes[4] = {1, 2, 3, 4};
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32)
    for (int lane = 0; lane < 4; ++lane) {
      std::uint64_t word;
      std::memcpy(&word, bytes + i + 8 * lane, 8);
      lanes[lane] = (lanes[lane] ^ word) * 0x9E3779B97F4A7C15u;
      lanes[lane] ^= lanes[lane] >> 29;
    }
  for (; i < count; ++i)
    lanes[0] = (lanes[0] ^ bytes[i]) * 0x9E3779B97F4A7C15u;
  std::uint64_t all = count;
  for (std::uint64_t lane : lanes)
    all = (all ^ lane) * 0xBF58476D1CE4E5B9u;
  return all;
}

namespace {

// Returns whether special values of an argument could become part of an argument that shares its bytes, and
// has another dtype, decides on addresses or loops, or must keep its contents.
bool mixes_with_others(const MemoryPlan& plan, const std::vector<Argument>& arguments, std::size_t argument) {
  const MemoryPlan::Place& own = plan.places[argument];
  for (std::size_t i = 0; i < plan.places.size(); ++i) {
    const MemoryPlan::Place& other = plan.places[i];
    if (i != argument && other.block == own.block && other.begin < own.begin + own.bytes &&
        own.begin < other.begin + other.bytes &&
        (other.steers || arguments[i].as_given || arguments[i].dtype != arguments[argument].dtype))
      return true;
  }
  return false;
}

} // namespace

// Arguments may share bytes, like the columns of a matrix. Given contents are copied after all others are
// made up, and special values come last, so that none of these is overwritten by a weaker kind.
Contents make_contents(const MemoryPlan& plan, const std::vector<Argument>& arguments, std::uint64_t seed,
                       Values values, bool positive, Large large) {
  Contents contents;
  for (const Block& block : plan.blocks)
    contents.blocks.emplace_back(block.read ? static_cast<std::size_t>(block.bytes) : 0);
  enum Kind : std::uint8_t { random, range, given, none };
  struct Part {
    unsigned char* to;
    std::int64_t count;
    Random random;
    bool varied;
    Kind kind;
  };
  std::vector<Part> parts;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Argument& a = arguments[i];
    const MemoryPlan::Place& place = plan.places[i];
    Part& part = parts.emplace_back(Part{nullptr, 0, Random(seed + 0x1000 * (i + 1)), false, none});
    if (place.block < 0 || !plan.blocks[static_cast<std::size_t>(place.block)].read) continue;
    part.to = contents.blocks[static_cast<std::size_t>(place.block)].data() + place.begin;
    part.count = place.bytes / size_of(a.dtype);
    // Special values could make a kernel read outside of its arrays, or loop forever.
    part.varied = values != Values::usual && !a.as_given && is_float(a.dtype) && !place.steers &&
                  a.fill.kind != Fill::Kind::range && !mixes_with_others(plan, arguments, i);
    const bool replaced = part.varied && is_constant(a.fill, place.bytes, size_of(a.dtype));
    part.kind = a.fill.kind == Fill::Kind::range                ? range
                : a.fill.kind == Fill::Kind::bytes && !replaced ? given
                                                                : random;
  }
  for (const Kind kind : {random, range, given})
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      Part& part = parts[i];
      if (part.kind != kind) continue;
      if (kind == random) fill_random(part.to, part.count, arguments[i].dtype, part.random, positive);
      if (kind == range) fill_range(part.to, part.count, arguments[i].dtype, arguments[i].fill, part.random);
      if (kind == given) copy_given(part.to, arguments[i].fill, plan.places[i].bytes, i);
    }
  std::size_t largest = 0; // the first of the largest arrays that vary
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (parts[i].varied && (!parts[largest].varied || parts[i].count > parts[largest].count)) largest = i;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    Part& part = parts[i];
    if (part.varied && values == Values::special)
      sprinkle_special(part.to, part.count, arguments[i].dtype, part.random);
    if (!part.varied || values != Values::tiny) continue;
    sprinkle_others(part.to, part.count, arguments[i].dtype, !positive,
                    large == Large::all || (large == Large::one && i == largest), part.random);
    sprinkle_tiny(part.to, part.count, arguments[i].dtype, part.random);
    if (!positive && large != Large::none) negate_rows(part.to, arguments[i], part.random);
  }
  if (values == Values::tiny) vary_integers(plan, arguments, seed, contents);
  for (std::size_t i = 0; i < plan.blocks.size(); ++i)
    contents.hashes.push_back(hash_of(contents.blocks[i].data(), contents.blocks[i].size()));
  return contents;
}

void poison(std::vector<unsigned char>& bytes, DType dtype, Pattern pattern) {
  std::fill(bytes.begin(), bytes.end(), poison_byte(dtype, pattern));
  const auto size = static_cast<std::size_t>(size_of(dtype));
  // Clear the sign bit to get another NaN (little endian: it is in the last byte of an element).
  if (is_float(dtype) && size > 1 && pattern == Pattern::second)
    for (std::size_t i = size - 1; i < bytes.size(); i += size)
      bytes[i] = 0x7F;
}

std::uint64_t Array::hash(Stream& stream) const {
  if (device_.is_cpu()) return hash_of(data_, static_cast<std::size_t>(bytes_));
  std::vector<unsigned char> now(static_cast<std::size_t>(bytes_));
  download(stream, now.data());
  return hash_of(now.data(), now.size());
}

ArraySet::ArraySet(Device device, const MemoryPlan& plan, const std::vector<Argument>& arguments,
                   Surroundings surroundings)
    : plan_(plan) {
  std::vector<std::uint64_t> addresses;
  for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
    const Block& block = plan.blocks[i];
    names_.push_back(plan.name_of(i, arguments));
    arrays_.emplace_back(device, block, surroundings);
    addresses.push_back(arrays_.back().address());
    restorable_ |= block.written && block.read;
  }
  words_ = plan.words(arguments, addresses);
}

void ArraySet::upload_inputs(Stream& stream, const Contents& contents) {
  for (std::size_t i = 0; i < arrays_.size(); ++i)
    if (plan_.blocks[i].read) arrays_[i].upload(stream, contents.blocks[i].data());
}

void ArraySet::restore(Stream& stream, const Contents& contents, const std::vector<bool>& kept) {
  for (std::size_t i = 0; i < arrays_.size(); ++i)
    if (plan_.blocks[i].read && plan_.blocks[i].written && !(i < kept.size() && kept[i]))
      arrays_[i].upload(stream, contents.blocks[i].data());
}

std::string ArraySet::damage(Stream& stream, const Contents& contents) const {
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    if (!arrays_[i].intact(stream)) return "it wrote outside of " + names_[i];
    if (plan_.blocks[i].written || arrays_[i].bytes() == 0) continue;
    if (arrays_[i].hash(stream) != contents.hashes[i]) return "it changed its input, " + names_[i];
  }
  return {};
}

} // namespace kiln::tune
