// Finds the scalars that products depend on, and how these differ between programs.
#include <kiln/jit/cpu/facts/grouped_product.h>

#include <kiln/dsl/ir/arguments.h>
#include <kiln/jit/cpu/dot/dot_shape.h>
#include <kiln/jit/cpu/facts/program_slice.h>
#include <kiln/jit/cpu/facts/scope.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/passes/rewrite_rules.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_set>

namespace kiln::cpu {

using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

bool is_zero(const Value* v) {
  auto cell = passes::constant_of(v);
  return cell && *cell == 0;
}

// Rules are those of grouped_product.h.
class GroupedProductFinder {
public:
  GroupedProductFinder(const ir::Kernel& kernel, const Plan& plan,
                       const passes::NonNegativeScalars& non_negative, const Target& target)
      : kernel_(kernel), plan_(plan), non_negative_(non_negative), target_(target),
        blocks_rows_(target.vector_registers < 32),
        most_in_place_columns_(target.l2_bytes > tuning::usual_l2_bytes ? tuning::large_l2_max_group_columns
                                                                        : tuning::max_group_columns) {}

  std::optional<GroupedProduct> find() {
    std::optional<GroupedProduct> grouped;
    for (const auto& op : kernel_.body.ops) {
      if (op->is(Opcode::For)) {
        auto product = product_loop(*op, plan_, non_negative_);
        auto found = product ? group(*product) : std::nullopt;
        if (!found) found = run_at_assumed_offsets(*op);
        if (product && !grouped && !found) return std::nullopt;
        if (found && (!grouped || same_programs(grouped->grouping, found->grouping)))
          add(grouped, std::move(*found));
      }
      bool writes = op->info().effect == ir::Effect::Write || op->info().effect == ir::Effect::ReadWrite;
      for (const auto& region : op->regions)
        ir::walk(*region, [&](const Op& inner) {
          writes |= inner.info().effect == ir::Effect::Write || inner.info().effect == ir::Effect::ReadWrite;
        });
      if (writes) break;
    }
    if (!grouped) return std::nullopt;
    set_limits(*grouped);
    if (!grouped->grouping.has_groups()) return std::nullopt;
    return grouped;
  }

private:
  // Finds a group with a run axis under the assumption that offsets are non-negative, if the analysis does
  // not know that they are.
  std::optional<GroupedProduct> run_at_assumed_offsets(const Op& loop) {
    const Scope inside(*loop.region());
    passes::NonNegativeScalars non_negative = non_negative_;
    std::vector<const Value*> assumed;
    for (const auto& op : loop.region()->ops) {
      if (!op->is(Opcode::ViewLoad)) continue;
      for (const Value* offset : op->view_offsets())
        if (!inside.has(offset) &&
            non_negative.emplace(offset, std::numeric_limits<std::int64_t>::max()).second)
          assumed.push_back(offset);
    }
    if (assumed.empty()) return std::nullopt;
    auto product = product_loop(loop, plan_, non_negative);
    auto found = product ? group(*product) : std::nullopt;
    if (!found || found->grouping.computed_axis < 0) return std::nullopt;
    found->assumed_non_negative = std::move(assumed);
    return found;
  }

  std::optional<GroupedProduct> group(const ProductLoop& product) {
    const ProductOperand &a = product.a, &b = product.b;
    if (a.value->type.shape.size() != 2 || !is_zero(product.loop->operand(3))) return std::nullopt;
    GroupedProduct grouped;
    grouped.products = {product};
    grouped.grouping.tile_m = product.dot->result()->type.shape[0].value();
    grouped.grouping.tile_n = product.dot->result()->type.shape[1].value();

    const Scope body(kernel_.body), loop(*product.loop->region());
    Slice common(body), rows(body), columns(body);
    std::vector<const Op*> ops_of_a, ops_of_b;
    if (!common.add(product.loop->operand(0)) || !common.add(product.loop->operand(1)) ||
        !add_operand(ops_of_a, a, 0, loop, body, common, rows) ||
        !add_operand(ops_of_b, b, 1, loop, body, common, columns))
      return std::nullopt;
    grouped.grouping.m_axis =
        axis_of_programs(a, 0, grouped.grouping.tile_m, ops_of_a, rows, columns, common);
    grouped.grouping.n_axis =
        axis_of_programs(b, 1, grouped.grouping.tile_n, ops_of_b, columns, rows, common);
    if (grouped.grouping.m_axis == grouped.grouping.n_axis) {
      grouped.grouping.m_axis = grouped.grouping.n_axis = -1;
      if (!place_along_one_axis(grouped, rows, columns, common)) return std::nullopt;
    }
    if (depends(common, grouped.grouping.m_axis) || depends(columns, grouped.grouping.m_axis))
      grouped.grouping.m_axis = -1;
    if (depends(common, grouped.grouping.n_axis) || depends(rows, grouped.grouping.n_axis))
      grouped.grouping.n_axis = -1;
    if (grouped.grouping.computed_axis < 0) grouped.store = only_store(grouped, body, common);
    if (grouped.grouping.m_axis < 0 && grouped.grouping.n_axis < 0 && grouped.grouping.computed_axis < 0)
      return std::nullopt;
    for (const auto& op : kernel_.body.ops)
      if (common.ops().count(op.get()) || rows.ops().count(op.get()) || columns.ops().count(op.get()))
        grouped.scalars.push_back(op.get());
    for (const auto* ops : {&ops_of_a, &ops_of_b, &grouped.scalars})
      for (const Op* op : *ops)
        add_read(grouped, *op);
    if (grouped.store) grouped.disjoint_axes = find_disjoint_axes(*grouped.store);
    return grouped;
  }

  // Adds the views that `op` reads. A load through pointers might read what the store writes, so that the
  // store is then not part of the product.
  static void add_read(GroupedProduct& grouped, const Op& op) {
    if (op.info().effect != ir::Effect::Read) return;
    if (op.is(Opcode::Load)) grouped.store = nullptr;
    for (const Value* v : op.operands)
      if (v->type.is_view()) grouped.reads.push_back(v);
  }

  // Tries to group programs whose places are computed from one axis. Of a computed operand, every scalar that
  // depends on that axis determines the place, and has to advance by whole tiles.
  static bool place_along_one_axis(GroupedProduct& grouped, const Slice& rows, const Slice& columns,
                                   const Slice& common) {
    const ProductOperand &a = grouped.products[0].a, &b = grouped.products[0].b;
    const unsigned axes = rows.axes() | columns.axes();
    if (!std::has_single_bit(axes)) return false;
    grouped.grouping.computed_axis = std::countr_zero(axes);
    auto places = [&](const ProductOperand& operand, std::size_t i, const Slice& mine) {
      return operand.load ? std::vector<const Value*>{operand.load->view_offsets()[axis_of(operand, i)]}
                          : mine.added_along(grouped.grouping.computed_axis);
    };
    grouped.rows = places(a, 0, rows);
    grouped.columns = places(b, 1, columns);
    grouped.common = common.added_along(grouped.grouping.computed_axis);
    return true;
  }

  static bool same_programs(const Grouping& x, const Grouping& y) {
    return x.m_axis == y.m_axis && x.n_axis == y.n_axis && x.computed_axis == y.computed_axis &&
           x.tile_m == y.tile_m && x.tile_n == y.tile_n;
  }

  // Adds the product of `other`, which has the same groups.
  void add(std::optional<GroupedProduct>& grouped, GroupedProduct other) const {
    if (!grouped) return (void)(grouped = std::move(other));
    grouped->products.push_back(other.products[0]);
    grouped->store = nullptr;
    for (auto list : {&GroupedProduct::rows, &GroupedProduct::columns, &GroupedProduct::common,
                      &GroupedProduct::assumed_non_negative})
      ((*grouped).*list).insert(((*grouped).*list).end(), (other.*list).begin(), (other.*list).end());
    std::vector<const Op*> scalars;
    for (const auto& op : kernel_.body.ops)
      for (const auto* of : {&grouped->scalars, &other.scalars})
        if (std::find(of->begin(), of->end(), op.get()) != of->end()) {
          scalars.push_back(op.get());
          break;
        }
    grouped->scalars = std::move(scalars);
  }

  std::int64_t most_columns_of_few_rows(std::int64_t rows) const {
    if (rows <= tuning::outer_product_rows) return tuning::outer_product_max_group_columns;
    return blocks_rows_ ? tuning::blocked_skinny_max_group_columns : tuning::skinny_max_group_columns;
  }

  void set_limits(GroupedProduct& grouped) const {
    Grouping& grouping = grouped.grouping;
    bool packs_a = false, amx = true;
    for (const ProductLoop& product : grouped.products) {
      packs_a |= packs(product.a);
      amx &= uses_amx(product);
    }
    std::int64_t most_m = tuning::max_group_rows,
                 most_n = packs_a ? tuning::packed_a_max_group_columns : most_in_place_columns_;
    std::int64_t most_elements = most_m * most_n;
    if (packs_a || blocks_rows_) grouping.packing_a = tuning::packed_a_cost;
    if (blocks_rows_) {
      most_n =
          grouped.store ? tuning::packed_a_max_group_columns : tuning::blocked_epilogue_max_group_columns;
      most_elements = grouped.store ? most_m * most_n : tuning::blocked_epilogue_max_group_sums;
    }
    if (amx) {
      most_m = tuning::amx_max_group_rows, most_n = tuning::amx_columns;
      most_elements = most_m * most_n;
      grouping.packing_a = tuning::amx_packing_a_cost, grouping.packing_b = tuning::amx_packing_b_cost;
    }
    if (grouping.tile_m <= tuning::skinny_rows) {
      if (!blocks_rows_ && !amx) most_elements = tuning::max_group_rows * most_in_place_columns_;
      most_n = most_columns_of_few_rows(grouping.tile_m);
    }
    if (grouping.tile_m <= tuning::outer_product_rows) {
      most_elements = std::min(most_elements, tuning::outer_product_max_group_sums);
      grouping.packing_a = tuning::row_start_cost;
    }
    for (const ProductLoop& product : grouped.products) {
      auto gathered = [&](const ProductOperand& operand, std::int64_t bytes, std::int64_t& most,
                          double& packing) {
        if (operand.load) return;
        most = std::min(most, bytes / tuning::gathered_k / size_of(operand.value->type.dtype));
        packing = std::max(packing, tuning::computed_operand_cost);
      };
      gathered(product.a, tuning::max_gathered_a_bytes, most_m, grouping.packing_a);
      gathered(product.b, tuning::max_gathered_b_bytes, most_n, grouping.packing_b);
    }
    const bool computed = grouping.computed_axis >= 0;
    if (grouping.m_axis >= 0 || computed)
      grouping.most_m = std::max<std::int64_t>(1, most_m / grouping.tile_m);
    if (grouping.n_axis >= 0 || computed)
      grouping.most_n = std::max<std::int64_t>(1, most_n / grouping.tile_n);
    const ProductLoop& first = grouped.products[0];
    grouping.shared_row_cost = (amx ? tuning::amx_shared_row_cost : tuning::shared_row_cost) * 4 /
                               size_of(first.a.value->type.dtype);
    find_depth(*first.loop, grouping);
    most_elements /= static_cast<std::int64_t>(grouped.products.size()); // each product has sums of its own
    grouping.most_programs = std::max<std::int64_t>(1, most_elements / (grouping.tile_m * grouping.tile_n));
  }

  void find_depth(const Op& loop, Grouping& grouping) const {
    if (!is_zero(loop.operand(0))) return;
    if (auto constant = passes::constant_of(loop.operand(1)))
      grouping.depth = static_cast<std::int64_t>(*constant);
    grouping.depth_word = ir::ArgumentLayout::of(kernel_).word_of(loop.operand(1)).value_or(-1);
  }

  // The kernel's store, if rules 5 to 7 hold. Its offsets are added to `common`.
  const Op* only_store(GroupedProduct& grouped, const Scope& body, Slice& common) const {
    const Op* store = nullptr;
    for (const auto& op : kernel_.body.ops) {
      if (op.get() == grouped.products[0].loop || op->is(Opcode::Expects)) continue;
      if (op->is(Opcode::ViewStore) && !store) {
        store = op.get();
      } else if (!op->regions.empty() ||
                 (op->info().effect != ir::Effect::Pure && op->info().effect != ir::Effect::Read)) {
        return nullptr;
      }
    }
    if (!store || store->mask()) return nullptr;
    const Value *stored = store->stored_value(), *sums = grouped.products[0].loop->result();
    grouped.rounds = stored != sums && rounds(*stored, *sums, grouped);
    if (stored != sums && !grouped.rounds) return nullptr;
    const ir::Type& view = store->operand(0)->type;
    const auto& axes = store->integers("axes");
    if (view.dtype != stored->type.dtype || view.layout == LayoutClass::Any || axes[1] != view.view_rank - 1)
      return nullptr;
    Slice all = common;
    auto offsets = store->view_offsets();
    for (std::size_t axis = 0; axis < offsets.size(); ++axis) {
      const Value* offset = offsets[axis];
      if (!non_negative_.count(offset)) return nullptr;
      const bool rows = static_cast<std::int64_t>(axis) == axes[0];
      const bool columns = static_cast<std::int64_t>(axis) == axes[1];
      const int grid_axis = rows ? grouped.grouping.m_axis : columns ? grouped.grouping.n_axis : -1;
      Slice own(body);
      if (!own.add(offset) || !all.add(offset)) return nullptr;
      const std::int64_t tile = rows ? grouped.grouping.tile_m : grouped.grouping.tile_n;
      if (grid_axis >= 0 ? program_offset(offset, tile) != grid_axis
                         : depends(own, grouped.grouping.m_axis) || depends(own, grouped.grouping.n_axis))
        return nullptr;
    }
    common = all;
    return store;
  }

  // Whether `stored` is the sums rounded to bf16, and AMX code can round them as it stores them (dot/dot.h).
  bool rounds(const Value& stored, const Value& sums, const GroupedProduct& grouped) const {
    return stored.def && stored.def->is(Opcode::Cast) && stored.def->operand(0) == &sums &&
           stored.type.dtype == DType::BF16 && sums.type.dtype == DType::F32 &&
           grouped.grouping.tile_m > tuning::skinny_rows && grouped.products[0].a.load &&
           grouped.products[0].b.load && uses_amx(grouped.products[0]);
  }

  // The axes of the grid along which an offset of the store advances by a whole tile.
  static unsigned find_disjoint_axes(const Op& store) {
    const auto& axes = store.integers("axes");
    const auto offsets = store.view_offsets();
    unsigned axes_found = 0;
    for (std::size_t axis = 0; axis < offsets.size(); ++axis) {
      std::int64_t extent = 1;
      for (std::size_t t = 0; t < axes.size(); ++t)
        if (axes[t] == static_cast<std::int64_t>(axis)) extent = store.stored_value()->type.shape[t].value();
      if (auto grid_axis = program_offset(offsets[axis], extent)) axes_found |= 1U << *grid_axis;
    }
    return axes_found;
  }

  static bool depends(const Slice& slice, int axis) { return axis >= 0 && (slice.axes() >> axis & 1) != 0; }

  // Whether A is packed instead of read in place: its rows are not contiguous, or its elements are converted.
  static bool packs(const ProductOperand& a) {
    if (!a.load) return true;
    const ir::Type& view = a.load->operand(0)->type;
    const auto& axes = a.load->integers("axes");
    const bool rows = a.order[1] == 1 && axes[1] == view.view_rank - 1 && view.layout != LayoutClass::Any;
    const bool known = a.value->type.dtype == DType::F32 || a.value->type.dtype == DType::F64 ||
                       a.value->type.dtype == DType::BF16 || is_integer(a.value->type.dtype);
    return !rows || !known;
  }

  bool uses_amx(const ProductLoop& product) const {
    const DType a = product.a.value->type.dtype, b = product.b.value->type.dtype;
    if (a == DType::BF16 && b == DType::BF16) return target_.amx_bf16;
    return is_integer(a) && is_integer(b) && target_.amx_int8;
  }

  // The axis of the grid along which programs differ only in the place of this operand's rows or columns (its
  // axis `i`). A computed operand is computed for each program, so that it may depend on that axis in any
  // way. If there are several such axes, it is the one along which the operand's loads advance by whole
  // tiles.
  static int axis_of_programs(const ProductOperand& operand, std::size_t i, std::int64_t tile,
                              const std::vector<const Op*>& ops, const Slice& mine, const Slice& others,
                              const Slice& common) {
    if (operand.load)
      return program_offset(operand.load->view_offsets()[axis_of(operand, i)], tile).value_or(-1);
    const unsigned axes = mine.axes() & ~others.axes() & ~common.axes();
    for (const Op* load : ops) {
      if (!load->is(Opcode::ViewLoad)) continue;
      for (std::int64_t along : load->integers("axes")) {
        auto axis = program_offset(load->view_offsets()[static_cast<std::size_t>(along)], tile);
        if (axis && (axes >> *axis & 1)) return *axis;
      }
    }
    return axes != 0 ? std::countr_zero(axes) : -1;
  }

  // The axis of the view that corresponds to axis `i` of a plain operand.
  static std::size_t axis_of(const ProductOperand& operand, std::size_t i) {
    return static_cast<std::size_t>(operand.load->integers("axes")[operand.order[i]]);
  }

  // Adds the scalars that an operand depends on to `common` and `mine`, and the operations that load and
  // compute it to `ops`. `i` is its axis that is not K.
  bool add_operand(std::vector<const Op*>& ops, const ProductOperand& operand, std::size_t i,
                   const Scope& loop, const Scope& body, Slice& common, Slice& mine) const {
    if (operand.load) {
      ops.push_back(operand.load);
      return add_offsets(operand, axis_of(operand, i), loop, common, mine);
    }
    std::unordered_set<const Value*> seen;
    return add_computed(ops, operand.value, loop, body, mine, seen);
  }

  // Tiles without a buffer are evaluated where they are needed, and so are scalars of the loop.
  bool add_computed(std::vector<const Op*>& ops, const Value* v, const Scope& loop, const Scope& body,
                    Slice& mine, std::unordered_set<const Value*>& seen) const {
    if (!seen.insert(v).second) return true;
    if (v->type.is_view()) return true;
    if (!loop.has(v)) {
      if (v->type.is_scalar()) return mine.add(v);
      if (!body.has(v) || plan_.has_buffer(v)) return false;
    }
    const Op* op = v->def;
    if (!op) return v->index == 0; // the loop's index is allowed, carried values are not
    if (!computes_one_value(*op) || op->is(Opcode::ProgramId)) return false;
    ops.push_back(op);
    return std::all_of(op->operands.begin(), op->operands.end(),
                       [&](const Value* x) { return add_computed(ops, x, loop, body, mine, seen); });
  }

  // All offsets except the one along `own` are equal in a whole group.
  static bool add_offsets(const ProductOperand& operand, std::size_t own, const Scope& loop, Slice& common,
                          Slice& mine) {
    auto offsets = operand.load->view_offsets();
    for (std::size_t axis = 0; axis < offsets.size(); ++axis) {
      const Value* offset = offsets[axis];
      if (loop.has(offset)) { // the loop's index, possibly plus an outer value
        if (!offset->def) continue;
        for (const Value* part : offset->def->operands)
          if (!loop.has(part) && !common.add(part)) return false;
      } else if (!(axis == own ? mine : common).add(offset)) {
        return false;
      }
    }
    return true;
  }

  const ir::Kernel& kernel_;
  const Plan& plan_;
  const passes::NonNegativeScalars& non_negative_;
  const Target& target_;
  bool blocks_rows_;
  std::int64_t most_in_place_columns_; // if A is read in place
};

} // namespace

std::optional<GroupedProduct> grouped_product(const ir::Kernel& bound, const Plan& plan,
                                              const passes::NonNegativeScalars& non_negative,
                                              const Target& target) {
  return GroupedProductFinder(bound, plan, non_negative, target).find();
}

} // namespace kiln::cpu
