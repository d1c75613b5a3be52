// Tensor copies against a model written from their documentation: every element by itself.
#include "hopper.h"
#include "one_instruction.h"

#include <kiln/dsl/error.h>

#include <algorithm>
#include <random>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::emulator;

namespace {

// Element x of the tensor, in bytes from its address; nothing out of bounds.
std::optional<std::uint64_t> tensor_offset(const TensorMapFields& f, const std::array<std::int64_t, 5>& x) {
  std::uint64_t offset = 0;
  for (std::size_t d = 0; d < f.rank; ++d) {
    if (x[d] < 0 || x[d] >= static_cast<std::int64_t>(f.sizes[d])) return std::nullopt;
    offset += static_cast<std::uint64_t>(x[d]) * (d ? f.strides[d - 1] : bytes_of(f.type));
  }
  return offset;
}

// Where byte `n` of an unswizzled box at `base` is in shared memory: 16-byte chunks of a row of 128 bytes
// change places within 32, 64 or 128 bytes, by the number of the row.
std::uint64_t swizzled(TensorMapSwizzle s, std::uint64_t base, std::uint64_t n) {
  const std::uint64_t a = base + n, row = a / 128, chunk = a % 128 / 16;
  std::uint64_t to = chunk;
  if (s == TensorMapSwizzle::Bytes32) to = chunk ^ row % 2;
  if (s == TensorMapSwizzle::Bytes64) to = chunk ^ row % 4;
  if (s == TensorMapSwizzle::Bytes128) to = chunk ^ row % 8;
  return row * 128 + to * 16 + a % 16;
}

// For each element of the box: f(coordinates in the tensor, its number in shared memory).
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

std::string parameters() {
  return ".param .align 64 .b8 map[128], .param .u64 in, .param .u64 out, .param .u32 bytes, .param .s32 c0, "
         ".param .s32 c1, "
         ".param .s32 c2, .param .s32 c3, .param .s32 c4";
}
const char* const start_of = R"(
.version 8.5
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
)";
const char* const body_start = R"(
  .reg .b32 %r<32>; .reg .b64 %x<16>; .reg .pred %p<8>;
  .shared .align 8 .b64 bar;
  mov.u32 %r0, %tid.x; mov.b64 %x0, map; cvta.param.u64 %x0, %x0;
  ld.param.u64 %x1, [in]; ld.param.u64 %x2, [out]; ld.param.u32 %r1, [bytes];
  ld.param.s32 %r2, [c0]; ld.param.s32 %r3, [c1]; ld.param.s32 %r4, [c2]; ld.param.s32 %r5, [c3]; ld.param.s32 %r6, [c4];
  mov.u32 %r7, smem; mov.u32 %r8, bar; setp.eq.u32 %p0, %r0, 0;
)";
std::string coordinates(std::uint32_t rank) {
  std::string s;
  for (std::uint32_t d = 0; d < rank; ++d)
    s += (d ? ", %r" : "%r") + std::to_string(2 + d);
  return s;
}

std::string load_kernel(std::uint32_t rank) {
  return std::string(start_of) + ".visible .entry k(" + parameters() + ") .maxntid 64\n{" + body_start + R"(
  @%p0 mbarrier.init.shared::cta.b64 [%r8], 1;
  @%p0 fence.mbarrier_init.release.cluster;
  bar.sync 0;
  @!%p0 bra WAIT;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], %r1;
  cp.async.bulk.prefetch.tensor.)" +
         std::to_string(rank) + "d.L2.global.tile [%x0, {" + coordinates(rank) +
         "}];\n  cp.async.bulk.tensor." + std::to_string(rank) +
         "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r7], [%x0, {" + coordinates(rank) +
         R"(}], [%r8];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r8], 0;
  @!%p1 bra WAIT;
  mov.u32 %r9, %r0;
COPY:
  setp.ge.u32 %p2, %r9, %r1; @%p2 bra DONE;
  add.u32 %r10, %r7, %r9; cvt.u64.u32 %x3, %r9; add.u64 %x4, %x2, %x3;
  ld.shared.u8 %r11, [%r10]; st.global.u8 [%x4], %r11;
  add.u32 %r9, %r9, 64; bra COPY;
DONE:
  ret;
})";
}

std::string store_kernel(std::uint32_t rank, const std::string& reduction) {
  return std::string(start_of) + ".visible .entry k(" + parameters() + ") .maxntid 64\n{" + body_start + R"(
  mov.u32 %r9, %r0;
COPY:
  setp.ge.u32 %p2, %r9, %r1; @%p2 bra READY;
  add.u32 %r10, %r7, %r9; cvt.u64.u32 %x3, %r9; add.u64 %x4, %x1, %x3;
  ld.global.u8 %r11, [%x4]; st.shared.u8 [%r10], %r11;
  add.u32 %r9, %r9, 64; bra COPY;
READY:
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @!%p0 bra DONE;
  )" + (reduction.empty() ? "cp.async" : "cp.reduce.async") +
         ".bulk.tensor." + std::to_string(rank) + "d.global.shared::cta" +
         (reduction.empty() ? "" : "." + reduction) + ".tile.bulk_group [%x0, {" + coordinates(rank) +
         R"(}], [%r7];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group.read 0;
  cp.async.bulk.wait_group 0;
DONE:
  ret;
})";
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

Parameters arguments(const TensorMapFields& f, std::uint64_t in, std::uint64_t out, std::uint64_t bytes,
                     const std::array<std::int32_t, 5>& c) {
  Parameters p;
  p.add(encode(f)).add(in).add(out).add(static_cast<std::uint32_t>(bytes));
  for (const std::int32_t x : c)
    p.add(x);
  return p;
}

constexpr TensorMapSwizzle all_swizzles[] = {TensorMapSwizzle::None, TensorMapSwizzle::Bytes32,
                                             TensorMapSwizzle::Bytes64, TensorMapSwizzle::Bytes128};

} // namespace

TEST_CASE("tensor loads of 1 to 5 dimensions, swizzled and out of bounds, equal their model", "[emulator]") {
  const std::uint64_t seed = test_seed();
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
  const std::uint64_t seed = test_seed();
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  for (std::uint32_t rank = 1; rank <= 5; ++rank) {
    auto module = hopper_module(store_kernel(rank, ""));
    for (const TensorMapSwizzle swizzle : all_swizzles)
      for (int n = 0; n < 2; ++n) {
        Tensor t = random_tensor(random, rank, n ? TensorMapType::UInt16 : TensorMapType::Float32, swizzle);
        const auto start = random_start(random, t.fields);
        const std::uint64_t bytes =
            (box_bytes(t.fields) + 127) / 128 * 128; // swizzles move whole rows of 128
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
  const std::uint64_t seed = test_seed();
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

TEST_CASE("a load that goes to several blocks of a cluster fills and counts in each", "[emulator]") {
  const std::string text = R"(
.version 8.5
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out, .param .u16 mask) .reqntid 32 .explicitcluster .reqnctapercluster 4, 1, 1
{
  .reg .b32 %r<32>; .reg .b64 %x<16>; .reg .pred %p<8>; .reg .b16 %s<4>;
  .shared .align 8 .b64 bar;
  mov.u32 %r0, %tid.x; mov.b64 %x0, map; cvta.param.u64 %x0, %x0; ld.param.u64 %x2, [out]; ld.param.u16 %s0, [mask];
  mov.u32 %r7, smem; mov.u32 %r8, bar; mov.u32 %r3, %cluster_ctarank; setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p3, %r3, 1;
  cvt.u32.u16 %r4, %s0; shr.u32 %r4, %r4, %r3; and.b32 %r4, %r4, 1; setp.eq.u32 %p4, %r4, 0;
  @!%p0 bra READY;
  mbarrier.init.shared::cta.b64 [%r8], 1; fence.mbarrier_init.release.cluster;
  @%p4 bra READY;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 1024;
READY:
  bar.warp.sync 0xffffffff;
  barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
  and.pred %p5, %p0, %p3; mov.u32 %r5, 0;
  @%p5 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r7], [%x0, {%r5, %r5}], [%r8], %s0;
  @%p4 bra END;
WAIT:
  mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r8], 0; @!%p1 bra WAIT;
  mad.lo.u32 %r9, %r0, 32, %r7; mov.u32 %r10, %ctaid.x; shl.b32 %r10, %r10, 10; mad.lo.u32 %r10, %r0, 32, %r10; cvt.u64.u32 %x3, %r10; add.u64 %x4, %x2, %x3;
  ld.shared.v4.u32 {%r11, %r12, %r13, %r14}, [%r9]; st.global.v4.u32 [%x4], {%r11, %r12, %r13, %r14};
  ld.shared.v4.u32 {%r11, %r12, %r13, %r14}, [%r9+16]; st.global.v4.u32 [%x4+16], {%r11, %r12, %r13, %r14};
END:
  barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;
  ret;
})";
  auto module = hopper_module(text);
  std::vector<std::uint32_t> values(256);
  for (std::uint32_t k = 0; k < 256; ++k)
    values[k] = 77 * k;
  at_all_moments([&](const Options& o) {
    for (const std::uint16_t mask : {0xf, 0x5, 0xa}) {
      Gpu gpu(o);
      TensorMapFields f;
      f.type = TensorMapType::UInt32;
      f.rank = 2;
      f.address = on_gpu(gpu, values, "tensor");
      f.sizes = {16, 16};
      f.strides = {64};
      f.box = {16, 16};
      const std::uint64_t out = on_gpu(gpu, std::vector<std::uint32_t>(1024, 5), "out");
      Parameters p;
      p.add(encode(f)).add(out).add(mask);
      auto report =
          gpu.launch_packed(module, "k", {.grid = {4}, .block = {32}, .shared_bytes = 1024}, p.bytes());
      INFO(report.text());
      REQUIRE(report.ok());
      const auto found = from_gpu<std::uint32_t>(gpu, out, 1024);
      bool right = true;
      for (std::uint32_t k = 0; k < 1024; ++k)
        right &= found[k] == (mask >> (k / 256) & 1 ? values[k % 256] : 5);
      CHECK(right);
    }
  });
}

TEST_CASE("a kernel makes its own tensor map, and acquires it", "[emulator]") {
  const std::string text = R"(
.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u64 in, .param .u64 map, .param .u64 out) .maxntid 32
{
  .reg .b32 %r<32>; .reg .b64 %x<16>; .reg .pred %p<8>;
  .shared .align 8 .b64 bar; .shared .align 128 .b8 made[128];
  ld.param.u64 %x1, [in]; ld.param.u64 %x2, [map]; ld.param.u64 %x3, [out]; cvta.to.global.u64 %x2, %x2;
  mov.u32 %r0, %tid.x; mov.u32 %r1, made; mov.u32 %r7, smem; mov.u32 %r8, bar; setp.eq.u32 %p0, %r0, 0;
  mad.lo.u32 %r2, %r0, 4, %r1; mov.u32 %r3, 0; st.shared.u32 [%r2], %r3; bar.warp.sync 0xffffffff;
  @!%p0 bra MADE;
  mov.u64 %x4, made; mov.u32 %r4, 8; mov.u32 %r5, 16; mov.u64 %x5, 64; mov.u32 %r6, 1;
  tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%x4], %x1;
  tensormap.replace.tile.rank.shared::cta.b1024.b32 [%x4], 1;
  tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%x4], 0, %r4;
  tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%x4], 1, %r5;
  tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%x4], 0, %r5;
  tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%x4], 1, %r5;
  tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%x4], 0, %x5;
  tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%x4], 0, %r6;
  tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%x4], 1, %r6;
  tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%x4], 2;
  tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%x4], 0;
  tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%x4], 0;
  tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%x4], 0;
MADE:
  bar.warp.sync 0xffffffff;
  mov.u64 %x6, made;
  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%x2], [%x6], 128;
  fence.proxy.tensormap::generic.acquire.gpu [%x2], 128;
  @%p0 mbarrier.init.shared::cta.b64 [%r8], 1; bar.sync 0;
  @!%p0 bra WAIT;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 512;
  mov.u32 %r9, 4; mov.u32 %r10, 0;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%x2, {%r9, %r10}], [%r8];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r8], 0; @!%p1 bra WAIT;
  mad.lo.u32 %r11, %r0, 16, %r7; ld.shared.v4.u32 {%r12, %r13, %r14, %r15}, [%r11];
  mad.wide.u32 %x7, %r0, 16, %x3; st.global.v4.u32 [%x7], {%r12, %r13, %r14, %r15};
  ret;
})";
  auto module = hopper_module(text);
  std::vector<std::uint32_t> values(256);
  for (std::uint32_t k = 0; k < 256; ++k)
    values[k] = k * k;
  at_all_moments([&](const Options& o) {
    Gpu gpu(o);
    const std::uint64_t in = on_gpu(gpu, values), map = gpu.allocate(128), out = gpu.allocate(512);
    const std::uint64_t words[] = {in, map, out};
    auto report = gpu.launch(module, "k", {.block = {32}, .shared_bytes = 1024}, words);
    INFO(report.text());
    REQUIRE(report.ok());
    const auto found = from_gpu<std::uint32_t>(gpu, out, 128);
    for (std::uint32_t k = 0; k < 128; ++k)
      CHECK(found[k] == values[k / 8 * 16 + 4 + k % 8]);
  });
  std::string without = text;
  const std::string fence = "fence.proxy.tensormap::generic.acquire.gpu [%x2], 128;";
  without.erase(without.find(fence), fence.size());
  Gpu gpu({.arch = "sm_90a"});
  const std::uint64_t words[] = {on_gpu(gpu, values), gpu.allocate(128), gpu.allocate(512)};
  auto report = gpu.launch(hopper_module(without), "k", {.block = {32}, .shared_bytes = 1024}, words);
  INFO(report.text());
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].fault == Fault::MissingProxyFence);
}

TEST_CASE("a tensor map that the driver refuses is refused with its reason", "[emulator]") {
  TensorMapFields good;
  good.type = TensorMapType::BFloat16;
  good.rank = 2;
  good.address = 4096;
  good.sizes = {100, 50};
  good.strides = {208};
  good.box = {64, 8};
  good.swizzle = TensorMapSwizzle::Bytes128;
  CHECK(problem(good).empty());
  auto refused = [&](auto change, const std::string& why) {
    TensorMapFields f = good;
    change(f);
    CHECK_THROWS_AS(encode(f), UserError);
    INFO(problem(f));
    CHECK(problem(f).find(why) != std::string::npos);
  };
  refused([](auto& f) { f.rank = 6; }, "the rank is 6; it is 1 to 5");
  refused([](auto& f) { f.address = 4104; }, "no multiple of 16");
  refused([](auto& f) { f.sizes[1] = 0; }, "the size of dimension 1 is 0");
  refused([](auto& f) { f.sizes[0] = (std::uint64_t(1) << 32) + 1; }, "it is 1 to 2^32");
  refused([](auto& f) { f.strides[0] = 200; }, "it is a multiple of 16");
  refused([](auto& f) { f.strides[0] = std::uint64_t(1) << 40; }, "it is less than 2^40");
  refused([](auto& f) { f.box[1] = 257; }, "the box of dimension 1 is 257; it is 1 to 256");
  refused([](auto& f) { f.box[0] = 63; }, "it is a multiple of 16");
  refused([](auto& f) { f.box[0] = 72; }, "with a swizzle of 128 it has at most that");
  refused([](auto& f) { f.element_strides[1] = 9; }, "it is 1 to 8");
  refused([](auto& f) { f.interleave = TensorMapInterleave::Bytes16; }, "interleaved maps have 3 to 5");
  refused([](auto& f) { f.type = TensorMapType::Int32, f.box[0] = 32, f.fill = TensorMapFill::NaN; },
          "NaN fills");
}

TEST_CASE("wrong tensor copies are told", "[emulator]") {
  auto module = hopper_module(load_kernel(2));
  auto told = [&](auto change, std::uint32_t bytes, Fault fault, const std::string& text) {
    Options o;
    o.arch = "sm_90a";
    o.instruction_budget = 20000;
    o.asynchrony = Asynchrony::Latest;
    Gpu gpu(o);
    TensorMapFields f;
    f.type = TensorMapType::UInt32;
    f.rank = 2;
    f.address = on_gpu(gpu, std::vector<std::uint32_t>(256), "tensor");
    f.sizes = {16, 16};
    f.strides = {64};
    f.box = {16, 16};
    change(f);
    const std::uint64_t out = gpu.allocate(1024);
    auto report = gpu.launch_packed(module, "k", {.block = {64}, .shared_bytes = 4096},
                                    arguments(f, 0, out, bytes, {}).bytes());
    INFO(report.text());
    CHECK(std::any_of(report.findings.begin(), report.findings.end(), [&](const Finding& x) {
      return x.fault == fault && x.message.find(text) != std::string::npos;
    }));
  };
  told([](auto& f) { f.sizes[1] = 17, f.box[1] = 17; }, 1088, Fault::OutOfBounds, "past the end of tensor");
  told([](auto& f) { f.rank = 1; }, 1024, Fault::IllegalOperand,
       "is for 2 dimensions, and the tensor map has 1");
  told([](auto& f) { f.box = {32, 64}; }, 1024, Fault::OutOfBounds, "shared memory");
}
