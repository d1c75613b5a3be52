// Declares the table of attributes, which the parser and the verifier use: which attributes an operation can
// have, and of which kind.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <span>
#include <string_view>

namespace kiln::ir {

// The kinds are in the order of the alternatives of Attribute.
enum class AttributeKind : std::uint8_t { Integer, Float, Text, Integers, Dimension, Shape };
inline AttributeKind kind_of(const Attribute& a) { return static_cast<AttributeKind>(a.index()); }
std::string_view name(AttributeKind kind); // "an integer", "a list of dimensions"

struct AttributeRule {
  Opcode code;
  std::string_view name;
  AttributeKind kind;
  bool required;
  std::span<const std::string_view> words = {}; // the allowed texts; if empty, any text is allowed
};

// The rules of one operation. The attribute `value` of a constant has two rules, because it is an integer or
// a float depending on the dtype.
std::span<const AttributeRule> attributes_of(Opcode code);

} // namespace kiln::ir
