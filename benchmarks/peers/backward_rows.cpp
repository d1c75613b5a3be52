// Measures the backward pass of causal attention, against the time of its products in registers.
#include "data.h"
#include "suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace benchmarks {
namespace {

using kiln::Tensor;

struct Shape {
  std::int64_t heads = 0, tokens = 0, width = 0;
};

template <class T> struct Problem {
  Shape s;
  Tensor<T, 3> q, k, v, o, dout, dq, dk, dv;
  Tensor<float, 2> lse;

  explicit Problem(const Shape& shape)
      : s(shape), q(some()), k(some()), v(some()), o(unwritten()), dout(some()), dq(unwritten()),
        dk(unwritten()), dv(unwritten()), lse(poisoned<float>({s.heads, s.tokens})) {}

  Tensor<T, 3> some() const { return random<T>({s.heads, s.tokens, s.width}); }
  Tensor<T, 3> unwritten() const { return poisoned<T>({s.heads, s.tokens, s.width}); }

  // Compares the gradients of some tokens of some heads with sums in double precision.
  double error() const {
    Error error;
    for (std::int64_t h : some_indices(s.heads, 2))
      for (std::int64_t i : some_indices(s.tokens, 4)) {
        const auto width = static_cast<std::size_t>(s.width);
        std::vector<double> of_q(width), of_k(width), of_v(width);
        for (std::int64_t j = 0; j < s.tokens; ++j) {
          if (j <= i) add(h, i, j, of_q.data(), nullptr, nullptr);
          if (j >= i) add(h, j, i, nullptr, of_k.data(), of_v.data());
        }
        for (std::int64_t d = 0; d < s.width; ++d) {
          const auto at = static_cast<std::size_t>(d);
          error.add(row(dq, h, i, d), of_q[at]);
          error.add(row(dk, h, i, d), of_k[at]);
          error.add(row(dv, h, i, d), of_v[at]);
        }
      }
    return error.relative();
  }

private:
  double row(const Tensor<T, 3>& t, std::int64_t h, std::int64_t m, std::int64_t d) const {
    return number(t.data()[(h * s.tokens + m) * s.width + d]);
  }
  double dot(const Tensor<T, 3>& a, const Tensor<T, 3>& b, std::int64_t h, std::int64_t m,
             std::int64_t n) const {
    double sum = 0;
    for (std::int64_t d = 0; d < s.width; ++d)
      sum += row(a, h, m, d) * row(b, h, n, d);
    return sum;
  }
  // Adds what query i and key j contribute to each gradient that is not null.
  void add(std::int64_t h, std::int64_t i, std::int64_t j, double* of_q, double* of_k, double* of_v) const {
    const double scale = 1 / std::sqrt(static_cast<double>(s.width));
    const double weight = std::exp(dot(q, k, h, i, j) * scale - double(lse.data()[h * s.tokens + i]));
    const double ds = weight * scale * (dot(dout, v, h, i, j) - dot(dout, o, h, i, i));
    for (std::int64_t d = 0; d < s.width; ++d) {
      if (of_q) of_q[d] += ds * row(k, h, j, d);
      if (of_k) of_k[d] += ds * row(q, h, i, d);
      if (of_v) of_v[d] += weight * row(dout, h, i, d);
    }
  }
};

template <class T> void run(Suite& suite, const Shape& s) {
  Problem<T> p(s);
  const auto work = [&] {
    kiln::ops::attention_backward(suite.stream, p.dout, p.q, p.k, p.v, p.o, p.lse, p.dq, p.dk, p.dv,
                                  {.causal = true});
    suite.stream.synchronize();
  };
  kiln::ops::attention(suite.stream, p.q, p.k, p.v, p.o, {.causal = true, .lse = p.lse});
  work();

  Row row;
  row.group = "backward", row.dtype = dtype_name<T>(),
  row.mean = fmt::format("{} attention, backward", row.dtype);
  row.name =
      fmt::format("backward of causal attention, {} heads of {}, {} tokens", s.heads, s.width, s.tokens);
  row.error = p.error();
  suite.check(row, "Kiln", row.error, std::is_same_v<T, float> ? 1e-5 : 1e-2);
  std::vector<Contender> contenders{{.name = "Kiln", .run = work}};
  suite.add_pytorch(contenders, fmt::format("backward {} {} {} {}", row.dtype, s.heads, s.tokens, s.width));
  // There are five products, of which the mask hides a half.
  const auto tokens = static_cast<double>(s.tokens);
  const double operations = 10 * static_cast<double>(s.heads * s.width) * tokens * (tokens + 1) / 2;
  suite.add_fma(contenders, operations, sizeof(T));
  suite.run(row, contenders, {.amount = operations, .limit = "FMA"});
}

} // namespace

void backward_rows(Suite& suite) {
  if (!suite.wanted("backward")) return;
  const auto tokens = suite.tiny()   ? std::vector<std::int64_t>{100}
                      : suite.full() ? std::vector<std::int64_t>{1024, 2048}
                                     : std::vector<std::int64_t>{1024};
  const auto widths = suite.tiny() ? std::vector<std::int64_t>{32} : std::vector<std::int64_t>{64, 128};
  for (std::int64_t width : widths)
    for (std::int64_t n : tokens) {
      run<float>(suite, {8, n, width});
      run<kiln::bf16>(suite, {8, n, width});
    }
}

} // namespace benchmarks
