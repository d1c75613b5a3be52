// Compares the forward pass of attention, as one kernel, with PyTorch's scaled_dot_product_attention.
#include "benchmarks/attention.h"
#include "data.h"
#include "suite.h"

#include <fmt/format.h>

#include <cmath>

namespace benchmarks {
namespace {

using kiln::Tensor;

struct Shape {
  std::int64_t heads = 0, tokens = 0, width = 0;
  bool causal = false;
};

// Compares some queries of some heads with sums in double precision.
template <class T>
double error_of(const Shape& s, const Tensor<T, 3>& q, const Tensor<T, 3>& k, const Tensor<T, 3>& v,
                const Tensor<T, 3>& o, double scale) {
  auto at = [&](const Tensor<T, 3>& t, std::int64_t h, std::int64_t m, std::int64_t d) {
    return number(t.data()[(h * s.tokens + m) * s.width + d]);
  };
  Error error;
  for (std::int64_t h : some_indices(s.heads, 3))
    for (std::int64_t m : some_indices(s.tokens, 6)) {
      std::vector<double> sum(static_cast<std::size_t>(s.width));
      double total = 0;
      for (std::int64_t n = 0; n < (s.causal ? m + 1 : s.tokens); ++n) {
        double score = 0;
        for (std::int64_t d = 0; d < s.width; ++d)
          score += at(q, h, m, d) * at(k, h, n, d);
        double weight = std::exp(score * scale); // scores are small here
        total += weight;
        for (std::int64_t d = 0; d < s.width; ++d)
          sum[static_cast<std::size_t>(d)] += weight * at(v, h, n, d);
      }
      for (std::int64_t d = 0; d < s.width; ++d)
        error.add(at(o, h, m, d), sum[static_cast<std::size_t>(d)] / total);
    }
  return error.relative();
}

template <class T> void run(Suite& suite, const Shape& s) {
  auto q = random<T>({s.heads, s.tokens, s.width}), k = random<T>({s.heads, s.tokens, s.width}),
       v = random<T>({s.heads, s.tokens, s.width}), o = poisoned<T>({s.heads, s.tokens, s.width});
  auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.width)));
  const auto& kernel = attention_kernel<T>(s.causal);
  auto work = [&] {
    kernel.launch(suite.stream, attention_config(suite.stream.device(), s.width, s.tokens, s.causal), q, k, v,
                  o, scale);
    suite.stream.synchronize();
  };
  work();

  Row row;
  row.group = "attention", row.dtype = dtype_name<T>(), row.mean = fmt::format("{} attention", row.dtype);
  row.name = fmt::format("{}attention, {} heads of {}, {} tokens", s.causal ? "causal " : "", s.heads,
                         s.width, s.tokens);
  row.error = error_of(s, q, k, v, o, scale);
  suite.check(row, "Kiln", row.error, std::is_same_v<T, float> ? 1e-5 : 1e-2);
  std::vector<Contender> contenders{{.name = "Kiln", .run = work}};
  suite.add_pytorch(
      contenders, fmt::format("attention {} {} {} {} {:d}", row.dtype, s.heads, s.tokens, s.width, s.causal));
  // There are two products. With a causal mask, half of each need not be computed.
  double tokens = static_cast<double>(s.tokens);
  double operations =
      4 * static_cast<double>(s.heads * s.width) * tokens * (s.causal ? (tokens + 1) / 2 : tokens);
  suite.add_fma(contenders, operations, sizeof(T));
  suite.run(row, contenders, {.amount = operations, .limit = "FMA"});
}

} // namespace

void attention_rows(Suite& suite) {
  if (!suite.wanted("attention")) return;
  struct Size {
    std::int64_t heads, tokens;
  };
  auto sizes = suite.tiny()   ? std::vector<Size>{{2, 100}}
               : suite.full() ? std::vector<Size>{{8, 512}, {8, 2048}, {2, 8192}}
                              : std::vector<Size>{{8, 512}};
  auto widths = suite.tiny() ? std::vector<std::int64_t>{32} : std::vector<std::int64_t>{64, 128};
  for (std::int64_t width : widths)
    for (Size size : sizes)
      for (bool causal : {false, true}) {
        run<float>(suite, {size.heads, size.tokens, width, causal});
        run<kiln::bf16>(suite, {size.heads, size.tokens, width, causal});
      }
}

} // namespace benchmarks
