// Collects what the ranks of a test find out, since Catch's assertions are not thread-safe, and makes tensors.
#pragma once

#include <kiln/jit/runtime/tensor.h>

#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace kiln::test {

class Findings {
public:
  void require(bool right, const std::string& what) {
    if (right) return;
    const std::lock_guard lock(mutex_);
    list_.push_back(what);
  }
  std::vector<std::string> list() const { return list_; }

private:
  std::mutex mutex_;
  std::vector<std::string> list_;
};

inline const std::vector<std::string> nothing_wrong;

inline Tensor<float, 1> full(std::int64_t n, float value) {
  auto t = Tensor<float, 1>::empty({n});
  t.fill(value);
  return t;
}
inline Tensor<float, 2> full(std::int64_t m, std::int64_t n, float value) {
  auto t = Tensor<float, 2>::empty({m, n});
  t.fill(value);
  return t;
}

// Of normally distributed numbers.
template <class T>
Tensor<T, 2> random_matrix(std::mt19937_64& random, std::int64_t m, std::int64_t n, float deviation = 1) {
  auto t = Tensor<T, 2>::empty({m, n});
  std::normal_distribution<float> normal(0, deviation);
  for (T& x : t)
    x = T(normal(random));
  return t;
}

} // namespace kiln::test
