// One problem of one kernel, described so that another process can run it: what is measured.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/dsl/dtype.h>
#include <kiln/jit/runtime/kernel/kernel.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kiln::tune {

// What memory holds before a launch reads it.
struct Fill {
  enum class Kind : std::uint8_t {
    random, // floats: normally distributed, of mean 0 and deviation 1; integers: 0 to 7; bool: either
    range,  // whole numbers from `least` to `most`, both included: indices
    bytes,  // these, from the lowest address on
  };
  Kind kind = Kind::random;
  std::int64_t least = 0, most = 0;
  std::vector<unsigned char> bytes;
};

// One argument of a launch.
struct Argument {
  enum class Kind : std::uint8_t { view, scalar, pointer };
  Kind kind = Kind::view;
  DType dtype = DType::F32;
  bool readonly = false;                      // const elements
  std::vector<std::int64_t> extents, strides; // of a view; strides in elements
  std::uint64_t word = 0;                     // of a scalar: its value as a launch carries it
  std::int64_t bytes = 0;                     // of a pointer: from it on
  // Where the application has it; 0: nowhere yet. The measured memory is as well aligned (up to 64 bytes),
  // and arguments that share memory there share it.
  std::uint64_t address = 0;
  int pinned = -1; // the LayoutClass that the parameter's type pins; -1: none
  Fill fill;
};

// The arguments of a launch from its parameters and words (dsl/ir/arguments.h). `pointer_bytes` has the size
// behind each raw pointer, in order; UserError if one is missing. Integers of the host's memory are copied,
// up to 16 MiB each, because kernels may use them as indices; other memory is not read.
enum class Integers : std::uint8_t { copied, random };
std::vector<Argument> arguments_of(std::span<const kiln::detail::ParameterInfo> parameters,
                                   const std::uint64_t* words, std::span<const std::int64_t> pointer_bytes,
                                   Integers integers);
// Of contiguous tensors and numbers, for tools: row-major strides.
Argument tensor_argument(DType dtype, std::vector<std::int64_t> extents, bool readonly);
Argument scalar_argument(DType dtype, double value);

// Of each view, as IrKernel takes them.
std::vector<std::optional<LayoutClass>> pinned_layouts(const std::vector<Argument>& arguments);

struct Workload {
  // The text of the kernel as recorded for a config (ir::print). Its UserErrors refuse the config.
  std::function<std::string(const Config&)> ir;
  std::vector<Argument> arguments;
  // For kernels without program_tile; else empty.
  std::function<Grid(const Config&)> grid;
  Device device;
  double flops = 0, bytes = 0; // of one launch, for reports; 0: not known
};

} // namespace kiln::tune
