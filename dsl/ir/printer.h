// The canonical text of tile IR: equal kernels print equally, and parser.h reads it back.
//
//   kernel @scale(%x: view<const f32, 1>, %factor: f32) grid [(x, 0, BM)] {
//     %0 = program_tile %x {dims = [BM]} : i64
//     %1 = view_load %x, %0 {axes = [0]} : tile<BM x f32>
//     %2 = splat %factor : tile<BM x f32>
//     %3 = mul %1, %2 : tile<BM x f32>
//     view_store %x, %3, %0 {axes = [0]}
//   }
//
// Values are numbered in program order; parameters keep a name that is an identifier and no other
// parameter's, and are %arg0, %arg1, ... otherwise. Attributes are sorted by name. Without locations the text
// holds nothing but what the kernel means, so its hash is the kernel's key.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <string>
#include <unordered_map>

namespace kiln::ir {

struct PrintOptions {
  bool locations = false; // ends operations with their place in the user's source: @ "file.cpp":12
};

std::string print(const Kernel& kernel, PrintOptions options = {});
// An operation on its own, regions included; its values are numbered in order of appearance.
std::string print(const Op& op, PrintOptions options = {});

// Names of a kernel's values as its text has them, and single lines of that text. Valid while the kernel does
// not change. Invalid IR prints too: a value from nowhere is `%undefined`.
class ValueNames {
public:
  explicit ValueNames(const Kernel& kernel);
  std::string operator()(const Value* value) const;
  // One operation without its regions: "%4 = add %2, %3 : f32".
  std::string line(const Op& op) const;

private:
  std::unordered_map<const Value*, std::string> names_;
};

// "1.5", "-0.0", "inf", "nan": exactly this double again when parsed.
std::string print_float(double value);
std::string print_attribute(std::string_view name, const Attribute& value, Opcode code);

} // namespace kiln::ir
