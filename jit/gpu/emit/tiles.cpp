// Computes free tiles and the coordinates of elements, and finds tiles in registers.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <kiln/jit/gpu/layout/layouts.h>

#include <algorithm>
#include <bit>

namespace kiln::gpu {

using ir::Opcode;
using llvm::Value;

namespace {

std::vector<std::string> input_names() { return {in_register, in_lane, in_warp}; }

// The layout with the outputs of a tile of `rank` axes, in order. Axes that it lacks get no bits.
LinearLayout with_axes(const LinearLayout& layout, int rank) {
  std::vector<std::string> axes;
  for (int a = 0; a < rank; ++a)
    axes.push_back(axis_name(a));
  return layout.restricted(input_names(), axes);
}

int rank_of(const ir::Value* v) { return static_cast<int>(v->type.shape.size()); }

} // namespace

void KernelEmitter::define(const ir::Value* v, LinearLayout layout, Values registers) {
  tiles_[v] = {Tile{std::move(layout), std::move(registers)}};
}

// Loaded tiles are unpacked where they are first used, so that the loads of the next tile need not wait for
// them.
void KernelEmitter::define_loaded(const ir::Value* v, LinearLayout layout, std::function<Values()> loaded) {
  if (v->type.is_scalar()) {
    scalars_[v] = loaded()[0];
    return;
  }
  define(v, std::move(layout), {});
  loaded_.emplace_back(v, std::move(loaded));
}

void KernelEmitter::settle() {
  for (auto& [v, loaded] : loaded_)
    tiles_[v].front().registers = loaded();
  loaded_.clear();
}

LinearLayout KernelEmitter::layout_of(const ir::Value* v) {
  if (const LinearLayout* planned = plan_.find(v)) return *planned;
  return default_layout(v->type, plan_.warps);
}

Values KernelEmitter::registers(const ir::Value* v, const LinearLayout& layout) {
  if (v->type.is_scalar()) return Values(std::size_t{1} << layout.in_bits(in_register), scalar(v));
  if (!plan_.find(v)) return evaluate_free(v, layout);
  auto at = tiles_.find(v);
  internal_check(at != tiles_.end(),
                 [&] { return "a tile of kernel " + kernel_.name + " is used before it is computed"; });
  Tile& home = at->second.front();
  auto loaded = std::ranges::find(loaded_, v, [](const auto& entry) { return entry.first; });
  if (loaded != loaded_.end()) {
    home.registers = loaded->second();
    loaded_.erase(loaded);
  }
  if (home.layout == layout) return home.registers;
  return convert(home.registers, home.layout, layout);
}

// Computes the registers of a tile from its operands without moving any element between threads.
Values KernelEmitter::evaluate_free(const ir::Value* v, const LinearLayout& layout) {
  if (v->type.is_scalar() && scalars_.count(v) && scalars_[v]) return registers(v, layout);
  const ir::Op& op = *v->def;
  const std::size_t count = std::size_t{1} << layout.in_bits(in_register);
  switch (op.code) {
  case Opcode::Splat: return Values(count, scalar(op.operand(0)));
  case Opcode::Arange: {
    Values result;
    llvm::Type* type = emit::compute_type(context_, v->type.dtype);
    for (std::size_t r = 0; r < count; ++r)
      result.push_back(b_.CreateAdd(
          b_.CreateIntCast(coordinate(layout, static_cast<int>(r), 0), type, true),
          llvm::ConstantInt::get(type, static_cast<std::uint64_t>(op.integer("start")), true, true)));
    return result;
  }
  case Opcode::Broadcast: {
    // The operand has its element at the same coordinates, except along axes that are broadcast.
    LinearLayout inner = layout;
    for (int a = 0; a < rank_of(v); ++a)
      if (op.operand(0)->type.shape[static_cast<std::size_t>(a)].is_one())
        inner = inner.without_out(axis_name(a));
    return registers(op.operand(0), with_axes(inner, rank_of(v)));
  }
  case Opcode::ExpandDims: {
    const int axis = static_cast<int>(op.integer("axis"));
    LinearLayout inner = layout.without_out(axis_name(axis));
    for (int a = axis + 1; a < rank_of(v); ++a)
      inner = inner.renamed_out(axis_name(a), axis_name(a - 1));
    return registers(op.operand(0), inner);
  }
  case Opcode::Squeeze:
    return registers(op.operand(0), expanded(layout, static_cast<int>(op.integer("axis"))));
  case Opcode::Extract: {
    // Each thread gets all elements along the axis and keeps one of them.
    const int axis = static_cast<int>(op.integer("axis"));
    const int bits = shape_bits(op.operand(0)->type)[static_cast<std::size_t>(axis)];
    const LinearLayout inner =
        expanded(layout, axis) * LinearLayout::identity(bits, in_register, axis_name(axis));
    const Values all = registers(op.operand(0), with_axes(inner, rank_of(op.operand(0))));
    const auto first = static_cast<std::ptrdiff_t>(count * static_cast<std::size_t>(op.integer("index")));
    return Values(all.begin() + first, all.begin() + first + static_cast<std::ptrdiff_t>(count));
  }
  case Opcode::Permute: {
    const auto& order = op.integers("order");
    LinearLayout inner = layout;
    for (int a = 0; a < rank_of(v); ++a)
      inner = inner.renamed_out(axis_name(a), "from" + std::to_string(a));
    for (int a = 0; a < rank_of(v); ++a)
      inner = inner.renamed_out("from" + std::to_string(a),
                                axis_name(static_cast<int>(order[static_cast<std::size_t>(a)])));
    return registers(op.operand(0), with_axes(inner, rank_of(op.operand(0))));
  }
  default: break;
  }
  internal_check(ir::is_elementwise(op.code),
                 [&] { return "the GPU back end does not lower " + std::string(ir::name(op.code)); });
  std::vector<Values> operands;
  for (const ir::Value* operand : op.operands)
    operands.push_back(registers(operand, layout));
  if (op.is(Opcode::Sin) || op.is(Opcode::Cos) || op.is(Opcode::Tan))
    return emit_trigonometric(op, operands.front());
  if (op.is(Opcode::Rem) && is_float(v->type.dtype) && count > 1) return emit_rolled(op, operands);
  Values result;
  for (std::size_t r = 0; r < count; ++r) {
    Values elements;
    for (const Values& operand : operands)
      elements.push_back(operand[r]);
    result.push_back(emit::emit_elementwise(b_, numbers_, op, elements));
  }
  return result;
}

// --- Coordinates

Value* KernelEmitter::lane() { return lane_; }
Value* KernelEmitter::warp() { return warp_; }

// The part of a coordinate that the lane and the warp decide. It is computed once for each layout, in the
// entry block.
Value* KernelEmitter::thread_part(const LinearLayout& layout, int axis) {
  const LinearLayout threads = layout.restricted({in_lane, in_warp}, {axis_name(axis)});
  const auto key = std::pair(threads.to_string(), axis);
  for (const auto& [known, value] : thread_parts_)
    if (known == key) return value;
  IRBuilder::InsertPointGuard guard(b_);
  b_.SetInsertPoint(entry_end_);
  Value* part = b_.getInt32(0);
  for (const char* side : {in_lane, in_warp}) {
    Value* index = side == in_lane ? lane_ : warp_;
    // Neighbouring bits that stay neighbours are moved together.
    for (int bit = 0; bit < layout.in_bits(side);) {
      const std::uint64_t image = threads.column(side, bit);
      int run = 1;
      if (std::has_single_bit(image))
        while (bit + run < layout.in_bits(side) && threads.column(side, bit + run) == image << run)
          ++run;
      if (image != 0) {
        Value* bits = b_.CreateAnd(b_.CreateLShr(index, static_cast<std::uint64_t>(bit)),
                                   (std::uint64_t{1} << run) - 1);
        part = b_.CreateXor(part, b_.CreateMul(bits, b_.getInt32(static_cast<std::uint32_t>(image))));
      }
      bit += run;
    }
  }
  thread_parts_.emplace_back(key, part);
  return part;
}

namespace {

// The part of a coordinate that the register decides.
struct RegisterPart {
  std::int64_t own = 0;
  bool apart = true; // whether threads and registers share no bit, so that their parts can be added
};

RegisterPart register_part(const LinearLayout& layout, int reg, int axis) {
  RegisterPart part;
  std::uint64_t of_threads = 0, of_registers = 0;
  for (int i = 0; i < layout.in_bits(in_register); ++i) {
    const std::int64_t image = layout.basis(in_register, i, axis_name(axis));
    of_registers |= static_cast<std::uint64_t>(image);
    if (reg >> i & 1) part.own ^= image;
  }
  for (const char* side : {in_lane, in_warp})
    for (int i = 0; i < layout.in_bits(side); ++i)
      of_threads |= static_cast<std::uint64_t>(layout.basis(side, i, axis_name(axis)));
  part.apart = (of_threads & of_registers) == 0;
  return part;
}

} // namespace

Value* KernelEmitter::coordinate(const LinearLayout& layout, int reg, int axis) {
  Value* threads = thread_part(layout, axis);
  const RegisterPart part = register_part(layout, reg, axis);
  Value* constant = b_.getInt32(static_cast<std::uint32_t>(part.own));
  // A constant that is added folds into an address.
  return part.apart ? b_.CreateAdd(threads, constant, "", true, true) : b_.CreateXor(threads, constant);
}

// Whether a coordinate is below `bound`, which is the same in all threads. Where possible, the register's
// part is subtracted from the bound, so that only the threads' part stays live until a tile at an edge needs
// it.
Value* KernelEmitter::is_below(const LinearLayout& layout, int reg, int axis, Value* bound) {
  const RegisterPart part = register_part(layout, reg, axis);
  if (!part.apart) return b_.CreateICmpSLT(coordinate(layout, reg, axis), bound);
  return b_.CreateICmpSLT(thread_part(layout, axis),
                          b_.CreateSub(bound, b_.getInt32(static_cast<std::uint32_t>(part.own))));
}

Value* KernelEmitter::inside_tile(const LinearLayout& layout, int reg, const ir::Type& type) {
  Value* inside = nullptr;
  for (std::size_t a = 0; a < type.shape.size(); ++a) {
    const auto extent = static_cast<std::uint64_t>(type.shape[a].value());
    if (!std::has_single_bit(extent))
      inside = both(inside, b_.CreateICmpULT(coordinate(layout, reg, static_cast<int>(a)),
                                             b_.getInt32(static_cast<std::uint32_t>(extent))));
  }
  return inside;
}

Value* KernelEmitter::owner(const LinearLayout& layout) {
  Value* first = nullptr;
  for (const char* side : {in_lane, in_warp})
    if (std::uint64_t repeats = layout.redundant(side))
      first = both(first,
                   b_.CreateICmpEQ(b_.CreateAnd(side == in_lane ? lane_ : warp_, repeats), b_.getInt32(0)));
  return first;
}

Value* KernelEmitter::both(Value* a, Value* b) { return !a ? b : !b ? a : b_.CreateAnd(a, b); }

} // namespace kiln::gpu
