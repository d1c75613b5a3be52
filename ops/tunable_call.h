// Registers calls of ops with `kiln tune`, which then finds configs for ops with lambdas, options or mixed
// dtypes.
//
//   static const ops::TunableCallRegistration product({
//       .name = "relu_product",
//       .summary = "c = relu(a b + bias)",
//       .sizes = "M=1024,N=1024,K=1024",
//       .call = [](Stream& stream, DType, const tune::Problem& p) {
//         const auto a = stand_in<float>({p["M"], p["K"]}), b = stand_in<float>({p["K"], p["N"]});
//         const auto bias = stand_in<float>({p["N"]});
//         ops::matmul(stream, a, b, stand_in<float>({p["M"], p["N"]}), relu_of_sum, bias);
//       },
//   });
//
// A shared library with this object is a plug-in: `kiln tune --plugin ./libmine.so relu_product`. From then
// on, the same call in any program uses the config: configs are kept by what the kernel computes, not by the
// name. In a program, KILN_TUNE=tune and KILN_TUNE=online search for such calls without a registration.
#pragma once

#include <kiln/autotune/space/space.h>
#include <kiln/dsl/api.h>
#include <kiln/dsl/dtype.h>
#include <kiln/jit/runtime/stream.h>

#include <vector>

KILN_API_BEGIN
namespace kiln::ops {

struct TunableCall {
  const char* name;                         // as typed: "relu_product"
  const char* summary;                      // one line for lists of kernels
  std::vector<DType> dtypes = {DType::F32}; // those that `call` can be called with; the first is the default
  const char* sizes;                        // the names of the sizes in order, with their default values
  // Calls an op for a dtype and sizes. The call is rehearsed (see jit/runtime/rehearsal.h): nothing runs. The
  // tuner makes up the contents of stand-ins, and measures with those that other tensors have, which it
  // copies: pass tensors for offsets, block tables and other contents that decide what a kernel does.
  void (*call)(Stream& stream, DType dtype, const tune::Problem& problem);
  // The name of the kernel to tune, as the rehearsal lists it. Null: the first that the tuner has a space
  // for.
  const char* kernel = nullptr;
};

// Registers a call, usually as a static object.
class TunableCallRegistration {
public:
  explicit TunableCallRegistration(const TunableCall& call);
};

} // namespace kiln::ops
KILN_API_END
