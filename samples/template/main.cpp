// Computes squared distances with a kernel of its own: distances [--tune]
//
// A kernel of your own: the squared distance of each row of `points` from `query`, checked by a plain loop.
// With --tune the program first searches for the best tile sizes, which later runs then use.
#include <kiln/kiln.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <string_view>
#include <vector>

using namespace kiln;

KILN_DIM(BM); // rows of a tile
KILN_DIM(BN); // columns of a tile

// A program computes BM results and loops over the columns in tiles of BN.
const auto distances =
    kernel("distances", [](View<const float, 2> points, View<const float, 1> query, View<float, 1> out) {
      expects(points.rows() == out.size(), "the rows of points and the size of out");
      expects(points.cols() == query.size(), "the columns of points and the size of query");
      auto [row] = program_tile(out, BM);
      auto total = for_range(BN, points.cols(), zeros<float>(BM), [&](auto col, auto total) {
        Tile difference = points.tile(row, col).load() - query.tile(col).load();
        return total + sum(difference * difference, BN);
      });
      out.tile(row).store(total);
    });

// The tile sizes that the tuner may try. The seed is a config that works everywhere.
const auto tuned_distances =
    tuned(distances,
          tune::Space()
              .pow2(BM, 1, 64)
              .pow2(BN, 16, 1024)
              .require("a tile has at most 32768 elements",
                       [](const tune::Choice& c) { return c[BM] * c[BN] <= 32768; })
              .seed({{"BM", 8}, {"BN", 64}}),
          {.key = {{"rows", 0, 0}, {"columns", 0, 1}}}); // a problem's sizes: name, parameter, axis

// How many results differ from a plain loop's. NaN does.
int count_wrong(const std::vector<float>& points, const std::vector<float>& query,
                const std::vector<float>& out) {
  int wrong = 0;
  for (std::size_t r = 0; r < out.size(); ++r) {
    double expected = 0;
    for (std::size_t c = 0; c < query.size(); ++c) {
      const double difference = double{points[r * query.size() + c]} - query[c];
      expected += difference * difference;
    }
    wrong += !(std::abs(out[r] - expected) <= 1e-5 * expected);
  }
  return wrong;
}

int run(bool tune_first) {
  constexpr std::int64_t rows = 10'000, columns = 300;
  std::vector<float> points(rows * columns), query(columns), out(rows, NAN);
  std::mt19937 random;
  std::normal_distribution<float> numbers;
  for (float& x : points)
    x = numbers(random);
  for (float& x : query)
    x = numbers(random);

  Stream stream; // on the CPU
  TensorView all_points(points, {rows, columns});
  if (tune_first)
    tuned_distances.tune(stream, {.effort = tune::quick, .trials = 8}, all_points, TensorView(query),
                         TensorView(out));

  const tune::Picked picked = tuned_distances.pick(stream, all_points, TensorView(query), TensorView(out));
  tuned_distances.launch(stream, all_points, TensorView(query), TensorView(out));
  stream.synchronize();

  const int wrong = count_wrong(points, query, out);
  std::printf("config {%s}, from %s: %d of %d results are wrong\n", picked.config.to_string().c_str(),
              picked.source.c_str(), wrong, static_cast<int>(rows));
  return wrong == 0 ? 0 : 1;
}

int main(int argc, char** argv) {
  try {
    return run(argc > 1 && std::string_view(argv[1]) == "--tune");
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
