// Tests the layouts that hardware requires against the formulas of its documentation.
#include <catch2/catch.hpp>
#include <kiln/jit/gpu/layout/layouts.h>

#include <random>
#include <set>

using namespace kiln::gpu;

namespace {

using At = LinearLayout::Coordinates;

At place(std::int64_t r, std::int64_t lane, std::int64_t warp = 0) {
  return {{in_register, r}, {in_lane, lane}, {in_warp, warp}};
}
At element(std::int64_t row, std::int64_t column) { return {{"dim0", row}, {"dim1", column}}; }

} // namespace

TEST_CASE("a blocked layout has vectors, then lanes, then warps, along the fastest axis first") {
  LinearLayout layout = blocked({3, 6}, {1, 0}, 2, 2); // 8 x 64
  CHECK(layout.in_bits(in_register) == 2);
  CHECK(layout.in_bits(in_lane) == 5);
  for (std::int64_t warp = 0; warp < 4; ++warp)
    for (std::int64_t lane = 0; lane < 32; ++lane)
      for (std::int64_t r = 0; r < 4; ++r)
        CHECK(layout.apply(place(r, lane, warp)) == element(2 * warp + lane / 16, lane % 16 * 4 + r));
  CHECK(layout.is_invertible());
  CHECK(vector_elements(layout, 1) == 4);
  CHECK(vector_elements(layout, 0) == 1);

  LinearLayout larger = blocked({6, 6}, {1, 0}, 2, 2); // eight times as many rows
  CHECK(larger.in_bits(in_register) == 5);
  CHECK(larger.apply(place(4 * 5 + 3, 17, 3)) == element(8 * 5 + 7, 7));

  LinearLayout columns = blocked({6, 3}, {0, 1}, 1, 1);
  CHECK(columns.apply(place(1, 0)) == element(1, 0));
  CHECK(columns.apply(place(0, 31)) == element(62, 0));
  CHECK(columns.apply(place(0, 0, 1)) == element(0, 1));
}

TEST_CASE("in a blocked layout of a small tile, surplus threads hold copies") {
  LinearLayout layout = blocked({1, 3}, {1, 0}, 1, 3); // 2 x 8: 8 threads hold all 16 elements
  CHECK(layout.apply(place(1, 3)) == element(0, 7));
  CHECK(layout.apply(place(1, 7)) == element(1, 7));
  CHECK(layout.apply(place(1, 15, 5)) == element(1, 7));
  CHECK(copies(layout) == Copies{0, 0b11000, 0b111});
  CHECK(layout.is_surjective());
}

TEST_CASE("a sliced layout numbers its registers without holes, and keeps threads") {
  LinearLayout layout = blocked({4, 6}, {1, 0}, 2, 1);
  LinearLayout row_sums = sliced(layout, 1); // 16 rows; lanes 0..15 hold a row together
  CHECK(row_sums.outs() == LinearLayout::Dims{{"dim0", 4}});
  CHECK(row_sums.in_bits(in_register) == 2); // 4 of the 16 registers are along the columns
  CHECK(kept_register_bits(layout, 1) == std::vector<int>{2, 3});
  CHECK(row_sums.in_bits(in_lane) == 5);
  for (std::int64_t warp = 0; warp < 2; ++warp)
    for (std::int64_t lane = 0; lane < 32; ++lane)
      for (std::int64_t r = 0; r < 4; ++r)
        CHECK(row_sums.apply(place(r, lane, warp)) == At{{"dim0", 4 * r + 2 * warp + lane / 16}});
  LinearLayout column_sums = sliced(layout, 0);
  CHECK(column_sums.outs() == LinearLayout::Dims{{"dim0", 6}});
  CHECK(column_sums.apply(place(3, 17, 1)) == At{{"dim0", 7}});
  LinearLayout back = expanded(row_sums, 1);
  CHECK(back.outs() == LinearLayout::Dims{{"dim0", 4}, {"dim1", 0}});
  CHECK(sliced(back, 1) == row_sums);
  LinearLayout front = expanded(row_sums, 0);
  CHECK(front.outs() == LinearLayout::Dims{{"dim0", 0}, {"dim1", 4}});
  CHECK(sliced(front, 0) == row_sums);
}

TEST_CASE("mma.m16n8k16 with 16-bit operands") {
  for (std::int64_t lane = 0; lane < 32; ++lane) {
    const std::int64_t g = lane / 4, t = lane % 4;
    for (std::int64_t i = 0; i < 2; ++i)
      for (std::int64_t j = 0; j < 2; ++j) {
        CHECK(mma_accumulator_fragment().apply(place(2 * i + j, lane)) == element(g + 8 * i, 2 * t + j));
        // Word a[2j + i] has two neighbours along the row.
        for (std::int64_t half = 0; half < 2; ++half)
          CHECK(mma_operand_fragment(0, 16).apply(place(2 * (2 * j + i) + half, lane)) ==
                element(g + 8 * i, 2 * t + 8 * j + half));
      }
    for (std::int64_t j = 0; j < 2; ++j)
      for (std::int64_t half = 0; half < 2; ++half)
        CHECK(mma_operand_fragment(1, 16).apply(place(2 * j + half, lane)) ==
              element(2 * t + 8 * j + half, g));
  }
  CHECK(mma_accumulator_fragment().is_invertible());
  CHECK(mma_operand_fragment(0, 16).is_invertible());
  CHECK(mma_operand_fragment(1, 16).is_invertible());
}

TEST_CASE("mma.m16n8k8 with tf32 and mma.m16n8k32 with 8-bit operands") {
  for (std::int64_t lane = 0; lane < 32; ++lane) {
    const std::int64_t g = lane / 4, t = lane % 4;
    for (std::int64_t i = 0; i < 4; ++i) // a0 (g, t), a1 (g+8, t), a2 (g, t+4), a3 (g+8, t+4)
      CHECK(mma_operand_fragment(0, 32).apply(place(i, lane)) == element(g + i % 2 * 8, t + i / 2 * 4));
    for (std::int64_t i = 0; i < 2; ++i)
      CHECK(mma_operand_fragment(1, 32).apply(place(i, lane)) == element(t + 4 * i, g));
    // The PTX ISA's formulas for a_i and b_i of m16n8k32.
    for (std::int64_t i = 0; i < 16; ++i)
      CHECK(mma_operand_fragment(0, 8).apply(place(i, lane)) ==
            element((i < 4 || (i >= 8 && i < 12)) ? g : g + 8, i < 8 ? t * 4 + i % 4 : t * 4 + i % 4 + 16));
    for (std::int64_t i = 0; i < 8; ++i)
      CHECK(mma_operand_fragment(1, 8).apply(place(i, lane)) ==
            element(i < 4 ? t * 4 + i % 4 : t * 4 + i % 4 + 16, g));
  }
}

TEST_CASE("in an mma accumulator, each warp has a contiguous part") {
  // 64 x 64 on 2 x 4 warps: 32 x 16 each, that is 2 x 2 fragments.
  LinearLayout c = mma_accumulator(6, 6, 1, 2);
  CHECK(c.is_invertible());
  for (std::int64_t warp = 0; warp < 8; ++warp)
    for (std::int64_t lane = 0; lane < 32; ++lane)
      for (std::int64_t r = 0; r < 16; ++r) {
        const std::int64_t n = r / 4 % 2, m = r / 8;
        auto [row, column] = std::pair{lane / 4 + 8 * (r / 2 % 2), lane % 4 * 2 + r % 2};
        CHECK(c.apply(place(r, lane, warp)) ==
              element(warp % 2 * 32 + m * 16 + row, warp / 2 * 16 + n * 8 + column));
      }
  CHECK(c.divided_by(mma_accumulator_fragment()));

  // Surplus warps hold copies: 16 x 8 on 2 x 2 warps.
  CHECK(copies(mma_accumulator(4, 3, 1, 1)) == Copies{0, 0, 0b11});
}

TEST_CASE("every warp holds the operands that its accumulators need") {
  for (int element_bits : {8, 16, 32}) {
    const int k_bits = 6;
    LinearLayout c = mma_accumulator(6, 6, 1, 2);
    LinearLayout a = mma_operand(0, c, k_bits, element_bits), b = mma_operand(1, c, k_bits, element_bits);
    CHECK(a.is_surjective());
    CHECK(b.is_surjective());
    CHECK(copies(a) == Copies{0, 0, 0b110}); // warps next to each other along n
    CHECK(copies(b) == Copies{0, 0, 0b001});
    CHECK(a.divided_by(mma_operand_fragment(0, element_bits)));
    CHECK(b.divided_by(mma_operand_fragment(1, element_bits)));
    auto touched = [](const LinearLayout& layout, std::int64_t warp, std::size_t axis) {
      std::set<std::int64_t> seen;
      for (std::int64_t lane = 0; lane < 32; ++lane)
        for (std::int64_t r = 0; r < std::int64_t{1} << layout.in_bits(in_register); ++r)
          seen.insert(layout.apply(place(r, lane, warp))[axis].second);
      return seen;
    };
    for (std::int64_t warp = 0; warp < 8; ++warp) {
      CHECK(touched(a, warp, 0) == touched(c, warp, 0));
      CHECK(touched(b, warp, 1) == touched(c, warp, 1));
      CHECK(touched(a, warp, 1).size() == 64);
      CHECK(touched(b, warp, 0).size() == 64);
    }
  }
}

TEST_CASE("shared memory is row-major, or swizzled by 16-byte chunks") {
  LinearLayout plain = row_major_shared({3, 4});
  for (std::int64_t i = 0; i < 128; ++i)
    CHECK(plain.apply({{in_offset, i}}) == element(i / 16, i % 16));
  // 16 rows of 128 bytes of 16-bit elements: chunk ^= row % 8.
  LinearLayout swizzled = swizzled_shared({4, 6}, 2);
  for (std::int64_t i = 0; i < 1024; ++i) {
    const std::int64_t row = i / 64, chunk = i / 8 % 8;
    CHECK(swizzled.apply({{in_offset, i}}) == element(row, (chunk ^ (row % 8)) * 8 + i % 8));
  }
  // For rows of any size, the same chunk of 8 neighbouring rows is in 8 different groups of banks.
  for (int element_bytes : {1, 2, 4, 8})
    for (int column_bits = 0; column_bits < 9; ++column_bits) {
      if ((element_bytes << column_bits) < 16) continue;
      LinearLayout offsets = swizzled_shared({5, column_bits}, element_bytes).inverse();
      for (std::int64_t row = 0; row < 32; row += 8)
        for (std::int64_t column = 0; column < 1 << column_bits; column += 16 / element_bytes) {
          std::set<std::int64_t> groups;
          for (std::int64_t r = 0; r < 8; ++r) {
            const std::int64_t byte = offsets.apply(element(row + r, column))[0].second * element_bytes;
            CHECK(byte % 16 == 0);
            groups.insert(byte % 128);
          }
          CHECK(groups.size() == 8);
        }
    }
  // For rows of up to 128 bytes it is the address swizzle of TMA and wgmma: bits 4..6 ^= bits 7..9.
  LinearLayout offsets = swizzled_shared({5, 6}, 2).inverse();
  for (std::int64_t row = 0; row < 32; ++row)
    for (std::int64_t column = 0; column < 64; ++column) {
      const std::int64_t address = (row * 64 + column) * 2;
      CHECK(offsets.apply(element(row, column))[0].second * 2 == (address ^ (address >> 3 & 0x70)));
    }
}

TEST_CASE("a picture names places, and is cut if it is large") {
  CHECK(picture(LinearLayout({{in_register, 2}, {in_lane, 2}}, {{"dim0", 2}, {"dim1", 2}},
                             {0b0100, 0b0010, 0b1000, 0b0001})) ==
        R"(dim0 \ dim1  0-1      2-3
0            l0 r0-1  l1 r0-1
1            l2 r0-1  l3 r0-1
2            l0 r2-3  l1 r2-3
3            l2 r2-3  l3 r2-3
)");
  CHECK(picture(row_major_shared({3})) == "dim0  0-7\n      o0-7\n");
  CHECK(picture(swizzled_shared({3, 1}, 8)) == R"(dim0 \ dim1  0-1
0            o0-1
1            o2-3
2            o4-5
3            o6-7
4            o8-9
5            o10-11
6            o12-13
7            o14-15
)");
  std::string large = picture(mma_accumulator(6, 6, 1, 1));
  CHECK(large.find("w0 l28 r0-1  w0 l29 r0-1") != std::string::npos);
  CHECK(large.find("...") != std::string::npos);
  CHECK(std::count(large.begin(), large.end(), '\n') == 18);
  CHECK(picture(blocked({2}, {0}, 0, 0)) == "dim0  0-3\n      l0-3\neach element is in 8 places\n");
  CHECK(
      picture(LinearLayout({{in_offset, 3}}, {{"dim0", 1}, {"dim1", 2}}, {2, 4, 3})) == // rows exchange pairs
      R"(dim0 \ dim1  0   1   2   3
0            o0  o1  o2  o3
1            o5  o4  o7  o6
)");
  CHECK(picture(LinearLayout()) == "one element in one place\n");
}
