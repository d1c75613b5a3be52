// Kernels: a lambda in the language, compiled when it is first launched.
//
//   KILN_DIM(BN);
//   const auto add = kernel("add", [](View<const float, 1> x, View<const float, 1> y, View<float, 1> out) {
//     auto [i] = program_tile(out, BN);
//     out.tile(i).store(x.tile(i).load() + y.tile(i).load());
//   });
//
//   Stream stream;
//   add.launch(stream, {BN = 1024}, x, y, out);        // TensorViews or Tensors; returns at once
//   stream.synchronize();                              // throws what went wrong on the device
//
// A launch takes for each parameter of the lambda one argument:
//
//   View<T, Rank>   a TensorView<T, Rank> or Tensor<T, Rank>; for View<const T, Rank> const elements too
//   Scalar<T>       a T, or a number that T holds without loss
//   raw::Ptr<T>     a T*
//
// and anything else is a C++ error. The grid comes from program_tile; kernels that use program_id alone are
// launched with a Grid. Memory must live until the launch has finished.
//
// The first launch for a device, a config and layout classes of the views (see layout_class.h) records the
// lambda and compiles it, or takes the code from the cache on disk; later ones find it in the kernel and take
// about a microsecond. The lambda's captures are copied into the kernel.
//
// Mistakes that show only at launch are UserErrors, thrown by launch itself before anything runs: a failed
// `expects`, null or misaligned pointers, a config without the size of a dimension, a grid that is too large.
// An empty grid runs nothing. A failed device_assert is thrown by the stream's synchronize().
//
// On a CUDA device, memory is that of Buffers or Tensors of the device; pointers to the host's memory are
// refused, with the argument, unless the device reaches it (pinned memory, or machines where GPUs reach all).
// A failed device_assert costs the device there: see device.h.
//
// A Kernel is a handle: copies share the compiled code. All its functions are thread-safe and const.
#pragma once

#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/kernel/compile_policy.h>
#include <kiln/jit/runtime/kernel/kernel_arguments.h>
#include <kiln/jit/runtime/stream.h>

#include <initializer_list>
#include <memory>

namespace kiln {
namespace ir {
struct Kernel;
}

// The programs of a launch along each axis, for kernels without program_tile.
struct Grid {
  std::int64_t x = 1, y = 1, z = 1;
};

namespace detail {

class KernelCore;

// A counted reference to a kernel's state, which queued launches share.
class KernelHandle {
public:
  KernelHandle(const Recipe& recipe, std::shared_ptr<const void> function, Location where);
  KernelHandle(const KernelHandle& other);
  KernelHandle& operator=(const KernelHandle& other);
  ~KernelHandle();
  KernelCore* operator->() const { return core_; }
  KernelCore& operator*() const { return *core_; }

private:
  KernelCore* core_;
};

// How many words below the arguments belong to the launcher.
inline constexpr int launch_header_words = 9;

void launch(KernelCore& core, Stream& stream, Location site, const Config& config, const Grid* grid,
            std::uint64_t* words);
void interpret(KernelCore& core, const Config& config, const Grid* grid, std::uint64_t* words);
void warm_up(KernelCore& core, Device device, Location site, const Config& config,
             std::initializer_list<LayoutClass> layouts);
void precompile(KernelCore& core, const char* arch, Location site, const Config& config,
                std::initializer_list<LayoutClass> layouts);
std::shared_ptr<ir::Kernel> record(KernelCore& core, const Config& config);
const char* name_of(const KernelCore& core);
SourceLocation location_of(const KernelCore& core);

// The stream or config of a call, with the place of the call.
struct StreamAt {
  Stream& stream;
  Location site;
  StreamAt(Stream& s, Location here = Location::current()) : stream(s), site(here) {}
};
struct ArchitectureAt {
  const char* name;
  Location site;
  ArchitectureAt(const char* n, Location here = Location::current()) : name(n), site(here) {}
};
struct DeviceAt {
  Device device;
  Location site;
  DeviceAt(Device d, Location here = Location::current()) : device(d), site(here) {}
};

// What stands where it does not belong in a launch.
template <class... A> inline constexpr bool begins_with_config = false;
template <class C, class... A>
inline constexpr bool begins_with_config<C, A...> = std::is_convertible_v<C, const Config&>;
template <class... A> inline constexpr bool begins_with_stream = false;
template <class S, class... A>
inline constexpr bool begins_with_stream<S, A...> = std::is_convertible_v<S, StreamAt>;

// The words of a launch on the stack.
template <class... P> class PackedArguments {
public:
  template <class... A> PackedArguments(const KernelCore& kernel, Location site, A&... arguments) {
    std::uint64_t* to = words();
    std::size_t index = 0;
    ((HostArgument<P>::write(to, arguments, {kernel, site, index++}), to += HostArgument<P>::words), ...);
  }
  std::uint64_t* words() { return block_ + launch_header_words; }

private:
  alignas(16) std::uint64_t block_[launch_header_words + (HostArgument<P>::words + ... + 0) + 1];
};

} // namespace detail

template <class... P> class Kernel {
public:
  explicit Kernel(detail::KernelHandle handle) : handle_(std::move(handle)) {}

  // Queues the kernel on the stream.
  template <class... A> void launch(detail::StreamAt at, const Config& config, A&&... arguments) const {
    if constexpr (count_fits<A...>())
      if constexpr ((detail::HostArgument<P>::template accepts<A>() & ... & 1)) {
        detail::PackedArguments<P...> packed(*handle_, at.site, arguments...);
        detail::launch(*handle_, at.stream, at.site, config, nullptr, packed.words());
      }
  }
  template <class... A>
  void launch(detail::StreamAt at, const Config& config, Grid grid, A&&... arguments) const {
    if constexpr (count_fits<A...>())
      if constexpr ((detail::HostArgument<P>::template accepts<A>() & ... & 1)) {
        detail::PackedArguments<P...> packed(*handle_, at.site, arguments...);
        detail::launch(*handle_, at.stream, at.site, config, &grid, packed.words());
      }
  }

  // Launches without a config, or without a stream.
  template <class... A>
    requires(!detail::begins_with_config<A...>)
  void launch(Stream&, A&&...) const {
    static_assert(detail::never<A...>,
                  "the stream is followed by the config: launch(stream, {BM = 64}, x, y), "
                  "or {} if no dimension needs a size");
  }
  template <class... A>
    requires(!detail::begins_with_stream<A...>)
  void launch(A&&...) const {
    static_assert(detail::never<A...>,
                  "a launch begins with the stream and the config: launch(stream, {BM = 64}, x, y)");
  }
  template <class... A> void launch(const Config&, A&&...) const {
    static_assert(detail::never<A...>,
                  "a launch begins with the stream and the config: launch(stream, {BM = 64}, x, y)");
  }
  template <class S, class... A>
    requires(!detail::begins_with_stream<S>)
  void launch(S&&, const Config&, A&&...) const {
    static_assert(detail::never<A...>,
                  "a launch begins with the stream and the config: launch(stream, {BM = 64}, x, y)");
  }

  // Runs the kernel in the plain interpreter of tile IR, slowly, and returns when it is done: the reference
  // that every device is compared with.
  template <class... A> void interpret(const Config& config, A&&... arguments) const {
    if constexpr (count_fits<A...>())
      if constexpr ((detail::HostArgument<P>::template accepts<A>() & ... & 1)) {
        detail::PackedArguments<P...> packed(*handle_, {}, arguments...);
        detail::interpret(*handle_, config, nullptr, packed.words());
      }
  }
  template <class... A> void interpret(const Config& config, Grid grid, A&&... arguments) const {
    if constexpr (count_fits<A...>())
      if constexpr ((detail::HostArgument<P>::template accepts<A>() & ... & 1)) {
        detail::PackedArguments<P...> packed(*handle_, {}, arguments...);
        detail::interpret(*handle_, config, &grid, packed.words());
      }
  }

  template <class... A>
    requires(!detail::begins_with_config<A...>)
  void interpret(A&&...) const {
    static_assert(detail::never<A...>,
                  "interpret begins with the config, and takes no stream: interpret({BM = 64}, x, y)");
  }
  template <class S, class... A>
    requires(!detail::begins_with_config<S>)
  void interpret(S&&, const Config&, A&&...) const {
    static_assert(detail::never<A...>,
                  "interpret begins with the config, and takes no stream: interpret({BM = 64}, x, y)");
  }

  // Compiles ahead of the first launch. `layouts` has a class for each View parameter; without it each is
  // pinned by its type or Aligned.
  void warm_up(detail::DeviceAt at, const Config& config,
               std::initializer_list<LayoutClass> layouts = {}) const {
    detail::warm_up(*handle_, at.device, at.site, config, layouts);
  }

  // Compiles for NVIDIA GPUs that need not be here, "sm_80", "sm_90a" or "sm_100a", into the cache folder,
  // where launches find it: also those on a machine without ptxas that the folder is copied to. Needs ptxas.
  void precompile(detail::ArchitectureAt at, const Config& config,
                  std::initializer_list<LayoutClass> layouts = {}) const {
    detail::precompile(*handle_, at.name, at.site, config, layouts);
  }

  // The tile IR of the kernel, recorded anew.
  std::shared_ptr<ir::Kernel> record(const Config& config = {}) const {
    return detail::record(*handle_, config);
  }

  const char* name() const { return detail::name_of(*handle_); }
  SourceLocation location() const { return detail::location_of(*handle_); } // where it was made
  const detail::KernelHandle& handle() const { return handle_; }            // not for users

private:
  template <class... A> static constexpr bool count_fits() {
    static_assert(sizeof...(A) >= sizeof...(P), "too few arguments: the kernel has more parameters");
    static_assert(sizeof...(A) <= sizeof...(P), "too many arguments: the kernel has fewer parameters");
    return sizeof...(A) == sizeof...(P);
  }

  detail::KernelHandle handle_;
};

// Makes a kernel from a lambda (or another callable) whose parameters are View, Scalar and raw::Ptr. Nothing
// is recorded yet.
template <class F>
auto kernel(const char* name, F function, detail::Location where = detail::Location::current()) {
  auto make = [&]<class... P>(detail::ParameterList<P...>) {
    auto held = std::make_shared<const F>(std::move(function));
    detail::Recipe recipe = detail::make_recipe(name, *held);
    return Kernel<P...>(detail::KernelHandle(recipe, held, where));
  };
  return make(detail::parameters_of<F>{});
}

} // namespace kiln
