// Tests kernels that use tiles in unusual ways, written as a user would, with the public interface only.
#include "strided.h"

#include <algorithm>

using namespace kiln;
using namespace kiln::test;

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

namespace {
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
} // namespace

TEMPLATE_TEST_CASE("outside: Cholesky factors of small matrices, one tile each", "", float, double) {
  using T = TestType;
  const auto cholesky = kernel("cholesky", [](View<const T, 3> a, View<T, 3> l) {
    auto [b] = program_tile(a, 1_c);
    Scalar<std::int64_t> batch = b;
    Tile row = expand<1>(arange(BN));
    Tile col = expand<0>(arange(BN));
    Tile whole = a.at(batch, row, col).load();
    Tile factor = for_range(0, a.rows(), 1, whole, [&](auto k, auto m) {
      Tile column = sum(where(col == k, m, 0), axis<1>);
      Tile pivot = sqrt(sum(where(arange(BN) == k, column, 0)));
      Tile scaled = where(arange(BN) > k, column / pivot, where(arange(BN) == k, pivot, 0));
      Tile update = m - expand<1>(scaled) * expand<0>(scaled);
      return where(col > k, where(row > k, update, m), where(col == k, expand<1>(scaled), m));
    });
    l.at(batch, row, col).store(factor, row >= col);
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t count = random.integer(1, 6), n = random.integer(1, 13);
  Strided<T, 3> a(random, {count, n, n}, uniform(random, -1, 1)), l(random, {count, n, n}, [] { return 0; });
  for (std::int64_t b = 0; b < count; ++b)
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j <= i; ++j)
        a.view(b, i, j) = a.view(b, j, i) = i == j ? static_cast<T>(n + 1) : a.view(b, i, j);
  run(cholesky, {BN = 13}, a.view, l.view);
  a.check(std::is_same_v<T, float> ? 1e-5 : 1e-13, [&](auto b, auto i, auto j) {
    double s = 0;
    for (std::int64_t k = 0; k < n; ++k)
      s += l(b, i, k) * l(b, j, k);
    return s;
  });
  l.check_gaps();
}

TEST_CASE("outside: the median of rows by radix selection on the bits of floats") {
  const auto median = kernel("median", [](View<const float, 2> x, View<float, 1> y) {
    auto [m] = program_tile(x, BM);
    Tile bits = bitcast<std::uint32_t>(x.tile(m, offset(BN, 0)).load());
    // As unsigned numbers, the keys have the order of the floats.
    Tile key = bits ^ where((bits >> 31) != 0, 0xffffffffu, 0x80000000u);
    Tile open = broadcast(expand<0>(arange(BN) < x.cols()), BM, BN);
    auto start = state(open, full(cast<std::int32_t>(x.cols() - 1) / 2, BM), zeros<std::uint32_t>(BM));
    auto [last, rank, found] = for_range(0, 32, 1, start, [&](auto i, auto open, auto rank, auto found) {
      Tile bit = (key >> cast<std::uint32_t>(31 - i)) & 1;
      Tile low = sum(cast<std::int32_t>(open & (bit == 0)), BN);
      Tile high = rank >= low;
      return state(open & ((bit == 1) == expand<1>(high)), where(high, rank - low, rank),
                   (found << 1) | cast<std::uint32_t>(high));
    });
    y.tile(m).store(bitcast<float>(found ^ where((found >> 31) != 0, 0x80000000u, 0xffffffffu)));
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = random.integer(1, 20), cols = random.integer(1, 50);
  Strided<float, 2> x(random, {rows, cols}, uniform(random, -1, 1));
  Strided<float, 1> y(random, {rows});
  run(median, {BM = 4, BN = 50}, x.view, y.view);
  y.check(0, [&](auto r) {
    std::vector<double> row;
    for (std::int64_t c = 0; c < cols; ++c)
      row.push_back(x(r, c));
    std::sort(row.begin(), row.end());
    return row[at((cols - 1) / 2)];
  });
}

TEST_CASE("outside: the game of life on a torus") {
  const auto life = kernel("life", [](View<const bool, 2> x, View<bool, 2> y) {
    auto [m, n] = program_tile(y, BM, BN);
    Tile rows = expand<1>(m + arange(BM) + x.rows());
    Tile cols = expand<0>(n + arange(BN) + x.cols());
    Tile neighbours = zeros<std::int32_t>(BM, BN);
    for (int i = -1; i <= 1; ++i)
      for (int j = -1; j <= 1; ++j)
        if (i || j)
          neighbours =
              neighbours + cast<std::int32_t>(x.at((rows + i) % x.rows(), (cols + j) % x.cols()).load());
    y.tile(m, n).store((neighbours == 3) | ((neighbours == 2) & x.tile(m, n).load()));
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = random.integer(1, 40), cols = random.integer(1, 40);
  Strided<bool, 2> x(random, {rows, cols}, integers(random, 0, 1)), y(random, {rows, cols});
  run(life, {BM = 8, BN = 16}, x.view, y.view);
  y.check(0, [&](auto r, auto c) {
    int n = 0;
    for (std::int64_t i = -1; i <= 1; ++i)
      for (std::int64_t j = -1; j <= 1; ++j)
        n += (i || j) && x.view((r + i + rows) % rows, (c + j + cols) % cols);
    return n == 3 || (n == 2 && x.view(r, c)) ? 1.0 : 0.0;
  });
}

TEST_CASE("outside: an edit distance, each row of the table by a scan of minima") {
  const auto distance = kernel("edit_distance", [](View<const std::uint8_t, 2> a,
                                                   View<const std::uint8_t, 1> b, View<std::int32_t, 1> y) {
    auto [p] = program_tile(y, 1_c); // one program per word
    Scalar<std::int64_t> word = p;
    Tile j = arange(BN);
    Tile letters = b.at(j - 1).load();
    Tile last = for_range(0, a.cols(), 1, broadcast(j, BN), [&](auto i, auto above) {
      Tile before =
          sum(where(expand<1>(j) - 1 == expand<0>(j), expand<0>(above), 0), axis<1>); // shifted by one
      Tile letter = a.tile(word, i).load();
      Tile change = before + cast<std::int32_t>(letters != letter);
      Tile t = where(j == 0, cast<std::int32_t>(i) + 1, min(above + 1, change));
      // Insertions: t[j] = min over k <= j of t[k] + j - k.
      return associative_scan(t - j, BN, [](auto a, auto b) { return min(a, b); }) + j;
    });
    y.tile(word).store(sum(where(j == b.extent(0), last, 0)));
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t words = random.integer(1, 6), length = random.integer(1, 20),
                     other = random.integer(1, 24);
  Strided<std::uint8_t, 2> a(random, {words, length}, integers(random, 0, 3));
  Strided<std::uint8_t, 1> b(random, {other}, integers(random, 0, 3));
  Strided<std::int32_t, 1> y(random, {words});
  run(distance, {BN = 25}, a.view, b.view, y.view);
  y.check(0, [&](auto w) {
    std::vector<std::int64_t> row(at(other + 1));
    std::iota(row.begin(), row.end(), 0);
    for (std::int64_t i = 0; i < length; ++i) {
      std::vector<std::int64_t> next{i + 1};
      for (std::int64_t k = 0; k < other; ++k)
        next.push_back(
            std::min({row[at(k)] + (a.view(w, i) != b.view(k)), row[at(k + 1)] + 1, next.back() + 1}));
      row = next;
    }
    return static_cast<double>(row.back());
  });
}

TEST_CASE("outside: a matrix power, dots of computed tiles in a loop with a branch") {
  const auto power =
      kernel("power", [](View<const double, 2> a, View<double, 2> y, Scalar<std::uint32_t> exponent) {
        Tile i = expand<1>(arange(BN));
        Tile j = expand<0>(arange(BN));
        Tile one = cast<double>(i == j) * ones<double>(BN, BN);
        auto start = state(a.at(i, j).load(), one, exponent);
        auto [square, result, rest] = while_loop(
            start, [](auto, auto, auto rest) { return rest != 0; },
            [&](auto square, auto result, auto rest) {
              Tile next =
                  if_else((rest & 1) == 1, [&] { return dot(square, result); }, [&] { return result; });
              return state(dot(square, square), next, rest >> 1);
            });
        y.at(i, j).store(result);
      });
  Random random;
  KILN_SEED(random);
  const bool interpreted = GENERATE(false, true);
  const std::int64_t n = random.integer(1, 9);
  const auto exponent = static_cast<unsigned>(random.integer(0, 9));
  Strided<double, 2> a(random, {n, n}, uniform(random, -0.5, 0.5)), y(random, {n, n});
  if (interpreted) {
    power.interpret({BN = 9}, Grid{}, a.view, y.view, exponent);
  } else {
    Stream stream;
    power.launch(stream, {BN = 9}, Grid{}, a.view, y.view, exponent);
    stream.synchronize();
  }
  std::vector<double> p(at(n * n));
  for (std::int64_t i = 0; i < n; ++i)
    p[at(i * n + i)] = 1;
  for (unsigned e = 0; e < exponent; ++e) {
    std::vector<double> q(at(n * n));
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t k = 0; k < n; ++k)
          q[at(i * n + j)] += p[at(i * n + k)] * a(k, j);
    p = q;
  }
  y.check(1e-12, [&](auto i, auto j) { return p[at(i * n + j)]; });
}

TEMPLATE_TEST_CASE("outside: grouped products, each token by its expert's matrix, in a persistent loop", "",
                   float, bf16) {
  using T = TestType;
  const auto grouped = kernel("grouped", [](View<const T, 2> x, View<const T, 3> w,
                                            View<const std::int32_t, 1> starts, View<T, 2> y) {
    auto experts = w.extent(0);
    for_range(program_id(0), experts, num_programs(0), [&](auto e) {
      auto begin = cast<std::int64_t>(starts.tile(e).load());
      auto end = cast<std::int64_t>(starts.tile(e + 1).load());
      for_range(BM, range(begin, end), [&](auto m) {
        Tile mine = expand<1>(m + arange(BM) < end);
        for_range(BN, y.cols(), [&](auto n) {
          Tile acc = for_range(BK, x.cols(), zeros<float>(BM, BN), [&](auto k, auto acc) {
            return acc + dot(x.tile(m, k).load(mine), w.tile(e, k, n).load());
          });
          y.tile(m, n).store(cast<T>(acc), mine);
        });
      });
    });
  });
  Random random;
  KILN_SEED(random);
  const bool interpreted = GENERATE(false, true);
  const std::int64_t experts = random.integer(1, 7), inner = random.integer(1, 30),
                     cols = random.integer(1, 40);
  Strided<std::int32_t, 1> starts(random, {experts + 1});
  std::int64_t tokens = 0;
  for (std::int64_t e = 0; e <= experts; ++e) {
    starts.view(e) = static_cast<std::int32_t>(tokens);
    if (e < experts) tokens += random.integer(0, 20);
  }
  Strided<T, 2> x(random, {tokens, inner}, uniform(random, -1, 1)), y(random, {tokens, cols});
  Strided<T, 3> w(random, {experts, inner, cols}, uniform(random, -1, 1));
  const Config config{BM = 8, BN = 16, BK = 8};
  if (interpreted) {
    grouped.interpret(config, Grid{3}, x.view, w.view, starts.view, y.view);
  } else {
    Stream stream;
    grouped.launch(stream, config, Grid{3}, x.view, w.view, starts.view, y.view);
    stream.synchronize();
  }
  y.check(tolerance<T>(), [&](auto t, auto c) {
    std::int64_t e = 0;
    while (starts.view(e + 1) <= t)
      ++e;
    double s = 0;
    for (std::int64_t k = 0; k < inner; ++k)
      s += x(t, k) * w(e, k, c);
    return s;
  });
}

TEST_CASE("outside: an image of bytes resized with interpolation") {
  const auto resize = kernel("resize", [](View<const std::uint8_t, 3> x, View<std::uint8_t, 3> y) {
    auto [m, n] = program_tile(y, BM, BN);
    auto c = offset(4_c, 0); // up to four channels
    auto place = [](auto i, auto from, auto to) {
      Tile p = (cast<float>(i) + 0.5f) * (cast<float>(from) / cast<float>(to)) - 0.5f;
      return clamp(p, 0.0f, cast<float>(from - 1));
    };
    Tile py = expand<1>(expand<1>(place(m + arange(BM), x.extent(0), y.extent(0))));
    Tile px = expand<1>(place(n + arange(BN), x.extent(1), y.extent(1)));
    Tile y0 = cast<std::int64_t>(floor(py));
    Tile x0 = cast<std::int64_t>(floor(px));
    auto fy = py - floor(py);
    auto fx = px - floor(px);
    Tile y1 = min(y0 + 1, x.extent(0) - 1);
    Tile x1 = min(x0 + 1, x.extent(1) - 1);
    Tile channel = arange(4_c);
    auto pixel = [&](auto r, auto s) { return cast<float>(x.at(r, s, channel).load()); };
    Tile top = pixel(y0, x0) * (1 - fx) + pixel(y0, x1) * fx;
    Tile bottom = pixel(y1, x0) * (1 - fx) + pixel(y1, x1) * fx;
    y.tile(m, n, c).store(cast<std::uint8_t>(round(top * (1 - fy) + bottom * fy)));
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = random.integer(1, 20), cols = random.integer(1, 20),
                     channels = random.integer(1, 4);
  Strided<std::uint8_t, 3> x(random, {rows, cols, channels}, integers(random, 0, 255)),
      y(random, {random.integer(1, 30), random.integer(1, 30), channels});
  run(resize, {BM = 4, BN = 8}, x.view, y.view);
  y.each([&](auto r, auto s, auto c) {
    auto place = [](auto i, auto from, auto to) {
      const double p =
          (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
      return std::clamp(p, 0.0, static_cast<double>(from - 1));
    };
    const double py = place(r, rows, y.view.extent(0)), px = place(s, cols, y.view.extent(1));
    const auto y0 = static_cast<std::int64_t>(py), x0 = static_cast<std::int64_t>(px);
    const auto y1 = std::min(y0 + 1, rows - 1), x1 = std::min(x0 + 1, cols - 1);
    const double fy = py - static_cast<double>(y0), fx = px - static_cast<double>(x0);
    const double e = (x(y0, x0, c) * (1 - fx) + x(y0, x1, c) * fx) * (1 - fy) +
                     (x(y1, x0, c) * (1 - fx) + x(y1, x1, c) * fx) * fy;
    REQUIRE(std::abs(y(r, s, c) - e) <= 0.51);
  });
  y.check_gaps();
}

TEMPLATE_TEST_CASE("outside: atomic sums and extremes of every float", "", f16, bf16, float, double) {
  using T = TestType;
  const auto extremes =
      kernel("extremes", [](View<const T, 1> x, View<T, 1> total, View<T, 1> low, View<T, 1> high) {
        auto [i] = program_tile(x, BN);
        Tile t = x.tile(i).load();
        Tile mine = i + arange(BN) < x.extent(0);
        total.at(0).atomic_add(sum(t));
        Tile slot = (i + arange(BN)) % low.extent(0);
        low.at(slot).atomic_min(t, mine);
        high.at(slot).atomic_max(t, mine);
      });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t n = random.integer(1, 200), slots = random.integer(1, 5);
  Strided<T, 1> x(random, {n}, integers(random, -4, 4)), total(random, {1}, [] { return 0; }),
      low(random, {slots}, [] { return 100; }), high(random, {slots}, [] { return -100; });
  run(extremes, {BN = 32}, x.view, total.view, low.view, high.view);
  double s = 0;
  std::vector<double> least(at(slots), 100), most(at(slots), -100);
  x.each([&](auto i) {
    s += x(i);
    least[at(i % slots)] = std::min(least[at(i % slots)], x(i));
    most[at(i % slots)] = std::max(most[at(i % slots)], x(i));
  });
  total.check(std::is_same_v<T, bf16> ? 0.1 : 0, [&](auto) { return s; });
  low.check(0, [&](auto i) { return least[at(i)]; });
  high.check(0, [&](auto i) { return most[at(i)]; });
}

TEST_CASE("outside: rows and columns alternately scaled to sums of one, with the tile as the loop's state") {
  const auto sinkhorn =
      kernel("sinkhorn", [](View<const float, 2> x, View<float, 2> y, Scalar<std::int32_t> rounds) {
        Tile row = expand<1>(arange(BM));
        Tile col = expand<0>(arange(BN));
        Tile inside = (row < x.rows()) & (col < x.cols());
        Var t = where(inside, exp(x.at(row, col).load()), 0);
        Var<std::int32_t> changes = 0;
        for_range(0, rounds, 1, [&](auto i) {
          t = t / max(sum(t, BN, keep), 1e-30f);
          if_then(i + 1 < rounds, [&] {
            t = t / max(sum(t, BM, keep), 1e-30f);
            changes += 1;
          });
        });
        y.at(row, col).store(t * where(changes + 1 == rounds, 1, NAN), inside);
      });
  Random random;
  KILN_SEED(random);
  const bool interpreted = GENERATE(false, true);
  const std::int64_t rows = random.integer(1, 20), cols = random.integer(1, 30);
  Strided<float, 2> x(random, {rows, cols}, uniform(random, -2, 2)), y(random, {rows, cols});
  if (interpreted) {
    sinkhorn.interpret({BM = 20, BN = 30}, Grid{}, x.view, y.view, 5);
  } else {
    Stream stream;
    sinkhorn.launch(stream, {BM = 20, BN = 30}, Grid{}, x.view, y.view, 5);
    stream.synchronize();
  }
  std::vector<double> t;
  x.each([&](auto r, auto c) { t.push_back(std::exp(x(r, c))); });
  for (int round = 0; round < 5; ++round) {
    for (std::int64_t r = 0; r < rows; ++r) {
      double s = 0;
      for (std::int64_t c = 0; c < cols; ++c)
        s += t[at(r * cols + c)];
      for (std::int64_t c = 0; c < cols; ++c)
        t[at(r * cols + c)] /= s;
    }
    for (std::int64_t c = 0; c < cols && round < 4; ++c) {
      double s = 0;
      for (std::int64_t r = 0; r < rows; ++r)
        s += t[at(r * cols + c)];
      for (std::int64_t r = 0; r < rows; ++r)
        t[at(r * cols + c)] /= s;
    }
  }
  y.check(1e-5, [&](auto r, auto c) { return t[at(r * cols + c)]; });
}
