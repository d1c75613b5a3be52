// Scans: inclusive prefixes, in place in the buffers of their results, which begin as the operands.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/emit/combine.h>

#include <algorithm>
#include <bit>

namespace kiln::cpu {

using llvm::Value;

class KernelEmitter::Scan {
public:
  Scan(KernelEmitter& emitter, const ir::Op& op);
  void emit();

private:
  void rows(std::size_t k); // every row or column, along the axes from others_[k] on
  void along();             // a row, whose vectors lie along it
  void down();              // all columns that lie side by side, a few registers at a time
  void columns(Value* from, Value* to, int lanes); // those of one width
  Values within(Values v);                         // prefixes of the lanes of one vector
  Values last_lane(const Values& v);               // in all lanes
  Values combine(Values running, const Values& elements);
  Values load();
  void store(const Values& values);
  Value* place(Value* number, int lanes); // of the vector that comes so many-th along the scanned axis
  llvm::ConstantInt* constant(std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); }

  KernelEmitter& e_;
  IRBuilder& b_;
  const ir::Op& op_;
  const std::vector<std::int64_t> extents_;
  const std::size_t axis_;
  const bool reverse_, wide_;
  int vector_axis_ = -1, lanes_ = 1; // of a register
  std::vector<std::size_t> others_;  // axes beside the scanned one, and the vector axis
  Nest nest_;
  Indices at_;
};

KernelEmitter::Scan::Scan(KernelEmitter& emitter, const ir::Op& op)
    : e_(emitter), b_(emitter.b_), op_(op), extents_(extents_of(op.operand(0)->type)),
      axis_(static_cast<std::size_t>(op.integer("axis"))), reverse_(op.integer("reverse") != 0),
      wide_(keeps_wide(op)), at_(extents_.size(), Index{b_.getInt64(0)}) {
  for (std::size_t a = 0; a < extents_.size(); ++a)
    if (extents_[a] > 1) vector_axis_ = static_cast<int>(a);
  for (std::size_t a = 0; a < extents_.size(); ++a)
    if (a != axis_ && static_cast<int>(a) != vector_axis_ && extents_[a] > 1) others_.push_back(a);
  if (vector_axis_ < 0) return;
  int bytes = 4;
  for (const auto& result : op.results)
    bytes = std::max(bytes, size_of(result->type.dtype));
  const auto extent = static_cast<std::uint64_t>(extents_[static_cast<std::size_t>(vector_axis_)]);
  lanes_ = static_cast<int>(std::min<std::uint64_t>(
      static_cast<std::uint64_t>(e_.target_.vector_bytes / bytes), std::bit_ceil(extent)));
}

void KernelEmitter::Scan::emit() {
  std::vector<Root> fills;
  for (int i = 0; i < op_.num_operands(); ++i) {
    Root root{Root::Kind::Fill, op_.operand(i)};
    root.buffer = e_.own_buffer(op_.result(i));
    fills.push_back(root);
  }
  e_.emit_nest(std::move(fills), extents_);
  e_.locate(op_);
  if (extents_[axis_] > 1) rows(0);
}

void KernelEmitter::Scan::rows(std::size_t k) {
  if (k == others_.size()) return static_cast<int>(axis_) == vector_axis_ ? along() : down();
  emit_loop(b_, constant(0), constant(extents_[others_[k]]), constant(1), {},
            [&](Value* i, const Values&, llvm::Instruction*) -> Values {
              at_[others_[k]] = Index{i};
              rows(k + 1);
              return {};
            });
}

Value* KernelEmitter::Scan::place(Value* number, int lanes) {
  Value* begin = b_.CreateNSWMul(number, constant(lanes));
  return reverse_ ? b_.CreateNSWSub(constant(extents_[axis_] - lanes), begin) : begin;
}

// What is carried from vector to vector is combined with the last lane of each, so that it waits for one
// operation a vector. Lanes past the end of a row are of its buffer's padding; from the far end they would
// be the first, so that such rows go element by element.
void KernelEmitter::Scan::along() {
  const std::int64_t extent = extents_[axis_];
  const int lanes = reverse_ && extent % lanes_ != 0 ? 1 : lanes_;
  nest_.lanes = lanes;
  auto vector = [&](Value* number) {
    at_[axis_] = Index{place(number, lanes), lanes > 1};
    return within(load());
  };
  const Values first = vector(constant(0));
  store(first);
  emit_loop(b_, constant(1), constant((extent + lanes - 1) / lanes), constant(1), last_lane(first),
            [&](Value* number, const Values& carried, llvm::Instruction*) -> Values {
              const Values own = vector(number);
              store(combine(carried, own));
              return combine(carried, last_lane(own));
            });
}

void KernelEmitter::Scan::down() {
  constexpr int registers = 4;
  const std::int64_t extent = extents_[static_cast<std::size_t>(vector_axis_)];
  const int wide = op_.num_operands() == 1 ? registers * lanes_ : lanes_;
  const std::int64_t whole = extent / wide * wide;
  columns(constant(0), constant(whole), wide);
  if (whole < extent) columns(constant(whole), constant(extent), lanes_);
}

void KernelEmitter::Scan::columns(Value* from, Value* to, int lanes) {
  nest_.lanes = lanes;
  emit_loop(b_, from, to, constant(lanes), {}, [&](Value* j, const Values&, llvm::Instruction*) -> Values {
    at_[static_cast<std::size_t>(vector_axis_)] = Index{j, lanes > 1};
    at_[axis_] = Index{place(constant(0), 1)};
    emit_loop(b_, constant(1), constant(extents_[axis_]), constant(1), load(),
              [&](Value* number, const Values& carried, llvm::Instruction*) -> Values {
                at_[axis_] = Index{place(number, 1)};
                Values next = combine(carried, load());
                store(next);
                return next;
              });
    return {};
  });
}

// By doubling: the second half of each 2, 4, 8... lanes with the last one of the first half (Sklansky,
// "Conditional-sum addition logic", 1960), whose first shuffles stay within 128 bits.
Values KernelEmitter::Scan::within(Values v) {
  const int lanes = nest_.lanes;
  for (int half = 1; half < lanes; half *= 2) {
    llvm::SmallVector<int, 64> before;
    std::vector<llvm::Constant*> second;
    for (int lane = 0; lane < lanes; ++lane) {
      const bool in_second = ((lane & half) != 0) != reverse_;
      const int last = (lane & -(2 * half)) + (reverse_ ? half : half - 1);
      before.push_back(in_second ? last : lane);
      second.push_back(b_.getInt1(in_second));
    }
    Values shifted;
    for (Value* x : v)
      shifted.push_back(b_.CreateShuffleVector(x, before));
    const Values combined = combine(shifted, v);
    for (std::size_t i = 0; i < v.size(); ++i)
      v[i] = b_.CreateSelect(llvm::ConstantVector::get(second), combined[i], v[i]);
  }
  return v;
}

Values KernelEmitter::Scan::last_lane(const Values& v) {
  if (nest_.lanes == 1) return v;
  const llvm::SmallVector<int, 64> last(static_cast<std::size_t>(nest_.lanes),
                                        reverse_ ? 0 : nest_.lanes - 1);
  Values all;
  for (Value* x : v)
    all.push_back(b_.CreateShuffleVector(x, last));
  return all;
}

Values KernelEmitter::Scan::combine(Values running, const Values& elements) {
  running.insert(running.end(), elements.begin(), elements.end());
  Values next = e_.evaluate_combine(*op_.region(), running, wide_);
  for (Value*& v : next)
    v = widen(b_, v, nest_.lanes);
  return next;
}

Values KernelEmitter::Scan::load() {
  Values values;
  for (const auto& result : op_.results)
    values.push_back(e_.load_buffer(nest_, e_.own_buffer(result.get()), at_));
  return values;
}

void KernelEmitter::Scan::store(const Values& values) {
  for (int i = 0; i < op_.num_results(); ++i) {
    const ir::Value* result = op_.result(i);
    Value* v = values[static_cast<std::size_t>(i)];
    if (wide_) v = round_to(b_, e_.numbers_, v, result->type.dtype);
    e_.store_buffer(nest_, e_.own_buffer(result), at_, v);
  }
}

void KernelEmitter::emit_scan(const ir::Op& op) { Scan(*this, op).emit(); }

} // namespace kiln::cpu
