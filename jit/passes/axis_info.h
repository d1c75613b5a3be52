// What is known about values without running them: divisibility, contiguity and constancy along each axis.
//
// Take a 2 x 8 tile of offsets whose rows are [16, 17, ..., 23] and [48, 49, ..., 55]. Along axis 1 elements
// come in runs of 8 that go up by one (contiguity 8), and the first of each run is a multiple of 16
// (divisibility 16); runs of equal elements have length 1 (constancy 1). Along axis 0 all runs have length 1,
// so divisibility speaks of every element and is 1.
//
// Runs are aligned: a contiguity of 4 speaks of elements 0..3, 4..7, ... . Pointers count bytes in their
// divisibility and elements in their contiguity. The layout classes of views are believed. Of values that are
// no integers, flags or pointers only the constancy means something.
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
    std::int64_t contiguity = 1;   // length of runs that go up by one
    std::int64_t constancy = 1;    // length of runs of equal elements
    bool operator==(const Axis&) const = default;
  };
  std::vector<Axis> axes; // of a tile; of a scalar one, of extent 1

  bool operator==(const AxisInfo&) const = default;
  // "divisible [1, 16], contiguous [1, 8], constant [1, 1]"
  std::string to_string() const;
};

using AxisInfos = std::unordered_map<const ir::Value*, AxisInfo>;

// The facts about every value, but views, of a kernel that is bound. What loops carry counts as unknown.
AxisInfos axis_info(const ir::Kernel& bound);

// The pass axis-info: notes the facts at each operation with one result, as the attribute axis.info.
void annotate_axis_info(ir::Kernel& kernel, const PassOptions& options);

} // namespace kiln::passes
