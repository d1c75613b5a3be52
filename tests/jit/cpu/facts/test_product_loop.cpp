// Tests which loops are products, and how programs that share a product are grouped.
#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/parser.h>
#include <kiln/jit/cpu/rewrite/lower_for_cpu.h>
#include <kiln/jit/passes/passes.h>

#include <catch2/catch.hpp>

#include <algorithm>

using namespace kiln;
using namespace kiln::cpu;

namespace {

// A kernel that computes c = a b in tiles of 16 x 32 x 8. Tests change parts of its text.
struct Text {
  std::string m = "%pm", n = "%pn", init = "0.0", before = {}, yielded = "%d", extra = {},
              to = "f32, 2, unit", after = "  view_store %c, %sum, %pm, %pn {axes = [0, 1]}";
};
std::unique_ptr<ir::Kernel> lowered(const Text& t) {
  std::string text = R"(kernel @k(%a: view<const f32, 2>, %b: view<const f32, 2>, %c: view<)" + t.to +
                     R"(>) grid [(c, 0, 16), (c, 1, 32)] {
  %x = program_id {axis = 0} : i64
  %y = program_id {axis = 1} : i64
  %sixteen = constant {value = 16} : i64
  %thirtytwo = constant {value = 32} : i64
  %pm = mul %x, %sixteen : i64
  %pn = mul %y, %thirtytwo : i64
  %zero = constant {value = 0} : i64
  %k = view_extent %a {axis = 1} : i64
  %step = constant {value = 8} : i64
  %i = constant {value = )" +
                     t.init + R"(} : f32
  %start = splat %i : tile<16 x 32 x f32>
)" + t.before +
                     R"(
  %sum = for %zero, %k, %step, %start : tile<16 x 32 x f32> {
    (%at: i64, %acc: tile<16 x 32 x f32>)
    %ta = view_load %a, )" +
                     t.m + R"(, %at {axes = [0, 1]} : tile<16 x 8 x f32>
    %tb = view_load %b, %at, )" +
                     t.n + R"( {axes = [0, 1]} : tile<8 x 32 x f32>
    %d = dot %ta, %tb, %acc {precision = "ieee"} : tile<16 x 32 x f32>
)" + t.extra +
                     R"(
    yield )" + t.yielded +
                     R"(
  }
)" + t.after +
                     R"(
}
)";
  return passes::lower_generic(*ir::parse(text), {});
}

const ir::Op& loop_of(const ir::Kernel& kernel) {
  const ir::Op* found = nullptr;
  for (const auto& op : kernel.body.ops)
    if (op->is(ir::Opcode::For)) found = op.get();
  REQUIRE(found);
  return *found;
}
std::optional<ProductLoop> product_of(const ir::Kernel& kernel) {
  return product_loop(loop_of(kernel), Plan(kernel), passes::non_negative_scalars(kernel));
}

} // namespace

TEST_CASE("a loop that only accumulates a dot is a product, and its programs form groups") {
  auto kernel = lowered({});
  auto product = product_of(*kernel);
  REQUIRE(product);
  CHECK(product->a.load);
  CHECK(product->b.load);
  CHECK(product->step == 8);
  const Grouping grouping = grouping_of(*kernel, host_target());
  CHECK(grouping.m_axis == 0);
  CHECK(grouping.n_axis == 1);
  CHECK(grouping.tile_m == 16);
  CHECK(grouping.tile_n == 32);
  CHECK(grouping.has_groups());
  CHECK(grouping.depth_word == ir::ArgumentLayout::of(*kernel).extent_word(0, 1)); // a's columns
}

TEST_CASE("loops that do something else too are no products") {
  CHECK_FALSE(
      product_of(*lowered({.yielded = "%twice", .extra = "    %twice = add %d, %d : tile<16 x 32 x f32>"})));
  CHECK_FALSE(product_of(*lowered({.extra = "    view_store %c, %d, %pm, %at {axes = [0, 1]}"})));
}

TEST_CASE("programs are grouped only where their operands differ in the offset of one axis") {
  // Sums that do not start at zero, rows that depend on both coordinates, memory that is written before the
  // loop.
  CHECK(product_of(*lowered({.init = "1.0"})));
  CHECK_FALSE(grouping_of(*lowered({.init = "1.0"}), host_target()).has_groups());
  const Text both{.m = "%both", .before = "  %both = add %pm, %pn : i64"};
  CHECK(product_of(*lowered(both)));
  CHECK(grouping_of(*lowered(both), host_target()).m_axis == -1);
  const Text writes{.before = "  view_store %c, %start, %pm, %pn {axes = [0, 1]}"};
  CHECK_FALSE(grouping_of(*lowered(writes), host_target()).has_groups());
}

TEST_CASE("sums that the kernel only stores to their own place are stored by the product") {
  auto stored = [](const Text& t) {
    auto kernel = lowered(t);
    auto grouped =
        grouped_product(*kernel, Plan(*kernel), passes::non_negative_scalars(*kernel), host_target());
    REQUIRE(grouped);
    if (grouped->store) CHECK(grouped->disjoint_axes == 3);
    return grouped->store != nullptr;
  };
  CHECK(stored({}));
  CHECK_FALSE(stored({.to = "f32, 2"})); // rows need not be contiguous
  CHECK_FALSE(stored({.to = "f32, 2, unit>, %e: view<f32, 2",
                      .after = "  view_store %c, %sum, %pm, %pn {axes = [0, 1]}\n"
                               "  view_store %e, %sum, %pm, %pn {axes = [0, 1]}"}));
  CHECK_FALSE(stored({.after = "  %twice = add %sum, %sum : tile<16 x 32 x f32>\n"
                               "  view_store %c, %twice, %pm, %pn {axes = [0, 1]}"}));
  CHECK_FALSE(stored({.after = "  %there = add %pm, %pn : i64\n"
                               "  view_store %c, %sum, %there, %pn {axes = [0, 1]}"}));
  CHECK_FALSE(stored({.after = "  view_store %c, %sum, %pm, %zero {axes = [0, 1]}"}));
  CHECK_FALSE(stored({.after = "  %less = sub %pm, %sixteen : i64\n"
                               "  view_store %c, %sum, %less, %pn {axes = [0, 1]}"}));
  CHECK_FALSE(stored({.to = "f32, 2, unit>, %mask: tile<16 x 32 x bool",
                      .after = "  view_store %c, %sum, %pm, %pn, %mask {axes = [0, 1], has_mask = 1}"}));
}

TEST_CASE("operands at offsets that may be negative count as computed") {
  const Text shifted{.m = "%less", .before = "  %less = sub %pm, %sixteen : i64"};
  auto kernel = lowered(shifted);
  auto product = product_of(*kernel);
  REQUIRE(product);
  CHECK_FALSE(product->a.load);
}

TEST_CASE("groups cover the grid, stay within their limits and give every thread work") {
  const Grouping grouping{
      .m_axis = 0, .n_axis = 1, .tile_m = 64, .tile_n = 64, .most_m = 16, .most_n = 2, .most_programs = 32};
  for (std::int64_t m : {1, 2, 3, 16, 17, 33, 100})
    for (std::int64_t n : {1, 2, 5, 64})
      for (int threads : {1, 2, 8}) {
        CAPTURE(m, n, threads);
        const std::int64_t grid[8] = {m, n, 1, 1, 1, 1, 1, 1};
        const auto group = choose_group(grouping, grid, threads);
        CHECK(group[0] >= 1);
        CHECK(group[1] >= 1);
        CHECK(group[0] <= grouping.most_m);
        CHECK(group[1] <= grouping.most_n);
        CHECK(group[0] * group[1] <= grouping.most_programs);
        CHECK(std::all_of(group.begin() + 2, group.end(), [](std::int64_t g) { return g == 1; }));
        const std::int64_t groups = ((m + group[0] - 1) / group[0]) * ((n + group[1] - 1) / group[1]);
        CHECK(groups >= std::min<std::int64_t>(threads, m * n) / 2);
      }
  const std::int64_t even[8] = {16, 16, 1, 1, 1, 1, 1, 1};
  const auto group = choose_group(grouping, even, 2);
  const std::int64_t groups = (16 / group[0]) * (16 / group[1]);
  CHECK(groups % 2 == 0); // two threads get equal shares
  CHECK(group[0] * grouping.tile_m >= 512);
}

TEST_CASE("threads share products with small K by rows, and those with large K so that B is packed least") {
  Grouping grouping{.m_axis = 0,
                    .n_axis = 1,
                    .tile_m = 64,
                    .tile_n = 64,
                    .most_m = 16,
                    .most_n = 16,
                    .most_programs = 256,
                    .shared_row_cost = 3072};
  const std::int64_t grid[8] = {8, 8, 1, 1, 1, 1, 1, 1};
  const std::array<std::int64_t, 8> rows{4, 8, 1, 1, 1, 1, 1, 1}, columns{8, 4, 1, 1, 1, 1, 1, 1};
  grouping.depth = 64;
  CHECK(choose_group(grouping, grid, 2) == rows);
  grouping.depth = 65536;
  CHECK(choose_group(grouping, grid, 2) == columns);
  grouping.depth = 0; // unknown
  CHECK(choose_group(grouping, grid, 2) == columns);
  grouping.depth_word = 1;
  CHECK(choose_group(grouping, grid, 2) == columns);
  const std::uint64_t shallow[] = {0, 64}, deep[] = {0, 65536};
  CHECK(choose_group(grouping, grid, 2, shallow) == rows);
  CHECK(choose_group(grouping, grid, 2, deep) == columns);
  CHECK(choose_group(grouping, grid, 1, shallow) == choose_group(grouping, grid, 1));
  // With one row of programs, B is divided by columns.
  const std::int64_t one_row[8] = {1, 8, 1, 1, 1, 1, 1, 1};
  CHECK(choose_group(grouping, one_row, 2, shallow)[1] == 4);
}

TEST_CASE("long rows of B are not cut into short ones for more equal shares of threads") {
  for (std::int64_t tile_n : {64, 128, 256})
    for (std::int64_t n : {4096, 14336, 28672, 32000, 128256})
      for (int threads : {1, 2, 3, 6, 8, 16, 32}) {
        const Grouping grouping{.m_axis = 0,
                                .n_axis = 1,
                                .tile_m = 1,
                                .tile_n = tile_n,
                                .most_m = 1024,
                                .most_n = 32768 / tile_n,
                                .most_programs = (1 << 17) / tile_n,
                                .packing_a = 300};
        CAPTURE(tile_n, n, threads);
        const std::int64_t grid[8] = {1, (n + tile_n - 1) / tile_n, 1, 1, 1, 1, 1, 1};
        const std::int64_t columns = choose_group(grouping, grid, threads)[1] * tile_n;
        CHECK(columns >= std::min<std::int64_t>(n / threads / 3, 2048));
        CHECK(columns * (threads - 1) < n + threads * tile_n);
      }
}
