// Emits scans stage by stage, as plan_scan plans them.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <kiln/jit/emit/combine.h>
#include <kiln/jit/gpu/exchange/scan.h>

#include <bit>
#include <map>
#include <tuple>

namespace kiln::gpu {

using llvm::Value;

namespace {

// Computes a value once for each key. Registers in the same block have the same total, for example, which is
// computed and moved once.
template <class Key, class Result> class Once {
public:
  template <class Compute> Result operator()(const Key& key, Compute&& compute) {
    auto at = known_.find(key);
    if (at == known_.end()) at = known_.emplace(key, compute()).first;
    return at->second;
  }

private:
  std::map<Key, Result> known_;
};

} // namespace

class KernelEmitter::ScanEmitter {
public:
  ScanEmitter(KernelEmitter& emitter, const ir::Op& op);
  void emit();

private:
  // Among the blocks that a stage combines, the number of the block that a register is in: the exclusive or
  // of a part that the register decides and of a part that the thread decides.
  class BlockNumbers {
  public:
    BlockNumbers(ScanEmitter& scan, const Scan::Stage& stage) : scan_(scan), stage_(stage) {}
    std::uint32_t most() const { return (1u << stage_.bits) - 1; }
    // Whether the register alone decides it.
    bool fixed() const { return (scan_.plan_.coordinate.bits() >> stage_.bit & most()) == 0; }
    std::uint32_t of_register(std::size_t r) const {
      return scan_.plan_.register_coordinate[r] >> stage_.bit & most();
    }
    Value* number(std::size_t r);
    Value* is_upper(std::size_t r); // if there are two blocks

  private:
    ScanEmitter& scan_;
    const Scan::Stage& stage_;
    Once<std::uint32_t, Value*> numbers_, uppers_;
  };

  void read_elements();
  void flip(BlockNumbers& blocks, const Scan::Flip& flip);
  void gather(BlockNumbers& blocks, const Scan::Gather& gather);
  void define_results();
  // Combines a part at lower coordinates with a part at higher ones.
  Partial along(const Partial& lower, const Partial& upper);
  Partial choose(Value* condition, const Partial& yes, const Partial& no);
  static Values key_of(const Partial& p) {
    Values key = p.values;
    key.push_back(p.has);
    return key;
  }

  KernelEmitter& e_;
  IRBuilder& b_;
  const ir::Op& op_;
  const bool reverse_;
  const LinearLayout layout_;
  const Scan plan_;
  Value* of_thread_ = nullptr;          // the part of the coordinate that the thread decides
  std::vector<Partial> prefix_, total_; // by register
  Once<std::pair<Values, Values>, Partial> merged_;
  Once<std::tuple<Value*, Values, Values>, Partial> chosen_;
};

KernelEmitter::ScanEmitter::ScanEmitter(KernelEmitter& emitter, const ir::Op& op)
    : e_(emitter), b_(emitter.b_), op_(op), reverse_(op.integer("reverse") != 0),
      layout_(emitter.layout_of(op.result())),
      plan_(plan_scan(layout_, static_cast<int>(op.integer("axis")), op.operand(0)->type.element_bytes())) {}

void KernelEmitter::ScanEmitter::emit() {
  read_elements();
  total_ = prefix_;
  of_thread_ = e_.thread_number(plan_.coordinate);
  for (const Scan::Stage& stage : plan_.stages) {
    BlockNumbers blocks(*this, stage);
    if (const auto* how = std::get_if<Scan::Flip>(&stage.how))
      flip(blocks, *how);
    else
      gather(blocks, std::get<Scan::Gather>(stage.how));
  }
  define_results();
}

void KernelEmitter::ScanEmitter::read_elements() {
  std::vector<Values> elements;
  for (const ir::Value* v : op_.operands)
    elements.push_back(e_.registers(v, layout_));
  for (std::size_t r = 0; r < elements[0].size(); ++r) {
    Partial one;
    for (const Values& tile : elements)
      one.values.push_back(tile[r]);
    // Padding comes after all elements, but in a reverse scan it comes first and must be excluded.
    if (reverse_) one.has = e_.inside_tile(layout_, static_cast<int>(r), op_.operand(0)->type);
    prefix_.push_back(std::move(one));
  }
}

KernelEmitter::Partial KernelEmitter::ScanEmitter::along(const Partial& lower, const Partial& upper) {
  return merged_({key_of(lower), key_of(upper)},
                 [&] { return reverse_ ? e_.merge(op_, upper, lower) : e_.merge(op_, lower, upper); });
}

KernelEmitter::Partial KernelEmitter::ScanEmitter::choose(Value* condition, const Partial& yes,
                                                          const Partial& no) {
  return chosen_({condition, key_of(yes), key_of(no)}, [&] {
    Partial result = yes;
    for (std::size_t k = 0; k < result.values.size(); ++k)
      result.values[k] = b_.CreateSelect(condition, yes.values[k], no.values[k]);
    if (yes.has || no.has)
      result.has =
          b_.CreateSelect(condition, yes.has ? yes.has : b_.getTrue(), no.has ? no.has : b_.getTrue());
    return result;
  });
}

Value* KernelEmitter::ScanEmitter::BlockNumbers::number(std::size_t r) {
  IRBuilder& b = scan_.b_;
  return numbers_(of_register(r), [&] {
    Value* own = b.CreateAnd(b.CreateLShr(scan_.of_thread_, static_cast<std::uint64_t>(stage_.bit)), most());
    return b.CreateXor(own, of_register(r));
  });
}

Value* KernelEmitter::ScanEmitter::BlockNumbers::is_upper(std::size_t r) {
  return uppers_(of_register(r), [&] { return scan_.b_.CreateICmpNE(number(r), scan_.b_.getInt32(0)); });
}

void KernelEmitter::ScanEmitter::flip(BlockNumbers& blocks, const Scan::Flip& flip) {
  std::vector<Partial> next(total_.size());
  Once<Values, Partial> moved;
  for (std::size_t r = 0; r < next.size(); ++r) {
    const Partial& partner = total_[r ^ static_cast<std::size_t>(flip.register_flip)];
    const Partial other = flip.lane_mask == 0 ? partner : moved(key_of(partner), [&] {
      return e_.shuffled(partner,
                         [&](Value* word) { return e_.machine_.shuffle_xor(b_, word, flip.lane_mask); });
    });
    if (blocks.fixed()) {
      const bool upper = blocks.of_register(r) != 0;
      next[r] = upper ? along(other, total_[r]) : along(total_[r], other);
      if (upper != reverse_) prefix_[r] = upper ? along(other, prefix_[r]) : along(prefix_[r], other);
      continue;
    }
    Value* upper = blocks.is_upper(r);
    next[r] = along(choose(upper, other, total_[r]), choose(upper, total_[r], other));
    prefix_[r] = reverse_ ? choose(upper, prefix_[r], along(prefix_[r], other))
                          : choose(upper, along(other, prefix_[r]), prefix_[r]);
  }
  total_ = std::move(next);
}

// Each register gets the totals of all blocks, and those of the blocks before its own are combined with its
// prefix one by one.
void KernelEmitter::ScanEmitter::gather(BlockNumbers& blocks, const Scan::Gather& gather) {
  const std::size_t count = total_.size();
  const std::uint32_t most = blocks.most();
  std::vector<Partial> next(count);
  const std::vector<Partial> parts = e_.convert(total_, gather.partial, gather.gathered);
  for (std::size_t r = 0; r < count; ++r) {
    auto part = [&](std::uint32_t i) { return parts[r + (std::size_t{i} * count)]; };
    next[r] = part(0);
    for (std::uint32_t i = 1; i <= most; ++i)
      next[r] = along(next[r], part(i));
    Value* own = blocks.number(r);
    for (std::uint32_t step = 0; step < most; ++step) { // the nearest block first
      const std::uint32_t i = reverse_ ? step + 1 : most - 1 - step;
      Value* before =
          reverse_ ? b_.CreateICmpUGT(b_.getInt32(i), own) : b_.CreateICmpULT(b_.getInt32(i), own);
      prefix_[r] =
          choose(before, reverse_ ? along(prefix_[r], part(i)) : along(part(i), prefix_[r]), prefix_[r]);
    }
  }
  total_ = std::move(next);
}

void KernelEmitter::ScanEmitter::define_results() {
  for (std::size_t k = 0; k < op_.results.size(); ++k) {
    const ir::Value* result = op_.result(static_cast<int>(k));
    Values values;
    for (const Partial& p : prefix_)
      values.push_back(emit::keeps_wide(op_)
                           ? emit::round_to(b_, e_.numbers_, p.values[k], result->type.dtype)
                           : p.values[k]);
    e_.define(result, layout_, values);
  }
}

void KernelEmitter::emit_scan(const ir::Op& op) { ScanEmitter(*this, op).emit(); }

} // namespace kiln::gpu
