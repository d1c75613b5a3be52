// Measures elementwise expressions over arrays that do not fit in the caches.
#include "copies.h"
#include "data.h"
#include "suite.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

namespace benchmarks {
namespace {

// Adds a bias to each row of a matrix of odd or narrow rows, or of a transposed one.
void bias_row(Suite& suite, std::int64_t elements, std::int64_t columns, bool transposed) {
  using namespace kiln;
  const std::int64_t rows = elements / columns;
  auto x = random<float>({rows * columns}), y = poisoned<float>({rows * columns}),
       bias = random<float>({columns});
  auto xs = transposed ? x.view().reshape({columns, rows}).transpose() : x.view().reshape({rows, columns});
  auto ys = y.view().reshape({rows, columns});
  auto run = [&] {
    assign(suite.stream, ys, relu(xs + bias));
    suite.stream.synchronize();
  };
  run();
  Error error;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      error.add(ys(i, j), std::max(double{xs(i, j)} + bias.data()[j], 0.0));

  Row row;
  row.group = "chain", row.mean = "elementwise, widths and strides", row.dtype = "f32";
  row.name = fmt::format("relu(x + bias) {} x {}{}", rows, columns, transposed ? " transposed" : "");
  row.error = error.relative();
  suite.check(row, "Kiln", row.error, 1e-6);
  std::vector<Contender> contenders{{.name = "Kiln", .run = run}};
  suite.add_pytorch(contenders,
                    fmt::format("relu_bias{} f32 {} {}", transposed ? "_transposed" : "", rows, columns));
  add_copies(contenders, y, x);
  const auto count = static_cast<double>(x.size());
  suite.run(row, contenders, {.amount = 8 * count, .unit = "GB/s", .limit = "copy", .elements = count});
}

} // namespace

void chain_rows(Suite& suite) {
  using namespace kiln;
  if (!suite.wanted("chain")) return;
  const std::int64_t rows = suite.tiny() ? 64 : 8192, columns = suite.tiny() ? 1024 : 4096;
  auto x = random<float>({rows * columns}), y = poisoned<float>({rows * columns});
  auto xs = x.view().reshape({rows, columns}), ys = y.view().reshape({rows, columns});
  struct Expression {
    const char* name;
    const char* in_pytorch;
    std::function<void()> launch;
    double (*reference)(double);
  };
  const Expression expressions[] = {
      {"chain of 5 operations", "chain",
       [&] { assign(suite.stream, y, relu(x * 1.5f + 0.25f) * 0.5f - 1.0f); },
       [](double v) { return std::max(v * 1.5 + 0.25, 0.0) * 0.5 - 1.0; }},
      {"gelu", "gelu", [&] { kiln::ops::activation(suite.stream, xs, ys, kiln::ops::Activation::gelu); },
       [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); }},
  };
  for (const Expression& e : expressions) {
    auto run = [&] {
      e.launch();
      suite.stream.synchronize();
    };
    y.fill(NAN);
    run();
    Error error;
    for (std::int64_t i = 0; i < x.size(); ++i)
      error.add(y.data()[i], e.reference(x.data()[i]));

    Row row;
    row.group = "chain", row.mean = "elementwise", row.dtype = "f32", row.error = error.relative();
    row.name = fmt::format("{}, {} floats", e.name, x.size());
    suite.check(row, "Kiln", row.error, 1e-6);
    std::vector<Contender> contenders{{.name = "Kiln", .run = run}};
    suite.add_pytorch(contenders, fmt::format("{} f32 {} {}", e.in_pytorch, rows, columns));
    add_copies(contenders, y, x);
    auto count = static_cast<double>(x.size());
    suite.run(row, contenders, {.amount = 8 * count, .unit = "GB/s", .limit = "copy", .elements = count});
  }
  const std::int64_t elements = suite.tiny() ? 1 << 14 : 1 << 25;
  const auto widths =
      suite.full() ? std::vector<std::int64_t>{2, 3, 8, 15, 4097, 50257} : std::vector<std::int64_t>{3, 4097};
  for (std::int64_t columns : widths)
    bias_row(suite, elements, columns, false);
  bias_row(suite, elements, suite.tiny() ? 64 : 4096, true);
}

} // namespace benchmarks
