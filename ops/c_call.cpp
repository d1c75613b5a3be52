// Converts DLPack tensors to arrays, and exceptions to error codes.
#include <kiln/ops/c_call.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/thread_value.h>
#include <kiln/jit/base/version.h>

#include <algorithm>
#include <new>

namespace kiln::ops::detail {
namespace {

struct CudaStream {
  void* handle = nullptr;
};
void*& cuda_stream() { return thread_value<CudaStream, CudaStream>().handle; }
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

// DLPack 1.1 has the codes of 8-bit floats, which earlier versions of dlpack.h lack.
constexpr int float8_e4m3fn = 10, float8_e5m2 = 12;
struct DlType {
  DType dtype;
  int code, bits;
};
constexpr DlType dl_types[] = {
    {DType::F32, kDLFloat, 32}, {DType::F64, kDLFloat, 64},        {DType::BF16, kDLBfloat, 16},
    {DType::F16, kDLFloat, 16}, {DType::F8E4M3, float8_e4m3fn, 8}, {DType::F8E5M2, float8_e5m2, 8},
    {DType::I8, kDLInt, 8},     {DType::U8, kDLUInt, 8},           {DType::I32, kDLInt, 32},
    {DType::I64, kDLInt, 64}};

DType dtype_of_tensor(const CCall& call, const char* argument, const DLTensor* t) {
  for (const DlType& known : dl_types)
    if (t->dtype.code == known.code && t->dtype.bits == known.bits && t->dtype.lanes == 1) return known.dtype;
  call.refuse(argument, "has DLPack type code " + std::to_string(t->dtype.code) + " of " +
                            std::to_string(t->dtype.bits) + " bits and " + std::to_string(t->dtype.lanes) +
                            " lanes; pass float32, float64, bfloat16, float16, float8_e4m3fn or float8_e5m2, "
                            "or where the op takes integers int8, uint8, int32 or int64");
}

// Makes the checks of a TensorView. The errors name the argument of the C function.
void check_array(const CCall& call, const char* argument, const Array& a) {
  try {
    kiln::detail::check_view(a.data, size_of(a.dtype), size_of(a.dtype), a.rank, a.extents, a.strides, {});
  } catch (const UserError& e) {
    std::string text = e.what(), start = "TensorView's argument ";
    if (auto at = text.find(start); at != std::string::npos) text.erase(0, at + start.size());
    throw UserError(std::string(call.function) + ": " + argument + "'s " + text);
  }
}

// The device of a tensor as Device::parse reads it: "cpu", "cuda:0".
std::string device_name(const char* function, const CArgument& argument) {
  const DLTensor* t = argument.tensor;
  const auto refuse = [&](const std::string& what) {
    throw UserError(std::string(function) + ": " + argument.name + " " + what);
  };
  if (!t) refuse("is null; pass a tensor");
  switch (t->device.device_type) {
  case kDLCPU:
  case kDLCUDAHost: return "cpu";
  case kDLCUDA: return "cuda:" + std::to_string(t->device.device_id);
  default:
    refuse("is on DLPack device " + std::to_string(t->device.device_type) +
           "; copy it to the CPU or to a CUDA device");
  }
  return {};
}

Array array(const CCall& call, const char* argument, const DLTensor* t) {
  const std::string place = device_name(call.function, {argument, t}),
                    wanted = to_string(call.at.stream.device());
  const DType dtype = dtype_of_tensor(call, argument, t);
  if (place != wanted)
    call.refuse(argument, "is on " + place + " and the result on " + wanted + "; copy one of them");
  if (t->ndim < 0 || t->ndim > max_rank)
    call.refuse(argument, "has " + std::to_string(t->ndim) + " dimensions; pass one of 0 to 8");
  if (t->ndim > 0 && !t->shape) call.refuse(argument, "has no shape: it is null; set it to the extents");
  Array a{t->data ? static_cast<char*>(t->data) + t->byte_offset : nullptr, dtype, true, t->ndim};
  std::copy_n(t->shape, t->ndim, a.extents);
  if (t->strides)
    std::copy_n(t->strides, t->ndim, a.strides);
  else if (t->ndim > 0 && *std::min_element(a.extents, a.extents + t->ndim) >= 0)
    kiln::detail::row_major_strides(t->ndim, a.extents, a.strides);
  check_array(call, argument, a);
  return a;
}

} // namespace

void CCall::refuse(const char* argument, const std::string& what) const {
  throw UserError(std::string(function) + ": " + argument + " " + what);
}

Input CCall::input(const char* argument, const DLTensor* t) const { return Input(array(*this, argument, t)); }
Output CCall::output(const char* argument, const DLTensor* t) const {
  return Output(array(*this, argument, t));
}
Input CCall::optional_input(const char* argument, const DLTensor* t) const {
  return t ? input(argument, t) : Input();
}
Output CCall::optional_output(const char* argument, const DLTensor* t) const {
  return t ? output(argument, t) : Output();
}

int CCall::index_of(const char* argument, const char* text, const char* const* names, int count) const {
  if (!text) return 0;
  std::string choices;
  for (int i = 0; i < count; ++i) {
    if (std::strcmp(text, names[i]) == 0) return i;
    choices += (i == 0 ? "" : i == count - 1 ? " or " : ", ") + std::string(names[i]);
  }
  refuse(argument, "is \"" + std::string(text) + "\"; choose " + choices);
}

void CCall::check_size(std::size_t given, std::size_t known) const {
  if (given < 2 * sizeof(std::size_t))
    refuse("options", "have the size " + std::to_string(given) +
                          "; initialise them with the macro KILN_..._DEFAULTS of their type");
  if (given > known)
    refuse("options", "have the size " + std::to_string(given) + " and this library knows " +
                          std::to_string(known) +
                          " bytes of them: it is older than the header; use the header of kiln_version()");
}

int run(const char* function, std::initializer_list<CArgument> results, CArgument other,
        void (*body)(const CCall& call, const void* self), const void* self) {
  try {
    last_error().clear();
    const auto given =
        std::find_if(results.begin(), results.end(), [](const CArgument& r) { return r.tensor != nullptr; });
    const Device device = Device::parse(device_name(function, given != results.end() ? *given : other));
    // On a GPU, the op runs after the work that the caller has queued on the same stream.
    Stream stream = device.is_cpu() ? Stream() : Stream::adopt(device, cuda_stream());
    body({function, StreamAt(stream, {})}, self); // the source location of a caller in C is unknown
    if (device.is_cpu() || !cuda_stream()) stream.synchronize();
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

} // namespace kiln::ops::detail

const char* kiln_version(void) { return kiln::version(); }
void kiln_set_cuda_stream(void* stream) { kiln::ops::detail::cuda_stream() = stream; }
const char* kiln_last_error(void) { return kiln::ops::detail::last_error().c_str(); }
