// Kernels that `kiln tune` knows: registered by the folders and plug-ins that have them.
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
// A shared library with such an object is a plug-in: `kiln tune --plugin ./libmine.so mine`.
#pragma once

#include <kiln/autotune/run/task.h>

#include <string>
#include <string_view>
#include <vector>

namespace kiln::tune {

struct TunableKernel {
  const char* name;
  const char* summary;
  std::vector<DType> dtypes; // the first is the default
  std::shared_ptr<ir::Kernel> (*record)(DType dtype, const Problem& problem, const Config& config);
  Space (*space)(DType dtype, const Problem& problem, Device device);
  const char* sizes;      // the problem's sizes in order, with their defaults
  const char* parameters; // as those of cli::RegisteredKernel, with the extents behind pointers
  Grid (*grid)(const Config& config, const Problem& problem) = nullptr; // if it has no program_tile
};

// Of two with one name the later is used: a plug-in's, which is opened last, instead of Kiln's.
class TunableRegistration {
public:
  explicit TunableRegistration(TunableKernel kernel);
};

// Sorted by name. What they and find_tunable point to stays for the life of the process.
std::vector<const TunableKernel*> tunable_kernels();
const TunableKernel* find_tunable(std::string_view name); // null if there is none

// `shape` is "M=512,N=512" over the defaults, or all sizes in order, "512x512x256"; UserError for what it
// does not have. `dtype` is a name, empty for the default.
Task make_task(const TunableKernel& kernel, const std::string& dtype, const std::string& shape,
               Device device);

} // namespace kiln::tune
