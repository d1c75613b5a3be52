// Defines Dl, a DLTensor of a view, for tests of the C functions.
#pragma once

#include <kiln/kiln.h>
#include <kiln/ops/c_api.h>

#include <algorithm>
#include <type_traits>

namespace kiln::test {

template <class T> DLDataType dl_type() {
  const std::uint8_t code = std::is_same_v<T, bf16>  ? std::uint8_t{kDLBfloat}
                            : !std::is_integral_v<T> ? std::uint8_t{kDLFloat}
                            : std::is_unsigned_v<T>  ? std::uint8_t{kDLUInt}
                                                     : std::uint8_t{kDLInt};
  return {code, 8 * sizeof(T), 1};
}

// The tensor refers to the arrays of this object, so a copy gets a tensor of its own.
struct Dl {
  std::int64_t shape[max_rank + 1] = {}, strides[max_rank + 1] = {};
  DLTensor tensor{};

  template <class T, int Rank> Dl(const TensorView<T, Rank>& view, Device device = Device::cpu()) {
    for (int i = 0; i < Rank; ++i)
      shape[i] = view.extent(i), strides[i] = view.stride(i);
    tensor.data = const_cast<std::remove_const_t<T>*>(view.data());
    tensor.device = {device.is_cpu() ? kDLCPU : kDLCUDA, device.index()};
    tensor.ndim = Rank;
    tensor.dtype = dl_type<std::remove_const_t<T>>();
    point();
  }
  template <class T, int Rank> explicit Dl(Tensor<T, Rank>& t) : Dl(t.view(), t.device()) {}
  Dl(const Dl& from) : tensor(from.tensor) {
    std::copy(std::begin(from.shape), std::end(from.shape), shape);
    std::copy(std::begin(from.strides), std::end(from.strides), strides);
    point();
  }
  Dl& operator=(const Dl& from) {
    if (this != &from) {
      this->~Dl();
      new (this) Dl(from);
    }
    return *this;
  }
  operator DLTensor*() { return &tensor; }

private:
  void point() { tensor.shape = shape, tensor.strides = strides; }
};

} // namespace kiln::test
