// Numbers the ways in which a loop nest indexes the elements of a tile that it evaluates.
//
// A nest over (i, j) that evaluates permute(x) evaluates x at (j, i); if it evaluates x at (i, j) too, each
// element of x is computed twice. An index map describes such a way: for each axis of the tile, the number of
// an expression of the nest's indices. Equal expressions have equal numbers, so that maps can be compared.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <map>
#include <vector>

namespace kiln::cpu {

// For each axis of a tile, the number of an expression.
using IndexMap = std::vector<int>;

class IndexMaps {
public:
  // The map of a nest's own elements.
  IndexMap identity(std::size_t rank);
  // The index along an axis of one element.
  int zero() { return constant(0); }
  // The map by which the operand of `op` is evaluated, if the result of `op` is evaluated by `at`: for
  // operations that move elements; others evaluate their operands by the same map.
  IndexMap of_operand(const ir::Op& op, const IndexMap& at);

private:
  using Expression = std::vector<std::int64_t>; // what it is, and its parameters
  int number_of(Expression expression);
  int constant(std::int64_t value);
  const std::int64_t* value_of(int number) const; // of a constant; null for others
  IndexMap of_reshaped(const ir::Op& reshape, const IndexMap& at);

  std::map<Expression, int> numbers_;
  std::vector<Expression> expressions_;
};

} // namespace kiln::cpu
