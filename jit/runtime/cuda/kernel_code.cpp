// Puts the arguments of a launch into the order of the entry point's parameters.
#include <kiln/jit/runtime/cuda/kernel_code.h>

#include <kiln/dsl/ir/arguments.h>
#include <kiln/jit/runtime/cuda/launch.h>
#include <kiln/jit/runtime/tensor_view.h>

#include <algorithm>
#include <cstdlib>

namespace kiln::cuda {

namespace {

struct Span { // a range of addresses; empty for a view without elements
  std::uintptr_t low = 0, high = 0;
  bool meets(const Span& other) const { return low < other.high && other.low < high; }
};

Span span_of(const KernelCode::View& v, const std::uint64_t* words) {
  const std::uint64_t* extents = words + v.first_word + 1;
  std::int64_t low = 0, high = 1;
  for (int a = 0; a < v.rank; ++a) {
    const auto extent = static_cast<std::int64_t>(extents[a]);
    const auto stride = static_cast<std::int64_t>(extents[v.rank + a]);
    if (extent == 0) return {};
    (stride < 0 ? low : high) += (extent - 1) * stride;
  }
  const std::uint64_t data = words[v.first_word];
  return {data + static_cast<std::uint64_t>(low * v.element_bytes),
          data + static_cast<std::uint64_t>(high * v.element_bytes)};
}

// Whether two indices of a view may refer to one element. They cannot if of any two axes the stride of one is
// larger than the range of the other.
bool may_repeat(const KernelCode::View& v, const std::uint64_t* words) {
  const std::uint64_t* extents = words + v.first_word + 1;
  auto extent = [&](int a) { return static_cast<std::int64_t>(extents[a]); };
  auto step = [&](int a) { return std::abs(static_cast<std::int64_t>(extents[v.rank + a])); };
  for (int a = 0; a < v.rank; ++a) {
    if (extent(a) <= 1) continue;
    if (step(a) == 0) return true;
    for (int c = 0; c < a; ++c)
      if (extent(c) > 1 && step(a) < step(c) * extent(c) && step(c) < step(a) * extent(a)) return true;
  }
  return false;
}

} // namespace

std::vector<KernelCode::View> views_of(const ir::Kernel& lowered) {
  const ir::ArgumentLayout layout = ir::ArgumentLayout::of(lowered);
  std::vector<KernelCode::View> views;
  std::vector<const ir::Value*> written;
  ir::walk(lowered.body, [&](const ir::Op& op) {
    if (op.is(ir::Opcode::ViewStore) || op.is(ir::Opcode::ViewScatter)) written.push_back(op.operand(0));
  });
  for (std::size_t i = 0; i < lowered.body.args.size(); ++i) {
    const ir::Value* arg = lowered.body.args[i].get();
    if (!arg->type.is_view()) continue;
    const bool writes = std::find(written.begin(), written.end(), arg) != written.end();
    views.push_back({layout.first_word[i], arg->type.view_rank, size_of(arg->type.dtype), writes});
  }
  if (written.empty()) views.clear();
  return views;
}

bool elements_meet(std::span<const KernelCode::View> views, const std::uint64_t* words) {
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (!views[i].written) continue;
    if (may_repeat(views[i], words)) return true;
    const Span written = span_of(views[i], words);
    for (std::size_t j = 0; j < views.size(); ++j) {
      const bool seen = views[j].written && j < i;
      if (j != i && !seen && written.meets(span_of(views[j], words))) return true;
    }
  }
  return false;
}

void launch(Stream& stream, const KernelCode& code, std::uint64_t* words, std::span<const std::int64_t> grid,
            SourceLocation site) {
  void* parameters[most_parameters];
  int count = 0;
  for (int i = 0; i < code.words; ++i)
    parameters[count++] = words + i;
  std::int64_t extents[max_rank], programs = 1;
  for (std::size_t a = 0; a < static_cast<std::size_t>(code.grid_rank); ++a) {
    extents[a] = a < grid.size() ? grid[a] : 1;
    programs *= extents[a];
    parameters[count++] = &extents[a];
  }
  std::uint32_t overlap = elements_meet(code.views, words);
  parameters[count] = &overlap;
  launch(stream, code.function, {.x = programs}, {.x = 32 * code.warps}, code.shared_bytes, parameters, {},
         site);
}

} // namespace kiln::cuda
