// Defines Tensor, a row-major array on any device, which owns its memory.
//
//   auto a = Tensor<float, 2>::zeros({m, n});      // on the CPU
//   auto b = Tensor<float, 2>::empty(device, {m, n});
//   a.fill(1.0f);
//   kernel.launch(stream, config, a.view(), b.view());
//
// Elements are aligned to at least 64 bytes. A Tensor must outlive the commands that use it. The host cannot
// access the elements of a tensor on a CUDA device, so data(), begin() and end() must not be dereferenced
// there: copy the tensor with `to(Device::cpu())`, or use copy.h.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/buffer.h>
#include <kiln/jit/runtime/copy.h>
#include <kiln/jit/runtime/tensor_view.h>

#include <cstring>
#include <utility>

KILN_API_BEGIN
namespace kiln {

template <class T, int Rank> class Tensor {
  static_assert(!std::is_const_v<T> && std::is_trivially_copyable_v<T>,
                "a Tensor holds plain mutable elements");
  static_assert(Rank >= 1 && Rank <= max_rank, "a Tensor has from 1 to 8 dimensions");

public:
  using Here = std::source_location;
  using Extents = const Extent (&)[Rank];

  Tensor() = default;
  // Allocates a tensor without initialising it; its contents are undefined. Throws UserError for invalid
  // extents, and if the device lacks memory, as Buffer does.
  template <std::size_t N>
  static Tensor empty(Device device, const Extent (&extents)[N], Here here = Here::current()) {
    static_assert(N == Rank, "the number of extents in braces must be that of the dimensions");
    Tensor t;
    if constexpr (N == Rank) {
      // Checks the extents, as a view does, before memory is allocated.
      alignas(T) static char anywhere[sizeof(T)];
      TensorView<T, Rank> checked(reinterpret_cast<T*>(anywhere), extents, here);
      t.buffer_ = Buffer(device, checked.size() * static_cast<std::int64_t>(sizeof(T)), here);
      t.view_ = TensorView<T, Rank>(static_cast<T*>(t.buffer_.data()), extents, here);
    }
    return t;
  }
  template <std::size_t N> static Tensor empty(const Extent (&extents)[N], Here here = Here::current()) {
    static_assert(N == Rank, "the number of extents in braces must be that of the dimensions");
    if constexpr (N == Rank)
      return empty(Device::cpu(), extents, here);
    else
      return {};
  }
  // Allocates a tensor in which all bytes are zero when the call returns. Throws UserError as empty() does.
  template <std::size_t N>
  static Tensor zeros(Device device, const Extent (&extents)[N], Here here = Here::current()) {
    static_assert(N == Rank, "the number of extents in braces must be that of the dimensions");
    Tensor t;
    if constexpr (N == Rank) t = empty(device, extents, here);
    if (t.buffer_.size() == 0) return t;
    if (device.is_cpu())
      std::memset(t.buffer_.data(), 0, static_cast<std::size_t>(t.buffer_.size()));
    else
      detail::fill_bytes_now(t.buffer_.device(), t.buffer_.data(), 0, t.buffer_.size(), here);
    return t;
  }
  template <std::size_t N> static Tensor zeros(const Extent (&extents)[N], Here here = Here::current()) {
    static_assert(N == Rank, "the number of extents in braces must be that of the dimensions");
    if constexpr (N == Rank)
      return zeros(Device::cpu(), extents, here);
    else
      return {};
  }
  // Report extents without braces: zeros(m, n).
  template <std::integral... E>
    requires(sizeof...(E) > 0)
  static Tensor empty(E...) {
    static_assert(!std::is_integral_v<std::common_type_t<E...>>,
                  "the extents of a Tensor are in braces: Tensor<float, 2>::zeros({m, n})");
    return {};
  }
  template <std::integral... E>
    requires(sizeof...(E) > 0)
  static Tensor zeros(E...) {
    static_assert(!std::is_integral_v<std::common_type_t<E...>>,
                  "the extents of a Tensor are in braces: Tensor<float, 2>::zeros({m, n})");
    return {};
  }
  template <std::integral... E>
    requires(sizeof...(E) > 0)
  static Tensor empty(Device, E...) {
    static_assert(!std::is_integral_v<std::common_type_t<E...>>,
                  "the extents of a Tensor are in braces: Tensor<float, 2>::zeros({m, n})");
    return {};
  }
  template <std::integral... E>
    requires(sizeof...(E) > 0)
  static Tensor zeros(Device, E...) {
    static_assert(!std::is_integral_v<std::common_type_t<E...>>,
                  "the extents of a Tensor are in braces: Tensor<float, 2>::zeros({m, n})");
    return {};
  }

  Tensor(Tensor&& other) noexcept { swap(other); }
  Tensor& operator=(Tensor&& other) noexcept {
    Tensor taken(std::move(other));
    swap(taken);
    return *this;
  }

  // Returns a copy on the device `target`; the copy is complete when the function returns. Commands that
  // write this tensor must have finished before. Throws UserError if the device lacks memory.
  Tensor to(Device target, Here here = Here::current()) const {
    Extent extents[Rank];
    for (int a = 0; a < Rank; ++a)
      extents[a] = extent(a);
    Tensor copied = empty(target, extents, here);
    detail::copy_now(target.is_cpu() ? device() : target, copied.buffer_.data(), buffer_.data(),
                     buffer_.size(), here);
    return copied;
  }

  TensorView<T, Rank> view() { return view_; }
  TensorView<const T, Rank> view() const { return view_; }
  operator TensorView<T, Rank>() { return view_; }
  operator TensorView<const T, Rank>() const { return view_; }

  T* data() { return view_.data(); }
  const T* data() const { return view_.data(); }
  std::int64_t extent(int axis) const { return view_.extent(axis); }
  std::int64_t size() const { return view_.size(); }
  static constexpr int rank() { return Rank; }
  Device device() const { return buffer_.device(); }
  T* begin() { return data(); }
  T* end() { return data() + size(); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }

  // Sets every element to `value`, on the calling thread, and returns when this is done. Commands that use
  // the tensor must have finished before.
  void fill(const T& value, Here here = Here::current()) {
    if (device().is_cpu()) {
      for (T& x : *this)
        x = value;
      return;
    }
    Buffer host(Device::cpu(), buffer_.size(), here);
    auto* x = static_cast<T*>(host.data());
    for (std::int64_t i = 0; i < size(); ++i)
      x[i] = value;
    detail::copy_now(buffer_.device(), buffer_.data(), host.data(), buffer_.size(), here);
  }

private:
  void swap(Tensor& other) noexcept {
    std::swap(buffer_, other.buffer_);
    std::swap(view_, other.view_);
  }
  Buffer buffer_;
  TensorView<T, Rank> view_;
};

} // namespace kiln
KILN_API_END
