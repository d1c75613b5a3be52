// Compares batches of products in one call with the same products one by one, and with PyTorch's batched
// product.
#include "data.h"
#include "suite.h"

#include <fmt/format.h>

namespace benchmarks {
namespace {

using kiln::Tensor;
namespace ops = kiln::ops;

struct Shape {
  std::int64_t batches = 0, m = 0, n = 0, k = 0;
};

template <class T>
double error_of(const Shape& s, const Tensor<T, 3>& a, const Tensor<T, 3>& b, const Tensor<T, 3>& c) {
  Error error;
  for (std::int64_t batch : some_indices(s.batches, 3))
    for (std::int64_t i : some_indices(s.m, 4))
      for (std::int64_t j : some_indices(s.n, 4)) {
        double sum = 0;
        for (std::int64_t k = 0; k < s.k; ++k)
          sum +=
              number(a.data()[(batch * s.m + i) * s.k + k]) * number(b.data()[(batch * s.k + k) * s.n + j]);
        error.add(number(c.data()[(batch * s.m + i) * s.n + j]), sum);
      }
  return error.relative();
}

template <class T> void run(Suite& suite, const Shape& s) {
  const auto a = random<T>({s.batches, s.m, s.k}), b = random<T>({s.batches, s.k, s.n});
  auto c = poisoned<T>({s.batches, s.m, s.n});
  const auto work = [&] {
    ops::matmul(suite.stream, a, b, c);
    suite.stream.synchronize();
  };
  work();

  Row row;
  row.group = "batched", row.dtype = dtype_name<T>(),
  row.mean = fmt::format("{} batched products", row.dtype);
  row.name = fmt::format("{} products {} x {} x {}", s.batches, s.m, s.n, s.k);
  row.error = error_of(s, a, b, c);
  suite.check(row, "Kiln", row.error, std::is_same_v<T, float> ? 1e-5 : 1e-2);
  std::vector<Contender> contenders{{.name = "Kiln", .run = work}};
  contenders.push_back({.name = "one by one",
                        .run =
                            [&] {
                              for (std::int64_t i = 0; i < s.batches; ++i)
                                ops::matmul(suite.stream, a.view().select(0, i), b.view().select(0, i),
                                            c.view().select(0, i));
                              suite.stream.synchronize();
                            },
                        .role = Role::information});
  suite.add_pytorch(contenders, fmt::format("batched {} {} {} {} {}", row.dtype, s.batches, s.m, s.n, s.k));
  const double flops = 2.0 * static_cast<double>(s.batches * s.m * s.n) * static_cast<double>(s.k);
  suite.run(row, contenders, {.amount = flops, .limit = "FMA"});
}

} // namespace

void batched_rows(Suite& suite) {
  if (!suite.wanted("batched")) return;
  const auto shapes =
      suite.tiny() ? std::vector<Shape>{{3, 20, 30, 10}}
      : suite.full()
          ? std::vector<Shape>{{512, 32, 32, 32}, {64, 128, 128, 64}, {32, 512, 512, 64}, {8, 512, 512, 512}}
          : std::vector<Shape>{{64, 128, 128, 64}, {8, 512, 512, 512}};
  for (const Shape& s : shapes) {
    run<float>(suite, s);
    run<kiln::bf16>(suite, s);
  }
}

} // namespace benchmarks
