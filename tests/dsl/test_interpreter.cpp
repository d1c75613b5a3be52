// Tests the interpreter on whole kernels: memory, shapes, control flow, reductions, atomics.
#include "kernel_arguments.h"
#include "make_kernel.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <kiln/dsl/symbol.h>

#include <algorithm>
#include <cmath>
#include <random>

using namespace kiln;
using namespace kiln::ir;
using kiln::test::Arguments;
using kiln::test::Make;

namespace {

std::vector<float> random_floats(std::mt19937_64& random, std::size_t n) {
  std::vector<float> list(n);
  for (float& x : list)
    x = std::normal_distribution<float>()(random);
  return list;
}

} // namespace

TEST_CASE("ragged tiles read zero outside and do not write there") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Make k;
  Value *a = k.view(DType::F32, 2), *out = k.view(DType::F32, 2);
  auto offsets = k.program_tile(out, {4, 8});
  Value* x = k.load(a, offsets, {4, 8});
  k.store(out, offsets, k.b.binary(Opcode::Add, x, k.b.splat(k.b.constant(DType::F32, 1.0), {4, 8})));

  std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 12),
               cols = 1 + static_cast<std::int64_t>(random() % 20);
  INFO(rows << " x " << cols);
  std::vector<float> in = random_floats(random, static_cast<std::size_t>(rows * cols));
  // The memory of the output is twice as wide as its view, and the elements between the rows must not change.
  std::vector<float> result(static_cast<std::size_t>(rows * cols * 2), -7);
  Arguments arguments;
  arguments.view(in.data(), {rows, cols}).view(result.data(), {rows, cols}, {2 * cols, 1});
  SECTION("in order") { arguments.run(k); }
  SECTION("shuffled") { arguments.run(k, {.shuffle_seed = random()}); }
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < 2 * cols; ++j) {
      float want = j < cols ? in[static_cast<std::size_t>(i * cols + j)] + 1 : -7;
      REQUIRE(result[static_cast<std::size_t>(i * 2 * cols + j)] == want);
    }
}

TEST_CASE("a tile along some axes of a view, masked, with other") {
  Make k;
  Value *a = k.view(DType::I32, 3), *out = k.view(DType::I32, 1);
  Value* mask = k.b.create(Opcode::Arange, {}, {Type::tile(DType::I32, {8})})->result();
  mask->def->set("start", std::int64_t{0});
  mask = k.b.binary(Opcode::Ne, mask, k.b.splat(k.b.constant(DType::I32, std::int64_t{1}), {8}));
  // a[1, i - 2, 3] for i in 0..7
  Value* x = k.load(a, {k.b.index(1), k.b.index(-2), k.b.index(3)}, {8}, {1}, mask,
                    k.b.constant(DType::I32, std::int64_t{-5}));
  Value* y = k.load(a, {k.b.index(1), k.b.index(std::numeric_limits<std::int64_t>::max() - 2), k.b.index(3)},
                    {8}, {1});
  k.store(out, {k.b.index(0)}, k.b.binary(Opcode::Add, x, y));
  std::vector<std::int32_t> in(2 * 4 * 5), result(8);
  for (std::size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<std::int32_t>(i);
  Arguments().view(in.data(), {2, 4, 5}).view(result.data(), {8}).run_on(k, {1});
  auto at = [](int i) { return 20 + 5 * i + 3; };
  CHECK(result == std::vector<std::int32_t>{-5, -5, at(0), at(1), at(2), at(3), -5, -5});
}

TEST_CASE("gather and scatter are bounds-checked per element") {
  Make k;
  Value *a = k.view(DType::F32, 1), *where = k.view(DType::I64, 1), *out = k.view(DType::F32, 1);
  Value* index = k.load(where, {k.b.index(0)}, {6});
  Value* x = k.b.create(Opcode::ViewGather, {a, index}, {Type::tile(DType::F32, {6})})->result();
  k.b.create(Opcode::ViewScatter, {out, x, index}, {});
  std::vector<float> in{10, 11, 12, 13}, result(4, 1);
  std::vector<std::int64_t> indices{3, -1, 4, 0, std::numeric_limits<std::int64_t>::min(), 2};
  Arguments().view(in.data(), {4}).view(indices.data(), {6}).view(result.data(), {4}).run_on(k, {1});
  CHECK(result == std::vector<float>{10, 1, 12, 13});
}

TEST_CASE("raw pointers with masks, pointer arithmetic and bool bytes") {
  Make k;
  Value *p = k.pointer(DType::Bool), *q = k.pointer(DType::I16);
  Value* i = k.b.create(Opcode::Arange, {}, {Type::tile(DType::I64, {4})})->result();
  i->def->set("start", std::int64_t{0});
  auto at = [&](Value* pointer) {
    Type tile = pointer->type.with_shape({4});
    return k.b.create(Opcode::PtrAdd, {k.b.create(Opcode::Splat, {pointer}, {tile})->result(), i}, {tile})
        ->result();
  };
  Value* flags = k.b.create(Opcode::Load, {at(p)}, {Type::tile(DType::Bool, {4})})->result();
  Op* load = k.b.create(Opcode::Load, {at(q), flags}, {Type::tile(DType::I16, {4})});
  load->set("has_mask", std::int64_t{1});
  Value* doubled = k.b.binary(Opcode::Add, load->result(), load->result());
  k.b.create(
      Opcode::Store,
      {at(q), k.b.binary(Opcode::Sub, doubled, k.b.splat(k.b.constant(DType::I16, std::int64_t{1}), {4}))},
      {});
  std::vector<std::uint8_t> bytes{0, 1, 200, 0};
  std::vector<std::int16_t> numbers{5, 6, -7, 8};
  Arguments().pointer(bytes.data(), 4).pointer(numbers.data(), 4).run_on(k, {1});
  CHECK(numbers == std::vector<std::int16_t>{-1, 11, -15, -1});
}

TEST_CASE("matmul with a loop over k agrees with double precision") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::int64_t m = 9, n = 11, depth = 21;
  Make k;
  Value *a = k.view(DType::F32, 2), *b = k.view(DType::F32, 2), *c = k.view(DType::F32, 2);
  auto at = k.program_tile(c, {4, 8});
  Value* zero = k.b.splat(k.b.constant(DType::F32, 0.0), {4, 8});
  Op* loop = k.b.create(Opcode::For, {k.b.index(0), k.extent(a, 1), k.b.index(16), zero}, {zero->type});
  Region* body = loop->add_region();
  Value* i = body->add_arg(Type::scalar(DType::I64));
  Value* sum = body->add_arg(zero->type);
  k.b.set_region(body);
  Value *x = k.load(a, {at[0], i}, {4, 16}), *y = k.load(b, {i, at[1]}, {16, 8});
  k.b.yield({k.b.create(Opcode::Dot, {x, y, sum}, {zero->type})->result()});
  k.b.set_region(&k.body);
  k.store(c, at, loop->result());

  auto left = random_floats(random, static_cast<std::size_t>(m * depth));
  auto right = random_floats(random, static_cast<std::size_t>(depth * n));
  std::vector<float> result(static_cast<std::size_t>(m * n), NAN);
  auto largest = [](const std::vector<float>& list) {
    return std::fabs(*std::max_element(list.begin(), list.end(),
                                       [](float x, float y) { return std::fabs(x) < std::fabs(y); }));
  };
  Arguments()
      .view(left.data(), {m, depth})
      .view(right.data(), {depth, n})
      .view(result.data(), {m, n})
      .sums_terms_of(double(largest(left)) * largest(right))
      .run(k);
  for (std::int64_t r = 0; r < m; ++r)
    for (std::int64_t s = 0; s < n; ++s) {
      double want = 0;
      for (std::int64_t j = 0; j < depth; ++j)
        want += double(left[static_cast<std::size_t>(r * depth + j)]) *
                right[static_cast<std::size_t>(j * n + s)];
      REQUIRE(result[static_cast<std::size_t>(r * n + s)] == Approx(want).epsilon(1e-5).margin(1e-5));
    }
}

TEST_CASE("reductions and scans along each axis") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  int axis = GENERATE(0, 1, 2);
  std::vector<std::int64_t> extents{3, 4, 5};
  auto line = extents[static_cast<std::size_t>(axis)];
  Make k;
  Value *a = k.view(DType::I32, 3), *r = k.view(DType::I32, 2), *s = k.view(DType::I32, 3),
        *t = k.view(DType::I32, 3);
  std::vector<Value*> zeros(3, k.b.index(0));
  Value* x = k.load(a, zeros, {3, 4, 5});
  k.store(r, {zeros[0], zeros[0]}, k.collective(Opcode::Reduce, x, axis, Opcode::Max));
  k.store(s, zeros, k.collective(Opcode::Scan, x, axis, Opcode::Add));
  k.store(t, zeros, k.collective(Opcode::Scan, x, axis, Opcode::Add, true));
  std::vector<std::int32_t> in(60), reduced(60 / static_cast<std::size_t>(line)), scanned(60), reversed(60);
  for (auto& v : in)
    v = static_cast<std::int32_t>(random() % 100) - 50;
  std::vector<std::int64_t> kept = extents;
  kept.erase(kept.begin() + axis);
  Arguments()
      .view(in.data(), extents)
      .view(reduced.data(), kept)
      .view(scanned.data(), extents)
      .view(reversed.data(), extents)
      .run_on(k, {1});
  std::int64_t inner = axis == 0 ? 20 : axis == 1 ? 5 : 1;
  for (std::int64_t o = 0; o < 60 / inner / line; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      std::int32_t most = in[static_cast<std::size_t>(o * line * inner + i)], sum = 0, total = 0;
      for (std::int64_t j = 0; j < line; ++j) {
        auto at = static_cast<std::size_t>((o * line + j) * inner + i);
        most = std::max(most, in[at]);
        CHECK(scanned[at] == (sum += in[at]));
        total += in[at];
      }
      for (std::int64_t j = 0; j < line; ++j) {
        auto at = static_cast<std::size_t>((o * line + j) * inner + i);
        CHECK(reversed[at] == total);
        total -= in[at];
      }
      CHECK(reduced[static_cast<std::size_t>(o * inner + i)] == most);
    }
}

TEST_CASE("a combine over two tiles finds the maximum and its first index") {
  Make k;
  Value *a = k.view(DType::F32, 1), *out = k.view(DType::I32, 1);
  Value* x = k.load(a, {k.b.index(0)}, {6});
  Value* i = k.b.create(Opcode::Arange, {}, {Type::tile(DType::I32, {6})})->result();
  i->def->set("start", std::int64_t{0});
  Op* op = k.b.create(Opcode::Reduce, {x, i}, {Type::scalar(DType::F32), Type::scalar(DType::I32)});
  op->set("axis", std::int64_t{0});
  Region* region = op->add_region();
  Value *va = region->add_arg(Type::scalar(DType::F32)), *ia = region->add_arg(Type::scalar(DType::I32));
  Value *vb = region->add_arg(Type::scalar(DType::F32)), *ib = region->add_arg(Type::scalar(DType::I32));
  Builder b(region);
  Value* later = b.binary(Opcode::Gt, vb, va);
  b.yield({b.select(later, vb, va), b.select(later, ib, ia)});
  k.store(out, {k.b.index(0)}, k.b.splat(op->result(1), {1}));
  std::vector<float> in{1, 9, -3, 9, 2, 0};
  std::int32_t place = -1;
  Arguments().view(in.data(), {6}).view(&place, {1}).run_on(k, {1});
  CHECK(place == 1);
}

TEST_CASE("sums of narrow floats accumulate in f32 and round once") {
  Make k;
  Value *a = k.view(DType::BF16, 1), *out = k.view(DType::BF16, 1);
  Value* x = k.load(a, {k.b.index(0)}, {512});
  k.store(out, {k.b.index(0)}, k.b.splat(k.collective(Opcode::Reduce, x, 0, Opcode::Add), {1}));
  std::vector<std::uint16_t> ones(512, 0x3f80); // 1.0; in bf16 the sum would stay at 256
  std::uint16_t sum = 0;
  Arguments().view(ones.data(), {512}).view(&sum, {1}).run_on(k, {1});
  CHECK(sum == 0x4400); // 512
}

TEST_CASE("shapes: broadcast, expand, squeeze, permute, reshape, extract") {
  Make k;
  Value *row = k.view(DType::I32, 1), *out = k.view(DType::I32, 2), *out2 = k.view(DType::I32, 2);
  Value* x = k.load(row, {k.b.index(0)}, {3});
  Value* wide = k.b.broadcast(x, {2, 3}); // two equal rows
  Op* across = k.b.create(Opcode::Permute, {wide}, {Type::tile(DType::I32, {3, 2})});
  across->set("order", std::vector<std::int64_t>{1, 0});
  k.store(out, {k.b.index(0), k.b.index(0)}, across->result());
  Value* flat = k.b.create(Opcode::Reshape, {across->result()}, {Type::tile(DType::I32, {2, 3})})->result();
  Op* tall = k.b.create(Opcode::ExpandDims, {flat}, {Type::tile(DType::I32, {2, 1, 3})});
  tall->set("axis", std::int64_t{1});
  Op* back = k.b.create(Opcode::Squeeze, {tall->result()}, {Type::tile(DType::I32, {2, 3})});
  back->set("axis", std::int64_t{1});
  k.store(out2, {k.b.index(0), k.b.index(0)}, back->result());
  Value *second = k.view(DType::I32, 1), *last = k.view(DType::I32, 1);
  auto extract = [&](std::int64_t axis, std::int64_t index, std::int64_t extent) {
    Op* op = k.b.create(Opcode::Extract, {flat}, {Type::tile(DType::I32, {extent})});
    op->set("axis", axis);
    op->set("index", index);
    return op->result();
  };
  k.store(second, {k.b.index(0)}, extract(0, 1, 3));
  k.store(last, {k.b.index(0)}, extract(1, 2, 2));
  std::vector<std::int32_t> in{1, 2, 3}, a(6), b(6), c(3), d(2);
  Arguments()
      .view(in.data(), {3})
      .view(a.data(), {3, 2})
      .view(b.data(), {2, 3})
      .view(c.data(), {3})
      .view(d.data(), {2})
      .run_on(k, {1});
  CHECK(a == std::vector<std::int32_t>{1, 1, 2, 2, 3, 3});
  CHECK(b == a);
  CHECK(c == std::vector<std::int32_t>{2, 3, 3});
  CHECK(d == std::vector<std::int32_t>{2, 3});
}

TEST_CASE("while and if carry values, and only the taken branch writes") {
  // Counts the Collatz steps of the argument. Odd arguments also write 1 to out[1], even ones to out[2].
  Make k;
  Value *n = k.scalar(DType::I64), *out = k.view(DType::I64, 1);
  Type i64 = Type::scalar(DType::I64);
  Value *one = k.b.index(1), *two = k.b.index(2), *three = k.b.index(3);
  Value* odd = k.b.cast(k.b.binary(Opcode::And, n, one), DType::Bool);
  Op* branch = k.b.create(Opcode::If, {odd}, {});
  for (Value* place : {one, two}) {
    k.b.set_region(branch->add_region());
    k.store(out, {place}, k.b.splat(one, {1}));
    k.b.yield({});
  }
  k.b.set_region(&k.body);
  Op* loop = k.b.create(Opcode::While, {n, k.b.index(0)}, {i64, i64});
  Region* condition = loop->add_region();
  Value* now = condition->add_arg(i64);
  condition->add_arg(i64);
  k.b.set_region(condition);
  k.b.yield({k.b.binary(Opcode::Ne, now, one)});
  Region* body = loop->add_region();
  Value *x = body->add_arg(i64), *steps = body->add_arg(i64);
  k.b.set_region(body);
  Op* step = k.b.create(Opcode::If, {k.b.cast(k.b.binary(Opcode::And, x, one), DType::Bool)}, {i64});
  k.b.set_region(step->add_region());
  k.b.yield({k.b.binary(Opcode::Add, k.b.binary(Opcode::Mul, x, three), one)});
  k.b.set_region(step->add_region());
  k.b.yield({k.b.binary(Opcode::Div, x, two)});
  k.b.set_region(body);
  k.b.yield({step->result(), k.b.binary(Opcode::Add, steps, one)});
  k.b.set_region(&k.body);
  k.store(out, {k.b.index(0)}, k.b.splat(loop->result(1), {1}));

  std::vector<std::int64_t> result(3, 0);
  Arguments().scalar(std::int64_t{27}).view(result.data(), {3}).run_on(k, {1});
  CHECK(result == std::vector<std::int64_t>{111, 1, 0});
  // Zero never reaches one, so the loop does not end.
  REQUIRE_THROWS_WITH(
      Arguments().scalar(std::int64_t{0}).view(result.data(), {3}).run_on(k, {1}, {.max_iterations = 1000}),
      "kernel.cpp:7: the loop in kernel test passed 1000 iterations in program (0); make sure that "
      "its condition becomes false");
}

TEST_CASE("a loop without iterations gives its initial values, and an index does not wrap around") {
  Make k;
  Value *lower = k.scalar(DType::I64), *upper = k.scalar(DType::I64), *step = k.scalar(DType::I64);
  Value* out = k.view(DType::I64, 1);
  Op* loop = k.b.create(Opcode::For, {lower, upper, step, k.b.index(100)}, {Type::scalar(DType::I64)});
  Region* body = loop->add_region();
  body->add_arg(Type::scalar(DType::I64));
  Value* count = body->add_arg(Type::scalar(DType::I64));
  k.b.set_region(body);
  k.b.yield({k.b.binary(Opcode::Add, count, k.b.index(1))});
  k.b.set_region(&k.body);
  k.store(out, {k.b.index(0)}, k.b.splat(loop->result(), {1}));
  auto trips = [&](std::int64_t from, std::int64_t to, std::int64_t by) {
    std::int64_t result = 0;
    Arguments().scalar(from).scalar(to).scalar(by).view(&result, {1}).run_on(k, {1});
    return result - 100;
  };
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK(trips(0, 0, 1) == 0);
  CHECK(trips(5, -5, 1) == 0);
  CHECK(trips(0, 10, 3) == 4);
  CHECK(trips(most - 3, most, 2) == 2);
  CHECK(trips(0, 10, 0) == 0); // a step that is not positive runs nothing
  CHECK(trips(0, 10, -1) == 0);
}

TEST_CASE("atomics return the value before and skip masked lanes") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Make k;
  Value *p = k.pointer(DType::I32), *where = k.view(DType::I64, 1), *out = k.view(DType::I32, 1);
  Value* i = k.load(where, {k.b.index(0)}, {5});
  Type tile = p->type.with_shape({5});
  Value* at =
      k.b.create(Opcode::PtrAdd, {k.b.create(Opcode::Splat, {p}, {tile})->result(), i}, {tile})->result();
  Value* mask = k.b.binary(Opcode::Ge, i, k.b.splat(k.b.index(0), {5}));
  Value* ten = k.b.splat(k.b.constant(DType::I32, std::int64_t{10}), {5});
  Op* add = k.b.create(Opcode::AtomicRmw, {at, ten, mask}, {Type::tile(DType::I32, {5})});
  add->set("kind", std::string("add"));
  add->set("has_mask", std::int64_t{1});
  k.store(out, {k.b.index(0)}, add->result());
  std::vector<std::int64_t> indices{1, 0, -1, 1, 1};
  std::vector<std::int32_t> counters{3, 4}, old(5, 77);
  Arguments()
      .pointer(counters.data(), std::ssize(counters))
      .view(indices.data(), {5})
      .view(old.data(), {5})
      .run_on(k, {3});
  CHECK(counters == std::vector<std::int32_t>{33, 94});
  CHECK(old == std::vector<std::int32_t>{64, 23, 0, 74, 84}); // the values of the last program
}

TEST_CASE("compare-and-swap writes where the old value is the expected one") {
  Make k;
  Value *p = k.pointer(DType::U32), *out = k.view(DType::U32, 1);
  Op* cas =
      k.b.create(Opcode::AtomicCas,
                 {p, k.b.constant(DType::U32, std::int64_t{0}), k.b.constant(DType::U32, std::int64_t{9})},
                 {Type::scalar(DType::U32)});
  k.store(out, {k.b.index(0)}, k.b.splat(cas->result(), {1}));
  std::uint32_t lock = 0, old = 5;
  Arguments().pointer(&lock).view(&old, {1}).run_on(k, {1});
  CHECK((lock == 9 && old == 0));
  Arguments().pointer(&lock).view(&old, {1}).run_on(k, {1});
  CHECK((lock == 9 && old == 9));
}
