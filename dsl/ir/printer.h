// Prints tile IR in its canonical form: equal kernels print the same text, and parser.h reads it back.
//
//   kernel @scale(%x: view<const f32, 1>, %factor: f32) grid [(x, 0, BM)] {
//     %0 = program_tile %x {dims = [BM]} : i64
//     %1 = view_load %x, %0 {axes = [0]} : tile<BM x f32>
//     %2 = splat %factor : tile<BM x f32>
//     %3 = mul %1, %2 : tile<BM x f32>
//     view_store %x, %3, %0 {axes = [0]}
//   }
//
// Values are numbered in program order. A parameter keeps its name if that is an identifier and unique among
// the parameters; others are %arg0, %arg1, ... by position. Attributes are sorted by name. Without locations,
// the text consists of nothing but what determines the meaning of the kernel, so its hash is the kernel's
// key.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <string>
#include <unordered_map>

namespace kiln::ir {

struct PrintOptions {
  bool locations = false; // adds the locations in the user's source: @ "file.cpp":12
};

std::string print(const Kernel& kernel, PrintOptions options = {});
// Prints one operation with its regions. The values are numbered in the order of their appearance.
std::string print(const Op& op, PrintOptions options = {});

// The names that the text of a kernel gives to values, and single lines of that text. It is valid until the
// kernel changes. It also works for invalid tile IR, where a value without a definition is `%undefined`.
class ValueNames {
public:
  explicit ValueNames(const Kernel& kernel);
  std::string operator()(const Value* value) const;
  // An operation without its regions: "%4 = add %2, %3 : f32".
  std::string line(const Op& op) const;

private:
  std::unordered_map<const Value*, std::string> names_;
};

// A double in a form that reads back with the same bits: "1.5", "-0.0", "inf", "nan".
std::string print_float(double value);
std::string print_attribute(std::string_view name, const Attribute& value, Opcode code);

} // namespace kiln::ir
