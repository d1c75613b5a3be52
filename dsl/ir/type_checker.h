// Defines Checker, which checks the types of one operation. It is private to the type_rules files.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <string>
#include <vector>

namespace kiln::ir::detail {

// The kinds of elements, as bits of a set.
enum : unsigned { Bool = 1, Integer = 2, Float = 4, Pointer = 8, Number = Integer | Float, Any = 15 };
unsigned kind_of_element(const Type& type);
std::string describe(unsigned kinds); // "bool or integers"

// The shape without the axis `axis`.
inline Shape without(Shape shape, std::int64_t axis) {
  shape.erase(shape.begin() + axis);
  return shape;
}

// Checks one operation. A rule returns early if later checks depend on one that failed.
class Checker {
public:
  Checker(const Op& op, std::vector<std::string>& problems) : op_(op), problems_(problems) {}
  void run();

private:
  bool require(bool ok, const std::string& otherwise) {
    if (!ok) problems_.push_back(otherwise);
    return ok;
  }
  const Type& in(int i) const { return op_.operand(i)->type; }
  const Type& out(int i = 0) const { return op_.result(i)->type; }
  bool is_value(const Type& type, const std::string& who) {
    return require(!type.is_view(), who + " is a view; only operations on views take one");
  }
  bool require_type(const Type& type, const Type& wanted, const std::string& who) {
    return require(type == wanted,
                   who + " has type " + type.to_string() + ", expected " + wanted.to_string());
  }
  bool require_shape(const Type& type, const Shape& shape, const std::string& who) {
    return require(type.shape == shape, who + " has type " + type.to_string() + ", expected the shape of " +
                                            Type::tile(type.dtype, shape).to_string());
  }
  bool require_axis(std::int64_t axis, int rank) {
    return require(axis >= 0 && axis < rank,
                   "axis " + std::to_string(axis) + " is outside 0.." + std::to_string(rank - 1));
  }
  bool require_elements(const Type& type, unsigned kinds) {
    return require(kind_of_element(type) & kinds,
                   std::string(name(op_.code)) + " takes " + describe(kinds) + ", not " + type.to_string());
  }
  bool require_operands(int count) {
    return require(op_.num_operands() == count, "expected " + std::to_string(count) + " operands, found " +
                                                    std::to_string(op_.num_operands()));
  }
  bool require_least_operands(int count) {
    return require(op_.num_operands() >= count, "expected at least " + std::to_string(count) +
                                                    " operands, found " + std::to_string(op_.num_operands()));
  }
  int optional_operands() const {
    return static_cast<int>((op_.integer("has_mask") != 0) + (op_.integer("has_other") != 0));
  }
  // Checks mask and other, which follow the first `required` operands, for a tile of type `tile`.
  void mask_and_other(int required, const Type& tile);
  void mask(const Type& type, const Shape& shape) {
    require(kind_of_element(type) == Bool && (type.shape.empty() || type.shape == shape),
            "the mask has type " + type.to_string() + ", expected bool or a bool tile of the shape of " +
                Type::tile(DType::Bool, shape).to_string());
  }
  // Checks that operand 0 is a view, and that `values` operands and one for each axis of the view follow.
  // Returns whether that is the case.
  bool view_operands(int values);
  void offsets(int first, const Shape& shape);
  bool tile_axes(const Type& tile);

  // type_rules.cpp
  void elementwise();
  void source();
  void view_fact();
  void view_slice();
  void view_of();
  void constant();
  void arange();
  void program_tile();
  void shape();
  void reshape();
  void dot();
  void debug();

  // type_rules_lookup.cpp
  void lookup();
  void gather();
  void sort();
  void histogram();

  // type_rules_memory.cpp
  void view_memory();
  void view_indexed();
  void view_address();
  void pointer_memory();
  void atomic();

  // type_rules_regions.cpp
  void collective();
  void combine_region();
  void for_loop();
  void while_loop();
  void if_else();
  void region_args(int region, int first_operand, const std::string& who);
  void yields(int region, const std::vector<Type>& types);
  std::vector<Type> result_types() const;

  const Op& op_;
  std::vector<std::string>& problems_;
};

} // namespace kiln::ir::detail
