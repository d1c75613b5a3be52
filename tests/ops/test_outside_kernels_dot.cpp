// Tests kernels with matrix products, written as a user would, with the public interface only.
#include "strided.h"

using namespace kiln;
using namespace kiln::test;

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);
KILN_DIM(BH); // the width of a head

TEMPLATE_TEST_CASE("outside: int8 weights with a scale for each group, dequantised and multiplied", "", float,
                   bf16) {
  using T = TestType;
  const auto multiply =
      kernel("int8_dequantise", [](View<const T, 2> x, View<const std::int8_t, 2> w, View<const T, 2> scales,
                                   View<const std::int8_t, 2> zeros_of, View<T, 2> y) {
        auto [m, n] = program_tile(y, BM, BN);
        auto group = cdiv(x.cols(), scales.rows());
        Tile cols = n + arange(BN);
        Tile acc = for_range(BK, x.cols(), zeros<float>(BM, BN), [&](auto k, auto acc) {
          Tile g = expand<1>((k + arange(BK)) / group);
          Tile q = cast<float>(w.tile(k, n).load()) - cast<float>(zeros_of.at(g, cols).load());
          Tile weights = cast<T>(q * cast<float>(scales.at(g, cols).load()));
          return acc + dot(x.tile(m, k).load(), weights);
        });
        y.tile(m, n).store(cast<T>(acc));
      });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = random.integer(1, 40), cols = random.integer(1, 60),
                     inner = random.integer(1, 100), group = random.integer(1, 40),
                     groups = (inner + group - 1) / group;
  Strided<T, 2> x(random, {rows, inner}, uniform(random, -1, 1)),
      scales(random, {groups, cols}, uniform(random, 0.001, 0.02)), y(random, {rows, cols});
  Strided<std::int8_t, 2> w(random, {inner, cols}, integers(random, -128, 127)),
      zero(random, {groups, cols}, integers(random, -8, 8));
  const std::int64_t used = (inner + groups - 1) / groups; // the kernel's group size
  run(multiply, {BM = 16, BN = 32, BK = 16}, x.view, w.view, scales.view, zero.view, y.view);
  y.check(4 * tolerance<T>(), [&](auto m, auto n) {
    double s = 0;
    for (std::int64_t k = 0; k < inner; ++k)
      s += x(m, k) * (w(k, n) - zero(k / used, n)) * scales(k / used, n);
    return s;
  });
}

TEMPLATE_TEST_CASE("outside: int8 by int8 with scales of rows and columns", "", std::int8_t, std::uint8_t) {
  using T = TestType;
  const auto multiply = kernel("int8_matmul", [](View<const T, 2> a, View<const T, 2> b,
                                                 View<const float, 1> rows, View<const float, 1> cols,
                                                 View<bf16, 2> c, View<std::int32_t, 2> exact) {
    auto [m, n] = program_tile(c, BM, BN);
    Tile acc = for_range(BK, a.cols(), zeros<std::int32_t>(BM, BN), [&](auto k, auto acc) {
      return acc + dot(a.tile(m, k).load(), b.tile(k, n).load());
    });
    exact.tile(m, n).store(acc);
    c.tile(m, n).store(cast<bf16>(cast<float>(acc) * expand<1>(rows.tile(m).load()) * cols.tile(n).load()));
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t m = random.integer(1, 40), n = random.integer(1, 60), inner = random.integer(1, 100);
  const int low = std::is_signed_v<T> ? -128 : 0;
  Strided<T, 2> a(random, {m, inner}, integers(random, low, low + 255)),
      b(random, {inner, n}, integers(random, low, low + 255));
  Strided<float, 1> rows(random, {m}, uniform(random, 0.01, 0.02)),
      cols(random, {n}, uniform(random, 0.01, 0.02));
  Strided<bf16, 2> c(random, {m, n});
  Strided<std::int32_t, 2> exact(random, {m, n});
  run(multiply, {BM = 16, BN = 32, BK = 32}, a.view, b.view, rows.view, cols.view, c.view, exact.view);
  exact.check(0, [&](auto i, auto j) {
    double s = 0;
    for (std::int64_t k = 0; k < inner; ++k)
      s += a(i, k) * b(k, j);
    return s;
  });
  c.check(tolerance<bf16>(), [&](auto i, auto j) { return exact(i, j) * rows(i) * cols(j); });
}

TEST_CASE("outside: 4-bit weights, two per byte") {
  const auto multiply = kernel("int4_matmul", [](View<const float, 2> x, View<const std::uint8_t, 2> packed,
                                                 View<const float, 1> scales, View<float, 2> y) {
    auto [m, n] = program_tile(y, BM, BN);
    // packed[k, n] holds the weights of rows 2 k (in the low half) and 2 k + 1.
    Tile acc = for_range(BK, packed.rows(), zeros<float>(BM, BN), [&](auto k, auto acc) {
      Tile both = packed.tile(k, n).load_or(0x88);
      Tile even = 2 * (k + arange(BK));
      Tile rows = expand<1>(m + arange(BM));
      auto low = cast<float>(cast<std::int32_t>(both & 15) - 8);
      auto high = cast<float>(cast<std::int32_t>(both >> 4) - 8);
      Tile first = dot(x.at(rows, even).load(), low, acc);
      return dot(x.at(rows, even + 1).load(), high, first);
    });
    y.tile(m, n).store(acc * scales.tile(n).load());
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = random.integer(1, 20), cols = random.integer(1, 40), half = random.integer(1, 50);
  Strided<float, 2> x(random, {rows, 2 * half}, uniform(random, -1, 1)), y(random, {rows, cols});
  Strided<std::uint8_t, 2> packed(random, {half, cols}, integers(random, 0, 255));
  Strided<float, 1> scales(random, {cols}, uniform(random, 0.5, 1));
  run(multiply, {BM = 8, BN = 16, BK = 16}, x.view, packed.view, scales.view, y.view);
  y.check(1e-5, [&](auto m, auto n) {
    double s = 0;
    for (std::int64_t k = 0; k < 2 * half; ++k)
      s += x(m, k) * ((packed.view(k / 2, n) >> (k % 2 * 4) & 15) - 8);
    return s * scales(n);
  });
}

TEMPLATE_TEST_CASE("outside: causal attention with shared keys, a window and the log-sum", "", float, bf16,
                   f16) {
  using T = TestType;
  const auto attention =
      kernel("attention", [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<T, 4> o,
                             View<float, 3> lse, Scalar<float> scale, Scalar<std::int64_t> window) {
        auto [b, h, m] = program_tile(q, 1_c, 1_c, BM);
        Scalar<std::int64_t> batch = b, head = h;
        Scalar<std::int64_t> shared = head / (q.extent(1) / k.extent(1));
        auto d = offset(BH, 0);
        Tile queries = q.tile(batch, head, m, d).load();
        auto ahead = k.extent(2) - q.extent(2); // so that the last query attends to all keys
        Tile row = expand<1>(m + arange(BM) + ahead);
        auto last = min(m + BM + ahead, k.extent(2));
        auto first = max(m + ahead - window + 1, 0) / BN * BN;
        auto start = state(full(-INFINITY, BM), zeros<float>(BM), zeros<float>(BM, BH));
        auto [top, total, acc] =
            for_range(BN, range(first, last), start, [&](auto n, auto top, auto total, auto acc) {
              Tile s = dot(queries, trans(k.tile(batch, shared, n, d).load())) * scale;
              Tile col = expand<0>(n + arange(BN));
              Tile seen = where((col <= row) & (col > row - window), s, -INFINITY);
              Tile next = max(top, max(seen, BN));
              Tile safe = where(next == -INFINITY, 0, next);
              Tile p = exp(seen - expand<1>(safe));
              Tile factor = exp(top - safe);
              return state(next, total * factor + sum(p, BN),
                           dot(cast<T>(p), v.tile(batch, shared, n, d).load(), acc * expand<1>(factor)));
            });
        o.tile(batch, head, m, d).store(cast<T>(acc / expand<1>(total)));
        lse.tile(batch, head, m).store(top + log(total));
      });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t batch = random.integer(1, 2), groups = random.integer(1, 2), per = random.integer(1, 3),
                     heads = groups * per, queries = random.integer(1, 50),
                     keys = queries + random.integer(0, 20), width = random.integer(1, 24),
                     window = random.integer(1, 60);
  Strided<T, 4> q(random, {batch, heads, queries, width}, uniform(random, -2, 2)),
      k(random, {batch, groups, keys, width}, uniform(random, -2, 2)),
      v(random, {batch, groups, keys, width}, uniform(random, -1, 1)),
      o(random, {batch, heads, queries, width});
  Strided<float, 3> lse(random, {batch, heads, queries});
  const float scale = 1 / std::sqrt(static_cast<float>(width));
  run(attention, {BM = 16, BN = 8, BH = 24}, q.view, k.view, v.view, o.view, lse.view, scale, window);
  auto score = [&](auto b, auto h, auto m, auto n) {
    double s = 0;
    for (std::int64_t i = 0; i < width; ++i)
      s += q(b, h, m, i) * k(b, h / per, n, i);
    return s * scale;
  };
  auto first = [&](std::int64_t m) { return std::max<std::int64_t>(0, m + keys - queries - window + 1); };
  lse.check(1e-4, [&](auto b, auto h, auto m) {
    double total = 0;
    for (std::int64_t n = first(m); n <= m + keys - queries; ++n)
      total += std::exp(score(b, h, m, n));
    return std::log(total);
  });
  o.check(3 * tolerance<T>() + 1e-4, [&](auto b, auto h, auto m, auto i) {
    double total = 0, value = 0;
    for (std::int64_t n = first(m); n <= m + keys - queries; ++n) {
      const double p = std::exp(score(b, h, m, n));
      total += p;
      value += p * v(b, h / per, n, i);
    }
    return value / total;
  });
}

TEST_CASE("outside: a convolution in two dimensions as one product over gathered patches") {
  const auto convolution = kernel("conv2d", [](View<const float, 4> x, View<const float, 4> w,
                                               View<const float, 1> bias, View<float, 4> y,
                                               Scalar<std::int64_t> stride, Scalar<std::int64_t> pad) {
    // x[n, c, h, w], w[out, c, kh, kw], y[n, out, p, q]; rows of the product are pixels, columns are outputs.
    Scalar p = y.extent(2), q = y.extent(3), pixels = y.extent(0) * p * q;
    auto m = program_id(0) * BM;
    auto n = program_id(1) * BN;
    Tile pixel = m + arange(BM);
    Tile image = pixel / (p * q), py = pixel / q % p, px = pixel % q;
    Tile out = n + arange(BN);
    Scalar kh = w.extent(2), kw = w.extent(3), inner = w.extent(1) * kh * kw;
    Tile acc = for_range(BK, inner, broadcast(expand<0>(bias.at(out).load()), BM, BN), [&](auto k, auto acc) {
      Tile i = k + arange(BK);
      Tile c = i / (kh * kw), ky = i / kw % kh, kx = i % kw;
      Tile inside = i < inner;
      Tile patch = x.at(expand<1>(image), expand<0>(c), expand<1>(py * stride - pad) + ky,
                        expand<1>(px * stride - pad) + kx)
                       .load(expand<0>(inside));
      Tile weights = w.at(expand<0>(out), expand<1>(c), expand<1>(ky), expand<1>(kx)).load(expand<1>(inside));
      return acc + dot(patch, weights);
    });
    y.at(expand<1>(image), expand<0>(out), expand<1>(py), expand<1>(px))
        .store(relu(acc), expand<1>(pixel < pixels));
  });
  Random random;
  KILN_SEED(random);
  const bool interpreted = GENERATE(false, true);
  const std::int64_t images = random.integer(1, 2), in = random.integer(1, 4), out = random.integer(1, 20),
                     rows = random.integer(5, 14), cols = random.integer(5, 14), kh = random.integer(1, 3),
                     kw = random.integer(1, 4), stride = random.integer(1, 2), pad = random.integer(0, 2),
                     p = (rows + 2 * pad - kh) / stride + 1, q = (cols + 2 * pad - kw) / stride + 1;
  Strided<float, 4> x(random, {images, in, rows, cols}, uniform(random, -1, 1)),
      w(random, {out, in, kh, kw}, uniform(random, -1, 1)), y(random, {images, out, p, q});
  Strided<float, 1> bias(random, {out}, uniform(random, -1, 1));
  const Grid grid{(images * p * q + 15) / 16, (out + 7) / 8};
  const Config config{BM = 16, BN = 8, BK = 8};
  if (interpreted) {
    convolution.interpret(config, grid, x.view, w.view, bias.view, y.view, stride, pad);
  } else {
    Stream stream;
    convolution.launch(stream, config, grid, x.view, w.view, bias.view, y.view, stride, pad);
    stream.synchronize();
  }
  y.check(1e-5, [&](auto n, auto o, auto py, auto px) {
    double s = bias(o);
    for (std::int64_t c = 0; c < in; ++c)
      for (std::int64_t i = 0; i < kh; ++i)
        for (std::int64_t j = 0; j < kw; ++j) {
          const auto r = py * stride - pad + i, t = px * stride - pad + j;
          if (r >= 0 && r < rows && t >= 0 && t < cols) s += x(n, c, r, t) * w(o, c, i, j);
        }
    return std::max(s, 0.0);
  });
}

TEMPLATE_TEST_CASE("outside: a batch of small products in one tile", "", float, double, bf16) {
  using T = TestType;
  using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const auto batched = kernel("batched", [](View<const T, 3> a, View<const T, 3> b, View<Acc, 3> c) {
    auto [batch] = program_tile(c, 4_c);
    auto m = offset(BM, 0);
    auto n = offset(BN, 0);
    auto k = offset(BK, 0);
    c.tile(batch, m, n).store(dot(a.tile(batch, m, k).load(), b.tile(batch, k, n).load()));
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t count = random.integer(1, 30), m = random.integer(1, 7), n = random.integer(1, 9),
                     inner = random.integer(1, 5);
  Strided<T, 3> a(random, {count, m, inner}, uniform(random, -1, 1)),
      b(random, {count, inner, n}, uniform(random, -1, 1));
  Strided<Acc, 3> c(random, {count, m, n});
  run(batched, {BM = 7, BN = 9, BK = 5}, a.view, b.view, c.view);
  c.check(std::is_same_v<T, double> ? 1e-14 : 1e-5, [&](auto e, auto i, auto j) {
    double s = 0;
    for (std::int64_t k = 0; k < inner; ++k)
      s += a(e, i, k) * b(e, k, j);
    return s;
  });
}

TEST_CASE("outside: a product whose inner dimension is split between programs, added by atomics") {
  const auto split = kernel("split_k", [](View<const f16, 2> a, View<const f16, 2> b, View<float, 2> c) {
    auto m = program_id(0) * BM;
    auto n = program_id(1) * BN;
    auto share = cdiv(cdiv(a.cols(), num_programs(2)), dim_size(BK)) * BK;
    auto begin = program_id(2) * dim_size(BK) * cdiv(cdiv(a.cols(), num_programs(2)), dim_size(BK));
    Tile acc =
        for_range(BK, range(begin, min(begin + share, a.cols())), zeros<float>(BM, BN),
                  [&](auto k, auto acc) { return acc + dot(a.tile(m, k).load(), b.tile(k, n).load()); });
    c.tile(m, n).atomic_add(acc);
  });
  Random random;
  KILN_SEED(random);
  const bool interpreted = GENERATE(false, true);
  const std::int64_t rows = random.integer(1, 40), cols = random.integer(1, 40),
                     inner = random.integer(1, 200);
  Strided<f16, 2> a(random, {rows, inner}, uniform(random, -1, 1)),
      b(random, {inner, cols}, uniform(random, -1, 1));
  Strided<float, 2> c(random, {rows, cols}, [] { return 0; });
  const Grid grid{(rows + 15) / 16, (cols + 15) / 16, 3};
  const Config config{BM = 16, BN = 16, BK = 8};
  if (interpreted) {
    split.interpret(config, grid, a.view, b.view, c.view);
  } else {
    Stream stream;
    split.launch(stream, config, grid, a.view, b.view, c.view);
    stream.synchronize();
  }
  c.check(1e-5, [&](auto m, auto n) {
    double s = 0;
    for (std::int64_t k = 0; k < inner; ++k)
      s += a(m, k) * b(k, n);
    return s;
  });
}
