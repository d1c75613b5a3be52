// Evaluates reshapes: finds the elements of the operand that make up a vector of the result.
//
// Axes are divided into groups that have the same number of elements in both shapes, and indices are divided
// only within a group. If a vector of the result is not contiguous in the operand, it is made of vectors that
// are: pairs that are split are lanes of a vector twice as long, and pairs that are interleaved come from two
// vectors half as long. The operand is thus evaluated in contiguous vectors, as everywhere, which are
// shuffled in registers.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/passes/axes.h>

#include <algorithm>
#include <bit>
#include <numeric>

namespace kiln::cpu {

using llvm::Value;
using passes::axis_groups;
using passes::AxisGroup;

using Extents = std::vector<std::int64_t>;

namespace {

constexpr std::int64_t least_lanes = 2, most_lanes = 256; // of the vectors that are evaluated

std::int64_t product(const Extents& extents, std::size_t begin, std::size_t end) {
  return std::accumulate(extents.begin() + static_cast<std::ptrdiff_t>(begin),
                         extents.begin() + static_cast<std::ptrdiff_t>(end), std::int64_t{1},
                         std::multiplies<>());
}

// The only axis in [begin, end) with more than one element; `end` if there are several or none.
std::size_t only_axis(const Extents& extents, std::size_t begin, std::size_t end) {
  std::size_t found = end;
  for (std::size_t a = begin; a < end; ++a) {
    if (extents[a] == 1) continue;
    if (found != end) return end;
    found = a;
  }
  return found;
}

bool is_factor(std::int64_t n) {
  return n > 1 && n <= tuning::max_reshape_parts && std::has_single_bit(static_cast<std::uint64_t>(n));
}

// Interleaves the parts, whose number is a power of two.
Value* alternating(IRBuilder& b, const Values& parts) {
  if (parts.size() == 1) return parts[0];
  Values even, odd;
  for (std::size_t k = 0; k < parts.size(); k += 2)
    even.push_back(parts[k]), odd.push_back(parts[k + 1]);
  Value *first = alternating(b, even), *second = alternating(b, odd);
  const int lanes = lanes_of(first);
  std::vector<int> order;
  for (int i = 0; i < lanes; ++i)
    order.insert(order.end(), {i, lanes + i});
  return b.CreateShuffleVector(first, second, order);
}

} // namespace

// Evaluates a tile `x` as if it had other extents, `from`: computes its indices from the indices `at` in the
// latter, one group of axes after the other.
class KernelEmitter::Reshape {
public:
  Reshape(KernelEmitter& emitter, Nest& nest, const ir::Value* x, const Extents& from, const Indices& at)
      : e_(emitter), b_(emitter.b_), nest_(nest), x_(x), at_(at), from_(from), to_(extents_of(x->type)),
        inner_(to_.size(), Index{b_.getInt64(0)}),
        depth_(nest.hoist_point ? nest.hoist_depth : depth_of(at)) {}

  Value* element() {
    if (Value* v = from_dense_buffer()) return v;
    const int axis = nest_.guarded || nest_.lanes == 1 ? -1 : axis_of_lanes(at_);
    std::optional<AxisGroup> of_lanes;
    for (const AxisGroup& group : axis_groups(from_, to_)) {
      if (passes(group)) continue;
      const bool lanes = axis >= 0 && static_cast<std::size_t>(axis) >= group.from &&
                         static_cast<std::size_t>(axis) < group.from_end;
      if (lanes)
        of_lanes = group;
      else
        take_apart(group);
    }
    if (of_lanes) {
      if (Value* v = picked(*of_lanes, static_cast<std::size_t>(axis))) return v;
      if (Value* v = put_together(*of_lanes, static_cast<std::size_t>(axis))) return v;
      take_apart(*of_lanes);
    }
    return e_.element(nest_, x_, inner_);
  }

private:
  Value* from_dense_buffer();
  bool passes(const AxisGroup& group);
  Value* picked(const AxisGroup& group, std::size_t axis);
  Value* put_together(const AxisGroup& group, std::size_t axis);
  void take_apart(const AxisGroup& group);
  Value* number(const AxisGroup& group, std::size_t end); // the row-major index within axes up to `end`
  void set_linear(const AxisGroup& group, std::size_t last, Value* number);
  Value* arithmetic(llvm::Instruction::BinaryOps op, Value* x, std::int64_t y);
  std::size_t last_axis(const AxisGroup& group) const; // the last axis of the operand with several elements
  template <class F> Value* with_lanes(int lanes, F evaluate) {
    const int before = std::exchange(nest_.lanes, lanes);
    Value* v = evaluate();
    nest_.lanes = before;
    return v;
  }
  llvm::ConstantInt* constant(std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); }

  KernelEmitter& e_;
  IRBuilder& b_;
  Nest& nest_;
  const ir::Value* x_;
  const Indices& at_;
  const Extents from_, to_;
  Indices inner_; // indices of the operand
  // The depth of all indices that are computed here, so that nothing that depends on them is hoisted above
  // them.
  const int depth_;
};

// Handles groups of one element, and groups of one axis that remains one axis.
bool KernelEmitter::Reshape::passes(const AxisGroup& group) {
  if (product(from_, group.from, group.from_end) == 1) return true;
  const std::size_t from = only_axis(from_, group.from, group.from_end),
                    to = only_axis(to_, group.to, group.to_end);
  if (from == group.from_end || to == group.to_end) return false;
  inner_[to] = at_[from];
  return true;
}

Value* KernelEmitter::Reshape::number(const AxisGroup& group, std::size_t end) {
  Value* n = constant(0);
  for (std::size_t a = group.from; a < end; ++a)
    n = a == group.from ? at_[a].base
                        : b_.CreateAdd(arithmetic(llvm::Instruction::Mul, n, from_[a]), at_[a].base);
  return n;
}

std::size_t KernelEmitter::Reshape::last_axis(const AxisGroup& group) const {
  std::size_t last = group.to_end - 1;
  while (last > group.to && to_[last] == 1)
    --last;
  return last;
}

// Emits arithmetic on indices, unless a vector of another tile has needed the same. Equal indices are then
// the same LLVM value, so that elements which several roots need are evaluated once.
Value* KernelEmitter::Reshape::arithmetic(llvm::Instruction::BinaryOps op, Value* x, std::int64_t y) {
  Nest::Key key{nullptr, static_cast<int>(op), {x}, {y}};
  if (const auto known = nest_.memo.find(key); known != nest_.memo.end()) return known->second;
  return nest_.memo[key] = b_.CreateBinOp(op, x, constant(y));
}

// Sets the indices so that lane 0 is at row-major index `number` of the axes up to and including `last`, and
// the lanes follow along `last`.
void KernelEmitter::Reshape::set_linear(const AxisGroup& group, std::size_t last, Value* number) {
  for (std::size_t a = last + 1; a-- > group.to;) {
    inner_[a] = Index{a == group.to ? number : arithmetic(llvm::Instruction::URem, number, to_[a]), a == last,
                      nullptr, depth_, false};
    if (a != group.to) number = arithmetic(llvm::Instruction::UDiv, number, to_[a]);
  }
}

// Lanes that are a few elements apart are picked from a vector that is longer by that factor.
Value* KernelEmitter::Reshape::picked(const AxisGroup& group, std::size_t axis) {
  const std::int64_t apart = product(from_, axis + 1, group.from_end), lanes = nest_.lanes;
  const std::size_t last = last_axis(group);
  if (!is_factor(apart) || apart * lanes > most_lanes) return nullptr;
  std::int64_t first = 0;
  for (std::size_t a = axis + 1; a < group.from_end; ++a) {
    auto* n = llvm::dyn_cast<llvm::ConstantInt>(at_[a].base);
    if (!n) return nullptr;
    first = first * from_[a] + n->getSExtValue();
  }
  const bool alone = product(from_, group.from, axis) == 1 && only_axis(to_, group.to, group.to_end) == last;
  if (alone)
    inner_[last] = Index{arithmetic(llvm::Instruction::Mul, at_[axis].base, apart), true, nullptr, depth_,
                         at_[axis].direct};
  else if (from_[axis] % lanes == 0 && to_[last] % (apart * lanes) == 0)
    set_linear(group, last, arithmetic(llvm::Instruction::Mul, number(group, axis + 1), apart));
  else
    return nullptr;
  // All vectors that are split from one vector share its evaluation.
  Indices together = at_;
  for (std::size_t a = axis + 1; a < group.from_end; ++a)
    together[a].base = constant(0);
  const int wide = static_cast<int>(apart * lanes);
  Nest::Key key = key_of(x_, together, wide);
  key.lanes = -wide; // negative, so that it is no key of an element
  for (std::int64_t extent : from_)
    key.extents.push_back(extent);
  auto known = nest_.memo.find(key);
  Value* all = known != nest_.memo.end() ? known->second
                                         : with_lanes(wide, [&] { return e_.element(nest_, x_, inner_); });
  nest_.memo[key] = all;
  if (!is_vector(all)) return all;
  std::vector<int> order;
  for (int l = 0; l < nest_.lanes; ++l)
    order.push_back(static_cast<int>(first + l * apart));
  return b_.CreateShuffleVector(all, order);
}

// Lanes that come from several rows in turn are interleaved from one vector of each row.
Value* KernelEmitter::Reshape::put_together(const AxisGroup& group, std::size_t axis) {
  if (product(from_, axis + 1, group.from_end) != 1) return nullptr;
  const bool outer = product(from_, group.from, axis) > 1;
  // The last axes of the operand have one index in each vector, and the axis before them has the lanes.
  std::int64_t parts = 1;
  std::size_t along = group.to_end;
  while (true) {
    if (along-- == group.to) return nullptr;
    if (to_[along] == 1) continue;
    const bool alone = !outer && product(to_, group.to, along) == 1;
    if (parts > 1 && (alone || to_[along] % (nest_.lanes / parts) == 0)) break;
    parts *= to_[along];
    if (!is_factor(parts) || nest_.lanes < least_lanes * parts) return nullptr;
  }
  const std::int64_t lanes = nest_.lanes / parts;
  if (!outer && product(to_, group.to, along) == 1)
    inner_[along] = Index{arithmetic(llvm::Instruction::UDiv, at_[axis].base, parts), true, nullptr, depth_,
                          at_[axis].direct};
  else if (from_[axis] % nest_.lanes == 0)
    set_linear(group, along, arithmetic(llvm::Instruction::UDiv, number(group, axis + 1), parts));
  else
    return nullptr;
  Values vectors;
  for (std::int64_t k = 0; k < parts; ++k) {
    std::int64_t rest = k;
    for (std::size_t a = group.to_end; a-- > along + 1; rest /= to_[a])
      inner_[a] = Index{constant(rest % to_[a])};
    vectors.push_back(with_lanes(static_cast<int>(lanes),
                                 [&] { return widen(b_, e_.element(nest_, x_, inner_), nest_.lanes); }));
  }
  return alternating(b_, vectors);
}

// A buffer whose elements follow each other without a gap is also a buffer of the other extents.
Value* KernelEmitter::Reshape::from_dense_buffer() {
  if (!e_.plan_.has_buffer(x_) || nest_.being_filled.count(x_)) return nullptr;
  Buffer buffer = e_.own_buffer(x_);
  if (!is_dense(buffer)) return nullptr;
  for (std::size_t a = 0; a < from_.size(); ++a)
    if (!at_[a].uniform() && (!at_[a].linear || from_[a] % nest_.lanes != 0)) return nullptr;
  buffer.extents = from_;
  buffer.strides = row_major(from_);
  return e_.load_buffer(nest_, buffer, at_);
}

// Computes the indices by division, of each lane's row-major index unless the lanes remain contiguous.
void KernelEmitter::Reshape::take_apart(const AxisGroup& group) {
  Value* lanes = nullptr;
  bool linear = false, whole = false; // whole: vectors start at multiples of the number of lanes
  std::int64_t stride = 1;
  for (std::size_t a = group.from_end; a-- > group.from; stride *= from_[a]) {
    if (at_[a].uniform()) continue;
    if (at_[a].linear && stride == 1 && !lanes) {
      linear = true;
      whole = from_[a] % nest_.lanes == 0;
      continue;
    }
    Value* indices = at_[a].linear ? lane_numbers(b_, nest_.lanes) : at_[a].lanes;
    Value* part = b_.CreateMul(indices, widen(b_, constant(stride), nest_.lanes));
    if (linear) lanes = lane_numbers(b_, nest_.lanes), linear = false;
    lanes = lanes ? b_.CreateAdd(lanes, part) : part;
  }
  Value* base = number(group, group.from_end);
  if (linear && whole && to_[group.to_end - 1] % nest_.lanes == 0)
    return set_linear(group, group.to_end - 1, base);
  if (linear) lanes = lane_numbers(b_, nest_.lanes);
  Value* rest = lanes ? b_.CreateAdd(widen(b_, base, nest_.lanes), lanes) : base;
  for (std::size_t a = group.to_end; a-- > group.to;) {
    Value* extent = llvm::ConstantInt::get(rest->getType(), static_cast<std::uint64_t>(to_[a]));
    Value* part = a == group.to ? rest : b_.CreateURem(rest, extent);
    inner_[a] = is_vector(part) ? Index{constant(0), false, part, depth_, false}
                                : Index{part, false, nullptr, depth_, false};
    if (a != group.to) rest = b_.CreateUDiv(rest, extent);
  }
}

Value* KernelEmitter::reshaped(Nest& nest, const ir::Op& op, const Indices& at) {
  if (Value* v = narrow_rows(nest, op, at)) return v;
  return Reshape(*this, nest, op.operand(0), extents_of(op.result()->type), at).element();
}

// Evaluates an element of a tile at its row-major number, along which the nest's lanes lie.
Value* KernelEmitter::flat_element(Nest& nest, const ir::Value* x, const Index& number) {
  while (x->def && x->def->is(ir::Opcode::Reshape) && (!plan_.has_buffer(x) || nest.being_filled.count(x)))
    x = x->def->operand(0);
  return Reshape(*this, nest, x, {x->type.numel()}, {number}).element();
}

} // namespace kiln::cpu
