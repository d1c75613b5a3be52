// Declares the analysis of divisibility, contiguity and constancy of values along each axis.
//
// Take a 2 x 8 tile of offsets whose rows are [16, 17, ..., 23] and [48, 49, ..., 55]. Along axis 1, elements
// form runs of 8 that increase by one (contiguity 8), and the first element of each run is a multiple of 16
// (divisibility 16); runs of equal elements have length 1 (constancy 1). Along axis 0, all runs have length
// 1, so that divisibility is about every element, and is 1.
//
// Runs are aligned: a contiguity of 4 is about the elements 0..3, 4..7, and so on. The divisibility of
// pointers is in bytes, and their contiguity in elements. The analysis relies on the layout classes of views.
// For values other than integers, bool and pointers, only the constancy has a meaning.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/passes/pass.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace kiln::passes {

struct AxisInfo {
  struct Axis {
    std::int64_t divisibility = 1; // a power of two that divides the first element of each contiguous run
    std::int64_t contiguity = 1;   // the length of runs that increase by one
    std::int64_t constancy = 1;    // the length of runs of equal elements
    bool operator==(const Axis&) const = default;
  };
  std::vector<Axis> axes; // of a tile; a scalar has one axis, of extent 1

  bool operator==(const AxisInfo&) const = default;
  // "divisible [1, 16], contiguous [1, 8], constant [1, 1]"
  std::string to_string() const;
};

using AxisInfos = std::unordered_map<const ir::Value*, AxisInfo>;

// The facts about every value of a bound kernel except views. Nothing is known of values that loops carry.
AxisInfos axis_info(const ir::Kernel& bound);

// The pass axis-info: stores the facts about each operation with one result in its attribute axis.info.
void annotate_axis_info(ir::Kernel& kernel, const PassOptions& options);

} // namespace kiln::passes
