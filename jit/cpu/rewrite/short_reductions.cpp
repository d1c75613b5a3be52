// cpu-short-reductions: turns reductions over a few neighbours into operations on the halves of a tile.
//
//   sum(reshape(x, [M, N, 4]), 2)     becomes, where p is x as [M, N * 4],
//   q = even elements of p + odd elements of p;  even elements of q + odd elements of q
//
// A reduction along the last axis makes vectors along that axis, which would be short here. The elements of a
// group are neighbours in memory, so that vectors may run across all groups instead; emit/reshape.cpp
// separates even and odd elements in registers.
//
// The kernel is bound. A reduction is rewritten if
//  1. it reduces one tile by one commutative operation along the last axis, whose extent is 2, 4 or 8;
//  2. the tile is computed by elementwise operations from reshaped tiles and splats, at most `deepest` of
//     them in a row;
//  3. those operations that take long, such as exp, are used by this reduction alone.
// Floats are added pair by pair; floats that are narrower than f32 are added in f32 and rounded once.
#include <kiln/jit/cpu/rewrite/passes.h>

#include <kiln/jit/cpu/facts/plan.h>
#include <kiln/jit/cpu/rewrite/replace_results.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/emit/combine.h>

#include <algorithm>
#include <bit>

namespace kiln::cpu {

using ir::Dim;
using ir::Op;
using ir::Opcode;
using ir::Shape;
using ir::Value;

namespace {

constexpr int deepest = 8; // elementwise operations between a reshape and the reduction

// Replaces short reductions (as replace_results requires of its callback).
class Halver {
public:
  explicit Halver(const ir::Kernel& kernel) : uses_(ir::count_uses(kernel.body)) {}

  Value* operator()(const Op& op, ir::Builder& builder) const {
    return is_short(op) ? halved(op, builder) : nullptr;
  }

private:
  bool is_short(const Op& op) const {
    if (!op.is(Opcode::Reduce) || op.num_operands() != 1 || !emit::simple_combine(op)) return false;
    const ir::Type& type = op.operand(0)->type;
    const std::int64_t extent = type.shape.back().value();
    return op.integer("axis") == type.rank() - 1 && type.rank() >= 2 && extent > 1 &&
           extent <= tuning::max_halved_group && std::has_single_bit(static_cast<std::uint64_t>(extent)) &&
           is_reshaped(op.operand(0), deepest);
  }

  // Rules 2 and 3.
  bool is_reshaped(const Value* v, int depth) const {
    if (!v->def || depth == 0) return false;
    const Op& op = *v->def;
    if (op.is(Opcode::Reshape) || op.is(Opcode::Splat)) return true;
    return ir::is_elementwise(op.code) && !(has_long_latency(op) && uses_.at(v) > 1) &&
           std::all_of(op.operands.begin(), op.operands.end(),
                       [&](const Value* operand) { return is_reshaped(operand, depth - 1); });
  }

  // The same elements with the last two axes as one.
  static Value* flat(Value* v, const Shape& shape, ir::Builder& builder, ir::ValueMap& known) {
    if (auto at = known.find(v); at != known.end()) return at->second;
    return known[v] = made_flat(v, shape, builder, known);
  }
  static Value* made_flat(Value* v, const Shape& shape, ir::Builder& builder, ir::ValueMap& known) {
    Op& op = *v->def;
    const ir::Type type = v->type.with_shape(shape);
    if (op.is(Opcode::Splat)) return builder.splat(op.operand(0), shape);
    if (op.is(Opcode::Reshape)) {
      if (op.operand(0)->type == type) return op.operand(0);
      return builder.create(Opcode::Reshape, {op.operand(0)}, {type})->result();
    }
    std::vector<Value*> operands;
    for (Value* operand : op.operands)
      operands.push_back(flat(operand, shape, builder, known));
    return builder.create(op.code, std::move(operands), {type})->result();
  }

  static Value* halved(const Op& op, ir::Builder& builder) {
    const ir::Type& type = op.operand(0)->type;
    const Opcode combine = *emit::simple_combine(op);
    Shape shape = type.shape;
    std::int64_t group = shape.back().value();
    shape.pop_back();
    shape.back() = shape.back() * group;
    ir::ValueMap known;
    Value* v = flat(op.operand(0), shape, builder, known);
    const bool wide = emit::keeps_wide(op) && is_float(type.dtype) && size_of(type.dtype) < 4;
    if (wide) v = builder.cast(v, DType::F32);
    for (; group > 1; group /= 2) {
      shape.back() = Dim(shape.back().value() / 2);
      Shape pairs = shape;
      pairs.push_back(Dim(2));
      Value* both = builder.create(Opcode::Reshape, {v}, {v->type.with_shape(pairs)})->result();
      Value* halves[2];
      for (std::int64_t index : {0, 1}) {
        Op* half = builder.create(Opcode::Extract, {both}, {v->type.with_shape(shape)});
        half->set("axis", static_cast<std::int64_t>(shape.size()));
        half->set("index", index);
        halves[index] = half->result();
      }
      v = builder.binary(combine, halves[0], halves[1]);
    }
    return wide ? builder.cast(v, type.dtype) : v;
  }

  std::unordered_map<const Value*, int> uses_;
};

} // namespace

void halve_short_reductions(ir::Kernel& kernel, const passes::PassOptions&) {
  replace_results(kernel, Halver(kernel));
}

} // namespace kiln::cpu
