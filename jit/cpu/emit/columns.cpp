// Emits reductions and scans down columns, where each vector of running values belongs to its own columns.
#include <kiln/jit/cpu/emit/vector_level.h>

namespace kiln::cpu {

using llvm::Value;

namespace {

Values running_of(const std::vector<Columns>& columns) {
  Values all;
  for (const Columns& c : columns)
    for (Value* value : flatten(c.running))
      all.push_back(value);
  return all;
}

void set_running(std::vector<Columns>& columns, const Values& all) {
  auto at = all.begin();
  for (Columns& c : columns) {
    const auto end = at + static_cast<std::ptrdiff_t>(flatten(c.running).size());
    c.running = unflatten(Values(at, end), c.running);
    at = end;
  }
}

} // namespace

// Starts `vectors` vectors of columns, from the current one on.
std::vector<Columns> KernelEmitter::VectorLevel::first_columns(int vectors) {
  std::size_t carrying = 0;
  for (const Root& root : nest_.roots)
    carrying += root.carries_values();
  const Accumulators none(carrying);
  std::vector<Columns> columns;
  for (int k = 0; k < vectors; ++k) {
    Columns c{at_, all_simple_ ? e_.initial_accumulators(nest_) : none};
    if (k > 0) c.at[axis_].base = b_.CreateNSWAdd(at_[axis_].base, constant(k * nest_.lanes));
    columns.push_back(c);
  }
  return columns;
}

// Advances all columns by row `r`, within `depth` loops. Values may be hoisted to `before`, which is before
// the innermost of them.
void KernelEmitter::VectorLevel::advance_columns(std::vector<Columns>& columns, Value* r, int depth,
                                                 llvm::Instruction* before) {
  const auto reduced = static_cast<std::size_t>(nest_.reduced_axis);
  if (nest_.reversed) r = b_.CreateNSWSub(constant(nest_.domain[reduced] - 1), r);
  nest_.hoist_point = before;
  nest_.hoist_depth = depth;
  nest_.memo.clear();
  for (Columns& c : columns) {
    c.at[reduced] = Index{r, false, nullptr, depth, !nest_.reversed};
    e_.emit_roots(nest_, c.at, &c.running);
  }
}

// Reduces `vectors` vectors of columns along the whole reduced axis. If some root has no identity, all roots
// begin with the first row.
std::vector<Columns> KernelEmitter::VectorLevel::reduced_columns(int vectors) {
  const auto reduced = static_cast<std::size_t>(nest_.reduced_axis);
  auto hoisted = std::exchange(nest_.hoisted, {});
  std::vector<Columns> columns = first_columns(vectors);
  if (!all_simple_) advance_columns(columns, constant(0), outer_ + 1, nullptr);
  Value* begin = constant(all_simple_ ? 0 : 1);
  Value* end = nest_.bounds[reduced] ? nest_.bounds[reduced] : constant(nest_.domain[reduced]);
  Loop loop = emit_loop(b_, begin, end, constant(1), running_of(columns),
                        [&](Value* r, const Values& carried, llvm::Instruction* before) -> Values {
                          set_running(columns, carried);
                          advance_columns(columns, r, outer_ + 2, before);
                          return running_of(columns);
                        });
  set_running(columns, loop.results);
  nest_.hoist_point = nullptr;
  nest_.hoisted = std::move(hoisted);
  nest_.memo.clear();
  return columns;
}

} // namespace kiln::cpu
