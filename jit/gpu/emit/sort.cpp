// Emits sorts as bitonic sorting networks between registers, lanes and warps.
//
// The tile is in the blocked layout, in which each bit of a coordinate is one bit of the number of a
// register, a lane or a warp. A step of the network compares element i along the axis with element i ^ mask,
// and puts the smaller one first. Such partners are in registers of the same thread, or in another lane, from
// which a shuffle brings them, or in another warp, from which they come through shared memory. To merge two
// sorted blocks into one of 2^k elements, the first step has the mask 2^k - 1, which reverses the second
// block, and the next ones 2^(k-2), ..., 2, 1. Padding along the axis gets the greatest word
// (jit/emit/sort_words.h), so that it comes last.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <kiln/jit/emit/sort_words.h>

#include <bit>

namespace kiln::gpu {

using llvm::Value;

class KernelEmitter::Sorter {
public:
  Sorter(KernelEmitter& emitter, const ir::Op& op, bool with_indices)
      : e_(emitter), b_(emitter.b_), op_(op), type_(op.operand(0)->type),
        axis_(static_cast<int>(op.integer("axis"))), layout_(default_layout(type_, emitter.plan_.warps)),
        bits_(shape_bits(type_)[static_cast<std::size_t>(axis_)]),
        word_(emit::sort_word(type_.dtype, op.integer("descending") != 0,
                              type_.shape[static_cast<std::size_t>(axis_)].value(), with_indices)) {}
  void emit();

private:
  // The bits of register, lane and warp numbers that belong to bits of the coordinate along the axis.
  struct Places {
    std::uint32_t registers = 0, lanes = 0, warps = 0;
  };
  Places places_of(std::int64_t coordinate_bits) const;
  void read();
  void step(std::int64_t mask);
  Values partners(const Places& places);
  void write(const ir::Value* result, Values values);

  KernelEmitter& e_;
  IRBuilder& b_;
  const ir::Op& op_;
  const ir::Type& type_;
  const int axis_;
  const LinearLayout layout_;
  const int bits_; // of a coordinate along the axis
  const emit::SortWord word_;
  Values words_; // by register
};

void KernelEmitter::emit_sort(const ir::Op& op) {
  const auto uses = uses_.find(op.result(1));
  Sorter(*this, op, uses != uses_.end() && uses->second > 0).emit();
}

void KernelEmitter::Sorter::emit() {
  read();
  for (int k = 1; k <= bits_; ++k) {
    step((std::int64_t{1} << k) - 1);
    for (int bit = k - 2; bit >= 0; --bit)
      step(std::int64_t{1} << bit);
  }
  Values elements, indices;
  for (Value* v : words_) {
    elements.push_back(emit::from_memory(b_, e_.numbers_, emit::emit_element_of(b_, word_, v), type_.dtype));
    if (word_.index_bits) indices.push_back(emit::emit_index_of(b_, word_, v));
  }
  write(op_.result(0), std::move(elements));
  if (word_.index_bits) write(op_.result(1), std::move(indices));
}

KernelEmitter::Sorter::Places KernelEmitter::Sorter::places_of(std::int64_t coordinate_bits) const {
  Places places;
  for (auto [side, into] :
       {std::pair{in_register, &places.registers}, {in_lane, &places.lanes}, {in_warp, &places.warps}})
    for (int bit = 0; bit < layout_.in_bits(side); ++bit)
      if (layout_.basis(side, bit, axis_name(axis_)) & coordinate_bits) *into |= 1u << bit;
  return places;
}

void KernelEmitter::Sorter::read() {
  const Values elements = e_.registers(op_.operand(0), layout_);
  const std::int64_t extent = type_.shape[static_cast<std::size_t>(axis_)].value();
  for (std::size_t r = 0; r < elements.size(); ++r) {
    Value* index = e_.coordinate(layout_, static_cast<int>(r), axis_);
    Value* stored = emit::to_memory(b_, e_.numbers_, elements[r], type_.dtype);
    Value* word = emit::emit_sort_word(b_, word_, stored, index);
    if (!std::has_single_bit(static_cast<std::uint64_t>(extent)))
      word = b_.CreateSelect(b_.CreateICmpULT(index, b_.getInt32(static_cast<std::uint32_t>(extent))), word,
                             llvm::Constant::getAllOnesValue(word->getType()));
    words_.push_back(word);
  }
}

// The words of the elements i ^ mask, by register.
Values KernelEmitter::Sorter::partners(const Places& places) {
  Values result;
  if (places.warps == 0) {
    for (std::size_t r = 0; r < words_.size(); ++r) {
      Value* v = words_[r ^ places.registers];
      if (places.lanes)
        v = e_.shuffle(v, [&](Value* word) {
          return e_.machine_.shuffle_xor(b_, word, static_cast<int>(places.lanes));
        });
      result.push_back(v);
    }
    return result;
  }
  // Of threads that hold copies, only the first writes, and all read what it wrote.
  const std::uint32_t threads = 32 * static_cast<std::uint32_t>(e_.plan_.warps);
  const std::uint64_t copies = layout_.redundant(in_lane) | layout_.redundant(in_warp) << 5;
  Value* own = b_.CreateAnd(e_.thread_, b_.getInt32(static_cast<std::uint32_t>(~copies)));
  Value* partner = b_.CreateXor(own, b_.getInt32(places.lanes | places.warps << 5));
  auto number = [&](Value* thread, std::uint32_t reg) {
    return b_.CreateAdd(thread, b_.getInt32(reg * threads));
  };
  return e_.exchange(
      words_, layout_, [&](int r) { return number(own, static_cast<std::uint32_t>(r)); }, layout_,
      [&](int r) { return number(partner, static_cast<std::uint32_t>(r) ^ places.registers); },
      std::int64_t{threads} * static_cast<std::int64_t>(words_.size()), words_[0]->getType());
}

void KernelEmitter::Sorter::step(std::int64_t mask) {
  const Places top = places_of(static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(mask))));
  const Values others = partners(places_of(mask));
  Value* upper = nullptr; // whether the thread holds the second of two partners; null: the register says
  if (top.lanes) upper = b_.CreateICmpNE(b_.CreateAnd(e_.lane_, top.lanes), b_.getInt32(0));
  if (top.warps) upper = b_.CreateICmpNE(b_.CreateAnd(e_.warp_, top.warps), b_.getInt32(0));
  Values next;
  for (std::size_t r = 0; r < words_.size(); ++r) {
    Value* second = upper ? upper : b_.getInt1((r & top.registers) != 0);
    Value* keep = b_.CreateXor(b_.CreateICmpULT(words_[r], others[r]), second);
    next.push_back(b_.CreateSelect(keep, words_[r], others[r]));
  }
  words_ = std::move(next);
}

// Defines a result, which may have only the first elements along the axis.
void KernelEmitter::Sorter::write(const ir::Value* result, Values values) {
  const LinearLayout want = e_.layout_of(result);
  if (result->type.shape == type_.shape) return e_.define(result, want, e_.convert(values, layout_, want));
  const ir::Type& kept = result->type;
  // The numbers of elements that are not kept are that of the padding.
  auto number = e_.row_major(layout_, kept);
  llvm::Type* type = values[0]->getType();
  const std::int64_t extent = kept.shape[static_cast<std::size_t>(axis_)].value();
  Value* padding = b_.getInt32(static_cast<std::uint32_t>(kept.numel()));
  auto is_kept = [&](int r) {
    return b_.CreateICmpULT(e_.coordinate(layout_, r, axis_),
                            b_.getInt32(static_cast<std::uint32_t>(extent)));
  };
  e_.clear_padding(values, layout_, type_);
  for (std::size_t r = 0; r < values.size(); ++r)
    values[r] = b_.CreateSelect(is_kept(static_cast<int>(r)), values[r], llvm::Constant::getNullValue(type));
  e_.define(result, want,
            e_.exchange(
                values, layout_, [&](int r) { return b_.CreateSelect(is_kept(r), number(r), padding); }, want,
                e_.row_major(want, kept), kept.numel() + 1, type));
}

} // namespace kiln::gpu
