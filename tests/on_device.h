// Runs a test's launches on the device that KILN_TEST_DEVICE names, although the test's tensors are on the
// host.
//
//   on_test_device([&](Stream& stream, auto... v) { ops::softmax(stream, v...); }, x.view(), y.view());
//
// On the CPU (the default) the function gets the views themselves. On another device ("cuda:0",
// "emulated:sm_90a") it gets views of the same shapes over copies of their memory, including the gaps between
// rows. The copies are written back when the function has finished. Views that overlap on the host overlap on
// the device too. Numbers are passed on.
#pragma once

#include <kiln/kiln.h>

#include <kiln/jit/runtime/copy.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

namespace kiln::test {

inline Device test_device() {
  const char* given = std::getenv("KILN_TEST_DEVICE");
  return given && *given ? Device::parse(given) : Device::cpu();
}

// Ranges of host memory, and their copies on a device.
class Mirror {
public:
  explicit Mirror(Device device) : device_(device), stream_(device) {}

  template <class A> void add(const A& argument) {
    if constexpr (requires { argument.strides(); }) {
      using T = std::remove_reference_t<decltype(*argument.data())>;
      std::int64_t low = 0, high = 1;
      for (int a = 0; a < A::rank(); ++a) {
        if (argument.extent(a) == 0) return;
        (argument.stride(a) < 0 ? low : high) += (argument.extent(a) - 1) * argument.stride(a);
      }
      auto* base = reinterpret_cast<char*>(const_cast<std::remove_const_t<T>*>(argument.data()));
      const auto bytes = static_cast<std::int64_t>(sizeof(T));
      add_bytes(base + low * bytes, base + high * bytes);
    }
  }
  void add_bytes(char* begin, char* end) { include({begin, end, {}}); }
  void to_device() {
    for (Range& r : ranges_) {
      const std::int64_t skew = misalignment(r);
      r.memory = Buffer(device_, r.end - r.begin + skew);
      copy(stream_, static_cast<char*>(r.memory.data()) + skew, r.begin, r.end - r.begin);
    }
  }
  void to_host() {
    for (Range& r : ranges_)
      copy(stream_, r.begin, static_cast<char*>(r.memory.data()) + misalignment(r), r.end - r.begin);
    stream_.synchronize();
  }
  // The view over the device's copy; an argument that is not a view is returned as it is.
  template <class A> auto operator()(const A& argument) const {
    if constexpr (requires { argument.strides(); }) {
      using T = std::remove_reference_t<decltype(*argument.data())>;
      return view_of<T, A::rank()>(argument, std::make_index_sequence<static_cast<std::size_t>(A::rank())>{});
    } else {
      return argument;
    }
  }
  // The device address that corresponds to a pointer into the host's ranges; null for any other pointer.
  template <class T> T* translate(T* host) const {
    auto* at = reinterpret_cast<char*>(const_cast<std::remove_const_t<T>*>(host));
    for (const Range& r : ranges_)
      if (r.begin <= at && at < r.end)
        return reinterpret_cast<T*>(static_cast<char*>(r.memory.data()) + misalignment(r) + (at - r.begin));
    return nullptr;
  }
  Stream& stream() { return stream_; }

private:
  struct Range {
    char *begin, *end;
    Buffer memory;
  };
  // The copies have the same alignment modulo 16 bytes as the host's memory: kernels distinguish aligned
  // views.
  static std::int64_t misalignment(const Range& r) {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(r.begin) % 16);
  }
  void include(Range next) {
    for (std::size_t i = 0; i < ranges_.size();) {
      if (next.begin < ranges_[i].end && ranges_[i].begin < next.end) {
        next.begin = std::min(next.begin, ranges_[i].begin);
        next.end = std::max(next.end, ranges_[i].end);
        ranges_.erase(ranges_.begin() + static_cast<std::ptrdiff_t>(i));
        i = 0;
      } else {
        ++i;
      }
    }
    ranges_.push_back(std::move(next));
  }
  template <class T, int R, class V, std::size_t... I>
  TensorView<T, R> view_of(const V& v, std::index_sequence<I...>) const {
    return TensorView<T, R>(translate(v.data()), {v.extent(static_cast<int>(I))...},
                            {v.stride(static_cast<int>(I))...});
  }

  Device device_;
  std::vector<Range> ranges_;
  Stream stream_; // the last member: it is destroyed first, and waits for the copies
};

// Calls function(stream, arguments...) and waits for the stream.
template <class F, class... A> void on_test_device(const F& function, const A&... arguments) {
  const Device device = test_device();
  if (device.is_cpu()) {
    Stream stream;
    function(stream, arguments...);
    stream.synchronize();
    return;
  }
  Mirror mirror(device);
  (mirror.add(arguments), ...);
  mirror.to_device();
  function(mirror.stream(), mirror(arguments)...);
  mirror.stream().synchronize();
  mirror.to_host();
}

} // namespace kiln::test
