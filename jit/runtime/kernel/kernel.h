// Defines Kernel, and kernel(), which makes one from a lambda in the tile language. The first launch compiles
// it.
//
//   KILN_DIM(BN);
//   const auto add = kernel("add", [](View<const float, 1> x, View<const float, 1> y, View<float, 1> out) {
//     auto [i] = program_tile(out, BN);
//     out.tile(i).store(x.tile(i).load() + y.tile(i).load());
//   });
//
//   Stream stream;
//   add.launch(stream, {BN = 1024}, x, y, out);        // TensorViews or Tensors; returns at once
//   stream.synchronize();                              // throws errors that occurred on the device
//
// A launch takes one argument for each parameter of the lambda:
//
//   View<T, Rank>   a TensorView<T, Rank> or Tensor<T, Rank>; View<const T, Rank> also accepts const elements
//   Scalar<T>       a T, or a number that T represents exactly
//   raw::Ptr<T>     a T*
//
// Any other argument is a C++ error. program_tile defines the grid; a kernel that only uses program_id is
// launched with a Grid. The memory of the arguments must live until the launch has finished.
//
// The first launch for a device, a config and the layout classes of the views (see layout_class.h) records
// the lambda and compiles it, or loads the code from the kernel cache on disk. Later launches find the
// compiled code in the Kernel object and take about a microsecond. The captures of the lambda are copied into
// the Kernel.
//
// Mistakes that can only be found at a launch are UserErrors, which launch() throws before anything runs: a
// failed `expects`, null or misaligned pointers, a config without the size of a dimension, a grid that is too
// large. It throws TargetError if ptxas or the driver rejects the code. It also throws the error of an
// earlier command of its stream (see stream.h); a failed device_assert becomes such an error. An empty grid
// runs nothing.
//
// On a CUDA device, arguments must be memory of the device: Buffers or Tensors. A pointer to host memory is a
// UserError that names the argument, unless the device can access that memory (pinned memory, or a machine
// whose GPUs can access all memory). After a failed device_assert the CUDA device cannot be used again: see
// device.h.
//
// A Kernel is a handle: copies share the compiled code. All its functions are const and thread-safe.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/kernel/compile_policy.h>
#include <kiln/jit/runtime/kernel/kernel_arguments.h>
#include <kiln/jit/runtime/stream.h>

#include <initializer_list>
#include <memory>

namespace kiln::ir {
struct Kernel;
} // namespace kiln::ir
namespace kiln::detail {
class KernelCore;
} // namespace kiln::detail

KILN_API_BEGIN
namespace kiln {

// The number of programs of a launch along each axis, for kernels without program_tile.
struct Grid {
  std::int64_t x = 1, y = 1, z = 1;
};

namespace detail {

// A reference-counted pointer to a kernel's state, which queued launches share.
class KernelHandle {
public:
  KernelHandle(const Recipe& recipe, std::shared_ptr<const void> function, Location where);
  KernelHandle(const KernelHandle& other);
  KernelHandle& operator=(const KernelHandle& other);
  ~KernelHandle();
  // Throws UserError, with the location of the caller, if the object was not made yet, because it is a global
  // variable that is used by the initialisation of another one.
  KernelCore& core(Location site) const {
    if (!core_) not_made(site);
    return *core_;
  }
  KernelCore* operator->() const { return &core({}); }
  KernelCore& operator*() const { return core({}); }

private:
  [[noreturn]] static void not_made(Location site);
  KernelCore* core_;
};

// The number of words in front of the arguments, which the launcher uses.
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

// A stream, architecture or device with the source location of the call that it is passed to.
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

// These detect calls of launch whose arguments are in the wrong order.
template <class... A> inline constexpr bool begins_with_config = false;
template <class C, class... A>
inline constexpr bool begins_with_config<C, A...> = std::is_convertible_v<C, const Config&>;
template <class... A> inline constexpr bool begins_with_stream = false;
template <class S, class... A>
inline constexpr bool begins_with_stream<S, A...> = std::is_convertible_v<S, StreamAt>;

// The argument words of one launch, on the stack.
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

// A kernel with parameters of the types P, which are View, Scalar and raw::Ptr.
template <class... P> class Kernel {
public:
  explicit Kernel(detail::KernelHandle handle) : handle_(std::move(handle)) {}

  // Queues the kernel on the stream and returns. The arguments are those described above, in the order of the
  // parameters. Throws UserError and TargetError as described above.
  template <class... A> void launch(detail::StreamAt at, const Config& config, A&&... arguments) const {
    if constexpr (count_fits<A...>())
      if constexpr ((detail::HostArgument<P>::template accepts<A>() & ... & 1)) {
        detail::PackedArguments<P...> packed(handle_.core(at.site), at.site, arguments...);
        detail::launch(*handle_, at.stream, at.site, config, nullptr, packed.words());
      }
  }
  template <class... A>
  void launch(detail::StreamAt at, const Config& config, Grid grid, A&&... arguments) const {
    if constexpr (count_fits<A...>())
      if constexpr ((detail::HostArgument<P>::template accepts<A>() & ... & 1)) {
        detail::PackedArguments<P...> packed(handle_.core(at.site), at.site, arguments...);
        detail::launch(*handle_, at.stream, at.site, config, &grid, packed.words());
      }
  }

  // The following overloads report a missing or misplaced config or stream as a C++ error.
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

  template <class G, class... A>
    requires std::is_same_v<G, Grid>
  void launch(detail::StreamAt, const G&, const Config&, A&&...) const {
    static_assert(
        detail::never<A...>,
        "the stream is followed by the config, and then by the Grid: launch(stream, {BM = 64}, Grid{n}, x)");
  }
  template <class A> void launch(detail::StreamAt, const A&, const Config&) const { config_comes_late<A>(); }
  template <class A, class B> void launch(detail::StreamAt, const A&, const B&, const Config&) const {
    config_comes_late<A, B>();
  }
  template <class A, class B, class C>
  void launch(detail::StreamAt, const A&, const B&, const C&, const Config&) const {
    config_comes_late<A, B, C>();
  }
  // Report calls as in CUDA and C++.
  template <class... A> void operator()(const A&...) const { is_no_function<A...>(); }
  template <class... A> void operator()(Stream&, const Config&, const A&...) const {
    is_no_function<Stream, A...>();
  }

  // Runs the kernel in the reference interpreter of tile IR, with arguments in host memory, and returns when
  // it is done. It is slow; tests compare every device with it. Throws UserError as launch does.
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

  // Compiles the kernel for a device and a config before its first launch. `layouts` has one class for each
  // View parameter; without it, each class is the one that the type of the parameter pins, or else Aligned.
  // Throws UserError and TargetError as launch does.
  void warm_up(detail::DeviceAt at, const Config& config,
               std::initializer_list<LayoutClass> layouts = {}) const {
    detail::warm_up(handle_.core(at.site), at.device, at.site, config, layouts);
  }

  template <class... A> void warm_up(const Config&, const A&...) const {
    static_assert(detail::never<A...>, "warm_up begins with the device: warm_up(Device::cpu(), {BM = 64})");
  }

  // Compiles the kernel for an NVIDIA architecture ("sm_80", "sm_90a" or "sm_100a"), whose GPU need not be
  // present, into the cache folder, where launches find the code. The folder can be copied to machines
  // without ptxas. Throws UserError if ptxas is missing or the cache folder cannot be written, and
  // TargetError if ptxas rejects the code.
  void precompile(detail::ArchitectureAt at, const Config& config,
                  std::initializer_list<LayoutClass> layouts = {}) const {
    detail::precompile(handle_.core(at.site), at.name, at.site, config, layouts);
  }

  // Records the kernel again and returns its tile IR. Throws UserError for a mistake in the lambda.
  std::shared_ptr<ir::Kernel> record(const Config& config = {}) const {
    return detail::record(*handle_, config);
  }

  const char* name() const { return detail::name_of(*handle_); }
  // Returns the line of the call of kernel().
  SourceLocation location() const { return detail::location_of(*handle_); }
  const detail::KernelHandle& handle() const { return handle_; } // internal

private:
  template <class... A> static void config_comes_late() {
    static_assert(detail::never<A...>,
                  "the stream is followed by the config: launch(stream, {BM = 64}, x, y), "
                  "or {} if no dimension needs a size");
  }
  template <class... A> static void is_no_function() {
    static_assert(detail::never<A...>,
                  "a kernel is not called as a function: write k.launch(stream, {BM = 64}, x, y)");
  }
  template <class... A> static constexpr bool count_fits() {
    static_assert(sizeof...(A) >= sizeof...(P), "too few arguments: the kernel has more parameters");
    static_assert(sizeof...(A) <= sizeof...(P), "too many arguments: the kernel has fewer parameters");
    return sizeof...(A) == sizeof...(P);
  }

  detail::KernelHandle handle_;
};

// Makes a kernel from a lambda or another callable, whose parameters are View, Scalar and raw::Ptr. `name`
// identifies the kernel in messages and profiles. The lambda is not called here, but by the first launch or
// warm_up, which records it.
template <class F>
auto kernel(const char* name, F function, detail::Location where = detail::Location::current()) {
  auto make = [&]<class... P>(detail::ParameterList<P...>) {
    auto held = std::make_shared<const F>(std::move(function));
    detail::Recipe recipe = detail::make_recipe(name, *held);
    return Kernel<P...>(detail::KernelHandle(recipe, held, where));
  };
  return make(detail::parameters_of<F>{});
}

// Report a kernel without a name, and a name that is not a string literal or not the first argument.
template <class F>
  requires(!std::is_convertible_v<const F&, const char*>)
auto kernel(const F& function) {
  static_assert(detail::never<F>, "a kernel needs a name: write kernel(\"name\", [](...) { ... })");
  return kernel("", function);
}
template <class N, class F>
  requires(!std::is_convertible_v<const N&, const char*>)
auto kernel(const N& name, const F& function) {
  static_assert(detail::never<N>, "the name of a kernel comes first and is a string literal: write "
                                  "kernel(\"name\", [](...) { ... })");
  if constexpr (std::is_convertible_v<const F&, const char*>)
    return kernel("", name);
  else
    return kernel("", function);
}

} // namespace kiln
KILN_API_END
