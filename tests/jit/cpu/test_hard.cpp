// Tests kernels that are hard to compile: scans and dots of every form, loops and branches with tiles.
#include "cpu_runner.h"
#include "jit/kernel_text.h"
#include "left_out.h"
#include "test_seed.h"

#include <catch2/catch.hpp>

using namespace kiln;
using namespace kiln::ir;
using namespace kiln::test;

TEST_CASE("scans and reductions of user combines along every axis, on the CPU") {
  auto seed = kiln::test::fresh_seed();
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
        // (a, b) represents x -> a * x + b: associative, and commutative if all a are 1. Floats, with values
        // up to 2^31, are summed by absolute value, so that sums do not cancel.
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
  %cast = cast %all : tile<$Df32>
  %g = abs %cast : tile<$Df32>
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
  auto seed = kiln::test::fresh_seed();
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
          if (left_out(random)) continue;
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

TEST_CASE("loops that swap tiles, while loops over tiles, and branches with tiles") {
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
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (std::int64_t rounds : {0, 1, 2, 5, -3}) {
    Data x(DType::I64, 81), y(DType::I64, 81);
    x.randomize(random);
    Arguments arguments;
    add_view(arguments, x, {9, 9}), add_view(arguments, y, {9, 9});
    arguments.scalar(rounds).run_on(*kernel, {1});
  }
}
