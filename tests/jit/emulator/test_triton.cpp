// Tests the PTX that Triton emitted for triton/kernels.py: it has no findings and computes the right results.
#include "machine.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <kiln/dsl/dtype.h>
#include <kiln/jit/emulator/core/tensor_map.h>
#include <kiln/jit/emulator/emulator.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

using namespace kiln;

namespace {

template <class T> double wide(T v) { return static_cast<double>(v); }

// One file with the architecture that it is for, and what its header says about the launch.
class TritonKernel : public test::Machine {
public:
  TritonKernel(const std::string& name, const std::string& arch, std::uint64_t seed)
      : test::Machine(options(arch, seed)) {
    std::ifstream file(KILN_TESTS_DIR "/jit/emulator/triton/ptx/" + name + "." + arch + ".ptx");
    REQUIRE(file.good());
    for (std::string line; std::getline(file, line) && line != "//";) {
      std::istringstream words(line);
      std::string slashes, key;
      words >> slashes >> key;
      if (key == "kernel") words >> entry_;
      if (key == "threads") words >> threads_;
      if (key == "shared") words >> shared_;
      if (key == "scratch") words >> scratch_;
      if (key == "descriptor") {
        auto& d = descriptors_.emplace_back();
        words >> d.swizzle >> d.box[1] >> d.box[0];
      }
    }
    std::stringstream text;
    text << file.rdbuf();
    module_ = emulator::Module::parse(text.str(), name + "." + arch + ".ptx");
  }
  // A matrix of f16 for tensor map `n` of the kernel.
  emulator::TensorMap map(std::size_t n, std::uint64_t address, int rows, int columns) const {
    REQUIRE(n < descriptors_.size());
    emulator::TensorMapFields f;
    f.type = emulator::TensorMapType::Float16;
    f.rank = 2;
    f.address = address;
    f.sizes = {static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows)};
    f.strides = {2 * f.sizes[0]};
    f.box = {descriptors_[n].box[0], descriptors_[n].box[1]};
    f.swizzle = static_cast<emulator::TensorMapSwizzle>(descriptors_[n].swizzle);
    return encode(f);
  }
  // The arguments in order. Triton's own two, for scratch memory, follow them.
  template <class... T> void run(emulator::Extent grid, T... arguments) {
    std::vector<std::byte> packed;
    (append(packed, arguments), ...);
    const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
    append(packed, scratch_ ? gpu.allocate(scratch_ * blocks, "scratch") : 0);
    append(packed, std::uint64_t{0});
    auto report = gpu.launch_packed(module_, entry_,
                                    {.grid = grid, .block = {threads_}, .shared_bytes = shared_}, packed);
    INFO(report.text());
    REQUIRE(report.ok());
  }

private:
  static emulator::Options options(const std::string& arch, std::uint64_t seed) {
    emulator::Options o;
    o.arch = arch == "sm_80" ? arch : "sm_90a";
    o.seed = seed;
    o.checks = emulator::Checks::all();
    o.resident_blocks = 2;
    return o;
  }
  template <class T> static void append(std::vector<std::byte>& packed, const T& v) {
    const std::size_t align = std::min<std::size_t>(sizeof(T), 64);
    packed.resize((packed.size() + align - 1) / align * align);
    const auto* bytes = reinterpret_cast<const std::byte*>(&v);
    packed.insert(packed.end(), bytes, bytes + sizeof(T));
  }
  std::shared_ptr<const emulator::Module> module_;
  std::string entry_;
  std::uint32_t threads_ = 0;
  std::uint64_t shared_ = 0, scratch_ = 0;
  struct Descriptor {
    int swizzle = 0;
    std::array<std::uint32_t, 2> box{};
  };
  std::vector<Descriptor> descriptors_;
};

// Calls `f` for each architecture that the kernel was compiled for, with a fresh seed.
template <class F> void on_each(const std::string& kernel, F f) {
  std::uint64_t seed = test::fresh_seed();
  for (const char* arch : {"sm_80", "sm_89", "sm_90"}) {
    if (!std::ifstream(KILN_TESTS_DIR "/jit/emulator/triton/ptx/" + kernel + "." + arch + ".ptx")) continue;
    CAPTURE(kernel, arch, seed);
    std::mt19937_64 random(seed);
    TritonKernel k(kernel, arch, seed);
    f(k, random);
  }
}

template <class T> std::vector<T> random_vector(std::mt19937_64& random, std::size_t n) {
  std::uniform_real_distribution<float> some(-1, 1);
  std::vector<T> v(n);
  for (T& x : v)
    x = std::is_same_v<T, std::int8_t> ? T(static_cast<int>(random() % 256) - 128) : T(some(random));
  return v;
}

std::uint32_t blocks(int n, int block) { return static_cast<std::uint32_t>((n + block - 1) / block); }

std::size_t elements(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

// a is m x k, b is k x n with the strides of its rows and columns. Returns the largest difference of a result
// to the exact one, divided by the sum of the magnitudes of its terms.
template <class T, class R>
double matmul_error(const std::vector<T>& a, const std::vector<T>& b, const std::vector<R>& c, int m, int n,
                    int k, int b_row, int b_col) {
  double worst = 0;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (int l = 0; l < k; ++l) {
        const double term = wide(a[static_cast<std::size_t>(i * k + l)]) *
                            wide(b[static_cast<std::size_t>(l * b_row + j * b_col)]);
        sum += term, size += std::fabs(term);
      }
      worst = std::max(worst, std::fabs(wide(c[static_cast<std::size_t>(i * n + j)]) - sum) / size);
    }
  return worst;
}

template <class T, class R> void check_matmul(const std::string& kernel, int bm, int bn, double tolerance) {
  on_each(kernel, [&](TritonKernel& gpu, std::mt19937_64& random) {
    const int m = 50 + static_cast<int>(random() % 100), n = 16 * (1 + static_cast<int>(random() % 8)),
              k = 16 * (3 + static_cast<int>(random() % 8));
    CAPTURE(m, n, k);
    auto a = random_vector<T>(random, elements(m, k)), b = random_vector<T>(random, elements(k, n));
    auto c = gpu.template room<R>(elements(m, n), "c");
    gpu.run({blocks(m, bm), blocks(n, bn)}, gpu.upload(a, "a"), gpu.upload(b, "b"), c, m, n, k, k, n, n);
    CHECK(matmul_error(a, b, gpu.template download<R>(c, elements(m, n)), m, n, k, n, 1) < tolerance);
  });
}

void check_attention(const std::string& kernel, bool causal) {
  on_each(kernel, [&](TritonKernel& gpu, std::mt19937_64& random) {
    constexpr int D = 64;
    const int heads = 2, length = 128;
    const auto at = [&](int head, int row, int d) {
      return static_cast<std::size_t>((head * length + row) * D + d);
    };
    const std::size_t size = at(heads, 0, 0);
    auto q = random_vector<f16>(random, size), k = random_vector<f16>(random, size),
         v = random_vector<f16>(random, size);
    auto out = gpu.room<f16>(size, "out");
    const float scale = 0.5F;
    gpu.run({length / 64, heads}, gpu.upload(q, "q"), gpu.upload(k, "k"), gpu.upload(v, "v"), out, length,
            scale);
    auto result = gpu.download<f16>(out, size);
    double worst = 0;
    for (int h = 0; h < heads; ++h)
      for (int i = 0; i < length; ++i) {
        std::vector<double> weights;
        double total = 0;
        for (int j = 0; j < (causal ? i + 1 : length); ++j) {
          double score = 0;
          for (int d = 0; d < D; ++d)
            score += wide(q[at(h, i, d)]) * wide(k[at(h, j, d)]);
          weights.push_back(std::exp2(score * static_cast<double>(scale)));
          total += weights.back();
        }
        for (int d = 0; d < D; ++d) {
          double sum = 0;
          for (std::size_t j = 0; j < weights.size(); ++j)
            sum += weights[j] / total * wide(v[at(h, static_cast<int>(j), d)]);
          worst = std::max(worst, std::fabs(wide(result[at(h, i, d)]) - sum));
        }
      }
    CHECK(worst < 0x1p-9); // f16 weights and result, values of at most 1
  });
}

} // namespace

TEST_CASE("Triton: softmax", "[emulator]") {
  on_each("softmax", [](TritonKernel& gpu, std::mt19937_64& random) {
    const int rows = 5, cols = 700 + static_cast<int>(random() % 300);
    auto x = random_vector<float>(random, static_cast<std::size_t>(rows * cols));
    auto y = gpu.room<float>(x.size(), "y");
    gpu.run({rows}, gpu.upload(x, "x"), y, cols, cols);
    auto result = gpu.download<float>(y, x.size());
    for (int r = 0; r < rows; ++r) {
      const auto row = static_cast<std::size_t>(r * cols);
      double total = 0;
      for (std::size_t c = row; c < row + static_cast<std::size_t>(cols); ++c)
        total += std::exp(wide(x[c]));
      for (std::size_t c = row; c < row + static_cast<std::size_t>(cols); ++c)
        REQUIRE(wide(result[c]) == Approx(std::exp(wide(x[c])) / total).epsilon(1e-5));
    }
  });
}

TEST_CASE("Triton: matmul of floats of every width and of 8-bit integers", "[emulator]") {
  check_matmul<f16, f16>("matmul", 64, 64, 0x1p-10);
  check_matmul<bf16, float>("matmul_bf16", 32, 32, 0x1p-20);
  check_matmul<float, float>("matmul_tf32", 64, 32, 0x1p-9);
  check_matmul<f8e4m3, float>("matmul_fp8", 64, 64, 0x1p-20);
  check_matmul<std::int8_t, std::int32_t>("matmul_s8", 64, 64, 0x1p-50);
  check_matmul<double, double>("matmul_f64", 32, 32, 0x1p-48);
}

TEST_CASE("Triton: a persistent matmul of tensor maps that the host makes", "[emulator]") {
  on_each("tma_matmul", [](TritonKernel& gpu, std::mt19937_64& random) {
    const int m = 129 + static_cast<int>(random() % 200), n = 8 * (1 + static_cast<int>(random() % 30)),
              k = 8 * (1 + static_cast<int>(random() % 30));
    CAPTURE(m, n, k);
    auto a = random_vector<f16>(random, elements(m, k)), b = random_vector<f16>(random, elements(n, k));
    auto at_a = gpu.upload(a, "a"), at_b = gpu.upload(b, "b"), c = gpu.room<f16>(elements(m, n), "c");
    const std::int64_t one = 1, long_k = k, long_n = n;
    gpu.run({2}, gpu.map(0, at_a, m, k), m, k, long_k, one, gpu.map(1, at_b, n, k), n, k, long_k, one,
            gpu.map(2, c, m, n), m, n, long_n, one, m, n, k);
    CHECK(matmul_error(a, b, gpu.download<f16>(c, elements(m, n)), m, n, k, 1, k) < 0x1p-10);
  });
}

TEST_CASE("Triton: a matmul of tensor maps that the kernel makes", "[emulator]") {
  on_each("device_tma_matmul", [](TritonKernel& gpu, std::mt19937_64& random) {
    const int m = 1 + static_cast<int>(random() % 100), n = 8 * (1 + static_cast<int>(random() % 12)),
              k = 8 * (1 + static_cast<int>(random() % 30));
    CAPTURE(m, n, k);
    auto a = random_vector<f16>(random, elements(m, k)), b = random_vector<f16>(random, elements(n, k));
    auto c = gpu.room<f16>(elements(m, n), "c");
    gpu.run({blocks(m, 64), blocks(n, 64)}, gpu.upload(a, "a"), gpu.upload(b, "b"), c, m, n, k);
    CHECK(matmul_error(a, b, gpu.download<f16>(c, elements(m, n)), m, n, k, 1, k) < 0x1p-10);
  });
}

TEST_CASE("Triton: attention", "[emulator]") {
  check_attention("attention", false);
  check_attention("attention_causal", true);
}

TEST_CASE("Triton: histogram and scan", "[emulator]") {
  on_each("histogram_and_scan", [](TritonKernel& gpu, std::mt19937_64& random) {
    const std::size_t n = 2048 - random() % 500;
    std::vector<std::int32_t> x(n), counts(16);
    for (auto& v : x)
      v = static_cast<std::int32_t>(random() % 1000);
    const auto at = gpu.upload(counts, "counts"), sums = gpu.room<std::int32_t>(n, "sums");
    gpu.run({4}, gpu.upload(x, "x"), at, sums, static_cast<std::int32_t>(n));
    const auto result = gpu.download<std::int32_t>(sums, n);
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      sum = (i % 512 ? sum : 0) + x[i];
      REQUIRE(result[i] == sum);
      ++counts[static_cast<std::size_t>(x[i] % 16)];
    }
    CHECK(gpu.download<std::int32_t>(at, 16) == counts);
  });
}
