// Registers kernels by name, so that `kiln tune` can tune them. Kiln's own folders and plug-ins register
// kernels.
//
//   static const tune::TunableRegistration registration({
//       .name = "matmul",
//       .summary = "c = a b",
//       .dtypes = {DType::F32, DType::BF16},
//       .record = [](DType dtype, const tune::Problem&, const Config& config) {
//         return matmul_of(dtype).record(config); // kiln::Kernel::record
//       },
//       .space = [](DType dtype, const tune::Problem& problem, Device device) { return ...; },
//       .sizes = "M=1024,N=1024,K=1024",
//       .parameters = "a=M,K b=K,N c=M,N",
//   });
//
// A shared library that contains such an object is a plug-in: `kiln tune --plugin ./libmine.so mine`.
#pragma once

#include <kiln/autotune/run/task.h>
#include <kiln/dsl/api.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

KILN_API_BEGIN
namespace kiln::tune {

// Generates the contents of one parameter for `kiln tune`, for a kernel whose loops or addresses depend on
// them.
struct TunableInput {
  const char* parameter; // a name in TunableKernel::parameters
  // Fills the parameter's elements, row by row. The same seed must give the same contents.
  void (*generate)(DType dtype, const Problem& problem, std::uint64_t seed,
                   std::span<unsigned char> elements);
  bool as_given = false; // the kernel relies on properties of these contents: see TunedOptions::as_given
};

struct TunableKernel {
  const char* name;          // as typed: "matmul"
  const char* summary;       // one line for lists of kernels
  std::vector<DType> dtypes; // the first is the default
  // Records the kernel as tile IR.
  std::shared_ptr<ir::Kernel> (*record)(DType dtype, const Problem& problem, const Config& config);
  // Returns the configs to search for this problem.
  Space (*space)(DType dtype, const Problem& problem, Device device);
  const char* sizes; // the names of the sizes in order, with their default values
  // The names of all parameters, in order, each with the extents of a view or of the memory behind a pointer,
  // or with the value of a scalar: "x=M,N scale=2 out=M,N". Extents and values are numbers or names from
  // `sizes`.
  const char* parameters;
  Grid (*grid)(const Config& config, const Problem& problem) = nullptr; // for kernels without program_tile
  // Generators of contents. `kiln tune --input` takes precedence; parameters with neither are made up.
  std::vector<TunableInput> inputs = {};
  // Makes the whole task instead of `record`, `space` and `parameters`, which may then be null, as
  // ops::TunableCallRegistration does.
  std::function<Task(DType dtype, const Problem& problem, Device device)> make = {};
};

// Registers a kernel, usually as a static object. If two kernels have the same name, the later one is used,
// so a plug-in, which is loaded last, replaces a kernel of Kiln.
class TunableRegistration {
public:
  explicit TunableRegistration(TunableKernel kernel);
};

} // namespace kiln::tune
KILN_API_END

namespace kiln::tune {

// The rest is for Kiln itself and is not exported.

// Return all kernels, sorted by name, and the kernel of one name (null if there is none). The pointers stay
// valid until the process ends.
std::vector<const TunableKernel*> tunable_kernels();
const TunableKernel* find_tunable(std::string_view name);
// The kernel of a name that has a space; null if there is none.
const TunableKernel* find_space(std::string_view name);

// Makes the task of tuning a kernel for a dtype and a shape on a device. `shape` lists the sizes that differ
// from the defaults, "M=512,N=512", or all sizes in order, "512x512x256"; if it is empty, all sizes have
// their defaults. `dtype` is a name, or empty for the default. Throws UserError for a size or dtype that the
// kernel does not have, and if its space has no seed.
Task make_task(const TunableKernel& kernel, const std::string& dtype, const std::string& shape,
               Device device);

} // namespace kiln::tune
