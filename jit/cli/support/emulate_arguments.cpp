// Parses the arguments of `kiln emulate`, places them in the emulator's memory, and prints what changed.
#include <kiln/jit/cli/support/emulate_arguments.h>

#include <kiln/dsl/error.h>
#include <kiln/dsl/ir/semantics.h>
#include <kiln/jit/runtime/device.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

namespace kiln::cli {

const char* const emulate_arguments_help =
    "arguments, in the order of the kernel's parameters:\n"
    "  i32:5  u64:0x10  f32:1.5  bf16:-2     a number with its type (i8..i64, u8..u64, f16, bf16, f32, f64)\n"
    "  hex:0102ff...                         the bytes of a parameter\n"
    "  '{buffer:f32:9,i32:9}'                a structure, its members at multiples of their sizes\n"
    "  buffer:f32:1024                       1024 elements of device memory, random by the seed (in [-1, "
    "1),\n"
    "                                        integers in [-100, 100]); the parameter is its address\n"
    "  buffer:f32:1024:zeros                 also :iota (0, 1, 2...), :unwritten, :value=1.5\n"
    "  buffer:f32:1024:in=x.bin              from a file of raw elements; without a count, all of the file\n"
    "  buffer:f32:1024:zeros:out=y.bin       written to a file of raw elements after the launch\n"
    "  tensor:bf16:64x1000:box=64x8          a tensor map over a buffer, as cuTensorMapEncodeTiled makes "
    "it:\n"
    "                                        sizes and box begin with the innermost dimension; the "
    "parameter\n"
    "                                        is its 128 bytes or its address\n"
    "  tensor:...:swizzle=128                also 32, 64; :strides=128x4096 (bytes, without the first\n"
    "                                        dimension), :steps=1x2 (element strides), :interleave=16,\n"
    "                                        :nan (fills out of bounds), and all that a buffer can have\n"
    "  tensor:...:of=2                       over the buffer of argument 2\n"
    "  null                                  a null pointer";

namespace {

constexpr std::size_t shown_elements = 8;

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts(1);
  for (char c : text)
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

std::optional<DType> dtype_named(std::string_view word) {
  if (word.size() > 1 && word[0] == 's' && word[1] != '\0') { // names of PTX types
    const std::string own = "i" + std::string(word.substr(1));
    for (int t = 0; t < dtype_count; ++t)
      if (own == name(static_cast<DType>(t))) return static_cast<DType>(t);
  }
  for (int t = 1; t < dtype_count; ++t)
    if (word == name(static_cast<DType>(t))) return static_cast<DType>(t);
  return std::nullopt;
}

// The bytes of a number. Nothing if the text is not a number or the number does not fit.
std::optional<std::vector<std::byte>> bytes_of(DType t, const std::string& text) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(size_of(t)));
  ir::Cell cell;
  if (is_float(t)) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end) return std::nullopt;
    cell = ir::cell_of_float(t, value);
  } else {
    const bool negative = text.starts_with("-");
    std::string_view digits = std::string_view(text).substr(negative);
    const int base = digits.starts_with("0x") ? 16 : 10;
    if (base == 16) digits.remove_prefix(2);
    std::uint64_t magnitude = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, base);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    const int bits = 8 * size_of(t) - is_signed(t);
    const std::uint64_t most = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    if (negative ? !is_signed(t) || magnitude > most + 1 : magnitude > most) return std::nullopt;
    cell = negative ? 0 - magnitude : magnitude;
  }
  ir::store_cell(t, bytes.data(), cell);
  return bytes;
}

std::string element_text(DType t, const std::byte* at) {
  const ir::Cell cell = ir::load_cell(t, at);
  if (is_float(t)) return fmt::format("{:g}", static_cast<double>(ir::float_of(t, cell)));
  return is_signed(t) ? std::to_string(static_cast<std::int64_t>(cell)) : std::to_string(cell);
}

std::uint64_t memory_of_machine() {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(Device::cpu().properties().memory_bytes, 0));
}

} // namespace

void EmulateArgument::refuse(const std::string& what) const {
  throw UserError(fmt::format("{}, \"{}\": {}", name(), word_, what));
}

EmulateArgument::EmulateArgument(std::string word, std::string position)
    : word_(std::move(word)), position_(std::move(position)) {
  const std::string_view text = word_;
  if (text.starts_with("{")) {
    parse_structure(text.substr(1));
    return;
  }
  if (text == "null") {
    value_.resize(8);
    return;
  }
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view kind = text.substr(0, colon);
  const std::string rest(text.substr(std::min(colon + 1, text.size())));
  if (kind == "buffer" || kind == "tensor") {
    kind == "buffer" ? parse_buffer(rest) : parse_tensor(rest);
    return;
  }
  if (kind == "hex") {
    for (std::size_t n = 0; n + 1 < rest.size(); n += 2) {
      unsigned byte = 0;
      auto [end, error] = std::from_chars(rest.data() + n, rest.data() + n + 2, byte, 16);
      if (error != std::errc() || end != rest.data() + n + 2)
        refuse("it is not made of pairs of hexadecimal digits");
      value_.push_back(static_cast<std::byte>(byte));
    }
    if (rest.empty() || rest.size() % 2) refuse("give pairs of hexadecimal digits, as in hex:00ff");
    return;
  }
  dtype_ = dtype_named(kind);
  if (!dtype_)
    refuse(
        "it is neither a number with its type (i32:5, f32:1.5), a buffer (buffer:f32:1024:random), a tensor "
        "map (tensor:f32:64x64:box=32x8), hex:BYTES nor null");
  auto bytes = bytes_of(*dtype_, rest);
  if (!bytes) refuse(fmt::format("\"{}\" is not a value of type {}", rest, kind));
  value_ = std::move(*bytes);
}

// Members are at multiples of their sizes, and the whole size is a multiple of the largest member.
void EmulateArgument::parse_structure(std::string_view rest) {
  if (!rest.ends_with("}")) refuse("the structure does not end with }");
  rest.remove_suffix(1);
  if (rest.find_first_of("{}") != rest.npos) refuse("structures do not nest; write their members one by one");
  std::size_t bytes = 0, largest = 1;
  for (const std::string& part : split(rest, ',')) {
    members_.emplace_back(part, position_ + "." + std::to_string(members_.size() + 1));
    const std::size_t size = std::max<std::size_t>(members_.back().bytes(), 1);
    largest = std::max(largest, size);
    bytes = (bytes + size - 1) / size * size + size;
  }
  value_.resize((bytes + largest - 1) / largest * largest);
}

void EmulateArgument::parse_buffer(std::string_view rest) {
  is_buffer_ = true;
  const std::vector<std::string> items = split(rest, ':');
  dtype_ = dtype_named(items[0]);
  if (!dtype_) refuse(fmt::format("\"{}\" is not an element type; give f32, bf16, i32 or another", items[0]));
  std::size_t next = 1;
  bool counted = false;
  if (items.size() > 1) {
    auto [end, error] = std::from_chars(items[1].data(), items[1].data() + items[1].size(), count_);
    counted = !items[1].empty() && error == std::errc() && end == items[1].data() + items[1].size();
    if (counted) ++next;
  }
  for (; next < items.size(); ++next)
    parse_fill(items[next]);
  if (!counted && fill_ != Fill::File)
    refuse("it does not say how many elements; write buffer:" + items[0] + ":1024");
  if (fill_ == Fill::File) check_file(counted);
  check_size();
}

// Checks that the file has as many elements as counted, or sets the count to its number of elements.
void EmulateArgument::check_file(bool counted) {
  const auto size = static_cast<std::uint64_t>(size_of(*dtype_));
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::file_size(in_, error);
  if (error) refuse(in_ + " cannot be read: " + error.message());
  if (!counted) count_ = bytes / size;
  if (bytes != count_ * size)
    refuse(fmt::format("{} has {} bytes, which are not {} elements of {} bytes", in_, bytes, count_, size));
}

void EmulateArgument::check_size() const {
  const auto size = static_cast<std::uint64_t>(size_of(*dtype_));
  if (count_ > memory_of_machine() / 4 / size)
    refuse(fmt::format("{} elements of {} bytes are more than a quarter of this machine's memory ({} bytes)",
                       count_, size, memory_of_machine()));
}

namespace {

// Parses "64x1000" into an array. Returns how many numbers there are, or 0 for other text.
template <class T, std::size_t N> std::size_t sizes_of(std::string_view text, std::array<T, N>& to) {
  const std::vector<std::string> parts = split(text, 'x');
  for (std::size_t n = 0; n < parts.size(); ++n) {
    if (n == N) return 0;
    auto [end, error] = std::from_chars(parts[n].data(), parts[n].data() + parts[n].size(), to[n]);
    if (error != std::errc() || end != parts[n].data() + parts[n].size()) return 0;
  }
  return parts.size();
}

emulator::TensorMapType map_type(DType t) {
  using enum emulator::TensorMapType;
  switch (t) {
  case DType::I32: return Int32;
  case DType::I64: return Int64;
  case DType::F16: return Float16;
  case DType::BF16: return BFloat16;
  case DType::F32: return Float32;
  case DType::F64: return Float64;
  default: return size_of(t) == 1 ? UInt8 : size_of(t) == 2 ? UInt16 : size_of(t) == 4 ? UInt32 : UInt64;
  }
}

} // namespace

void EmulateArgument::parse_tensor(std::string_view rest) {
  const std::vector<std::string> items = split(rest, ':');
  dtype_ = dtype_named(items[0]);
  if (!dtype_) refuse(fmt::format("\"{}\" is not an element type; give f32, bf16, i32 or another", items[0]));
  emulator::TensorMapFields& map = map_.emplace();
  map.type = map_type(*dtype_);
  if (items.size() < 2 || !(map.rank = static_cast<std::uint32_t>(sizes_of(items[1], map.sizes))))
    refuse("it does not say its one to five sizes; write tensor:" + items[0] + ":64x1000:box=64x8");
  for (std::size_t n = 2; n < items.size(); ++n)
    if (!parse_map(items[n])) parse_fill(items[n]);
  if (!map.box[0]) refuse("it does not say its box; write :box= and as many sizes as the tensor has");
  const auto size = static_cast<std::uint64_t>(size_of(*dtype_));
  constexpr unsigned __int128 limit = std::uint64_t(1) << 40; // is rejected as a stride
  unsigned __int128 bytes = map.sizes[0] * static_cast<unsigned __int128>(size), dense = bytes;
  for (std::size_t d = 1; d < map.rank; ++d) {
    std::uint64_t& stride = map.strides[d - 1];
    if (!stride) stride = static_cast<std::uint64_t>(std::min(dense, limit));
    dense = static_cast<unsigned __int128>(stride) * map.sizes[d];
    bytes += static_cast<unsigned __int128>(stride) * (std::max<std::uint64_t>(map.sizes[d], 1) - 1);
  }
  emulator::TensorMapFields placed = map;
  placed.address = 256;
  if (const std::string wrong = problem(placed); !wrong.empty()) refuse(wrong);
  if (!of_.empty()) return;
  is_buffer_ = true;
  count_ =
      static_cast<std::uint64_t>(std::min<unsigned __int128>((bytes + size - 1) / size, ~std::uint64_t(0)));
  check_size();
  if (fill_ == Fill::File) check_file(true);
}

bool EmulateArgument::parse_map(std::string_view item) {
  const auto value = [&](std::string_view name) -> std::optional<std::string_view> {
    if (!item.starts_with(name)) return std::nullopt;
    return item.substr(name.size());
  };
  const auto wrong = [&] { refuse(fmt::format("\"{}\" is not an option of a tensor map", item)); };
  emulator::TensorMapFields& map = *map_;
  if (auto v = value("box=")) {
    if (sizes_of(*v, map.box) != map.rank) wrong();
  } else if (auto v = value("strides=")) {
    if (sizes_of(*v, map.strides) != map.rank - 1) wrong();
  } else if (auto v = value("steps=")) {
    if (sizes_of(*v, map.element_strides) != map.rank) wrong();
  } else if (auto v = value("swizzle=")) {
    if (*v != "32" && *v != "64" && *v != "128") wrong();
    map.swizzle = static_cast<emulator::TensorMapSwizzle>(*v == "32" ? 1 : *v == "64" ? 2 : 3);
  } else if (auto v = value("interleave=")) {
    if (*v != "16" && *v != "32") wrong();
    map.interleave = static_cast<emulator::TensorMapInterleave>(*v == "16" ? 1 : 2);
  } else if (auto v = value("of=")) {
    of_ = *v;
    if (of_.empty()) wrong();
  } else if (item == "nan") {
    map.fill = emulator::TensorMapFill::NaN;
  } else {
    return false;
  }
  return true;
}

void EmulateArgument::parse_fill(std::string_view item) {
  const std::string text(item);
  if (text == "random") {
    fill_ = Fill::Random;
  } else if (text == "zeros") {
    fill_ = Fill::Zeros;
  } else if (text == "iota") {
    fill_ = Fill::Iota;
  } else if (text == "unwritten") {
    fill_ = Fill::Unwritten;
  } else if (text.starts_with("value=")) {
    fill_ = Fill::Value;
    auto bytes = bytes_of(*dtype_, text.substr(6));
    if (!bytes) refuse(fmt::format("\"{}\" is not a value of type {}", text.substr(6), kiln::name(*dtype_)));
    fill_value_ = std::move(*bytes);
  } else if (text.starts_with("in=")) {
    fill_ = Fill::File;
    in_ = text.substr(3);
  } else if (text.starts_with("out=")) {
    out_ = text.substr(4);
  } else {
    refuse(fmt::format("\"{}\" is not an option of a buffer; give a count, random, zeros, iota, "
                       "unwritten, value=NUMBER, in=FILE or out=FILE",
                       text));
  }
}

std::vector<std::byte> EmulateArgument::contents(std::uint64_t seed) const {
  const auto size = static_cast<std::size_t>(size_of(*dtype_));
  std::vector<std::byte> bytes(count_ * size);
  if (fill_ == Fill::File) {
    std::ifstream in(in_, std::ios::binary);
    in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!in) refuse(in_ + " cannot be read");
    return bytes;
  }
  if (fill_ == Fill::Zeros || fill_ == Fill::Unwritten) return bytes;
  std::uint64_t own = seed;
  for (char c : position_)
    own = own * 1000003 + static_cast<unsigned char>(c);
  std::mt19937_64 random(own);
  for (std::uint64_t n = 0; n < count_; ++n) {
    std::byte* at = bytes.data() + n * size;
    const std::uint64_t draw = random();
    if (fill_ == Fill::Value)
      std::memcpy(at, fill_value_.data(), size);
    else if (is_float(*dtype_))
      ir::store_cell(
          *dtype_, at,
          ir::cell_of_float(*dtype_, fill_ == Fill::Iota
                                         ? static_cast<double>(n)
                                         : static_cast<double>(static_cast<std::int64_t>(draw)) * 0x1p-63));
    else
      ir::store_cell(*dtype_, at,
                     fill_ == Fill::Iota  ? n
                     : is_signed(*dtype_) ? draw % 201 - 100
                                          : draw % 101);
  }
  return bytes;
}

void EmulateArgument::place(emulator::Gpu& gpu, std::uint64_t seed) {
  for (EmulateArgument& m : members_)
    m.place(gpu, seed);
  if (!is_buffer_) return;
  before_ = contents(seed);
  address_ = gpu.allocate(before_.size(), name());
  if (fill_ != Fill::Unwritten) gpu.write(address_, before_.data(), before_.size());
}

std::vector<std::byte> EmulateArgument::value(emulator::Gpu& gpu,
                                              const std::vector<EmulateArgument>& all) const {
  const auto bytes_of_address = [](const std::uint64_t& address) {
    const auto* at = reinterpret_cast<const std::byte*>(&address);
    return std::vector<std::byte>(at, at + 8);
  };
  if (map_) {
    emulator::TensorMapFields fields = *map_;
    fields.address = address_;
    for (const EmulateArgument& a : all)
      a.each_buffer([&](const EmulateArgument& b) {
        if (b.position_ == of_) fields.address = b.address_;
      });
    if (!fields.address) refuse("argument " + of_ + " is not a buffer");
    if (const std::string wrong = problem(fields); !wrong.empty()) refuse(wrong);
    const emulator::TensorMap map = encode(fields);
    if (!by_address_) return {map.bytes.begin(), map.bytes.end()};
    const std::uint64_t at = gpu.allocate(sizeof map, "the tensor map of " + name());
    gpu.write(at, map.bytes.data(), sizeof map);
    return bytes_of_address(at);
  }
  if (is_buffer_) return bytes_of_address(address_);
  std::vector<std::byte> whole = value_;
  std::size_t at = 0;
  for (const EmulateArgument& m : members_) {
    const std::vector<std::byte> bytes = m.value(gpu, all);
    at = (at + bytes.size() - 1) / bytes.size() * bytes.size();
    std::copy(bytes.begin(), bytes.end(), whole.begin() + static_cast<std::ptrdiff_t>(at));
    at += bytes.size();
  }
  return whole;
}

void EmulateArgument::collect(const emulator::Gpu& gpu) {
  for (EmulateArgument& m : members_)
    m.collect(gpu);
  if (!is_buffer_) return;
  after_.resize(before_.size());
  gpu.read(after_.data(), address_, after_.size());
  // A pattern, since any value may have been there.
  if (fill_ == Fill::Unwritten) before_.assign(before_.size(), std::byte{0xa5});
  if (out_.empty()) return;
  std::ofstream out(out_, std::ios::binary);
  out.write(reinterpret_cast<const char*>(after_.data()), static_cast<std::streamsize>(after_.size()));
  out.close();
  if (!out) refuse(out_ + " cannot be written");
}

std::int64_t EmulateArgument::changed_elements() const {
  const auto size = static_cast<std::size_t>(size_of(*dtype_));
  std::int64_t changed = 0;
  for (std::size_t n = 0; n < after_.size(); n += size)
    changed += std::memcmp(before_.data() + n, after_.data() + n, size) != 0;
  return changed;
}

std::string EmulateArgument::summary() const {
  const auto size = static_cast<std::size_t>(size_of(*dtype_));
  std::string text = fmt::format("{}: {}[{}]:", name(), kiln::name(*dtype_), count_);
  for (std::size_t n = 0; n < std::min<std::size_t>(count_, shown_elements); ++n)
    text += (n ? ", " : " ") + element_text(*dtype_, after_.data() + n * size);
  if (count_ > shown_elements) text += ", ...";
  long double least = 0, largest = 0, sum = 0;
  std::uint64_t nans = 0, numbers = 0;
  for (std::size_t n = 0; n < count_; ++n) {
    const ir::Cell cell = ir::load_cell(*dtype_, after_.data() + n * size);
    const long double v = is_float(*dtype_)    ? ir::float_of(*dtype_, cell)
                          : is_signed(*dtype_) ? static_cast<long double>(static_cast<std::int64_t>(cell))
                                               : static_cast<long double>(cell);
    if (std::isnan(v)) {
      ++nans;
      continue;
    }
    least = numbers ? std::min(least, v) : v;
    largest = numbers ? std::max(largest, v) : v;
    sum += v;
    ++numbers;
  }
  if (numbers)
    text += fmt::format("; least {:g}, largest {:g}, mean {:g}", static_cast<double>(least),
                        static_cast<double>(largest),
                        static_cast<double>(sum / static_cast<long double>(numbers)));
  if (nans) text += fmt::format("; {} NaN", nans);
  text += fmt::format("; {} changed", changed_elements());
  if (!out_.empty()) text += "; in " + out_;
  return text;
}

nlohmann::ordered_json EmulateArgument::json() const {
  const auto size = static_cast<std::size_t>(size_of(*dtype_));
  auto first = nlohmann::ordered_json::array();
  for (std::size_t n = 0; n < std::min<std::size_t>(count_, shown_elements); ++n)
    first.push_back(element_text(*dtype_, after_.data() + n * size));
  nlohmann::ordered_json json = {{"argument", position_},
                                 {"type", kiln::name(*dtype_)},
                                 {"count", count_},
                                 {"changed", changed_elements()},
                                 {"first", first}};
  if (!out_.empty()) json["file"] = out_;
  return json;
}

} // namespace kiln::cli
