// Defines OpKernel, a kernel of an op for arguments of any dtypes.
//
//   void softmax_body(const OpVariant& variant, const Handle* arguments);   // records it
//   constinit OpKernel softmax_kernel("softmax", softmax_body);
//   softmax_kernel.launch(at, {BM = 4, BN = 1024}, {.options = 0}, {x, y});
//
// The body is compiled once, and records one kernel for each combination of dtypes, ranks and options that is
// launched. Each of them compiles its variants by config, device and layout classes as every Kernel does.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/stream_at.h>

#include <atomic>
#include <bit>
#include <initializer_list>
#include <string>

KILN_API_BEGIN
namespace kiln::ops::detail {

struct Hook;

using kiln::detail::Handle;

// An argument of a launch: an array, or a number. It refers to the array, which must live during the call.
struct OpArgument {
  OpArgument() = default;
  OpArgument(const Array& a) : array(&a) {}
  OpArgument(const Input& a) : array(&a.array()) {}
  OpArgument(const Output& a) : array(&a.array()) {}
  OpArgument(std::int64_t x) : scalar(DType::I64), bits(static_cast<std::uint64_t>(x)) {}
  OpArgument(DType dtype, double x) : scalar(dtype), bits(bits_of(dtype, x)) {} // F32, F64 or I32

  const Array* array = nullptr;
  DType scalar = DType::F32; // the dtype of the number
  std::uint64_t bits = 0;

private:
  static std::uint64_t bits_of(DType dtype, double x) {
    if (dtype == DType::F64) return std::bit_cast<std::uint64_t>(x);
    if (dtype == DType::I32) return static_cast<std::uint32_t>(static_cast<std::int32_t>(x));
    return std::bit_cast<std::uint32_t>(static_cast<float>(x));
  }
};

// The arguments of a launch in the order of the parameters.
class OpArguments {
public:
  static constexpr int max = 40; // attention_backward has 35 with 16 tensors of lambdas

  OpArguments(std::initializer_list<OpArgument> list) {
    for (const OpArgument& a : list)
      add(a);
  }
  void add(const OpArgument& a) { list_[count_++] = a; }
  void add_if(bool given, const OpArgument& a) {
    if (given) add(a);
  }
  const OpArgument* begin() const { return list_; }
  const OpArgument* end() const { return list_ + count_; }
  int size() const { return count_; }

private:
  OpArgument list_[max];
  int count_ = 0;
};

// What a recording depends on besides the config.
struct OpVariant {
  DType compute = DType::F32; // in which the op computes: F32, F64, or I32 for products of integers
  std::uint32_t options = 0;  // of the op's own
  const Hook* hook = nullptr; // the user's lambda, whose views are the last arguments
  const Hook* mask = nullptr; // of attention: a second lambda, whose views follow
};

// Says something about the kernel whose body calls it. Launches of the kernel repeat it in the log and in
// rehearsals, as note_path does (jit/runtime/rehearsing.h); only the first remark of a kernel counts.
KILN_INTERNAL void remark_on_recording(const std::string& text);

class OpKernel {
public:
  using Body = void (*)(const OpVariant&, const Handle* arguments);

  constexpr OpKernel(const char* name, Body body,
                     kiln::detail::Location here = kiln::detail::Location::current())
      : name_(name), body_(body), location_(here) {}
  OpKernel(const OpKernel&) = delete;

  // Queues the kernel. Errors are those of Kernel::launch. Thread-safe. A warm launch takes no lock and
  // allocates nothing.
  void launch(const StreamAt& at, const Config& config, const OpVariant& variant,
              const OpArguments& arguments, const Grid* grid = nullptr) const;
  // Runs the kernel in the reference interpreter, as Kernel::interpret does.
  void interpret(const Config& config, const OpVariant& variant, const OpArguments& arguments) const;
  // The kernel for arguments of these dtypes and ranks, and for the variant. It is never destroyed.
  const kiln::detail::KernelHandle& handle(const OpVariant& variant, const OpArguments& arguments) const;
  // Records the kernel for arguments of these dtypes and ranks.
  std::shared_ptr<ir::Kernel> record(const Config& config, const OpVariant& variant,
                                     const OpArguments& arguments) const;

private:
  friend void remark_on_recording(const std::string& text);
  struct KILN_INTERNAL Made;
  struct KILN_INTERNAL Key;
  const Made& made(const OpVariant& variant, const OpArguments& arguments) const;

  const char* name_;
  Body body_;
  kiln::detail::Location location_;
  mutable std::atomic<const Made*> first_{nullptr}; // a list, to which launches of new combinations prepend
};

// The dtype in which an op on these arrays computes: F64 if one of them is of F64, and F32 otherwise.
DType compute_dtype(std::initializer_list<const Array*> arrays);

// Calls body(A()), where A is the C++ type of the dtype in which the op computes.
template <class F> void with_compute_type(const OpVariant& variant, const F& body) {
  if (variant.compute == DType::F64)
    body(double());
  else
    body(float());
}

// Calls body(A()) for the sums of products, which are of i32 if the factors are integers.
template <class F> void with_sum_type(const OpVariant& variant, const F& body) {
  if (variant.compute == DType::I32)
    body(std::int32_t());
  else
    with_compute_type(variant, body);
}

} // namespace kiln::ops::detail
KILN_API_END

namespace kiln::ops::detail {

// Throws the error of a call that would have to compile under CompilePolicy::forbid. It names the call of the
// op and the arrays instead of a kernel that the user did not write. `config` is its text.
[[noreturn]] void refuse_compile(const char* kernel, const StreamAt& at, const std::string& config,
                                 const Array* const* arrays, int count);

} // namespace kiln::ops::detail
