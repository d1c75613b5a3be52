// Assigns a layout to each tile in one walk through the kernel in program order.
#include <kiln/jit/gpu/layout_plan.h>

#include <kiln/jit/gpu/layout/layouts.h>

#include <algorithm>
#include <bit>

namespace kiln::gpu {

using ir::Opcode;

namespace {

// The most operations that computing a free tile may take. Each use computes it again: in a chain of twenty
// operations that use the tile before twice, the first tile would be computed a million times.
constexpr int longest_free = 24;

int log2_of_warps(int warps) { return std::countr_zero(static_cast<unsigned>(warps)); }

// The logarithm of the length of the widest vector that leaves elements for every thread.
int vector_bits(const std::vector<int>& shape, int fast, int bytes, int warps) {
  int total = 0;
  for (int b : shape)
    total += b;
  const int for_each = std::max(0, total - lane_bits - log2_of_warps(warps));
  const int widest = std::countr_zero(static_cast<unsigned>(16 / std::max(1, bytes)));
  return std::min({widest, for_each, shape.empty() ? 0 : shape[static_cast<std::size_t>(fast)]});
}

LinearLayout blocked_along(const ir::Type& tile, int fast, int warps) {
  const std::vector<int> shape = shape_bits(tile);
  std::vector<int> order;
  if (!shape.empty()) order.push_back(fast);
  for (int a = static_cast<int>(shape.size()) - 1; a >= 0; --a)
    if (a != fast) order.push_back(a);
  return blocked(shape, order, vector_bits(shape, fast, tile.element_bytes(), warps), log2_of_warps(warps));
}

class Planner {
public:
  Planner(LayoutPlan& plan) : plan_(plan) {}

  void visit(const ir::Region& region) {
    for (const auto& op : region.ops)
      visit(*op);
  }

private:
  const LinearLayout* find(const ir::Value* v) const { return plan_.find(v); }
  LinearLayout home(const ir::Value* v) const {
    const LinearLayout* known = find(v);
    return known ? *known : default_layout(v->type, plan_.warps);
  }
  void place(const ir::Value* v, LinearLayout layout) {
    if (!v->type.is_tile()) return;
    if (plan_.layouts.insert_or_assign(v, std::move(layout)).second) placed_.push_back(v);
  }

  void visit(const ir::Op& op);
  void visit_loop(const ir::Op& op, int first_operand, const std::vector<const ir::Region*>& regions,
                  int first_arg);
  std::optional<LinearLayout> preferred(const ir::Op& op) const;
  std::optional<LinearLayout> of_broadcast(const ir::Op& op) const;
  LinearLayout of_mask(const ir::Op& op) const;

  LayoutPlan& plan_;
  std::vector<const ir::Value*> placed_;                  // the tiles that have a layout, in program order
  std::unordered_map<const ir::Value*, int> free_length_; // how many operations computing a free tile takes
};

// The layout of an earlier tile that equals the operand's layout once the broadcast axes are removed, so that
// the broadcast moves nothing.
std::optional<LinearLayout> Planner::of_broadcast(const ir::Op& op) const {
  const LinearLayout* operand = find(op.operand(0));
  if (!operand) return std::nullopt;
  const ir::Type &from = op.operand(0)->type, &to = op.result()->type;
  const std::vector<int> wanted = shape_bits(to);
  for (const ir::Value* value : placed_) {
    if (shape_bits(value->type) != wanted) continue;
    const LinearLayout& layout = *find(value);
    LinearLayout left = layout;
    for (int a = static_cast<int>(wanted.size()) - 1; a >= 0; --a)
      if (from.shape[static_cast<std::size_t>(a)].is_one() && wanted[static_cast<std::size_t>(a)] > 0)
        left = expanded(sliced(left, a), a);
    if (left == *operand) return layout;
  }
  return default_layout(to, plan_.warps);
}

// The layout of a tile that was loaded from the same view, since the mask will be combined with such tiles.
LinearLayout Planner::of_mask(const ir::Op& op) const {
  const ir::Type& mask = op.result()->type;
  for (const ir::Value* value : placed_)
    if (value->def && value->def->is(Opcode::ViewLoad) && value->def->operand(0) == op.operand(0) &&
        value->type.shape == mask.shape && value->def->integers("axes") == op.integers("axes"))
      return *find(value);
  return coalesced_layout(op, mask.with_dtype(op.operand(0)->type.dtype), plan_.warps);
}

std::optional<LinearLayout> Planner::preferred(const ir::Op& op) const {
  switch (op.code) {
  case Opcode::ViewLoad: return coalesced_layout(op, op.result()->type, plan_.warps);
  case Opcode::Load: // free pointers are computed in the layout of what they point to
    if (const LinearLayout* pointers = find(op.operand(0))) return *pointers;
    return default_layout(op.result()->type, plan_.warps);
  case Opcode::AtomicRmw:
  case Opcode::AtomicCas: return home(op.operand(0));
  case Opcode::ViewGather: return default_layout(op.result()->type, plan_.warps);
  case Opcode::Gather: return home(op.operand(1));
  case Opcode::Histogram: return default_layout(op.result()->type, plan_.warps);
  case Opcode::Splat:
  case Opcode::Arange: return std::nullopt;
  case Opcode::ViewPtrs: return default_layout(op.result()->type, plan_.warps);
  case Opcode::ViewMask: return of_mask(op);
  case Opcode::Broadcast: return of_broadcast(op);
  case Opcode::Dot:
    return mma_factors(op) ? mma_layout(op.result()->type, plan_.warps)
                           : default_layout(op.result()->type, plan_.warps);
  case Opcode::ExpandDims:
    if (auto* l = find(op.operand(0))) return expanded(*l, static_cast<int>(op.integer("axis")));
    return std::nullopt;
  case Opcode::Squeeze:
  case Opcode::Extract:
    if (auto* l = find(op.operand(0))) return sliced(*l, static_cast<int>(op.integer("axis")));
    return std::nullopt;
  case Opcode::Permute: {
    auto* l = find(op.operand(0));
    if (!l) return std::nullopt;
    const auto& order = op.integers("order");
    LinearLayout result = *l;
    std::vector<std::string> axes;
    for (std::size_t a = 0; a < order.size(); ++a) {
      result = result.renamed_out(axis_name(static_cast<int>(order[a])), "to" + std::to_string(a));
      axes.push_back(axis_name(static_cast<int>(a)));
    }
    for (std::size_t a = 0; a < order.size(); ++a)
      result = result.renamed_out("to" + std::to_string(a), axes[a]);
    return result.with_outs(axes);
  }
  case Opcode::Reshape:
    if (auto* l = find(op.operand(0)))
      if (auto same = reshaped_layout(*l, op.operand(0)->type, op.result()->type)) return same;
    return default_layout(op.result()->type, plan_.warps);
  default: break;
  }
  if (!ir::is_elementwise(op.code)) return std::nullopt;
  const LinearLayout* first = nullptr;
  for (const ir::Value* operand : op.operands)
    if (auto* l = find(operand)) {
      if (operand->type.dtype != DType::Bool || operand->type.pointer) return *l;
      if (!first) first = l;
    }
  if (first) return *first;
  return std::nullopt;
}

void Planner::visit_loop(const ir::Op& op, int first_operand, const std::vector<const ir::Region*>& regions,
                         int first_arg) {
  const std::size_t count = op.results.size();
  auto arg = [&](const ir::Region* r, std::size_t i) {
    return r->args[static_cast<std::size_t>(first_arg) + i].get();
  };
  // If an initial value is free, the layout depends on what the body yields. The first round finds that
  // layout, and the second uses it.
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      const ir::Value* initial = op.operand(first_operand + static_cast<int>(i));
      const ir::Op* yield = regions.back()->terminator();
      const LinearLayout* layout = find(initial);
      if (!layout && round == 1) layout = find(yield->operand(static_cast<int>(i)));
      if (!layout && round == 0) continue;
      LinearLayout chosen = layout ? *layout : default_layout(initial->type, plan_.warps);
      for (const ir::Region* r : regions)
        place(arg(r, i), chosen);
      place(op.result(static_cast<int>(i)), chosen);
    }
    for (const ir::Region* r : regions)
      visit(*r);
  }
}

void Planner::visit(const ir::Op& op) {
  switch (op.code) {
  case Opcode::For: return visit_loop(op, 3, {op.region()}, 1);
  case Opcode::While: return visit_loop(op, 0, {op.region(0), op.region(1)}, 0);
  case Opcode::If:
    for (const auto& region : op.regions)
      visit(*region);
    for (int i = 0; i < op.num_results(); ++i) {
      if (!op.result(i)->type.is_tile()) continue;
      const LinearLayout* layout = nullptr;
      for (const auto& region : op.regions)
        if (!layout) layout = find(region->terminator()->operand(i));
      place(op.result(i), layout ? *layout : default_layout(op.result(i)->type, plan_.warps));
    }
    return;
  case Opcode::Reduce: {
    const int axis = static_cast<int>(op.integer("axis"));
    const LinearLayout left = sliced(home(op.operand(0)), axis);
    for (const auto& r : op.results)
      place(r.get(), left);
    return;
  }
  case Opcode::Scan:
    for (const auto& r : op.results)
      place(r.get(), home(op.operand(0)));
    return;
  case Opcode::Sort:
    for (const auto& r : op.results)
      place(r.get(), default_layout(op.result()->type, plan_.warps));
    return;
  default: break;
  }
  if (op.num_results() != 1 || !op.result()->type.is_tile()) return;
  if (auto layout = preferred(op)) return place(op.result(), *layout);
  int length = 1;
  for (const ir::Value* operand : op.operands)
    if (auto known = free_length_.find(operand); known != free_length_.end()) length += known->second;
  if (length > longest_free)
    place(op.result(), default_layout(op.result()->type, plan_.warps));
  else
    free_length_[op.result()] = length;
}

} // namespace

std::vector<int> shape_bits(const ir::Type& tile) {
  std::vector<int> bits;
  for (const ir::Dim& d : tile.shape)
    bits.push_back(std::bit_width(static_cast<std::uint64_t>(d.value()) - 1));
  return bits;
}

std::optional<LinearLayout> reshaped_layout(const LinearLayout& layout, const ir::Type& from,
                                            const ir::Type& to) {
  for (const ir::Type* type : {&from, &to})
    for (const ir::Dim& d : type->shape)
      if (!std::has_single_bit(static_cast<std::uint64_t>(d.value()))) return std::nullopt;
  const std::vector<int> bits = shape_bits(to);
  std::vector<std::string> reversed, axes;
  LinearLayout::Dims parts;
  for (int a = from.rank(); a-- > 0;)
    reversed.push_back(axis_name(a));
  for (int a = to.rank(); a-- > 0;)
    parts.push_back({axis_name(a), bits[static_cast<std::size_t>(a)]});
  for (int a = 0; a < to.rank(); ++a)
    axes.push_back(axis_name(a));
  return layout.with_outs(reversed).flat_outs("all").split_out("all", parts).with_outs(axes);
}

LinearLayout default_layout(const ir::Type& tile, int warps) {
  return blocked_along(tile, static_cast<int>(tile.shape.size()) - 1, warps);
}

LinearLayout coalesced_layout(const ir::Op& op, const ir::Type& tile, int warps) {
  const auto& axes = op.integers("axes");
  auto at = std::find(axes.begin(), axes.end(), op.operand(0)->type.view_rank - 1);
  if (at == axes.end()) return default_layout(tile, warps);
  return blocked_along(tile, static_cast<int>(at - axes.begin()), warps);
}

LinearLayout store_layout(const ir::Op& op, const LinearLayout& value, int warps) {
  const auto& axes = op.integers("axes");
  auto at = std::find(axes.begin(), axes.end(), op.operand(0)->type.view_rank - 1);
  if (at == axes.end()) return value;
  const std::string fast = axis_name(static_cast<int>(at - axes.begin()));
  if (op.operand(0)->type.layout == LayoutClass::Any || value.out_bits(fast) == 0) return value;
  for (const char* side : {in_register, in_lane})
    if (value.in_bits(side) > 0 && value.basis(side, 0, fast) != 0) return value;
  return coalesced_layout(op, op.stored_value()->type, warps);
}

// 8-bit floats are multiplied as f16, which represents all of them: tensor cores accumulate products of 8-bit
// floats in less precision than that of f32.
std::optional<MmaFactors> mma_factors(const ir::Op& dot) {
  const ir::Type &a = dot.operand(0)->type, &b = dot.operand(1)->type, &sums = dot.result()->type;
  auto is_f16 = [](DType t) { return t == DType::F16 || t == DType::F8E4M3 || t == DType::F8E5M2; };
  auto is_byte = [](DType t) { return t == DType::I8 || t == DType::U8; };
  std::optional<MmaFactors> factors;
  if (sums.dtype == DType::F32 && is_f16(a.dtype) && is_f16(b.dtype))
    factors = {DType::F16, DType::F16, 16};
  else if (sums.dtype == DType::F32 && a.dtype == DType::BF16 && b.dtype == DType::BF16)
    factors = {DType::BF16, DType::BF16, 16};
  else if (sums.dtype == DType::F32 && a.dtype == DType::F32 && b.dtype == DType::F32 &&
           dot.text("precision", "ieee") == "tf32")
    factors = {DType::F32, DType::F32, 32};
  else if (sums.dtype == DType::I32 && is_byte(a.dtype) && is_byte(b.dtype))
    factors = {a.dtype, b.dtype, 8};
  if (!factors) return std::nullopt;
  const std::int64_t depth = a.shape.back().value();
  const std::size_t rank = sums.shape.size();
  const bool fits = depth >= factors->depth() && std::has_single_bit(static_cast<std::uint64_t>(depth)) &&
                    sums.shape[rank - 2].value() > 8 && sums.shape[rank - 1].value() > 4;
  return fits ? factors : std::nullopt;
}

namespace {

// Extends a layout of the last two axes by the axes of a batch before them, which are divided among warps
// first and then among registers.
LinearLayout with_batch(const LinearLayout& matrices, const std::vector<int>& bits, int batch_warps) {
  const int batch = static_cast<int>(bits.size()) - 2;
  LinearLayout layout = matrices;
  for (int a = 1; a >= 0 && batch > 0; --a)
    layout = layout.renamed_out(axis_name(a), axis_name(a + batch));
  std::vector<std::string> axes;
  for (int a = 0; a < batch + 2; ++a)
    axes.push_back(axis_name(a));
  int warps = batch_warps;
  for (int a = 0; a < batch; ++a) {
    const int extent = bits[static_cast<std::size_t>(a)], of_warps = std::min(warps, extent);
    warps -= of_warps;
    layout = layout * LinearLayout::identity(extent - of_warps, in_register, axis_name(a)) *
             LinearLayout::identity(of_warps, in_warp, axis_name(a));
  }
  return layout.with_outs(axes);
}

struct MmaWarps {
  int batch = 0, m = 0, n = 0;
};

// Divides a dot among warps: after the batch, twice as many warps halve the longer side of the part of each,
// until the part is one fragment.
MmaWarps mma_warps(const std::vector<int>& bits, int warps) {
  MmaWarps result;
  int m = bits[bits.size() - 2], n = bits.back();
  int left = log2_of_warps(warps);
  for (std::size_t a = 0; a + 2 < bits.size(); ++a)
    result.batch += bits[a];
  result.batch = std::min(result.batch, left);
  for (left -= result.batch; left > 0; --left) {
    const bool along_m = m > 4 && (m >= n || n <= 3);
    if (along_m || n <= 3) {
      ++result.m;
      if (m > 4) --m;
    } else {
      ++result.n;
      --n;
    }
  }
  return result;
}

LinearLayout mma_matrix(const std::vector<int>& bits, const MmaWarps& by) {
  return mma_accumulator(bits[bits.size() - 2], bits.back(), by.m, by.n);
}

} // namespace

LinearLayout mma_layout(const ir::Type& sums, int warps) {
  const std::vector<int> bits = shape_bits(sums);
  const MmaWarps by = mma_warps(bits, warps);
  return with_batch(mma_matrix(bits, by), bits, by.batch);
}

LinearLayout mma_factor_layout(const ir::Op& dot, int factor, int warps) {
  const std::vector<int> bits = shape_bits(dot.result()->type);
  const MmaWarps by = mma_warps(bits, warps);
  const int depth_bits = shape_bits(dot.operand(0)->type).back();
  return with_batch(mma_operand(factor, mma_matrix(bits, by), depth_bits, mma_factors(dot)->element_bits),
                    bits, by.batch);
}

LayoutPlan plan_layouts(const ir::Kernel& lowered, int warps) {
  LayoutPlan plan;
  plan.warps = warps;
  Planner(plan).visit(lowered.body);
  return plan;
}

} // namespace kiln::gpu
