// Defines how a search compares the outputs of a kernel, and with what.
//
// By default, outputs are compared with those of the first seed. Each element may differ by the rounding
// errors that the kernel makes: a multiple of how far the element moves when the inputs change by one unit in
// the last place, plus a few rounding errors of its own magnitude. Integers and bools must be equal, unless
// they depend on floats: then those that are decided by a rounding error may differ by one. Outputs to which
// a kernel appends through an atomic counter may be in any order. TunedOptions::outputs declares other rules,
// and TunedOptions::reference another reference:
//
//   tuned(find_nearest, space, {.outputs = {{.parameter = 2, .share = 0.01},                       // indices
//                                           {.parameter = 3, .relative = 1e-3, .absolute = 1e-6},
//                                           {.parameter = 4, .ignored = true}},                    // scratch
//                               .reference = [](const tune::HostArguments& a) {
//                                 nearest_on_host(a.data<float>(0), a[0].extents, a.data<int>(2));
//                               }});
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/dtype.h>
#include <kiln/jit/runtime/kernel/kernel.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

KILN_API_BEGIN
namespace kiln::tune {

// An output of a candidate and that of the reference in host memory, for a function that compares them. Both
// pointers point to the first element, as the kernel's parameter does; elements that were not written hold
// NaN or an arbitrary integer.
struct OutputValues {
  const void *values = nullptr, *reference = nullptr;
  DType dtype = DType::F32;
  std::vector<std::int64_t> extents, strides; // of a view; strides in elements
  std::int64_t bytes = 0;                     // behind a pointer that is not a view
};

// How one output is compared, if not by the rules above. A search throws UserError if `parameter` is no
// output.
struct OutputCheck {
  int parameter = 0; // counted from 0; a view or pointer whose elements are not const
  // The tolerance: a value v is right if |v - r| <= absolute + relative * |r|, where r is the reference's. If
  // both are 0, the tolerance is determined as described above.
  double relative = 0, absolute = 0;
  // The share of the elements, from 0 to 1, that may differ by any amount, such as the indices of maxima that
  // are nearly equal. 0: determined by how many elements change when the inputs change.
  double share = 0;
  bool unordered = false; // the elements may be in any order, so they are sorted before they are compared
  bool ignored = false;   // not compared, such as scratch memory
  // A function that replaces all of the above. It is called in the process that tunes, and returns a
  // description of what is wrong, or an empty text. An exception means that the output is wrong. It is not
  // called for the inputs with NaN, infinities, zeros and subnormal numbers on which winners are verified.
  std::function<std::string(const OutputValues&)> compare = {};
};

// The arguments of a launch in host memory, for a function that computes the reference. It must write the
// outputs. Parameters count from 0.
class HostArguments {
public:
  struct Argument {
    void* data = nullptr;                       // the first element of a view, or the memory behind a pointer
    std::vector<std::int64_t> extents, strides; // of a view; strides in elements
    std::uint64_t word = 0;                     // the bytes of a scalar
  };
  explicit HostArguments(std::vector<Argument> arguments) : arguments_(std::move(arguments)) {}

  const Argument& operator[](int parameter) const {
    if (parameter < 0 || static_cast<std::size_t>(parameter) >= arguments_.size())
      throw std::out_of_range("HostArguments has no parameter " + std::to_string(parameter) + "; there are " +
                              std::to_string(arguments_.size()) + ", counted from 0");
    return arguments_[static_cast<std::size_t>(parameter)];
  }
  // Return the elements of a view or pointer, and the value of a scalar; T must be the type of the parameter.
  // Throw std::out_of_range if there is no such parameter.
  template <class T> T* data(int parameter) const { return static_cast<T*>((*this)[parameter].data); }
  template <class T> T scalar(int parameter) const {
    T value;
    std::memcpy(&value, &(*this)[parameter].word, sizeof value);
    return value;
  }

private:
  std::vector<Argument> arguments_;
};

// The reference with which outputs are compared, instead of those of the first seed: a kernel with the same
// parameters that computes the same by a simpler or more exact algorithm, with a config for it, or a function
// that runs on the host, in the process that tunes. A search throws UserError if the outputs of the first
// seed differ from those of the reference.
class Reference {
public:
  using Function = std::function<void(const HostArguments&)>;
  Reference() = default; // none
  template <class... P>
  Reference(const Kernel<P...>& kernel, Config config)
      : handle_(kernel.handle()), config_(std::move(config)) {}
  template <class F>
    requires std::is_invocable_v<F, const HostArguments&>
  Reference(F function) : function_(std::move(function)) {} // NOLINT: a lambda may be given as an option

  const std::optional<kiln::detail::KernelHandle>& kernel() const { return handle_; }
  const Config& config() const { return config_; }
  const Function& function() const { return function_; }

private:
  std::optional<kiln::detail::KernelHandle> handle_;
  Config config_;
  Function function_;
};

} // namespace kiln::tune
KILN_API_END
