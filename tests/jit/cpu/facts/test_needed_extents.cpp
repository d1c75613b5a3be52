// Tests that rows are not computed if all stores that depend on them are out of bounds there.
#include "jit/cpu/cpu_runner.h"
#include "left_out.h"
#include "random_numbers.h"

#include <kiln/jit/cpu/facts/needed_extents.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <vector>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

// A lowered kernel, and the numbers of stores that bound its operations along an axis.
struct Lowered {
  std::unique_ptr<ir::Kernel> kernel;
  cpu::NeededExtents needed;

  Lowered(const ir::Kernel& recorded, const Config& config)
      : kernel(lower(recorded, config)), needed(*kernel) {}
  static std::unique_ptr<ir::Kernel> lower(const ir::Kernel& recorded, const Config& config) {
    passes::PassOptions options;
    options.config = config;
    return passes::lower_generic(recorded, options);
  }
  // The numbers of stores for the results of all operations of this kind, in order.
  std::vector<std::size_t> stores(ir::Opcode code, std::size_t axis) const {
    std::vector<std::size_t> counts;
    ir::walk(kernel->body, [&](const ir::Op& op) {
      if (!op.is(code)) return;
      for (const auto& result : op.results)
        if (result->type.is_tile() && axis < result->type.shape.size())
          counts.push_back(needed.stores(result.get(), axis).size());
    });
    return counts;
  }
};

using Counts = std::vector<std::size_t>;
using In = View<const float, 2>;
using Out = View<float, 2>;
using OutRow = View<float, 1>;

const Config small = {BM = 8, BN = 16}, small_loop = {BM = 8, BN = 16, BK = 4};

} // namespace

TEST_CASE("rows are bounded by the stores of results that depend on them") {
  const auto softmax = kernel("softmax", [](In x, Out y, OutRow sums) {
    auto [m, n] = program_tile(y, BM, BN);
    Tile e = exp(x.tile(m, n).load());
    Tile s = sum(e, BN);
    y.tile(m, n).store(e / expand<1>(s));
    sums.tile(m).store(s);
  });
  const Lowered rows(*softmax.record(small), small);
  CHECK(rows.stores(ir::Opcode::Exp, 0) == Counts{2});
  CHECK(rows.stores(ir::Opcode::Exp, 1) == Counts{0}); // the sum needs all columns
  CHECK(rows.stores(ir::Opcode::Reduce, 0) == Counts{2});

  const auto carried = kernel("carried", [](In a, In b, Out c) {
    auto [m, n] = program_tile(c, BM, BN);
    c.tile(m, n).store(for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto acc) {
      return dot(exp(a.tile(m, k).load()), b.tile(k, n).load(), acc * 0.5f);
    }));
  });
  const Lowered loop(*carried.record(small_loop), small_loop);
  CHECK(loop.stores(ir::Opcode::Exp, 0) == Counts{1});
  CHECK(loop.stores(ir::Opcode::Exp, 1) == Counts{0}); // the product needs all of K
  CHECK(loop.stores(ir::Opcode::Dot, 0) == Counts{1});
  CHECK(loop.stores(ir::Opcode::Dot, 1) == Counts{1});
  CHECK(loop.stores(ir::Opcode::For, 0) == Counts{1});
}

TEST_CASE("rows with a use that ends in no store are all needed") {
  auto exp_of = [](const auto& body) {
    const auto k = kernel("reads", [&](In x, Out y, OutRow z) {
      auto [m, n] = program_tile(y, BM, BN);
      Tile e = exp(x.tile(m, n).load());
      y.tile(m, n).store(e);
      body(e, x, y, z, m);
    });
    return Lowered(*k.record(small), small).stores(ir::Opcode::Exp, 0);
  };
  CHECK(exp_of([](auto, auto, auto, auto, auto) {}) == Counts{1});
  CHECK(exp_of([](auto e, auto, auto, auto z, auto) { z.tile(Offset<BN>(0)).store(sum(e, BM)); }) ==
        Counts{0});
  CHECK(exp_of([](auto e, auto, auto, auto z, auto) { z.at(0).store(sum(e)); }) == Counts{0});
  CHECK(exp_of([](auto e, auto x, auto, auto z, auto m) {
          z.tile(m).store(x.at(cast<std::int64_t>(sum(e, BN)), arange(BM)).load());
        }) == Counts{0}); // the rows are part of an address
  CHECK(exp_of([](auto e, auto, auto, auto, auto) { device_print("e", e); }) == Counts{0});
  CHECK(exp_of([](auto e, auto, auto, auto z, auto) {
          for_range(std::int64_t{0}, std::int64_t{2}, std::int64_t{1},
                    [&](auto i) { z.at(i).store(max(e)); });
        }) == Counts{0});
}

TEST_CASE("values that a loop or a branch carries are needed where any use needs them") {
  const auto k = kernel("carries", [](In x, Out y, OutRow z) {
    auto [m, n] = program_tile(y, BM, BN);
    Tile e = exp(x.tile(m, n).load());
    auto [t, u] = while_loop(
        state(e, log(abs(e) + 1.f)), [&](auto t, auto) { return max(t) < 5.f; },
        [&](auto t, auto u) { return state(t + 1.f, u + 1.f); });
    Tile chosen = if_else(m < 8, [&] { return sin(u); }, [&] { return cos(u); });
    y.tile(m, n).store(chosen);
    z.tile(m).store(sum(chosen, BN));
    y.tile(m, n).store(t);
  });
  const Lowered lowered(*k.record(small), small);
  CHECK(lowered.stores(ir::Opcode::Exp, 0) == Counts{0}); // the loop's condition needs all rows
  CHECK(lowered.stores(ir::Opcode::Log, 0) == Counts{2});
  CHECK(lowered.stores(ir::Opcode::Sin, 0) == Counts{2});
  CHECK(lowered.stores(ir::Opcode::Cos, 0) == Counts{2});
  CHECK(lowered.stores(ir::Opcode::If, 0) == Counts{2});
}

namespace {

using Matrix = Tensor<float, 2>;

Matrix drawn(std::int64_t rows, std::int64_t columns, test::Random& random) {
  Matrix t = Matrix::empty({rows, columns});
  for (float& x : t)
    x = static_cast<float>(random.uniform(-1, 1));
  return t;
}

struct Shape {
  std::int64_t rows, columns;
};

// Compares the compiled kernel with the interpreter, for several contents of scratch memory: elements that
// are not needed keep what was there before. The parameters are `inputs` and two outputs of these shapes.
template <class K, class... Inputs>
void agrees(const K& k, const Config& config, Grid grid, Shape first, Shape second, const Inputs&... inputs) {
  std::array<Matrix, 2> expected = {Matrix::empty({first.rows, first.columns}),
                                    Matrix::empty({second.rows, second.columns})};
  std::array<Matrix, 2> got = {Matrix::empty({first.rows, first.columns}),
                               Matrix::empty({second.rows, second.columns})};
  for (Matrix& t : expected)
    t.fill(NAN);
  k.interpret(config, grid, inputs.view()..., expected[0].view(), expected[1].view());
  const test::CpuKernel compiled(*k.record(config), config,
                                 std::vector<LayoutClass>(sizeof...(inputs) + 2, LayoutClass::Unit));
  for (const unsigned char poison : {0xFF, 0x7F, 0x01}) {
    std::vector<std::uint64_t> words;
    auto pass = [&](const Matrix& t) {
      words.push_back(reinterpret_cast<std::uint64_t>(t.data()));
      for (const std::int64_t x : {t.extent(0), t.extent(1), t.extent(1), std::int64_t{1}})
        words.push_back(static_cast<std::uint64_t>(x));
    };
    (pass(inputs), ...);
    for (Matrix& t : got) {
      t.fill(NAN);
      pass(t);
    }
    compiled.run(words.data(), {grid.x, grid.y}, poison);
    for (std::size_t o = 0; o < got.size(); ++o)
      for (std::int64_t i = 0; i < got[o].size(); ++i) {
        const float g = got[o].data()[i], e = expected[o].data()[i];
        if (std::isnan(g) && std::isnan(e)) continue;
        INFO("output " << o << ", element " << i);
        REQUIRE(g == Approx(e).epsilon(1e-4).margin(1e-4));
      }
  }
}

} // namespace

TEST_CASE("kernels with several stores agree with the interpreter on ragged sizes") {
  test::Random random;
  KILN_SEED(random);
  // Reductions, a carried product, and a store that begins three rows earlier.
  const auto rows = kernel("rows", [](In x, In w, Out y, Out z) {
    Scalar<std::int64_t> first = program_id(0) * dim_size(BM);
    auto m = offset(BM, first), before = offset(BM, first - 3);
    auto n = offset(BN, program_id(1) * dim_size(BN));
    Tile t = x.tile(m, n).load_or(-1.f);
    Tile e = exp(t - max(t, BN, keep));
    Tile p = e / sum(e, BN, keep);
    Tile total = for_range(
        std::int64_t{0}, std::int64_t{3}, std::int64_t{1}, zeros<float>(BM, BN),
        [&](auto, auto acc) { return dot(p, w.tile(Offset<BN>(0), Offset<BN>(0)).load(), acc * 0.5f); });
    y.tile(m, n).store(p);
    z.tile(before, n).store(cumsum(total, BN) + sum(total * total, BN, keep));
  });
  // Attention: scores, their exponentials, and a second product.
  const auto attention = kernel("attention", [](In q, In k, Out o, Out sums) {
    auto m = offset(BM, program_id(0) * dim_size(BM));
    auto width = offset(BK, 0);
    Tile queries = q.tile(m, width).load();
    auto [top, total, acc] =
        for_range(BN, k.rows(), state(full(-INFINITY, BM), zeros<float>(BM), zeros<float>(BM, BK)),
                  [&](auto n, auto top, auto total, auto acc) {
                    Tile scores = where(expand<0>(n + arange(BN)) < k.rows(),
                                        dot(queries, trans(k.tile(n, width).load())), -INFINITY);
                    Tile next = max(top, max(scores, BN));
                    Tile weights = exp(scores - expand<1>(next));
                    Tile factor = exp(top - next);
                    return state(next, total * factor + sum(weights, BN),
                                 dot(weights, k.tile(n, width).load(), acc * expand<1>(factor)));
                  });
    o.tile(m, width).store(acc / expand<1>(total));
    sums.tile(m, width).store(acc);
  });
  // A product whose operand A is computed, and which a group shares.
  const auto prologue = kernel("prologue", [](In a, In b, Out c, Out d) {
    auto m = offset(BM, program_id(0) * dim_size(BM));
    auto n = offset(BN, program_id(1) * dim_size(BN));
    Tile total = for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto acc) {
      return dot(cos(a.tile(m, k).load()), b.tile(k, n).load(), acc);
    });
    c.tile(m, n).store(total * 2.f + 1.f);
    d.tile(m, n).store(total - expand<1>(max(total, BN)));
  });
  // The same product, where programs that share a tile of A store to different rows, and the first of them
  // has the fewest rows in bounds. Programs are placed by two axes of the grid here, and by one axis below.
  const auto apart = kernel("apart", [](In a, In b, Out c, Out d) {
    Scalar<std::int64_t> steps = (num_programs(1) - 1 - program_id(1)) * 16;
    auto m = offset(BM, program_id(0) * dim_size(BM));
    auto n = offset(BN, program_id(1) * dim_size(BN));
    Tile total = for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto acc) {
      return dot(cos(a.tile(m, k).load()), b.tile(k, n).load(), acc);
    });
    c.tile(offset(BM, program_id(0) * dim_size(BM) + steps), n).store(total + 1.f);
    d.tile(m, n).store(total - 1.f);
  });
  const auto numbered = kernel("numbered", [](In a, In b, Out c, Out d) {
    Scalar<std::int64_t> p = program_id(0), last = num_programs(0) - 1 - p;
    auto m = offset(BM, p / 4 * dim_size(BM));
    auto n = offset(BN, p % 4 * dim_size(BN));
    Tile total = for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto acc) {
      return dot(cos(a.tile(m, k).load()), b.tile(k, n).load(), acc);
    });
    c.tile(offset(BM, last * dim_size(BM)), offset(BN, 0)).store(total + 1.f);
    d.tile(offset(BM, last * dim_size(BM)), offset(BN, 0)).store(total - 1.f);
  });
  // Loops and branches that carry rows.
  const auto carried = kernel("carried", [](In x, Out y, Out z) {
    Scalar<std::int64_t> first = program_id(0) * dim_size(BM);
    auto m = offset(BM, first);
    auto n = offset(BN, program_id(1) * dim_size(BN));
    Tile e = exp(x.tile(m, n).load());
    auto [i, t, u] = while_loop(
        state(first * 0, e, sin(e)), [&](auto i, auto, auto) { return i < 3; },
        [&](auto i, auto t, auto u) { return state(i + 1, u + 1.f, t); }); // the values are swapped
    Tile chosen = if_else(first < 8, [&] { return cumsum(t, BN); }, [&] { return u * sum(t, BN, keep); });
    y.tile(m, n).store(chosen);
    z.tile(m, n).store(sum(chosen, BM, keep) + u * 0.f); // this needs all rows
  });

  for (int round = 0; round < test::rounds(24); ++round) {
    const std::int64_t tm = random.integer(1, 40), tn = random.integer(1, 40), tk = random.integer(1, 20);
    const std::int64_t m = random.integer(1, 90), n = random.integer(1, 60), k = random.integer(1, 50);
    const std::int64_t ry = random.integer(1, 90), rz = random.integer(1, 90);
    const std::int64_t pm = (m + tm - 1) / tm + random.integer(0, 1), pn = (n + tn - 1) / tn;
    CAPTURE(tm, tn, tk, m, n, k, ry, rz, pm, pn);
    const Config tiles = {BM = tm, BN = tn}, loops = {BM = tm, BN = tn, BK = tk};
    const Matrix x = drawn(m, n, random), w = drawn(tn, tn, random), q = drawn(m, tk, random),
                 keys = drawn(k, tk, random), a = drawn(m, k, random), b = drawn(k, n, random);
    agrees(rows, tiles, Grid{pm, pn}, {ry, n}, {rz, n}, x, w);
    agrees(attention, loops, Grid{pm, 1}, {ry, tk}, {rz, tk}, q, keys);
    agrees(prologue, loops, Grid{pm, pn}, {ry, n}, {rz, n}, a, b);
    agrees(apart, loops, Grid{pm, pn}, {ry, n}, {rz, n}, a, b);
    agrees(numbered, loops, Grid{4 * pm}, {ry * 4, tn}, {rz * 4, tn}, a, b);
    agrees(carried, tiles, Grid{pm, pn}, {ry, n}, {rz, n}, x);
  }
}
