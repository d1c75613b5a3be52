// Provides what the kernels of the tests of verdicts share: their arguments, sizes and configs.
#pragma once

#include "verdict_kernels.h"

#include <cstring>
#include <memory>
#include <utility>

namespace kiln::test {

using tune::Argument;
using tune::tensor_argument;
using Sizes = std::vector<std::int64_t>;

template <class T> Argument in(Sizes extents) {
  return tensor_argument(kiln::detail::DTypeOf<T>::value, std::move(extents), true);
}
template <class T> Argument out(Sizes extents) {
  return tensor_argument(kiln::detail::DTypeOf<T>::value, std::move(extents), false);
}
inline Argument indices(std::int64_t n, std::int64_t most) {
  Argument a = in<std::int32_t>({n});
  a.fill = {.kind = tune::Fill::Kind::range, .least = 0, .most = most, .bytes = {}};
  return a;
}
// A permutation of 0 to n - 1.
inline Argument permutation(std::int64_t n, tune::Random& random) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = static_cast<std::int32_t>(i);
  random.shuffle(order);
  Argument a = in<std::int32_t>({n});
  a.fill.kind = tune::Fill::Kind::bytes;
  auto bytes = std::make_shared<tune::SharedBytes>(order.size() * 4);
  std::memcpy(bytes->data(), order.data(), bytes->size());
  a.fill.bytes = std::move(bytes);
  return a;
}

// An input whose contents are given.
template <class T, class F> Argument given(Sizes extents, F value_of) {
  Argument a = in<T>(std::move(extents));
  a.fill.kind = tune::Fill::Kind::bytes;
  auto bytes = std::make_shared<tune::SharedBytes>(static_cast<std::size_t>(tune::bytes_of(a, 0).high));
  for (std::size_t i = 0; i * sizeof(T) < bytes->size(); ++i) {
    const T value = static_cast<T>(value_of(i));
    std::memcpy(bytes->data() + i * sizeof(T), &value, sizeof(T));
  }
  a.fill.bytes = std::move(bytes);
  return a;
}

// `make(wrong)` returns a kernel.
template <class F> std::function<std::string(const Config&, bool)> text_by(F make) {
  return [make](const Config& config, bool wrong) { return ir::print(*make(wrong).record(config)); };
}

inline Config bn(std::int64_t n) { return Config::parse("BN=" + std::to_string(n)); }
inline Config bm_bn(std::int64_t m, std::int64_t n) {
  return Config::parse("BM=" + std::to_string(m) + ",BN=" + std::to_string(n));
}

class VerdictCaseList {
public:
  explicit VerdictCaseList(tune::Random& random) : random_(random) {}

protected:
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_.below(static_cast<std::size_t>(high - low + 1)));
  }
  std::int64_t power(int low, int high) { return std::int64_t{1} << between(low, high); }
  void add(VerdictCase c) { cases_.push_back(std::move(c)); }
  void add_rows(const std::string& name, std::vector<Argument> arguments,
                std::function<std::string(const Config&, bool)> ir) {
    add({name, std::move(arguments), bm_bn(power(0, 2), power(4, 6)), bm_bn(power(0, 3), power(6, 9)),
         std::move(ir)});
  }
  void add_flat(const std::string& name, std::vector<Argument> arguments,
                std::function<std::string(const Config&, bool)> ir) {
    add({name, std::move(arguments), bn(power(4, 7)), bn(power(8, 10)), std::move(ir)});
  }

  tune::Random& random_;
  std::vector<VerdictCase> cases_;
};

} // namespace kiln::test
