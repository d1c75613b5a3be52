// Implements RandomArguments: draws strides and contents, copies buffers, and compares them.
#include <dsl/random_arguments.h>

#include <kiln/dsl/ir/semantics.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

namespace kiln::test {

using namespace kiln::ir;

namespace {
Cell random_cell(DType t, std::mt19937_64& random) {
  if (t == DType::Bool) return random() & 1;
  if (!is_float(t)) {
    if (random() % 10 == 0) return cell_of_integer(t, static_cast<std::int64_t>(random()));
    return cell_of_integer(t, static_cast<std::int64_t>(random() % 41) - 20);
  }
  static constexpr double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e30, -1e-30};
  if (random() % 20 == 0) return cell_of_float(t, special[random() % std::size(special)]);
  return cell_of_float(t, (static_cast<double>(random() % 4001) - 2000) / 256);
}
} // namespace

// Allocates the memory and sets the pointers among the arguments.
void RandomArguments::place() {
  memories_.reserve(sizes_.size());
  for (const Memory& m : sizes_)
    memories_.emplace_back(m.bytes, m.place, m.alignment);
  for (const Buffer& b : buffers_)
    words_[static_cast<std::size_t>(b.word)] = reinterpret_cast<std::uintptr_t>(b.data(*this)) +
                                               static_cast<std::uint64_t>(b.origin * size_of(b.dtype));
}

std::vector<std::span<std::byte>> RandomArguments::memories() const {
  std::vector<std::span<std::byte>> all;
  for (std::size_t i = 0; i < memories_.size(); ++i)
    all.push_back({memories_[i].data(), sizes_[i].bytes});
  return all;
}

RandomArguments::RandomArguments(const RandomKernel& random, std::uint64_t seed,
                                 const RandomArgumentsOptions& options) {
  std::mt19937_64 engine(seed);
  const Kernel& kernel = *random.kernel;
  ArgumentLayout arguments = ArgumentLayout::of(kernel);
  words_.resize(static_cast<std::size_t>(arguments.words));
  bool any = options.layout == LayoutClass::Any;
  for (std::size_t p = 0; p < kernel.body.args.size(); ++p) {
    const Value& parameter = *kernel.body.args[p];
    const Type& type = parameter.type;
    auto word = static_cast<std::size_t>(arguments.first_word[p]);
    if (!type.is_view()) {
      store_cell(type.dtype, &words_[word], random_cell(type.dtype, engine));
      continue;
    }
    auto extents = random.extents[p];
    auto rank = extents.size();
    if (options.empty_extents && !random.written[p] && engine() % 2) extents[engine() % rank] = 0;
    std::vector<std::size_t> order(rank);
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (any && engine() % 3 == 0) std::reverse(order.begin(), order.end());
    auto unit = static_cast<std::int64_t>(16 / size_of(type.dtype));
    std::int64_t stride = any && engine() % 3 == 0 ? 2 : 1;
    std::int64_t low = 0, high = 0;
    bool empty = false;
    for (std::size_t i = rank; i-- > 0;) {
      std::size_t axis = order[i];
      std::int64_t actual = stride;
      if (options.strange_strides && any && engine() % 4 == 0) actual = -stride;
      if (options.strange_strides && any && !random.written[p] && engine() % 6 == 0) actual = 0;
      words_[word + 1 + axis] = static_cast<std::uint64_t>(extents[axis]);
      words_[word + 1 + rank + axis] = static_cast<std::uint64_t>(actual);
      empty |= extents[axis] == 0;
      (actual < 0 ? low : high) += actual * (extents[axis] - 1);
      stride *= std::max<std::int64_t>(extents[axis], 1);
      if (options.layout == LayoutClass::Aligned)
        stride = (stride + unit - 1) / unit * unit;
      else if (engine() % 2)
        stride += 3;
    }
    Buffer& buffer = buffers_.emplace_back();
    buffer.name = parameter.name ? parameter.name : "arg" + std::to_string(p);
    buffer.dtype = type.dtype;
    buffer.word = static_cast<int>(word);
    buffer.elements = empty ? 0 : static_cast<std::size_t>(high - low + 1);
    buffer.origin = empty ? 0 : -low;
    auto size = static_cast<std::size_t>(size_of(type.dtype));
    std::size_t bytes = buffer.elements * size;
    // With `overlap`, the buffer may share the memory of another view of that dtype, shifted or not.
    const Buffer* host = nullptr;
    if (options.overlap && engine() % 4)
      for (const Buffer& other : buffers_)
        if (&other != &buffer && other.dtype == type.dtype && other.name != "counts" &&
            buffer.name != "counts")
          host = &other;
    if (host) {
      buffer.memory = host->memory;
      std::size_t shift = engine() % 3 == 0 ? 0 : engine() % 20 * std::max<std::size_t>(size, 1);
      if (options.layout == LayoutClass::Aligned) shift = shift / 16 * 16;
      buffer.first_byte = host->first_byte + shift;
      Memory& memory = sizes_[buffer.memory];
      memory.bytes = std::max(memory.bytes, buffer.first_byte + bytes);
    } else {
      buffer.memory = sizes_.size();
      sizes_.push_back({bytes, engine() % 2 ? GuardedMemory::Place::AtEnd : GuardedMemory::Place::AtStart,
                        options.layout == LayoutClass::Aligned ? std::size_t{16} : size});
    }
  }
  place();
  for (const Buffer& buffer : buffers_)
    for (std::size_t i = 0; i < buffer.elements; ++i)
      store_cell(buffer.dtype, buffer.data(*this) + i * static_cast<std::size_t>(size_of(buffer.dtype)),
                 random_cell(buffer.dtype, engine));
}

RandomArguments::RandomArguments(const RandomArguments& other)
    : words_(other.words_), buffers_(other.buffers_), sizes_(other.sizes_) {
  place();
  for (std::size_t i = 0; i < sizes_.size(); ++i)
    if (sizes_[i].bytes > 0) std::memcpy(memories_[i].data(), other.memories_[i].data(), sizes_[i].bytes);
}

std::string RandomArguments::difference(const RandomArguments& other, double tolerance) const {
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    const Buffer &mine = buffers_[b], &theirs = other.buffers_[b];
    for (std::size_t i = 0; i < mine.elements; ++i) {
      std::size_t at = i * static_cast<std::size_t>(size_of(mine.dtype));
      Cell x = load_cell(mine.dtype, mine.data(*this) + at);
      Cell y = load_cell(mine.dtype, theirs.data(other) + at);
      if (x == y) continue;
      std::string where = mine.name + " at element " + std::to_string(i) + " of its memory: ";
      if (!is_float(mine.dtype))
        return where + std::to_string(static_cast<std::int64_t>(x)) + " and " +
               std::to_string(static_cast<std::int64_t>(y));
      long double u = float_of(mine.dtype, x), v = float_of(mine.dtype, y);
      bool close =
          (std::isnan(u) && std::isnan(v)) ||
          (tolerance > 0 && (u == v || std::fabs(u - v) <= tolerance * std::max(std::fabs(u), std::fabs(v))));
      if (!close) return where + std::to_string(u) + " and " + std::to_string(v);
    }
  }
  return {};
}

} // namespace kiln::test
