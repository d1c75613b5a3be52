// Measures softmax, norms and the gradients of norms over the rows of matrices that fit in the caches, and of
// larger ones.
#include "copies.h"
#include "data.h"
#include "suite.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <string_view>

namespace benchmarks {
namespace {

using kiln::Tensor;
using kiln::TensorView;

constexpr double eps = 1e-5;

struct Operands {
  TensorView<const float, 2> x;
  TensorView<const float, 1> gamma, beta;
  TensorView<float, 2> y; // of a gradient: dx
  // Of gradients only.
  TensorView<const float, 2> dy;
  TensorView<float, 1> dgamma, dbeta;
};

struct RowKernel {
  const char* name;
  void (*run)(kiln::Stream&, const Operands&);
  void (*reference)(const Operands&, std::int64_t row, std::vector<double>& out);
  int matrices = 2; // that are read and written
  const char* group = name;
};

void softmax_of(const Operands& o, std::int64_t row, std::vector<double>& out) {
  double top = -INFINITY, sum = 0;
  for (std::int64_t j = 0; j < o.x.cols(); ++j)
    top = std::max(top, double{o.x(row, j)});
  for (std::int64_t j = 0; j < o.x.cols(); ++j)
    sum += out[static_cast<std::size_t>(j)] = std::exp(o.x(row, j) - top);
  for (double& e : out)
    e /= sum;
}

// (x - mean) / sqrt(mean of (x - mean)^2 + eps)
void normalise(const Operands& o, std::int64_t row, double mean, std::vector<double>& out) {
  double squares = 0, n = static_cast<double>(o.x.cols());
  for (std::int64_t j = 0; j < o.x.cols(); ++j)
    squares += (o.x(row, j) - mean) * (o.x(row, j) - mean);
  for (std::int64_t j = 0; j < o.x.cols(); ++j)
    out[static_cast<std::size_t>(j)] = (o.x(row, j) - mean) / std::sqrt(squares / n + eps) * o.gamma(j);
}
void layernorm_of(const Operands& o, std::int64_t row, std::vector<double>& out) {
  double sum = 0;
  for (std::int64_t j = 0; j < o.x.cols(); ++j)
    sum += o.x(row, j);
  normalise(o, row, sum / static_cast<double>(o.x.cols()), out);
  for (std::int64_t j = 0; j < o.x.cols(); ++j)
    out[static_cast<std::size_t>(j)] += o.beta(j);
}
void rmsnorm_of(const Operands& o, std::int64_t row, std::vector<double>& out) { normalise(o, row, 0, out); }

// dx = (w - mean(w) - normal mean(w normal)) scale with w = dy gamma; without the means for rmsnorm.
void norm_backward(const Operands& o, std::int64_t row, bool centred, std::vector<double>& out) {
  const auto n = static_cast<double>(o.x.cols());
  double mean = 0, squares = 0, of_w = 0, of_normal = 0;
  for (std::int64_t j = 0; centred && j < o.x.cols(); ++j)
    mean += o.x(row, j) / n;
  for (std::int64_t j = 0; j < o.x.cols(); ++j)
    squares += (o.x(row, j) - mean) * (o.x(row, j) - mean) / n;
  const double scale = 1 / std::sqrt(squares + eps);
  const auto w = [&](std::int64_t j) { return double{o.dy(row, j)} * o.gamma(j); };
  const auto normal = [&](std::int64_t j) { return (o.x(row, j) - mean) * scale; };
  for (std::int64_t j = 0; j < o.x.cols(); ++j)
    of_w += centred ? w(j) / n : 0, of_normal += w(j) * normal(j) / n;
  for (std::int64_t j = 0; j < o.x.cols(); ++j)
    out[static_cast<std::size_t>(j)] = (w(j) - of_w - normal(j) * of_normal) * scale;
}
void layernorm_backward_of(const Operands& o, std::int64_t row, std::vector<double>& out) {
  norm_backward(o, row, true, out);
}
void rmsnorm_backward_of(const Operands& o, std::int64_t row, std::vector<double>& out) {
  norm_backward(o, row, false, out);
}

const RowKernel row_kernels[] = {
    {"softmax", [](kiln::Stream& s, const Operands& o) { kiln::ops::softmax(s, o.x, o.y); }, softmax_of},
    {"layernorm",
     [](kiln::Stream& s, const Operands& o) {
       kiln::ops::layernorm(s, o.x, o.gamma, o.beta, o.y, {.eps = eps});
     },
     layernorm_of},
    {"rmsnorm",
     [](kiln::Stream& s, const Operands& o) { kiln::ops::rmsnorm(s, o.x, o.gamma, o.y, {.eps = eps}); },
     rmsnorm_of},
    {"layernorm_backward",
     [](kiln::Stream& s, const Operands& o) {
       kiln::ops::layernorm_backward(s, o.x, o.gamma, o.dy, o.y, o.dgamma, o.dbeta, {.eps = eps});
     },
     layernorm_backward_of, 3, "backward"},
    {"rmsnorm_backward",
     [](kiln::Stream& s, const Operands& o) {
       kiln::ops::rmsnorm_backward(s, o.x, o.gamma, o.dy, o.y, o.dgamma, {.eps = eps});
     },
     rmsnorm_backward_of, 3, "backward"},
};

double error_of(const RowKernel& kernel, const Operands& o) {
  Error error;
  std::vector<double> expected(static_cast<std::size_t>(o.x.cols()));
  for (std::int64_t row : some_indices(o.x.rows(), 20)) {
    kernel.reference(o, row, expected);
    for (std::int64_t j = 0; j < o.x.cols(); ++j)
      error.add(o.y(row, j), expected[static_cast<std::size_t>(j)]);
  }
  return error.relative();
}

// Which matrices a kernel is measured on. The elements of a row of a transposed matrix lie in as many lines.
enum class Kind : std::uint8_t { cached, from_memory, transposed };

// Measures one kernel on `elements` numbers in rows of `columns`.
void run(Suite& suite, const RowKernel& kernel, std::int64_t elements, std::int64_t columns, Kind kind) {
  const bool cached = kind == Kind::cached, transposed = kind == Kind::transposed;
  std::int64_t rows = std::max<std::int64_t>(1, elements / columns);
  elements = rows * columns;
  auto x = random<float>({elements}), y = poisoned<float>({elements});
  auto gamma = random<float>({columns}), beta = random<float>({columns});
  auto read = transposed ? x.view().reshape({columns, rows}).transpose() : x.view().reshape({rows, columns});
  const std::int64_t more = kernel.matrices > 2 ? elements : 0;
  auto dy = random<float>({more}), dgamma = poisoned<float>({columns}), dbeta = poisoned<float>({columns});
  Operands o{read, gamma, beta, y.view().reshape({rows, columns}), read, dgamma, dbeta};
  if (more) o.dy = dy.view().reshape({rows, columns});
  auto work = [&] {
    kernel.run(suite.stream, o);
    suite.stream.synchronize();
  };
  work();

  Row row;
  row.group = kernel.group, row.dtype = "f32";
  const bool usual = columns % 16 == 0 && !transposed;
  row.name = fmt::format("{} {} x {}{}, {}", kernel.name, rows, columns, transposed ? " transposed" : "",
                         cached ? "in cache" : "from memory");
  row.mean = fmt::format("{}, {}", kernel.name,
                         !usual   ? "widths and strides"
                         : cached ? "in cache"
                                  : "from memory");
  row.error = error_of(kernel, o);
  // Two columns are normalised to about -1 and 1 whatever x is, so that terms of dx cancel to about eps.
  const bool cancels = columns == 2 && std::string_view(kernel.name) == "layernorm_backward";
  suite.check(row, "Kiln", row.error, cancels ? 1e-2 : 1e-5);

  std::vector<Contender> contenders{{.name = "Kiln", .run = work}};
  suite.add_pytorch(
      contenders, fmt::format("{}{} f32 {} {}", kernel.name, transposed ? "_transposed" : "", rows, columns));
  double count = static_cast<double>(elements);
  if (cached) {
    suite.run(row, contenders, {.elements = count});
  } else {
    add_copies(contenders, y, x);
    suite.run(row, contenders,
              {.amount = 4 * kernel.matrices * count, .unit = "GB/s", .limit = "copy", .elements = count});
  }
}

} // namespace

void row_kernel_rows(Suite& suite) {
  constexpr std::int64_t floats_in_cache = 1 << 16, floats_in_memory = 1 << 25; // 256 KiB and 128 MiB
  for (const RowKernel& kernel : row_kernels) {
    if (!suite.wanted(kernel.group)) continue;
    if (suite.tiny()) {
      run(suite, kernel, 1 << 12, 100, Kind::cached);
      run(suite, kernel, 1 << 16, 1 << 12, Kind::from_memory);
      run(suite, kernel, 1 << 12, 3, Kind::from_memory);
      run(suite, kernel, 1 << 12, 64, Kind::transposed);
      continue;
    }
    auto widths = suite.full() ? std::vector<std::int64_t>{128, 1024, 4096, 32768, 131072}
                               : std::vector<std::int64_t>{1024, 32768};
    for (std::int64_t columns : widths)
      if (columns <= floats_in_cache) run(suite, kernel, floats_in_cache, columns, Kind::cached);
    for (std::int64_t columns : widths)
      run(suite, kernel, floats_in_memory, columns, Kind::from_memory);
    const auto odd = suite.full() ? std::vector<std::int64_t>{2, 3, 8, 15, 4097, 8191, 50257}
                                  : std::vector<std::int64_t>{3, 4097};
    for (std::int64_t columns : odd)
      run(suite, kernel, floats_in_memory, columns, Kind::from_memory);
    run(suite, kernel, floats_in_memory, 4096, Kind::transposed);
  }
}

} // namespace benchmarks
