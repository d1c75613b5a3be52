// Compares attention of one query with a cache of keys and values with PyTorch's, and with a loop that reads
// the cache.
#include "data.h"
#include "suite.h"

#include <fmt/format.h>

#include <atomic>
#include <cmath>

namespace benchmarks {
namespace {

using kiln::Tensor;
namespace ops = kiln::ops;

struct Shape {
  std::int64_t heads = 0, key_heads = 0, keys = 0, width = 0;
};

// Compares some heads with sums in double precision.
template <class T>
double error_of(const Shape& s, const Tensor<T, 3>& q, const Tensor<T, 4>& k, const Tensor<T, 4>& v,
                const Tensor<T, 3>& o) {
  const double scale = 1 / std::sqrt(static_cast<double>(s.width));
  Error error;
  for (std::int64_t h : some_indices(s.heads, 3)) {
    const std::int64_t first = h / (s.heads / s.key_heads) * s.keys;
    std::vector<double> sum(static_cast<std::size_t>(s.width));
    double total = 0;
    for (std::int64_t n = 0; n < s.keys; ++n) {
      double score = 0;
      for (std::int64_t d = 0; d < s.width; ++d)
        score += number(q.data()[h * s.width + d]) * number(k.data()[(first + n) * s.width + d]);
      const double weight = std::exp(score * scale); // scores are small here
      total += weight;
      for (std::int64_t d = 0; d < s.width; ++d)
        sum[static_cast<std::size_t>(d)] += weight * number(v.data()[(first + n) * s.width + d]);
    }
    for (std::int64_t d = 0; d < s.width; ++d)
      error.add(number(o.data()[h * s.width + d]), sum[static_cast<std::size_t>(d)] / total);
  }
  return error.relative();
}

// Reads an array in pieces that Kiln's threads share.
template <class T> void read_all(const Tensor<T, 4>& x) {
  static std::atomic<std::uint64_t> kept; // without it, nothing would be read
  constexpr std::int64_t piece = 1 << 15; // 256 KiB
  kiln::ThreadPool::shared().parallel_for(
      x.size() * static_cast<std::int64_t>(sizeof(T)) / 8 / piece,
      [](void* context, std::int64_t first, std::int64_t last, int) noexcept {
        const auto* words = static_cast<const std::uint64_t*>(context);
        std::uint64_t sum = 0;
        for (std::int64_t i = first * piece; i < last * piece; ++i)
          sum += words[i];
        kept.fetch_add(sum, std::memory_order_relaxed);
      },
      const_cast<T*>(x.data()));
}

template <class T> void run(Suite& suite, const Shape& s) {
  auto q = random<T>({1, s.heads, s.width}), o = poisoned<T>({1, s.heads, s.width});
  auto k = random<T>({1, s.key_heads, s.keys, s.width}), v = random<T>({1, s.key_heads, s.keys, s.width});
  auto lengths = Tensor<std::int32_t, 1>::empty({1});
  lengths.fill(static_cast<std::int32_t>(s.keys));
  auto work = [&] {
    ops::attention_decode(suite.stream, q, {.keys = k, .values = v}, lengths, o);
    suite.stream.synchronize();
  };
  work();

  Row row;
  row.group = "decode", row.dtype = dtype_name<T>(), row.mean = fmt::format("{} decode", row.dtype);
  row.name =
      fmt::format("decode, {} heads of {}, {} key heads, {} keys", s.heads, s.width, s.key_heads, s.keys);
  row.error = error_of(s, q, k, v, o);
  suite.check(row, "Kiln", row.error, std::is_same_v<T, float> ? 1e-5 : 2e-2);
  std::vector<Contender> contenders{{.name = "Kiln", .run = work}};
  suite.add_pytorch(contenders,
                    fmt::format("decode {} {} {} {} {}", row.dtype, s.heads, s.key_heads, s.keys, s.width));
  contenders.push_back({.name = "reading",
                        .run =
                            [&] {
                              read_all(k);
                              read_all(v);
                            },
                        .role = Role::limit});
  const double bytes = static_cast<double>(k.size() + v.size()) * sizeof(T);
  suite.run(row, contenders, {.amount = bytes, .unit = "GB/s", .limit = "reading"});
}

} // namespace

void decode_rows(Suite& suite) {
  if (!suite.wanted("decode")) return;
  const auto keys = suite.tiny()   ? std::vector<std::int64_t>{300}
                    : suite.full() ? std::vector<std::int64_t>{4096, 16384, 32768}
                                   : std::vector<std::int64_t>{4096};
  for (std::int64_t n : keys)
    for (std::int64_t group : {1, 4, 8}) {
      const Shape s{suite.tiny() ? group : 8 * group, suite.tiny() ? 1 : 8, n, suite.tiny() ? 32 : 128};
      run<float>(suite, s);
      run<kiln::bf16>(suite, s);
    }
}

} // namespace benchmarks
