// Tests tensor copies against a model written from their documentation, element by element.
#include "jit/emulator/hopper.h"
#include "one_instruction.h"
#include "tensor_copies.h"
#include "test_seed.h"

#include <kiln/dsl/error.h>

#include <algorithm>
#include <random>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::emulator;

namespace {

// The offset of element x of the tensor in bytes; nothing if it is out of bounds.
std::optional<std::uint64_t> tensor_offset(const TensorMapFields& f, const std::array<std::int64_t, 5>& x) {
  std::uint64_t offset = 0;
  for (std::size_t d = 0; d < f.rank; ++d) {
    if (x[d] < 0 || x[d] >= static_cast<std::int64_t>(f.sizes[d])) return std::nullopt;
    offset += static_cast<std::uint64_t>(x[d]) * (d ? f.strides[d - 1] : bytes_of(f.type));
  }
  return offset;
}

// The address in shared memory of byte `n` of the box at `base`: the 16-byte chunks of a row of 128 bytes are
// permuted within 32, 64 or 128 bytes by the number of the row.
std::uint64_t swizzled(TensorMapSwizzle s, std::uint64_t base, std::uint64_t n) {
  const std::uint64_t a = base + n, row = a / 128, chunk = a % 128 / 16;
  std::uint64_t to = chunk;
  if (s == TensorMapSwizzle::Bytes32) to = chunk ^ row % 2;
  if (s == TensorMapSwizzle::Bytes64) to = chunk ^ row % 4;
  if (s == TensorMapSwizzle::Bytes128) to = chunk ^ row % 8;
  return row * 128 + to * 16 + a % 16;
}

// Calls f(coordinates in the tensor, index in the box) for each element of the box.
template <class F>
void each_element(const TensorMapFields& f, const std::array<std::int32_t, 5>& start, F call) {
  std::array<std::uint32_t, 5> count{1, 1, 1, 1, 1}, at{};
  for (std::size_t d = 0; d < f.rank; ++d)
    count[d] = d ? (f.box[d] + f.element_strides[d] - 1) / f.element_strides[d] : f.box[d];
  std::uint64_t n = 0;
  for (at[4] = 0; at[4] < count[4]; ++at[4])
    for (at[3] = 0; at[3] < count[3]; ++at[3])
      for (at[2] = 0; at[2] < count[2]; ++at[2])
        for (at[1] = 0; at[1] < count[1]; ++at[1])
          for (at[0] = 0; at[0] < count[0]; ++at[0]) {
            std::array<std::int64_t, 5> x{};
            for (std::size_t d = 0; d < f.rank; ++d)
              x[d] = start[d] + std::int64_t(at[d]) * (d ? f.element_strides[d] : 1);
            call(x, n++);
          }
}
std::uint64_t box_bytes(const TensorMapFields& f) {
  std::uint64_t n = 0;
  each_element(f, {}, [&](auto&, std::uint64_t) { ++n; });
  return n * bytes_of(f.type);
}

struct Tensor {
  TensorMapFields fields;
  std::vector<std::uint8_t> bytes;
};

// A tensor of a random shape with gaps between its rows, and a box that fits into 12 KiB.
Tensor random_tensor(std::mt19937_64& random, std::uint32_t rank, TensorMapType type,
                     TensorMapSwizzle swizzle) {
  Tensor t;
  TensorMapFields& f = t.fields;
  f.type = type;
  f.rank = rank;
  f.swizzle = swizzle;
  const std::uint32_t size = bytes_of(type);
  const std::uint32_t most = swizzle == TensorMapSwizzle::None ? 160 : 16u << static_cast<int>(swizzle);
  do {
    const std::uint32_t chunks =
        swizzle == TensorMapSwizzle::None ? 1 + static_cast<std::uint32_t>(random() % 10) : most / 16;
    f.box[0] = std::min(chunks * 16 / size, 256u);
    for (std::size_t d = 1; d < rank; ++d) {
      f.box[d] = 1 + static_cast<std::uint32_t>(random() % (rank < 3 ? 40 : 5));
      f.element_strides[d] = random() % 4 ? 1 : 1 + static_cast<std::uint32_t>(random() % 3);
    }
  } while (box_bytes(f) > 12 << 10);
  std::uint64_t bytes = 0;
  for (std::size_t d = 0; d < rank; ++d) {
    f.sizes[d] = 1 + random() % (2 * f.box[d] + 3);
    if (d) f.strides[d - 1] = bytes = (bytes + 15) / 16 * 16 + random() % 3 * 16;
    bytes = d ? bytes * f.sizes[d] : f.sizes[0] * size;
  }
  t.bytes.resize(bytes + 64);
  for (auto& b : t.bytes)
    b = static_cast<std::uint8_t>(random());
  return t;
}

std::array<std::int32_t, 5> random_start(std::mt19937_64& random, const TensorMapFields& f) {
  std::array<std::int32_t, 5> c{};
  for (std::size_t d = 0; d < f.rank; ++d) {
    const auto span = static_cast<std::int64_t>(f.sizes[d] + f.box[d]);
    c[d] =
        static_cast<std::int32_t>(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(span + 2)) -
                                  static_cast<std::int64_t>(f.box[d]) - 1);
  }
  return c;
}

constexpr TensorMapSwizzle all_swizzles[] = {TensorMapSwizzle::None, TensorMapSwizzle::Bytes32,
                                             TensorMapSwizzle::Bytes64, TensorMapSwizzle::Bytes128};

} // namespace

TEST_CASE("tensor loads of 1 to 5 dimensions, swizzled and out of bounds, equal their model", "[emulator]") {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  constexpr TensorMapType types[] = {TensorMapType::UInt8,   TensorMapType::BFloat16, TensorMapType::Float32,
                                     TensorMapType::Float64, TensorMapType::Float16,  TensorMapType::Int32};
  for (std::uint32_t rank = 1; rank <= 5; ++rank) {
    auto module = hopper_module(load_kernel(rank));
    for (const TensorMapSwizzle swizzle : all_swizzles)
      for (int n = 0; n < 3; ++n) {
        const TensorMapType type = types[random() % std::size(types)];
        Tensor t = random_tensor(random, rank, type, swizzle);
        if (type >= TensorMapType::Float16 && random() % 2) t.fields.fill = TensorMapFill::NaN;
        const auto start = random_start(random, t.fields);
        const std::uint64_t bytes = box_bytes(t.fields);
        const std::uint32_t size = bytes_of(type);
        std::vector<std::uint8_t> wanted(bytes);
        std::vector<bool> outside(bytes / size);
        each_element(t.fields, start, [&](const auto& x, std::uint64_t e) {
          const auto from = tensor_offset(t.fields, x);
          for (std::uint64_t b = 0; b < size; ++b) {
            const std::uint64_t to = swizzled(t.fields.swizzle, 0, e * size + b);
            if (to < bytes) wanted[to] = from ? t.bytes[*from + b] : std::uint8_t(0);
            if (to < bytes && !from) outside[to / size] = true;
          }
        });
        at_all_moments(
            [&](const Options& o) {
              Gpu gpu(o);
              t.fields.address = on_gpu(gpu, t.bytes, "tensor");
              const std::uint64_t out = gpu.allocate(bytes, "out");
              auto report = gpu.launch_packed(module, "k", {.block = {64}, .shared_bytes = 16384},
                                              arguments(t.fields, 0, out, bytes, start).bytes());
              INFO(report.text() << "rank " << rank << " swizzle " << static_cast<int>(swizzle));
              REQUIRE(report.ok());
              const auto found = from_gpu<std::uint8_t>(gpu, out, bytes);
              std::uint64_t wrong = 0;
              for (std::uint64_t b = 0; b < bytes; ++b) {
                if (t.fields.fill == TensorMapFill::NaN && outside[b / size]) {
                  const std::uint8_t* e = &found[b / size * size];
                  float f4;
                  double f8;
                  std::uint16_t f2;
                  std::memcpy(&f2, e, 2);
                  std::memcpy(&f4, e, std::min(size, 4u));
                  std::memcpy(&f8, e, std::min(size, 8u));
                  wrong += !(size == 2 ? (f2 & 0x7fff) > 0x7f80 : size == 4 ? f4 != f4 : f8 != f8);
                } else {
                  wrong += found[b] != wanted[b];
                }
              }
              CHECK(wrong == 0);
            },
            2);
      }
  }
}

TEST_CASE("tensor stores write what is in bounds, and nothing else", "[emulator]") {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  for (std::uint32_t rank = 1; rank <= 5; ++rank) {
    auto module = hopper_module(store_kernel(rank, ""));
    for (const TensorMapSwizzle swizzle : all_swizzles)
      for (int n = 0; n < 2; ++n) {
        Tensor t = random_tensor(random, rank, n ? TensorMapType::UInt16 : TensorMapType::Float32, swizzle);
        const auto start = random_start(random, t.fields);
        // Swizzles move whole rows of 128.
        const std::uint64_t bytes = (box_bytes(t.fields) + 127) / 128 * 128;
        const std::uint32_t size = bytes_of(t.fields.type);
        std::vector<std::uint8_t> shared(bytes), wanted = t.bytes;
        for (auto& b : shared)
          b = static_cast<std::uint8_t>(random());
        each_element(t.fields, start, [&](const auto& x, std::uint64_t e) {
          if (const auto to = tensor_offset(t.fields, x))
            for (std::uint64_t b = 0; b < size; ++b)
              wanted[*to + b] = shared[swizzled(t.fields.swizzle, 0, e * size + b)];
        });
        at_all_moments(
            [&](const Options& o) {
              Gpu gpu(o);
              t.fields.address = on_gpu(gpu, t.bytes, "tensor");
              const std::uint64_t in = on_gpu(gpu, shared, "in");
              auto report = gpu.launch_packed(module, "k", {.block = {64}, .shared_bytes = 16384},
                                              arguments(t.fields, in, 0, bytes, start).bytes());
              INFO(report.text() << "rank " << rank << " swizzle " << static_cast<int>(swizzle));
              REQUIRE(report.ok());
              CHECK(from_gpu<std::uint8_t>(gpu, t.fields.address, t.bytes.size()) == wanted);
            },
            2);
      }
  }
}

TEST_CASE("tensor reductions update a tensor element by element", "[emulator]") {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  using U = std::uint32_t;
  struct Row {
    const char* name;
    U (*update)(U, U);
  };
  const Row rows[] = {
      {"add", [](U a, U b) { return a + b; }},
      {"min", [](U a, U b) { return std::min(a, b); }},
      {"max", [](U a, U b) { return std::max(a, b); }},
      {"inc", [](U a, U b) { return a >= b ? 0 : a + 1; }},
      {"dec", [](U a, U b) { return a == 0 || a > b ? b : a - 1; }},
      {"and", [](U a, U b) { return a & b; }},
      {"or", [](U a, U b) { return a | b; }},
      {"xor", [](U a, U b) { return a ^ b; }},
  };
  for (const Row& row : rows) {
    auto module = hopper_module(store_kernel(2, row.name));
    Tensor t = random_tensor(random, 2, TensorMapType::UInt32, all_swizzles[random() % 4]);
    const auto start = random_start(random, t.fields);
    const std::uint64_t bytes = (box_bytes(t.fields) + 127) / 128 * 128;
    std::vector<std::uint8_t> shared(bytes), wanted = t.bytes;
    for (auto& b : shared)
      b = static_cast<std::uint8_t>(random());
    each_element(t.fields, start, [&](const auto& x, std::uint64_t e) {
      if (const auto to = tensor_offset(t.fields, x)) {
        U a, b;
        std::memcpy(&a, &wanted[*to], 4);
        std::memcpy(&b, &shared[swizzled(t.fields.swizzle, 0, e * 4)], 4);
        a = row.update(a, b);
        std::memcpy(&wanted[*to], &a, 4);
      }
    });
    at_all_moments([&](const Options& o) {
      Gpu gpu(o);
      t.fields.address = on_gpu(gpu, t.bytes, "tensor");
      const std::uint64_t in = on_gpu(gpu, shared, "in");
      auto report = gpu.launch_packed(module, "k", {.block = {64}, .shared_bytes = 16384},
                                      arguments(t.fields, in, 0, bytes, start).bytes());
      INFO(report.text() << row.name);
      REQUIRE(report.ok());
      CHECK(from_gpu<std::uint8_t>(gpu, t.fields.address, t.bytes.size()) == wanted);
    });
  }
}
