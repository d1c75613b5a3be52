// Describes one problem of one kernel, so that another process can run and measure it.
#pragma once

#include <kiln/autotune/measure/shared_bytes.h>
#include <kiln/autotune/output_check.h>
#include <kiln/dsl/config.h>
#include <kiln/dsl/dtype.h>
#include <kiln/jit/runtime/kernel/kernel.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kiln::tune {

// The contents of memory before a launch reads it.
struct Fill {
  enum class Kind : std::uint8_t {
    random, // floats: standard normal distribution; integers: 0 to 7; bool: either
    range,  // whole numbers from `least` to `most`, inclusive, e.g. indices
    bytes,  // given bytes: those of `bytes` from `first` on go to the lowest address
  };
  Kind kind = Kind::random;
  std::int64_t least = 0, most = 0;
  std::shared_ptr<const SharedBytes> bytes;
  std::size_t first = 0;
};

// One argument of a launch.
struct Argument {
  enum class Kind : std::uint8_t { view, scalar, pointer };
  Kind kind = Kind::view;
  DType dtype = DType::F32;
  bool readonly = false;                      // const elements
  std::vector<std::int64_t> extents, strides; // of a view; strides in elements
  std::uint64_t word = 0;                     // the value of a scalar, as a launch carries it
  std::int64_t bytes = 0;                     // the size of the memory behind a pointer
  // The address in the application; 0: none yet. The measured memory has the same alignment (up to 64 bytes),
  // and arguments that share memory in the application share it here.
  std::uint64_t address = 0;
  int pinned = -1;       // the LayoutClass that the parameter's type pins; -1: none
  bool as_given = false; // the checks of a winner must not vary its contents or shape
  Fill fill;
};

// Converts the parameters and words of a launch (dsl/ir/arguments.h) to arguments, without reading the memory
// that they point to. `pointer_bytes` holds the size of the memory behind each raw pointer, in order; throws
// UserError if one is missing. `contents` may be empty.
std::vector<Argument> arguments_of(std::span<const kiln::detail::ParameterInfo> parameters,
                                   const std::uint64_t* words, std::span<const std::int64_t> pointer_bytes,
                                   const GivenContents& contents);
// The bytes that a view or a pointer covers, relative to its address: from the lowest to behind the highest
// element. Empty for a scalar and for an empty view. Throws UserError, which calls it argument `index` + 1,
// if its extents or strides are not valid.
struct ByteRange {
  std::int64_t low = 0, high = 0;
};
ByteRange bytes_of(const Argument& argument, std::size_t index);
bool is_contiguous(const Argument& view); // row-major
// Describe contiguous row-major tensors and scalars, for tools.
Argument tensor_argument(DType dtype, std::vector<std::int64_t> extents, bool readonly);
Argument scalar_argument(DType dtype, double value);

// Returns the pinned layout class of each view, as IrKernel expects them.
std::vector<std::optional<LayoutClass>> pinned_layouts(const std::vector<Argument>& arguments);

struct Workload {
  // Returns the text of the kernel recorded for a config (ir::print). If it throws UserError, the config is
  // rejected.
  std::function<std::string(const Config&)> ir;
  std::vector<Argument> arguments;
  // For kernels without program_tile; otherwise empty.
  std::function<Grid(const Config&)> grid;
  Device device;
  std::vector<OutputCheck> outputs; // how they are compared, if not by default
  // What outputs are compared with instead of those of the fallback config.
  struct Reference {
    std::string ir; // as `ir` returns it; empty: there is none
    Config config;
    std::optional<Grid> grid;
  } reference = {};
  kiln::tune::Reference::Function reference_function = {}; // the same, on the host; empty: there is none
  double flops = 0, bytes = 0;                             // of one launch, for reports; 0: unknown
};

} // namespace kiln::tune
