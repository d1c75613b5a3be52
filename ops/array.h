// Defines Input and Output, the tensor arguments of ops. A TensorView or Tensor of any rank converts to them.
//
//   void softmax(StreamAt stream, const Input& x, const Output& y);
//   ops::softmax(stream, x, y);                     // x: Tensor<bf16, 3>, y: TensorView<float, 3>
//
// They hold the dtype and the rank as numbers, so that an op is compiled once for all of them. They do not
// own the memory, which must live until the op has finished. An Output does not accept const elements.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/dtype.h>
#include <kiln/jit/runtime/tensor.h>

KILN_API_BEGIN
namespace kiln::ops {

// A strided array of any dtype and rank.
struct Array {
  void* data = nullptr;
  DType dtype = DType::F32;
  bool readonly = true;
  int rank = 0;
  std::int64_t extents[max_rank] = {}, strides[max_rank] = {}; // strides are in elements

  std::int64_t size() const { // the number of elements
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i)
      n *= extents[i];
    return n;
  }
};

namespace detail {
template <class T, int Rank> Array array_of(const TensorView<T, Rank>& view) {
  Array a{const_cast<std::remove_const_t<T>*>(view.data()), dtype_of<std::remove_const_t<T>>,
          std::is_const_v<T>, Rank};
  for (int i = 0; i < Rank; ++i)
    a.extents[i] = view.extent(i), a.strides[i] = view.stride(i);
  return a;
}
} // namespace detail

// A tensor that an op reads. A default-constructed Input stands for an optional tensor that is not given.
class Input {
public:
  Input() = default;
  template <class T, int Rank> Input(const TensorView<T, Rank>& view) : Input(detail::array_of(view)) {}
  template <class T, int Rank> Input(const Tensor<T, Rank>& tensor) : Input(tensor.view()) {}
  template <class T, int Rank> Input(Tensor<T, Rank>&&) {
    static_assert(Rank < 0, "a temporary Tensor is gone before the op runs: keep it in a variable");
  }
  // For callers that know dtype and rank at run time only, such as the C functions.
  explicit Input(const Array& array) : array_(array), given_(true) { array_.readonly = true; }

  bool given() const { return given_; }
  const Array& array() const { return array_; }

private:
  Array array_;
  bool given_ = false;
};

// A tensor that an op writes.
class Output {
public:
  Output() = default;
  template <class T, int Rank> Output(const TensorView<T, Rank>& view) : Output(detail::array_of(view)) {
    static_assert(!std::is_const_v<T>, "the op writes to this tensor, and its elements are const");
  }
  template <class T, int Rank> Output(Tensor<T, Rank>& tensor) : Output(tensor.view()) {}
  template <class T, int Rank> Output(const Tensor<T, Rank>&) {
    static_assert(Rank < 0, "the op writes to this tensor, and it is const");
  }
  template <class T, int Rank> Output(Tensor<T, Rank>&&) {
    static_assert(Rank < 0, "a temporary Tensor is gone before the op runs: keep it in a variable");
  }
  explicit Output(const Array& array) : array_(array), given_(true) { array_.readonly = false; }

  bool given() const { return given_; }
  const Array& array() const { return array_; }

private:
  Array array_;
  bool given_ = false;
};

} // namespace kiln::ops
KILN_API_END
