// Tests memory that is read and written at once: atomics, views that overlap themselves, extreme offsets.
#include "jit/cpu/cpu_runner.h"
#include "jit/kernel_text.h"
#include "left_out.h"
#include "test_seed.h"

#include <catch2/catch.hpp>

#include <limits>
#include <memory>
#include <thread>
#include <vector>

using namespace kiln;
using namespace kiln::ir;
using namespace kiln::test;

TEST_CASE("atomics of every kind and dtype store and return the right values on the CPU") {
  auto seed = kiln::test::fresh_seed();
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
      if (left_out(random)) continue;
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
      for (std::int64_t stride : {1, 0}) { // each program its own element, or all programs one element
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

TEST_CASE("atomics of four threads lose no update on the CPU") {
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
    // As many programs as the dtype can count exactly: 15 for fp8 with 3 mantissa bits, and so on.
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
        std::vector<char> scratch(static_cast<std::size_t>(compiled.scratch_bytes) + 64);
        std::size_t bytes = scratch.size();
        void* aligned = scratch.data();
        context.scratch = static_cast<char*>(std::align(64, bytes - 64, aligned, bytes));
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

TEST_CASE("an operation in place through a view that overlaps itself reads every element before it writes") {
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

TEST_CASE("offsets near the limits of 64 bits are out of bounds of every view") {
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
