// Implements the C functions: converts DLPack tensors to views, and exceptions to error codes.
#include <kiln/ops/c_api.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/thread_value.h>
#include <kiln/jit/base/version.h>
#include <kiln/ops/attention.h>
#include <kiln/ops/attention_backward.h>
#include <kiln/ops/elementwise.h>
#include <kiln/ops/matmul.h>
#include <kiln/ops/matmul_backward.h>
#include <kiln/ops/norm.h>
#include <kiln/ops/softmax.h>

#include <algorithm>
#include <new>
#include <string>

namespace kiln::ops {
namespace {

std::string& last_error() { return thread_value<std::string, struct LastError>(); }
int failed(int code, const char* what) {
  try {
    last_error() = what;
  } catch (const std::bad_alloc&) {
    last_error().clear();
  }
  return code;
}
// Replaces the name of the C++ op at the start of a message, "ops::softmax: ", by that of the C function.
std::string in_c(const char* function, std::string text) {
  if (text.starts_with("ops::")) text.erase(0, text.find(": ") + 2);
  return text.starts_with(function) ? text : std::string(function) + ": " + text;
}
template <class F> int guarded(const char* function, F&& call) {
  try {
    last_error().clear();
    call();
    return KILN_OK;
  } catch (const UserError& e) {
    return failed(KILN_USER_ERROR, in_c(function, e.what()).c_str());
  } catch (const TargetError& e) {
    return failed(KILN_TARGET_ERROR, e.what());
  } catch (const std::bad_alloc& e) {
    return failed(KILN_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return failed(KILN_INTERNAL_ERROR, e.what());
  }
}

[[noreturn]] void refuse(const char* function, const char* argument, const std::string& what) {
  throw UserError(std::string(function) + ": " + argument + " " + what);
}

struct DlType {
  DType dtype;
  DLDataTypeCode code;
  int bits;
};
constexpr DlType dl_types[] = {{DType::F32, kDLFloat, 32},
                               {DType::F64, kDLFloat, 64},
                               {DType::BF16, kDLBfloat, 16},
                               {DType::F16, kDLFloat, 16}};

DType dtype_of_tensor(const char* function, const char* argument, const DLTensor* t) {
  if (!t) refuse(function, argument, "is null; pass a tensor");
  for (const DlType& known : dl_types)
    if (t->dtype.code == known.code && t->dtype.bits == known.bits && t->dtype.lanes == 1) return known.dtype;
  refuse(function, argument,
         "has DLPack type code " + std::to_string(t->dtype.code) + " of " + std::to_string(t->dtype.bits) +
             " bits and " + std::to_string(t->dtype.lanes) +
             " lanes; pass float32, float64, bfloat16 or float16");
}

// Makes the checks of a TensorView. The errors name the argument of the C function.
void check_array(const char* function, const char* argument, const Array& a) {
  try {
    kiln::detail::check_view(a.data, size_of(a.dtype), size_of(a.dtype), a.rank, a.extents, a.strides, {});
  } catch (const UserError& e) {
    std::string text = e.what(), start = "TensorView's argument ";
    if (auto at = text.find(start); at != std::string::npos) text.erase(0, at + start.size());
    throw UserError(std::string(function) + ": " + argument + "'s " + text);
  }
}

// The device of a tensor as Device::parse reads it: "cpu", "cuda:0".
std::string device_name(const char* function, const char* argument, const DLTensor* t) {
  switch (t->device.device_type) {
  case kDLCPU:
  case kDLCUDAHost: return "cpu";
  case kDLCUDA: return "cuda:" + std::to_string(t->device.device_id);
  default:
    refuse(function, argument,
           "is on DLPack device " + std::to_string(t->device.device_type) +
               "; copy it to the CPU or to a CUDA device");
  }
}

// The array that a tensor describes, which is on the device of the stream.
Array array(const char* function, const char* argument, const DLTensor* t, const detail::StreamAt& at) {
  const DType dtype = dtype_of_tensor(function, argument, t);
  const std::string place = device_name(function, argument, t), wanted = to_string(at.stream.device());
  if (place != wanted)
    refuse(function, argument, "is on " + place + " and the result on " + wanted + "; copy one of them");
  if (t->ndim < 0 || t->ndim > max_rank)
    refuse(function, argument, "has " + std::to_string(t->ndim) + " dimensions; pass one of 0 to 8");
  if (t->ndim > 0 && !t->shape) refuse(function, argument, "has no shape: it is null; set it to the extents");
  Array a{t->data ? static_cast<char*>(t->data) + t->byte_offset : nullptr, dtype, true, t->ndim};
  std::copy_n(t->shape, t->ndim, a.extents);
  if (t->strides)
    std::copy_n(t->strides, t->ndim, a.strides);
  else if (t->ndim > 0 && *std::min_element(a.extents, a.extents + t->ndim) >= 0)
    kiln::detail::row_major_strides(t->ndim, a.extents, a.strides);
  check_array(function, argument, a);
  return a;
}
Input input(const char* function, const char* argument, const DLTensor* t, const detail::StreamAt& at) {
  return Input(array(function, argument, t, at));
}
Output output(const char* function, const char* argument, const DLTensor* t, const detail::StreamAt& at) {
  return Output(array(function, argument, t, at));
}
// The same for a tensor that may be null.
Input optional_input(const char* function, const char* argument, const DLTensor* t,
                     const detail::StreamAt& at) {
  return t ? input(function, argument, t, at) : Input();
}
Output optional_output(const char* function, const char* argument, const DLTensor* t,
                       const detail::StreamAt& at) {
  return t ? output(function, argument, t, at) : Output();
}

Activation activation_named(const char* function, const char* text) {
  std::string wanted = text ? text : "none";
  for (int i = 0; i < activation_count; ++i)
    if (wanted == ops::name(static_cast<Activation>(i))) return static_cast<Activation>(i);
  refuse(function, "activation", "is \"" + wanted + "\"; choose none, relu, gelu or silu");
}

AttentionOptions attention_options(const char* function, const KilnAttentionOptions* options,
                                   const detail::StreamAt& at) {
  const KilnAttentionOptions given = options ? *options : KilnAttentionOptions KILN_ATTENTION_DEFAULTS;
  return {.scale = given.scale,
          .causal = given.causal != 0,
          .alignment = given.align_last ? CausalAlignment::last : CausalAlignment::first,
          .window_before = given.window_before,
          .window_after = given.window_after,
          .soft_cap = given.soft_cap,
          .dropout = given.dropout,
          .seed = given.seed,
          .sinks = optional_input(function, "sinks", given.sinks, at),
          .lse = optional_output(function, "lse", given.lse, at),
          .dsinks = optional_output(function, "dsinks", given.dsinks, at)};
}

// Calls op(stream) on the device of the result.
template <class F> int run(const char* function, const char* argument, const DLTensor* result, F&& op) {
  return guarded(function, [&] {
    dtype_of_tensor(function, argument, result); // checks that it is there
    // On a GPU, the op runs on the default stream, after the work that the caller has queued there.
    const Device device = Device::parse(device_name(function, argument, result));
    Stream stream = device.is_cpu() ? Stream() : Stream::adopt(device, nullptr);
    detail::StreamAt at(stream, {}); // the source location of a caller in C is unknown
    op(at);
    stream.synchronize();
  });
}

// The same for a function with several results, of which the first one that is given determines the device.
// An op reports if none is given, so that any tensor will do then.
template <class F>
int run(const char* function, std::initializer_list<const DLTensor*> results, const DLTensor* other, F&& op) {
  for (const DLTensor* result : results)
    if (result) return run(function, "the result", result, op);
  return run(function, "the gradient of the result", other, op);
}

} // namespace
} // namespace kiln::ops

using namespace kiln;
using ops::input;
using ops::optional_input;
using ops::optional_output;
using ops::output;

const char* kiln_version(void) { return kiln::version(); }
const char* kiln_last_error(void) { return ops::last_error().c_str(); }

int kiln_matmul(const DLTensor* a, const DLTensor* b, DLTensor* c) {
  constexpr auto f = "kiln_matmul";
  return ops::run(f, "c", c, [&](ops::detail::StreamAt stream) {
    ops::matmul(stream, input(f, "a", a, stream), input(f, "b", b, stream), output(f, "c", c, stream));
  });
}

int kiln_linear(const DLTensor* x, const DLTensor* weight, const DLTensor* bias, DLTensor* y,
                const char* activation) {
  constexpr auto f = "kiln_linear";
  return ops::run(f, "y", y, [&](ops::detail::StreamAt stream) {
    ops::linear(stream, input(f, "x", x, stream), input(f, "weight", weight, stream),
                input(f, "bias", bias, stream), output(f, "y", y, stream),
                {.activation = ops::activation_named(f, activation)});
  });
}

int kiln_softmax(const DLTensor* x, DLTensor* y) {
  constexpr auto f = "kiln_softmax";
  return ops::run(f, "y", y, [&](ops::detail::StreamAt stream) {
    ops::softmax(stream, input(f, "x", x, stream), output(f, "y", y, stream));
  });
}

int kiln_log_softmax(const DLTensor* x, DLTensor* y) {
  constexpr auto f = "kiln_log_softmax";
  return ops::run(f, "y", y, [&](ops::detail::StreamAt stream) {
    ops::log_softmax(stream, input(f, "x", x, stream), output(f, "y", y, stream));
  });
}

int kiln_layernorm(const DLTensor* x, const DLTensor* gamma, const DLTensor* beta, DLTensor* y, double eps) {
  constexpr auto f = "kiln_layernorm";
  return ops::run(f, "y", y, [&](ops::detail::StreamAt stream) {
    ops::layernorm(stream, input(f, "x", x, stream), input(f, "gamma", gamma, stream),
                   input(f, "beta", beta, stream), output(f, "y", y, stream), {.eps = eps});
  });
}

int kiln_rmsnorm(const DLTensor* x, const DLTensor* gamma, DLTensor* y, double eps) {
  constexpr auto f = "kiln_rmsnorm";
  return ops::run(f, "y", y, [&](ops::detail::StreamAt stream) {
    ops::rmsnorm(stream, input(f, "x", x, stream), input(f, "gamma", gamma, stream),
                 output(f, "y", y, stream), {.eps = eps});
  });
}

int kiln_activation(const DLTensor* x, DLTensor* y, const char* activation) {
  constexpr auto f = "kiln_activation";
  return ops::run(f, "y", y, [&](ops::detail::StreamAt stream) {
    ops::activation(stream, input(f, "x", x, stream), output(f, "y", y, stream),
                    ops::activation_named(f, activation));
  });
}

int kiln_activation_mul(const DLTensor* gate, const DLTensor* up, DLTensor* y, const char* activation) {
  constexpr auto f = "kiln_activation_mul";
  return ops::run(f, "y", y, [&](ops::detail::StreamAt stream) {
    ops::activation_mul(stream, input(f, "gate", gate, stream), input(f, "up", up, stream),
                        output(f, "y", y, stream), ops::activation_named(f, activation));
  });
}

int kiln_dropout(const DLTensor* x, DLTensor* y, double probability, uint64_t seed) {
  constexpr auto f = "kiln_dropout";
  return ops::run(f, "y", y, [&](ops::detail::StreamAt stream) {
    ops::dropout(stream, input(f, "x", x, stream), output(f, "y", y, stream),
                 {.probability = probability, .seed = seed});
  });
}

int kiln_attention(const DLTensor* q, const DLTensor* k, const DLTensor* v, DLTensor* o,
                   const KilnAttentionOptions* options) {
  constexpr auto f = "kiln_attention";
  return ops::run(f, "o", o, [&](ops::detail::StreamAt stream) {
    const auto all = ops::attention_options(f, options, stream);
    ops::detail::attention(stream, input(f, "q", q, stream), input(f, "k", k, stream),
                           input(f, "v", v, stream), output(f, "o", o, stream), all, {});
  });
}

int kiln_softmax_backward(const DLTensor* y, const DLTensor* dy, DLTensor* dx) {
  constexpr auto f = "kiln_softmax_backward";
  return ops::run(f, "dx", dx, [&](ops::detail::StreamAt stream) {
    ops::softmax_backward(stream, input(f, "y", y, stream), input(f, "dy", dy, stream),
                          output(f, "dx", dx, stream));
  });
}

int kiln_log_softmax_backward(const DLTensor* y, const DLTensor* dy, DLTensor* dx) {
  constexpr auto f = "kiln_log_softmax_backward";
  return ops::run(f, "dx", dx, [&](ops::detail::StreamAt stream) {
    ops::log_softmax_backward(stream, input(f, "y", y, stream), input(f, "dy", dy, stream),
                              output(f, "dx", dx, stream));
  });
}

int kiln_layernorm_backward(const DLTensor* x, const DLTensor* gamma, const DLTensor* dy, DLTensor* dx,
                            DLTensor* dgamma, DLTensor* dbeta, double eps) {
  constexpr auto f = "kiln_layernorm_backward";
  return ops::run(f, {dx, dgamma, dbeta}, dy, [&](ops::detail::StreamAt stream) {
    ops::layernorm_backward(stream, input(f, "x", x, stream), optional_input(f, "gamma", gamma, stream),
                            input(f, "dy", dy, stream), optional_output(f, "dx", dx, stream),
                            optional_output(f, "dgamma", dgamma, stream),
                            optional_output(f, "dbeta", dbeta, stream), {.eps = eps});
  });
}

int kiln_rmsnorm_backward(const DLTensor* x, const DLTensor* gamma, const DLTensor* dy, DLTensor* dx,
                          DLTensor* dgamma, double eps) {
  constexpr auto f = "kiln_rmsnorm_backward";
  return ops::run(f, {dx, dgamma}, dy, [&](ops::detail::StreamAt stream) {
    ops::rmsnorm_backward(stream, input(f, "x", x, stream), optional_input(f, "gamma", gamma, stream),
                          input(f, "dy", dy, stream), optional_output(f, "dx", dx, stream),
                          optional_output(f, "dgamma", dgamma, stream), {.eps = eps});
  });
}

int kiln_activation_backward(const DLTensor* x, const DLTensor* dy, DLTensor* dx, const char* activation) {
  constexpr auto f = "kiln_activation_backward";
  return ops::run(f, "dx", dx, [&](ops::detail::StreamAt stream) {
    ops::activation_backward(stream, input(f, "x", x, stream), input(f, "dy", dy, stream),
                             output(f, "dx", dx, stream), ops::activation_named(f, activation));
  });
}

int kiln_activation_mul_backward(const DLTensor* gate, const DLTensor* up, const DLTensor* dy,
                                 DLTensor* dgate, DLTensor* dup, const char* activation) {
  constexpr auto f = "kiln_activation_mul_backward";
  return ops::run(f, {dgate, dup}, dy, [&](ops::detail::StreamAt stream) {
    ops::activation_mul_backward(stream, input(f, "gate", gate, stream), input(f, "up", up, stream),
                                 input(f, "dy", dy, stream), optional_output(f, "dgate", dgate, stream),
                                 optional_output(f, "dup", dup, stream),
                                 ops::activation_named(f, activation));
  });
}

int kiln_matmul_backward(const DLTensor* a, const DLTensor* b, const DLTensor* dc, DLTensor* da,
                         DLTensor* db) {
  constexpr auto f = "kiln_matmul_backward";
  return ops::run(f, {da, db}, dc, [&](ops::detail::StreamAt stream) {
    ops::matmul_backward(stream, input(f, "a", a, stream), input(f, "b", b, stream),
                         input(f, "dc", dc, stream), optional_output(f, "da", da, stream),
                         optional_output(f, "db", db, stream));
  });
}

int kiln_linear_backward(const DLTensor* x, const DLTensor* weight, const DLTensor* z, const DLTensor* dy,
                         DLTensor* dx, DLTensor* dweight, DLTensor* dbias, const char* activation) {
  constexpr auto f = "kiln_linear_backward";
  return ops::run(f, {dx, dweight, dbias}, dy, [&](ops::detail::StreamAt stream) {
    ops::linear_backward(stream, input(f, "x", x, stream), input(f, "weight", weight, stream),
                         input(f, "dy", dy, stream), optional_output(f, "dx", dx, stream),
                         optional_output(f, "dweight", dweight, stream),
                         {.activation = ops::activation_named(f, activation),
                          .before = optional_input(f, "z", z, stream),
                          .dbias = optional_output(f, "dbias", dbias, stream)});
  });
}

int kiln_attention_backward(const DLTensor* dout, const DLTensor* q, const DLTensor* k, const DLTensor* v,
                            const DLTensor* o, const DLTensor* lse, DLTensor* dq, DLTensor* dk, DLTensor* dv,
                            const KilnAttentionOptions* options) {
  constexpr auto f = "kiln_attention_backward";
  return ops::run(f, {dq, dk, dv}, dout, [&](ops::detail::StreamAt stream) {
    ops::detail::attention_backward(
        stream,
        {input(f, "dout", dout, stream), input(f, "q", q, stream), input(f, "k", k, stream),
         input(f, "v", v, stream), input(f, "o", o, stream), input(f, "lse", lse, stream),
         optional_output(f, "dq", dq, stream), optional_output(f, "dk", dk, stream),
         optional_output(f, "dv", dv, stream)},
        ops::attention_options(f, options, stream), {});
  });
}
