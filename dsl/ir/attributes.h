// The table of attributes: which operation carries which, of what kind. The parser reads by it, the verifier
// checks by it.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <span>
#include <string_view>

namespace kiln::ir {

// In the order of the alternatives of Attribute.
enum class AttributeKind : std::uint8_t { Integer, Float, Text, Integers, Dimension, Shape };
inline AttributeKind kind_of(const Attribute& a) { return static_cast<AttributeKind>(a.index()); }
std::string_view name(AttributeKind kind); // "an integer", "a list of dimensions"

struct AttributeRule {
  Opcode code;
  std::string_view name;
  AttributeKind kind;
  bool required;
  std::span<const std::string_view> words = {}; // the texts that are allowed; empty: any
};

// The rules of one operation; the value of a constant is an integer or a float by its dtype and has two.
std::span<const AttributeRule> attributes_of(Opcode code);

} // namespace kiln::ir
