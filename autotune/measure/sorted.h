// Sorts the rows of outputs whose order differs from launch to launch.
#pragma once

#include <kiln/autotune/measure/loaded_candidate.h>
#include <kiln/autotune/measure/memory_plan.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace kiln::tune {

class RowSorter {
public:
  // Sorts the arrays that the kernel appends to (appended.h), those of a group together, and by element those
  // that the user declares as unordered.
  RowSorter(const Situation& situation, const MemoryPlan& plan, const ir::Kernel& kernel);

  bool sorts(std::size_t parameter) const;
  // Sorts what is in the blocks of memory; blocks without contents are left out. Columns of integers decide
  // before columns of floats, because they are exact. Rows that still hold the pattern come last;
  // `poison_of(block)` may be empty.
  using Blocks = std::vector<std::vector<unsigned char>>;
  void sort(Blocks& blocks,
            const std::function<const std::vector<unsigned char>&(std::size_t block)>& poison_of) const;

private:
  // An element of row r is at `data + rows[r] + columns[c]` in its block, in bytes.
  struct Columns {
    std::size_t parameter = 0, block = 0;
    DType dtype = DType::F32;
    std::int64_t data = 0;
    std::vector<std::int64_t> rows, columns;
  };
  using Group = std::vector<Columns>;

  static void sort_group(const Group& group, Blocks& blocks,
                         const std::function<const std::vector<unsigned char>&(std::size_t)>& poison_of);

  std::vector<Group> groups_;
};

// Returns the places of the elements of a view or pointer, in bytes from its first element, in the order of
// their indices. With an axis, only those whose index along it is 0.
std::vector<std::int64_t> element_places(const Argument& argument, int without_axis = -1);

} // namespace kiln::tune
