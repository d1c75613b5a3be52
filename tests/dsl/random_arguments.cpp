// Fills, copies and compares the buffers of random kernels.
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
constexpr std::size_t alignment = 64;

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

void RandomArguments::allocate(Buffer& buffer, std::size_t elements) {
  buffer.elements = elements;
  buffer.bytes.resize(elements * static_cast<std::size_t>(size_of(buffer.dtype)) + alignment);
  auto address = reinterpret_cast<std::uintptr_t>(buffer.bytes.data());
  buffer.first_byte = (alignment - address % alignment) % alignment;
  words_[static_cast<std::size_t>(buffer.word)] = address + buffer.first_byte;
}

RandomArguments::RandomArguments(const RandomKernel& random, std::uint64_t seed, LayoutClass layout) {
  std::mt19937_64 engine(seed);
  const Kernel& kernel = *random.kernel;
  ArgumentLayout arguments = ArgumentLayout::of(kernel);
  words_.resize(static_cast<std::size_t>(arguments.words));
  for (std::size_t p = 0; p < kernel.body.args.size(); ++p) {
    const Value& parameter = *kernel.body.args[p];
    const Type& type = parameter.type;
    auto word = static_cast<std::size_t>(arguments.first_word[p]);
    if (!type.is_view()) {
      store_cell(type.dtype, &words_[word], random_cell(type.dtype, engine));
      continue;
    }
    const auto& extents = random.extents[p];
    auto rank = extents.size();
    std::vector<std::size_t> order(rank);
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (layout == LayoutClass::Any && engine() % 3 == 0) std::reverse(order.begin(), order.end());
    auto unit = static_cast<std::int64_t>(16 / size_of(type.dtype));
    std::int64_t stride = layout == LayoutClass::Any && engine() % 3 == 0 ? 2 : 1;
    for (std::size_t i = rank; i-- > 0;) {
      std::size_t axis = order[i];
      words_[word + 1 + axis] = static_cast<std::uint64_t>(extents[axis]);
      words_[word + 1 + rank + axis] = static_cast<std::uint64_t>(stride);
      stride *= extents[axis];
      if (layout == LayoutClass::Aligned)
        stride = (stride + unit - 1) / unit * unit;
      else if (engine() % 2)
        stride += 3;
    }
    Buffer& buffer = buffers_.emplace_back();
    buffer.name = parameter.name ? parameter.name : "arg" + std::to_string(p);
    buffer.dtype = type.dtype;
    buffer.word = static_cast<int>(word);
    allocate(buffer, static_cast<std::size_t>(stride));
    for (std::size_t i = 0; i < buffer.elements; ++i)
      store_cell(type.dtype,
                 buffer.bytes.data() + buffer.first_byte + i * static_cast<std::size_t>(size_of(type.dtype)),
                 random_cell(type.dtype, engine));
  }
}

RandomArguments::RandomArguments(const RandomArguments& other) : words_(other.words_) {
  for (const Buffer& from : other.buffers_) {
    Buffer& to = buffers_.emplace_back();
    to.name = from.name;
    to.dtype = from.dtype;
    to.word = from.word;
    allocate(to, from.elements);
    std::memcpy(to.bytes.data() + to.first_byte, from.bytes.data() + from.first_byte,
                from.elements * static_cast<std::size_t>(size_of(from.dtype)));
  }
}

std::string RandomArguments::difference(const RandomArguments& other, double tolerance) const {
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    const Buffer &mine = buffers_[b], &theirs = other.buffers_[b];
    for (std::size_t i = 0; i < mine.elements; ++i) {
      std::size_t at = i * static_cast<std::size_t>(size_of(mine.dtype));
      Cell x = load_cell(mine.dtype, mine.bytes.data() + mine.first_byte + at);
      Cell y = load_cell(mine.dtype, theirs.bytes.data() + theirs.first_byte + at);
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
