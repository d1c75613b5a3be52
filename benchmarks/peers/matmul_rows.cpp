// Measures products of matrices in f32, bf16 and i8: square, tall, wide, transposed, and those of Llama-3-8B.
#include "benchmarks/numbers.h"
#include "data.h"
#include "suite.h"

#include <kiln/ops/dims.h>

namespace benchmarks {
namespace {

using kiln::Stream;
using kiln::Tensor;
using kiln::TensorView;
using kiln::ops::BK;
using kiln::ops::BM;
using kiln::ops::BN;

struct Shape {
  std::int64_t m = 0, n = 0, k = 0;
  bool transposed_a = false, transposed_b = false;
};

template <class T> using Result = std::conditional_t<std::is_integral_v<T>, std::int32_t, T>;

// ops has no integer product, so this kernel is written here as a user would write it.
const auto int8_matmul =
    kiln::kernel("int8_matmul", [](kiln::View<const std::int8_t, 2> a, kiln::View<const std::int8_t, 2> b,
                                   kiln::View<std::int32_t, 2> c) {
      auto [m, n] = kiln::program_tile(c, BM, BN);
      auto sum = kiln::for_range(BK, a.cols(), kiln::zeros<std::int32_t>(BM, BN), [&](auto k, auto sum) {
        return kiln::dot(a.tile(m, k).load(), b.tile(k, n).load(), sum);
      });
      c.tile(m, n).store(sum);
    });

template <class T> class Product {
public:
  // Consecutive products with the same n and k share their weights.
  Product(Suite& suite, const Shape& s, std::shared_ptr<Tensor<T, 2>> weights)
      : suite_(suite), s_(s), a_(random<T>({s.transposed_a ? s.k : s.m, s.transposed_a ? s.m : s.k})),
        weights_(std::move(weights)), c_(poisoned<Result<T>>({s.m, s.n})),
        other_(poisoned<Result<T>>({s.m, s.n})) {}

  void run(const std::string& group) {
    Row row;
    row.group = group, row.dtype = dtype_name<T>();
    row.name = fmt::format("matmul {} x {} x {}{}", s_.m, s_.n, s_.k,
                           s_.transposed_a && s_.transposed_b ? ", a and b transposed"
                           : s_.transposed_a                  ? ", a transposed"
                           : s_.transposed_b                  ? ", b transposed"
                                                              : "");
    row.mean = fmt::format("{} matmul of {} rows", row.dtype, s_.m > 32 ? "more than 32" : "at most 32");
    auto contenders = all();
    multiply();
    row.error = error_of(c_);
    suite_.check(row, "Kiln", row.error, bound());
    for (std::size_t i = 1; i < contenders.size(); ++i)
      if (contenders[i].run) {
        other_.fill(poison<Result<T>>());
        contenders[i].run();
        suite_.check(row, contenders[i].name, error_of(other_), bound());
      }
    suite_.add_pytorch(contenders, fmt::format("matmul {} {} {} {} {:d} {:d}", row.dtype, s_.m, s_.n, s_.k,
                                               s_.transposed_a, s_.transposed_b));
    const Work needed = work();
    if (needed.limit == "FMA") suite_.add_fma(contenders, needed.amount, sizeof(T));
    suite_.run(row, contenders, needed);
  }

private:
  TensorView<const T, 2> a() const {
    TensorView<const T, 2> stored = a_.view();
    return s_.transposed_a ? stored.transpose() : stored;
  }
  TensorView<const T, 2> b() const {
    TensorView<const T, 2> stored = weights_->view();
    return s_.transposed_b ? stored.transpose() : stored;
  }
  void multiply() {
    if constexpr (std::is_integral_v<T>) {
      auto config = kiln::ops::matmul_config(kiln::Device::cpu(), kiln::DType::F32, s_.m, s_.n, s_.k);
      int8_matmul.launch(suite_.stream, config, a(), b(), c_);
    } else {
      kiln::ops::matmul(suite_.stream, a(), b(), c_);
    }
    suite_.stream.synchronize();
  }

  std::vector<Contender> all() {
    std::vector<Contender> contenders{{.name = "Kiln", .run = [this] { multiply(); }}};
    if constexpr (std::is_same_v<T, float>) {
      BlasProduct product{s_.m, s_.n, s_.k, s_.transposed_a, s_.transposed_b};
      auto add = [&](const char* name, const Blas& blas) {
        if (blas)
          contenders.push_back(
              {.name = name,
               .run = [=, this,
                       &blas] { blas.multiply(product, a_.data(), weights_->data(), other_.data()); },
               .starts_threads = blas.starts_threads()});
      };
      add("OpenBLAS", suite_.open_blas);
      add("BLIS", suite_.blis);
    }
    if (suite_.onednn) {
      OneDnnProduct product{
          kiln::dtype_of<T>, s_.m,         s_.n, s_.k, s_.transposed_a, s_.transposed_b, a_.data(),
          weights_->data(),  other_.data()};
      if (auto call = onednn_matmul(product, Weights::as_they_are))
        contenders.push_back({.name = "oneDNN", .run = call});
      if (auto call = onednn_matmul(product, Weights::packed_outside))
        contenders.push_back({.name = "oneDNN packed", .run = call, .role = Role::information});
    }
    return contenders;
  }

  // The error of some elements, compared with sums in double precision; NaN if an element was not written.
  double error_of(const Tensor<Result<T>, 2>& c) const {
    for (const auto& x : c)
      if (std::isnan(number(x)) || (std::is_integral_v<T> && number(x) == number(poison<Result<T>>())))
        return NAN;
    Error error;
    auto a = this->a(), b = this->b();
    for (std::int64_t i : some_indices(s_.m, 12))
      for (std::int64_t j : some_indices(s_.n, 12)) {
        double sum = 0;
        for (std::int64_t l = 0; l < s_.k; ++l)
          sum += number(a(i, l)) * number(b(l, j));
        error.add(number(c.data()[i * s_.n + j]), sum);
      }
    return error.relative();
  }
  double bound() const { return std::is_integral_v<T> ? 0 : std::is_same_v<T, float> ? 1e-5 : 5e-3; }

  // Operands that fit in the caches are not read from memory in every run.
  Work work() const {
    constexpr double cached_bytes = 16e6;
    double m = static_cast<double>(s_.m), n = static_cast<double>(s_.n), k = static_cast<double>(s_.k);
    double operations = 2 * m * n * k;
    double bytes = (m + n) * k * sizeof(T) + m * n * sizeof(Result<T>);
    auto memory = [=, &suite = suite_] { return bytes / (suite.limits().copy_gbs * 1e9); };
    if (bytes < cached_bytes || memory() <= operations / (suite_.peak_gflops(sizeof(T)) * 1e9))
      return {.amount = operations, .limit = "FMA"};
    return {.amount = operations, .limit = "memory", .least_seconds = memory};
  }

  Suite& suite_;
  Shape s_;
  Tensor<T, 2> a_;
  std::shared_ptr<Tensor<T, 2>> weights_;
  Tensor<Result<T>, 2> c_, other_;
};

template <class T> void run_all(Suite& suite, const std::string& group, const std::vector<Shape>& shapes) {
  if (!suite.wanted(group)) return;
  std::shared_ptr<Tensor<T, 2>> weights;
  Shape last;
  for (const Shape& s : shapes) {
    if (!weights || s.n != last.n || s.k != last.k || s.transposed_b != last.transposed_b) {
      weights.reset();
      weights =
          std::make_shared<Tensor<T, 2>>(random<T>({s.transposed_b ? s.n : s.k, s.transposed_b ? s.k : s.n}));
    }
    last = s;
    Product<T>(suite, s, weights).run(group);
  }
}

std::vector<Shape> cubes(const std::vector<std::int64_t>& sizes) {
  std::vector<Shape> shapes;
  for (std::int64_t n : sizes)
    shapes.push_back({n, n, n});
  return shapes;
}

// The products of a layer: attention's output, its fused queries, keys and values, the two fused halves of
// the MLP's first layer, and its second layer.
std::vector<Shape> llama(const std::vector<std::int64_t>& tokens) {
  struct Layer {
    std::int64_t n, k;
  };
  std::vector<Shape> shapes;
  for (Layer layer : {Layer{4096, 4096}, Layer{6144, 4096}, Layer{28672, 4096}, Layer{4096, 14336}})
    for (std::int64_t m : tokens)
      shapes.push_back({m, layer.n, layer.k});
  return shapes;
}

} // namespace

void matmul_rows(Suite& suite) {
  if (suite.tiny()) {
    run_all<float>(suite, "matmul", {{64, 64, 64}, {33, 65, 17}});
    run_all<float>(suite, "llama", {{1, 96, 64}, {6, 96, 64}});
    run_all<float>(suite, "transposed",
                   {{40, 48, 56, true, false}, {40, 48, 56, false, true}, {40, 48, 56, true, true}});
    run_all<kiln::bf16>(suite, "bf16", {{64, 48, 32}, {1, 96, 64}});
    run_all<std::int8_t>(suite, "int8", {{64, 48, 32}});
    return;
  }
  std::vector<Shape> shapes =
      suite.full() ? cubes({128, 256, 512, 1000, 1024, 2048, 4096}) : cubes({256, 512, 1000, 2048});
  shapes.push_back({1023, 1025, 1021});
  if (suite.full())
    for (Shape s :
         {Shape{8192, 128, 512}, Shape{16384, 64, 1024}, Shape{128, 8192, 512}, Shape{64, 16384, 1024}})
      shapes.push_back(s);
  run_all<float>(suite, "matmul", shapes);

  run_all<float>(suite, "llama",
                 suite.full() ? llama({1, 6, 18, 32, 64, 512})
                              : std::vector<Shape>{{1, 4096, 4096}, {18, 4096, 4096}, {512, 4096, 4096}});

  shapes.clear();
  for (std::int64_t n :
       suite.full() ? std::vector<std::int64_t>{512, 1000, 2048} : std::vector<std::int64_t>{1000})
    for (auto [a, b] : {std::pair{true, false}, {false, true}, {true, true}})
      shapes.push_back({n, n, n, a, b});
  if (suite.full())
    for (std::int64_t m : {1, 32, 512})
      shapes.push_back({m, 4096, 4096, false, true}); // PyTorch stores weights transposed
  run_all<float>(suite, "transposed", shapes);

  shapes = suite.full() ? cubes({512, 1000, 1024, 2048, 4096}) : cubes({1024});
  if (suite.full()) shapes.push_back({1023, 1025, 1021});
  for (Shape s : suite.full() ? llama({1, 32, 512}) : std::vector<Shape>{{1, 4096, 4096}})
    shapes.push_back(s);
  run_all<kiln::bf16>(suite, "bf16", shapes);

  shapes = suite.full() ? cubes({512, 1000, 1024, 2048}) : cubes({1024});
  if (suite.full())
    for (std::int64_t m : {1, 32, 512})
      shapes.push_back({m, 4096, 4096});
  run_all<std::int8_t>(suite, "int8", shapes);
}

} // namespace benchmarks
