// Evaluates the scalars of a kernel for one program of a launch, as far as the arguments are known.
#pragma once

#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/semantics.h>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace kiln::passes {

// The argument block of a launch (dsl/ir/arguments.h), as far as it is known. Empty: nothing is known.
struct KnownArguments {
  std::vector<std::optional<std::uint64_t>> words;
  std::vector<std::int64_t> grid; // for kernels that define no grid; empty: unknown
};

// The caller walks the operations in order, passes each scalar one to follow(), and sets the arguments of
// regions and the results of loops and branches. `kernel` is bound (passes::lower_generic).
class KnownScalars {
public:
  using Known = std::optional<ir::Cell>;

  KnownScalars(const ir::Kernel& kernel, const KnownArguments& arguments);

  // The number of programs along each axis; with an unknown grid, only the number of axes counts.
  const std::vector<std::int64_t>& grid() const { return grid_; }
  bool grid_known() const { return grid_known_; }

  // Begins another program.
  void clear() { values_.clear(); }
  void set_coordinate(std::size_t axis, std::int64_t index) {
    coordinates_[axis] = static_cast<ir::Cell>(index);
  }

  void follow(const ir::Op& op) { values_[op.result()] = compute(op); }
  void set(const ir::Value* v, Known cell) { values_[v] = cell; }

  Known value(const ir::Value* v) const;
  std::optional<std::int64_t> integer(const ir::Value* v) const;
  // The extent of a view that is a parameter.
  std::optional<std::int64_t> extent(const ir::Value* view, int axis) const;

private:
  Known word(int index) const;
  void find_grid();
  Known compute(const ir::Op& op) const;

  const ir::Kernel& kernel_;
  ir::ArgumentLayout layout_;
  const KnownArguments& arguments_;
  std::vector<std::int64_t> grid_;
  bool grid_known_ = false;
  std::vector<Known> coordinates_;
  std::unordered_map<const ir::Value*, Known> values_;
};

} // namespace kiln::passes
