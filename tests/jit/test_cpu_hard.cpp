// Kernels that are hard on the CPU's compiler: atomics of every kind and dtype, scans and dots of every form,
// memory read and written at once, and shapes of code that grow without bound if anything in it is not
// linear.
#include "cpu_runner.h"

#include <catch2/catch.hpp>
#include <dsl/kernel_arguments.h>
#include <kiln/dsl/ir/semantics.h>
#include <kiln/dsl/ir/verifier.h>

#include <chrono>
#include <limits>
#include <random>
#include <thread>

using namespace kiln;
using namespace kiln::ir;
using test::Arguments;

namespace {

// The text with each "$T" (and so on) replaced.
std::unique_ptr<Kernel> parsed(std::string text, std::vector<std::pair<std::string, std::string>> words) {
  for (const auto& [from, to] : words)
    for (std::size_t at; (at = text.find(from)) != std::string::npos;)
      text.replace(at, from.size(), to);
  auto kernel = parse(text, "test");
  verify(*kernel);
  passes::PassOptions options;
  return passes::lower_generic(*kernel, options);
}

struct Data { // elements of any dtype
  DType dtype;
  std::vector<std::byte> bytes;
  Data(DType t, std::size_t n) : dtype(t), bytes(n * static_cast<std::size_t>(size_of(t))) {}
  void set(std::size_t i, Cell x) { store_cell(dtype, at(i), x); }
  Cell get(std::size_t i) { return load_cell(dtype, at(i)); }
  std::byte* at(std::size_t i) { return bytes.data() + i * static_cast<std::size_t>(size_of(dtype)); }
  void randomize(std::mt19937_64& random, int most = 6) {
    for (std::size_t i = 0; i * static_cast<std::size_t>(size_of(dtype)) < bytes.size(); ++i) {
      auto n = static_cast<std::int64_t>(random() % static_cast<unsigned>(2 * most + 1)) - most;
      set(i, is_float(dtype) ? cell_of_float(dtype, n)
                             : cell_of_integer(dtype, is_signed(dtype) ? n : n + most));
    }
  }
};

// Adds a view of `data` whatever its dtype: the words are the same as for bytes, the strides in elements.
template <class F> void with_type(DType t, F&& f) {
  switch (size_of(t)) {
  case 1: return f(std::uint8_t{});
  case 2: return f(std::uint16_t{});
  case 4: return f(std::uint32_t{});
  default: return f(std::uint64_t{});
  }
}
void add_view(Arguments& arguments, Data& data, std::vector<std::int64_t> extents,
              std::vector<std::int64_t> strides = {}) {
  with_type(data.dtype, [&](auto zero) {
    arguments.view(reinterpret_cast<decltype(zero)*>(data.bytes.data()), extents, strides);
  });
}

} // namespace

TEST_CASE("atomics of every kind and dtype leave and return on the CPU what they should") {
  auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int d = 0; d < dtype_count; ++d)
    for (const char* kind : {"add", "min", "max", "and", "or", "xor", "xchg"}) {
      auto t = static_cast<DType>(d);
      bool logic = std::string_view(kind) == "and" || std::string_view(kind) == "or" ||
                   std::string_view(kind) == "xor";
      bool number = std::string_view(kind) == "add" || std::string_view(kind) == "min" ||
                    std::string_view(kind) == "max";
      if ((logic && is_float(t)) || (number && t == DType::Bool)) continue;
      CAPTURE(name(t), kind);
      auto kernel = parsed(R"(
kernel @atomics(%p: view<$T, 1>, %x: view<const $T, 1>, %on: view<const bool, 1>, %old: view<$T, 1>) {
  %z = constant {value = 0} : i64
  %q = view_ptrs %p, %z {axes = [0]} : tile<21 x ptr<$T>>
  %v = view_load %x, %z {axes = [0]} : tile<21 x $T>
  %m = view_load %on, %z {axes = [0]} : tile<21 x bool>
  %o = atomic_rmw %q, %v, %m {kind = "$K", has_mask = 1} : tile<21 x $T>
  view_store %old, %o, %z {axes = [0]}
}
)",
                           {{"$T", std::string(name(t))}, {"$K", kind}});
      for (std::int64_t stride : {1, 0}) { // each its own, and all on one element
        Data p(t, 21), x(t, 21), on(DType::Bool, 21), old(t, 21);
        p.randomize(random), x.randomize(random, 3), on.randomize(random);
        Arguments arguments;
        add_view(arguments, p, {21}, {stride});
        add_view(arguments, x, {21});
        add_view(arguments, on, {21});
        add_view(arguments, old, {21});
        arguments.run_on(*kernel, {1});
      }
    }
}

TEST_CASE("atomics of four threads lose nothing on the CPU") {
  for (int d = 0; d < dtype_count; ++d) {
    auto t = static_cast<DType>(d);
    if (t == DType::Bool) continue;
    CAPTURE(name(t));
    auto kernel = parsed(R"(
kernel @count(%sum: view<$T, 1>, %most: view<$T, 1>, %one: view<const $T, 1>) {
  %z = constant {value = 0} : i64
  %i = program_id {axis = 0} : i64
  %x = cast %i : $T
  %s = view_ptrs %sum, %z {axes = []} : ptr<$T>
  %m = view_ptrs %most, %z {axes = []} : ptr<$T>
  %v = view_load %one, %z {axes = []} : $T
  %a = atomic_rmw %s, %v {kind = "add"} : $T
  %b = atomic_rmw %m, %x {kind = "max", order = "relaxed"} : $T
}
)",
                         {{"$T", std::string(name(t))}});
    // As many programs as the dtype counts exactly: 15 for fp8 with 3 bits, and so on.
    std::int64_t programs = size_of(t) == 1 ? (is_float(t) ? 8 : 100) : t == DType::BF16 ? 200 : 2000;
    test::CpuKernel compiled(*kernel, {});
    Data sum(t, 1), most(t, 1), one(t, 1);
    one.set(0, is_float(t) ? cell_of_float(t, 1) : cell_of_integer(t, 1));
    Arguments arguments;
    add_view(arguments, sum, {1}), add_view(arguments, most, {1}), add_view(arguments, one, {1});
    std::vector<std::thread> threads;
    for (std::int64_t k = 0; k < 4; ++k)
      threads.emplace_back([&, k] {
        cpu::LaunchContext context{};
        cpu::LaunchState state;
        std::fill(std::begin(context.grid), std::end(context.grid), 1);
        context.grid[0] = programs;
        alignas(64) char scratch[4096];
        if (compiled.scratch_bytes > 4096) return;
        context.scratch = scratch;
        context.stop = &state.stop;
        context.launch = &state;
        compiled.code->entry()(arguments.words(), &context, programs * k / 4, programs * (k + 1) / 4);
      });
    for (auto& thread : threads)
      thread.join();
    CHECK(sum.get(0) == (is_float(t) ? cell_of_float(t, programs) : cell_of_integer(t, programs)));
    CHECK(most.get(0) == evaluate_cast(DType::I64, t, static_cast<Cell>(programs - 1)));
  }
}

TEST_CASE("an atomic operation reads its operands before it writes") {
  auto kernel = parsed(R"(
kernel @reversed(%p: view<i32, 1>) {
  %z = constant {value = 0} : i64
  %n = arange {start = 0} : tile<40 x i64>
  %last = constant {value = 39} : i64
  %lasts = splat %last : tile<40 x i64>
  %r = sub %lasts, %n : tile<40 x i64>
  %v = view_gather %p, %r : tile<40 x i32>
  %q = view_ptrs %p, %z {axes = [0]} : tile<40 x ptr<i32>>
  %o = atomic_rmw %q, %v {kind = "add"} : tile<40 x i32>
}
)",
                       {});
  std::vector<std::int32_t> p(40);
  for (std::size_t i = 0; i < p.size(); ++i)
    p[i] = static_cast<std::int32_t>(i * i);
  Arguments().view(p.data(), {40}).run_on(*kernel, {1});
  CHECK(p[0] == 39 * 39);
}

TEST_CASE("an operation in place through a view that overlaps itself reads all before it writes") {
  auto kernel = parsed(R"(
kernel @twice(%p: view<i32, 2>, %q: view<const i32, 2>) {
  %z = constant {value = 0} : i64
  %a = view_load %p, %z, %z {axes = [0, 1]} : tile<6 x 20 x i32>
  %b = add %a, %a : tile<6 x 20 x i32>
  view_store %p, %b, %z, %z {axes = [0, 1]}
  %c = view_load %q, %z, %z {axes = [0, 1]} : tile<6 x 20 x i32>
  %d = add %c, %c : tile<6 x 20 x i32>
  view_store %p, %d, %z, %z {axes = [0, 1]}
}
)",
                       {});
  const std::vector<std::vector<std::int64_t>> all = {{20, 1}, {0, 1}, {1, 1},  {1, 0},
                                                      {0, 0},  {4, 1}, {-1, 1}, {1, 6}};
  for (const auto& strides : all) {
    CAPTURE(strides[0], strides[1]);
    std::vector<std::int32_t> p(200);
    for (std::size_t i = 0; i < p.size(); ++i)
      p[i] = static_cast<std::int32_t>(i * 3 + 1);
    Arguments()
        .view(p.data() + 40, {6, 20}, strides)
        .view(p.data() + 40, {6, 20}, strides)
        .run_on(*kernel, {1});
  }
}

TEST_CASE("scans and reductions of user combines along every axis, on the CPU") {
  auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::vector<std::vector<std::int64_t>> shapes = {{37}, {1}, {5, 64}, {33, 3}, {4, 1, 17}, {2, 16, 8}};
  for (const auto& shape : shapes)
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      for (int reverse : {0, 1}) {
        std::string dims, reduced, axes, offsets;
        for (std::size_t a = 0; a < shape.size(); ++a) {
          dims += std::to_string(shape[a]) + " x ";
          if (a != axis) reduced += std::to_string(shape[a]) + " x ";
          axes += (a ? ", " : "") + std::to_string(a);
          offsets += ", %z";
        }
        std::string kept = axes.substr(0, axes.size() < 3 ? 0 : axes.size() - 3);
        std::string fewer = shape.size() > 1 ? offsets.substr(4) : "";
        std::string out_type = reduced.empty() ? "i32" : "tile<" + reduced + "i32>";
        CAPTURE(dims, axis, reverse);
        // (a, b) stands for x -> a * x + b: associative, and commutative if all a are 1.
        auto kernel = parsed(R"(
kernel @compose(%x: view<const i32, $R>, %y: view<const i32, $R>, %s: view<i32, $R>, %t: view<i32, $R>, %f: view<f32, $R>) {
  %z = constant {value = 0} : i64
  %a = view_load %x$O {axes = [$A]} : tile<$Di32>
  %b = view_load %y$O {axes = [$A]} : tile<$Di32>
  %p, %q = scan %a, %b {axis = $X, reverse = $V} : tile<$Di32>, tile<$Di32> {
    (%a1: i32, %b1: i32, %a2: i32, %b2: i32)
    %aa = mul %a1, %a2 : i32
    %ba = mul %b1, %a2 : i32
    %bb = add %ba, %b2 : i32
    yield %aa, %bb
  }
  view_store %s, %p$O {axes = [$A]}
  %c, %d = reduce %a, %b {axis = $X} : $S, $S {
    (%c1: i32, %d1: i32, %c2: i32, %d2: i32)
    %less = lt %d1, %d2 : bool
    %d = select %less, %d1, %d2 : i32
    %c = mul %c1, %c2 : i32
    yield %c, %d
  }
  %e = expand_dims %d {axis = $X} : tile<$Ei32>
  %w = broadcast %e : tile<$Di32>
  %all = add %q, %w : tile<$Di32>
  view_store %t, %all$O {axes = [$A]}
  %g = cast %all : tile<$Df32>
  %h = scan %g {axis = $X, reverse = $V} : tile<$Df32> {
    (%h1: f32, %h2: f32)
    %h3 = add %h1, %h2 : f32
    yield %h3
  }
  view_store %f, %h$O {axes = [$A]}
}
)",
                             {{"$R", std::to_string(shape.size())},
                              {"$O", offsets},
                              {"$A", axes},
                              {"$D", dims},
                              {"$X", std::to_string(axis)},
                              {"$V", std::to_string(reverse)},
                              {"$S", out_type},
                              {"$E", [&] {
                                 std::string text;
                                 for (std::size_t a = 0; a < shape.size(); ++a)
                                   text += std::to_string(a == axis ? 1 : shape[a]) + " x ";
                                 return text;
                               }()}});
        std::size_t n = 1;
        for (auto e : shape)
          n *= static_cast<std::size_t>(e);
        Data x(DType::I32, n), y(DType::I32, n), s(DType::I32, n), t(DType::I32, n), f(DType::F32, n);
        x.randomize(random), y.randomize(random);
        Arguments arguments;
        for (Data* data : {&x, &y, &s, &t, &f})
          add_view(arguments, *data, shape);
        arguments.run_on(*kernel, {1});
      }
}

TEST_CASE("dot of every dtype, batched, transposed and accumulating, on the CPU") {
  auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int d = 0; d < dtype_count; ++d) {
    auto t = static_cast<DType>(d);
    if (!is_float(t) && t != DType::I8 && t != DType::U8) continue;
    std::string sum = t == DType::F64 ? "f64" : is_float(t) ? "f32" : "i32";
    for (bool ta : {false, true})
      for (bool tb : {false, true})
        for (int batch : {0, 3}) {
          CAPTURE(name(t), ta, tb, batch);
          std::int64_t m = 13, n = 35, k = 20;
          std::string b = batch ? "3 x " : "", o = batch ? ", %z" : "", axes = batch ? "0, 1, 2" : "0, 1";
          std::string order = batch ? "0, 2, 1" : "1, 0";
          auto tile = [&](std::int64_t rows, std::int64_t cols, const std::string& type) {
            return "tile<" + b + std::to_string(rows) + " x " + std::to_string(cols) + " x " + type + ">";
          };
          std::string text =
              "kernel @dots(%a: view<const $T, $R>, %b: view<const $T, $R>, %c: view<$S, $R>) {\n"
              "  %z = constant {value = 0} : i64\n  %three = constant {value = 3} : i64\n  %one = constant "
              "{value = 1} : i64\n"
              "  %a0 = view_load %a" +
              o + ", %z, %z {axes = [" + axes + "]} : " + (ta ? tile(k, m, "$T") : tile(m, k, "$T")) +
              "\n  %b0 = view_load %b" + o + ", %z, %z {axes = [" + axes +
              "]} : " + (tb ? tile(n, k, "$T") : tile(k, n, "$T")) + "\n";
          if (ta) text += "  %a1 = permute %a0 {order = [" + order + "]} : " + tile(m, k, "$T") + "\n";
          if (tb) text += "  %b1 = permute %b0 {order = [" + order + "]} : " + tile(k, n, "$T") + "\n";
          std::string two = std::string(is_integer(t) ? "2" : "2.0");
          text += "  %i = view_load %c" + o + ", %z, %z {axes = [" + axes + "]} : " + tile(m, n, "$S") +
                  "\n" + "  %two = constant {value = " + two +
                  "} : $S\n  %scale = splat %two : " + tile(m, n, "$S") + "\n" +
                  "  %r = for %z, %three, %one, %i : " + tile(m, n, "$S") +
                  " {\n    (%j: i64, %acc: " + tile(m, n, "$S") +
                  ")\n    %scaled = mul %acc, %scale : " + tile(m, n, "$S") + "\n    %next = dot " +
                  (ta ? "%a1" : "%a0") + ", " + (tb ? "%b1" : "%b0") + ", %scaled : " + tile(m, n, "$S") +
                  "\n    yield %next\n  }\n  view_store %c, %r" + o + ", %z, %z {axes = [" + axes + "]}\n}\n";
          auto kernel = parsed(text, {{"$T", std::string(name(t))}, {"$S", sum}, {"$R", batch ? "3" : "2"}});
          auto count = [&](std::int64_t x, std::int64_t y) {
            return static_cast<std::size_t>(x * y * (batch ? 3 : 1));
          };
          DType sum_dtype = t == DType::F64 ? DType::F64 : is_float(t) ? DType::F32 : DType::I32;
          Data a(t, count(m, k)), bb(t, count(k, n)), c(sum_dtype, count(m, n));
          a.randomize(random), bb.randomize(random), c.randomize(random);
          auto extents = [&](std::int64_t rows, std::int64_t cols) {
            return batch ? std::vector<std::int64_t>{3, rows, cols} : std::vector<std::int64_t>{rows, cols};
          };
          Arguments arguments;
          add_view(arguments, a, ta ? extents(k, m) : extents(m, k));
          add_view(arguments, bb, tb ? extents(n, k) : extents(k, n));
          add_view(arguments, c, extents(m, n));
          arguments.run_on(*kernel, {1});
        }
  }
}

TEST_CASE("loops that swap tiles, loops over tiles while something holds, and branches with tiles") {
  auto kernel = parsed(R"(
kernel @swaps(%x: view<const i64, 2>, %y: view<i64, 2>, %rounds: i64) {
  %z = constant {value = 0} : i64
  %one = constant {value = 1} : i64
  %limit = constant {value = 100000} : i64
  %a = view_load %x, %z, %z {axes = [0, 1]} : tile<9 x 9 x i64>
  %b = permute %a {order = [1, 0]} : tile<9 x 9 x i64>
  %p, %q = for %z, %rounds, %one, %a, %b : tile<9 x 9 x i64>, tile<9 x 9 x i64> {
    (%i: i64, %u: tile<9 x 9 x i64>, %v: tile<9 x 9 x i64>)
    %vt = permute %v {order = [1, 0]} : tile<9 x 9 x i64>
    %s = add %u, %vt : tile<9 x 9 x i64>
    %odd = and %i, %one : i64
    %is = eq %odd, %one : bool
    %w = if %is : tile<9 x 9 x i64> {
      %neg = neg %s : tile<9 x 9 x i64>
      yield %neg
    } {
      yield %u
    }
    yield %v, %w
  }
  %r, %n = while %p, %z : tile<9 x 9 x i64>, i64 {
    (%t: tile<9 x 9 x i64>, %k: i64)
    %rows = reduce %t {axis = 0} : tile<9 x i64> {
      (%c1: i64, %c2: i64)
      %c3 = max %c1, %c2 : i64
      yield %c3
    }
    %most = reduce %rows {axis = 0} : i64 {
      (%d1: i64, %d2: i64)
      %d3 = max %d1, %d2 : i64
      yield %d3
    }
    %small = lt %most, %limit : bool
    %few = lt %k, %limit : bool
    %on = and %small, %few : bool
    yield %on
  } {
    (%t2: tile<9 x 9 x i64>, %k2: i64)
    %tt = permute %t2 {order = [1, 0]} : tile<9 x 9 x i64>
    %sum = add %tt, %t2 : tile<9 x 9 x i64>
    %plus = add %sum, %q : tile<9 x 9 x i64>
    %k3 = add %k2, %limit : i64
    yield %plus, %k3
  }
  view_store %y, %r, %z, %z {axes = [0, 1]}
}
)",
                       {});
  std::mt19937_64 random(std::random_device{}());
  for (std::int64_t rounds : {0, 1, 2, 5, -3}) {
    Data x(DType::I64, 81), y(DType::I64, 81);
    x.randomize(random);
    Arguments arguments;
    add_view(arguments, x, {9, 9}), add_view(arguments, y, {9, 9});
    arguments.scalar(rounds).run_on(*kernel, {1});
  }
}

TEST_CASE("offsets at the ends of 64 bits lie outside every view") {
  auto kernel = parsed(R"(
kernel @far(%x: view<const f32, 2>, %y: view<f32, 2>, %row: i64, %col: i64) {
  %z = constant {value = 0} : i64
  %v = view_load %x, %row, %col {axes = [0, 1]} : tile<24 x 40 x f32>
  %m = reduce %v {axis = 0} : tile<40 x f32> {
    (%a: f32, %b: f32)
    %c = add %a, %b : f32
    yield %c
  }
  view_store %y, %v, %row, %col {axes = [0, 1]}
  view_store %y, %m, %z, %z {axes = [1]}
}
)",
                       {});
  constexpr auto low = std::numeric_limits<std::int64_t>::min(),
                 high = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t row : {std::int64_t{0}, std::int64_t{-3}, high, high - 10, low, low + 10})
    for (std::int64_t col : {std::int64_t{0}, std::int64_t{-3}, high, high - 20, low, low + 20}) {
      CAPTURE(row, col);
      std::vector<float> x(30 * 50, 1.5f), y(30 * 50, 2.5f);
      Arguments()
          .view(x.data(), {30, 50})
          .view(y.data(), {30, 50})
          .scalar(row)
          .scalar(col)
          .run_on(*kernel, {1});
    }
}

namespace {

double compile_seconds(const Kernel& kernel) {
  auto begin = std::chrono::steady_clock::now();
  test::CpuKernel compiled(kernel, {}, {LayoutClass::Unit, LayoutClass::Unit});
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Long { // reads one tile of %x; the result goes to %y
  Kernel kernel{"long"};
  Builder b{&kernel.body};
  Value *x, *y, *zero, *tile;
  explicit Long(std::int64_t elements = 64) {
    x = kernel.body.add_arg(Type::view(DType::F32, 1, true));
    y = kernel.body.add_arg(Type::view(DType::F32, 1, false));
    zero = b.index(0);
    Op* load = b.create(Opcode::ViewLoad, {x, zero}, {Type::tile(DType::F32, {Dim(elements)})});
    load->set("axes", std::vector<std::int64_t>{0});
    tile = load->result();
  }
  void store(Value* v, Value* at) {
    Op* op = b.create(Opcode::ViewStore, {y, v, at}, {});
    op->set("axes", std::vector<std::int64_t>{0});
  }
};

} // namespace

TEST_CASE("code grows linearly with the kernel: long chains, diamonds, many stores, deep branches") {
  { // every link uses the one before twice, and neither folds
    Long k;
    Value* v = k.tile;
    for (int i = 0; i < 2000; ++i)
      v = k.b.binary(i % 2 ? Opcode::Mul : Opcode::Add, v, i % 3 ? v : k.tile);
    k.store(v, k.zero);
    double seconds = compile_seconds(k.kernel);
    WARN("chain of 2000 operations: " << seconds << " s");
    CHECK(seconds < 60);
    std::vector<float> x(64, 0.25f), y(64);
    Arguments().view(x.data(), {64}).view(y.data(), {64}).run_on(k.kernel, {1});
  }
  {
    Long k;
    for (int i = 0; i < 200; ++i)
      k.store(
          k.b.binary(Opcode::Add, k.tile, k.b.splat(k.b.constant(DType::F32, i * 0.5), k.tile->type.shape)),
          k.b.index(i * 64));
    double seconds = compile_seconds(k.kernel);
    WARN("200 stores: " << seconds << " s");
    CHECK(seconds < 60);
  }
  {
    Long k;
    std::vector<Region*> open;
    for (int i = 0; i < 64; ++i) {
      Op* extent = k.b.create(Opcode::ViewExtent, {k.x}, {Type::scalar(DType::I64)});
      extent->set("axis", std::int64_t{0});
      Op* branch = k.b.create(Opcode::If, {k.b.binary(Opcode::Gt, extent->result(), k.b.index(i))}, {});
      open.push_back(branch->add_region());
      Builder(branch->add_region()).yield({});
      k.b.set_region(open.back());
      k.store(k.b.unary(Opcode::Neg, k.tile), k.b.index(i));
    }
    for (Region* region : open)
      Builder(region).yield({});
    verify(k.kernel);
    double seconds = compile_seconds(k.kernel);
    WARN("64 nested branches: " << seconds << " s");
    CHECK(seconds < 60);
  }
}

TEST_CASE("code does not grow with the size of tiles") {
  double smallest = 0;
  for (std::int64_t elements = 64; elements <= std::int64_t{1} << 20; elements *= 16) {
    Long k(elements);
    Value* e = k.b.unary(Opcode::Exp, k.tile);
    k.store(k.b.binary(Opcode::Mul, e, k.tile), k.zero);
    double seconds = compile_seconds(k.kernel);
    WARN("tiles of " << elements << " elements: " << 1000 * seconds << " ms");
    if (elements == 64) smallest = seconds;
    CHECK(seconds < 10 * smallest + 0.5);
  }
}

TEST_CASE("tiles that need too much scratch memory are refused with their size") {
  Kernel kernel("big");
  Builder b(&kernel.body);
  Value* x = kernel.body.add_arg(Type::view(DType::F64, 1, false));
  Value* zero = b.index(0);
  for (int i = 0; i < 3; ++i) { // each is loaded, then overwritten before it is used
    Op* load = b.create(Opcode::ViewLoad, {x, zero}, {Type::tile(DType::F64, {Dim(std::int64_t{1} << 28)})});
    load->set("axes", std::vector<std::int64_t>{0});
    Op* scan = b.create(Opcode::Scan, {load->result()}, {load->result()->type});
    scan->set("axis", std::int64_t{0});
    Region* region = scan->add_region();
    Value* p = region->add_arg(Type::scalar(DType::F64));
    Value* q = region->add_arg(Type::scalar(DType::F64));
    Builder inside(region);
    inside.yield({inside.binary(Opcode::Add, p, q)});
    Op* store = b.create(Opcode::ViewStore, {x, scan->result(), zero}, {});
    store->set("axes", std::vector<std::int64_t>{0});
  }
  try {
    test::CpuKernel compiled(kernel, {});
    FAIL("compiled with " << compiled.scratch_bytes << " bytes of scratch");
  } catch (const UserError& e) {
    CHECK(std::string(e.what()).find("tile<268435456 x f64>") != std::string::npos);
  }
}
