// Registers kernels that `kiln tune` can tune by name; folders of Kiln and plug-ins register theirs.
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

#include <string>
#include <string_view>
#include <vector>

KILN_API_BEGIN
namespace kiln::tune {

struct TunableKernel {
  const char* name;
  const char* summary;
  std::vector<DType> dtypes; // the first is the default
  std::shared_ptr<ir::Kernel> (*record)(DType dtype, const Problem& problem, const Config& config);
  Space (*space)(DType dtype, const Problem& problem, Device device);
  const char* sizes;      // the names of the sizes in order, with their default values
  const char* parameters; // as in cli::RegisteredKernel, with the extents of the memory behind pointers
  Grid (*grid)(const Config& config, const Problem& problem) = nullptr; // for kernels without program_tile
};

// If two kernels have the same name, the later one is used: a plug-in, which is loaded last, replaces Kiln's
// kernel.
class TunableRegistration {
public:
  explicit TunableRegistration(TunableKernel kernel);
};

// Sorted by name. The returned pointers stay valid until the process ends.
std::vector<const TunableKernel*> tunable_kernels();
const TunableKernel* find_tunable(std::string_view name); // null if there is none

// `shape` is "M=512,N=512", which changes these sizes and leaves the defaults of the others, or lists all
// sizes in order, "512x512x256". `dtype` is a name, or empty for the default. Throws UserError for a size or
// dtype that the kernel does not have.
Task make_task(const TunableKernel& kernel, const std::string& dtype, const std::string& shape,
               Device device);

} // namespace kiln::tune
KILN_API_END
