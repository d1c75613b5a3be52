// Emits sorts as loops over sorting networks.
//
// One line along the axis after the other is copied to a row of words in scratch memory, sorted there and
// copied back. A word is the key of an element or, if the indices of the elements are needed, the key
// followed by the index, so that words differ and equal elements keep their order. Rows are padded to a power
// of two with the greatest word.
//
// The network is Batcher's bitonic sorter in the form in which all comparators point in one direction: a step
// compares word i with word i ^ mask and puts the smaller one first. To merge two sorted blocks into one of
// 2^k words, the first step has the mask 2^k - 1, which reverses the second block, and the next ones 2^(k-2),
// ..., 2, 1. Steps whose mask is at least the number of lanes compare whole vectors; the others shuffle the
// lanes of one vector, and are emitted one after the other for each vector. The loops over k and over masks
// are loops of the emitted code, whose size therefore does not depend on the length of a line.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/emit/sort_words.h>

#include <algorithm>
#include <bit>
#include <numeric>

namespace kiln::cpu {

using llvm::Value;

namespace {

std::int64_t padded(std::int64_t length) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(length)));
}

} // namespace

class KernelEmitter::Sorter {
public:
  Sorter(KernelEmitter& emitter, const ir::Op& op, bool with_indices)
      : e_(emitter), b_(emitter.b_), op_(op), type_(op.operand(0)->type),
        axis_(static_cast<std::size_t>(op.integer("axis"))), length_(type_.shape[axis_].value()),
        kept_(op.result()->type.shape[axis_].value()),
        words_(sort_word(type_.dtype, op.integer("descending") != 0, length_, with_indices)),
        count_(padded(length_)), word_(words_.type(b_)) {
    const int fitting = 8 * e_.target_.vector_bytes / words_.bits;
    lanes_ = static_cast<int>(std::min<std::int64_t>(std::max(1, fitting), count_));
    if (words_.bits > 64) lanes_ = 1; // processors have no vectors of such words
  }
  void emit();

private:
  void read_line(const Buffer& elements, const Indices& line);
  void write_line(const Buffer* sorted, const Buffer* indices, const Indices& line);
  void sort_words(std::int64_t count);
  void merge_in_vectors(std::int64_t count);
  void select_words();
  Value* least(Value* begin, std::int64_t count);
  void compare_reversed(Value* size, std::int64_t count);
  void compare_apart(Value* distance, std::int64_t count);
  Value* in_vector_step(Value* v, int mask);
  template <class Body> void in_vectors(std::int64_t count, const Buffer& of, const Body& body);

  // The words that are worked on.
  Value* place(Value* i) { return b_.CreateInBoundsGEP(word_, words_at_, i); }
  llvm::Align align() const { return llvm::Align(static_cast<std::uint64_t>(words_.bits / 8)); }
  Value* load(Value* i) { return b_.CreateAlignedLoad(lanes_type(word_, lanes_), place(i), align()); }
  void store(Value* v, Value* i) { b_.CreateAlignedStore(v, place(i), align()); }
  Value* smaller(Value* x, Value* y) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x, y); }
  Value* greater(Value* x, Value* y) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, x, y); }
  Value* number(std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); }
  // for (i = begin; i < end; i += step)
  template <class Body> void loop(Value* begin, Value* end, Value* step, const Body& body) {
    emit_loop(b_, begin, end, step, {}, [&](Value* i, const Values&, llvm::Instruction*) -> Values {
      body(i);
      return {};
    });
  }

  KernelEmitter& e_;
  IRBuilder& b_;
  const ir::Op& op_;
  const ir::Type& type_;
  const std::size_t axis_;
  const std::int64_t length_, kept_;
  const SortWord words_;
  const std::int64_t count_; // words in the row, a power of two
  llvm::Type* const word_;
  std::int64_t chunk_ = 0; // elements that are sorted together if only a few are kept; 0: all
  int lanes_ = 1;
  Value *row_ = nullptr, *best_ = nullptr; // the words of a line; the first ones so far, and a chunk
  Value* words_at_ = nullptr;
};

void KernelEmitter::emit_sort(const ir::Op& op) {
  flush();
  const auto users = users_.find(op.result(1));
  Sorter(*this, op, users != users_.end() && !users->second.empty()).emit();
}

void KernelEmitter::Sorter::emit() {
  const auto users = e_.users_.find(op_.result(0));
  const bool elements_used = users != e_.users_.end() && !users->second.empty();
  const Buffer elements = e_.materialize(op_.operand(0));
  auto make_row = [&](std::int64_t words) {
    return e_.make_buffer(DType::U8, false, {words * words_.bits / 8}).pointer;
  };
  row_ = make_row(count_);
  const std::int64_t chunk = std::max<std::int64_t>(padded(kept_), lanes_);
  if (chunk * tuning::min_chunks_of_topk <= count_) {
    chunk_ = chunk;
    best_ = make_row(2 * chunk_);
  }
  const Buffer* sorted = elements_used ? &e_.own_buffer(op_.result(0)) : nullptr;
  const Buffer* indices = words_.index_bits ? &e_.own_buffer(op_.result(1)) : nullptr;
  e_.locate(op_);
  std::vector<std::int64_t> lines = extents_of(type_);
  lines[axis_] = 1;
  e_.emit_each_element(lines, [&](Nest&, const Indices& line) {
    words_at_ = row_;
    read_line(elements, line);
    if (chunk_)
      select_words();
    else
      sort_words(count_);
    write_line(sorted, indices, line);
  });
}

// Calls body(i, lanes) for the elements i, i + 1, ... of a line of `of`, whose last vector may reach past
// `count`: rows of buffers are padded.
template <class Body>
void KernelEmitter::Sorter::in_vectors(std::int64_t count, const Buffer& of, const Body& body) {
  const int lanes =
      of.strides[axis_] == 1 ? static_cast<int>(std::min<std::int64_t>(lanes_, padded(count))) : 1;
  loop(number(0), number(count), number(lanes), [&](Value* i) { body(i, lanes); });
}

void KernelEmitter::Sorter::read_line(const Buffer& elements, const Indices& line) {
  in_vectors(length_, elements, [&](Value* i, int lanes) {
    Indices at = line;
    at[axis_] = Index{i};
    llvm::Type* element = memory_type(b_.getContext(), elements.dtype);
    Value* stored = b_.CreateAlignedLoad(lanes_type(element, lanes), e_.buffer_address(elements, at),
                                         llvm::Align(static_cast<std::uint64_t>(size_of(elements.dtype))));
    Value* indices = b_.CreateAdd(widen(b_, i, lanes), lane_numbers(b_, lanes));
    Value* word = emit_sort_word(b_, words_, stored, indices);
    b_.CreateAlignedStore(word, place(i), align());
  });
  loop(number(length_), number(count_), number(1),
       [&](Value* i) { b_.CreateAlignedStore(llvm::Constant::getAllOnesValue(word_), place(i), align()); });
}

void KernelEmitter::Sorter::write_line(const Buffer* sorted, const Buffer* indices, const Indices& line) {
  const Buffer& like = sorted ? *sorted : *indices;
  in_vectors(kept_, like, [&](Value* i, int lanes) {
    Value* word = b_.CreateAlignedLoad(lanes_type(word_, lanes), place(i), align());
    Indices at = line;
    at[axis_] = Index{i};
    auto write = [&](const Buffer& buffer, Value* v) {
      b_.CreateAlignedStore(v, e_.buffer_address(buffer, at),
                            llvm::Align(static_cast<std::uint64_t>(size_of(buffer.dtype))));
    };
    if (indices) write(*indices, emit_index_of(b_, words_, word));
    if (sorted) write(*sorted, emit_element_of(b_, words_, word));
  });
}

// Sorts the first `count` words.
void KernelEmitter::Sorter::sort_words(std::int64_t count) {
  loop(number(0), number(count), number(lanes_), [&](Value* i) {
    Value* v = load(i);
    for (int size = 2; size <= lanes_; size *= 2) {
      v = in_vector_step(v, size - 1);
      for (int mask = size / 4; mask > 0; mask /= 2)
        v = in_vector_step(v, mask);
    }
    if (lanes_ > 1) store(v, i);
  });
  if (count <= lanes_) return;
  // Blocks of `size` words become sorted, for size = 2 * lanes, 4 * lanes, ..., count.
  const auto steps = std::countr_zero(static_cast<std::uint64_t>(count / lanes_));
  loop(number(0), number(steps), number(1), [&](Value* k) {
    Value* half = b_.CreateShl(number(lanes_), k);
    compare_reversed(b_.CreateShl(half, number(1)), count);
    // Distances half / 2, half / 4, ..., lanes.
    loop(number(0), k, number(1),
         [&](Value* j) { compare_apart(b_.CreateLShr(half, b_.CreateAdd(j, number(1))), count); });
    merge_in_vectors(count);
  });
}

// Compares words at the distances lanes / 2, ..., 2, 1.
void KernelEmitter::Sorter::merge_in_vectors(std::int64_t count) {
  if (lanes_ == 1) return;
  loop(number(0), number(count), number(lanes_), [&](Value* i) {
    Value* v = load(i);
    for (int mask = lanes_ / 2; mask > 0; mask /= 2)
      v = in_vector_step(v, mask);
    store(v, i);
  });
}

// The least of `count` words.
Value* KernelEmitter::Sorter::least(Value* begin, std::int64_t count) {
  const Loop all = emit_loop(b_, begin, b_.CreateAdd(begin, number(count)), number(lanes_),
                             {llvm::Constant::getAllOnesValue(lanes_type(word_, lanes_))},
                             [&](Value* i, const Values& so_far, llvm::Instruction*) -> Values {
                               return {smaller(so_far[0], load(i))};
                             });
  Value* v = all.results[0];
  return lanes_ == 1 ? v : b_.CreateIntMinReduce(v, /*IsSigned=*/false);
}

// Finds the first words of the row, chunk by chunk: a chunk with a word that is less than the last one to
// keep is sorted and merged. In a long line of random elements few chunks are.
void KernelEmitter::Sorter::select_words() {
  words_at_ = best_;
  loop(number(0), number(chunk_), number(1),
       [&](Value* i) { b_.CreateAlignedStore(llvm::Constant::getAllOnesValue(word_), place(i), align()); });
  const std::int64_t chunks = (length_ + chunk_ - 1) / chunk_;
  loop(number(0), number(chunks * chunk_), number(chunk_), [&](Value* first) {
    words_at_ = row_;
    Value* candidate = least(first, chunk_);
    words_at_ = best_;
    Value* last = b_.CreateAlignedLoad(word_, place(number(kept_ - 1)), align());
    emit_if(b_, b_.CreateICmpULT(candidate, last), [&] {
      loop(number(0), number(chunk_), number(lanes_), [&](Value* i) {
        words_at_ = row_;
        Value* v = load(b_.CreateAdd(first, i));
        words_at_ = best_;
        store(v, b_.CreateAdd(i, number(chunk_)));
      });
      words_at_ = b_.CreateInBoundsGEP(word_, best_, number(chunk_));
      sort_words(chunk_);
      words_at_ = best_;
      compare_reversed(number(2 * chunk_), 2 * chunk_);
      for (std::int64_t distance = chunk_ / 2; distance >= lanes_; distance /= 2)
        compare_apart(number(distance), chunk_);
      merge_in_vectors(chunk_);
    });
  });
}

// Compares lane i with lane i ^ mask.
Value* KernelEmitter::Sorter::in_vector_step(Value* v, int mask) {
  std::vector<int> partner(static_cast<std::size_t>(lanes_));
  std::vector<llvm::Constant*> first; // whether a lane keeps the smaller word
  const int top = static_cast<int>(std::bit_floor(static_cast<unsigned>(mask)));
  for (int lane = 0; lane < lanes_; ++lane) {
    partner[static_cast<std::size_t>(lane)] = lane ^ mask;
    first.push_back(b_.getInt1((lane & top) == 0));
  }
  Value* other = b_.CreateShuffleVector(v, partner);
  return b_.CreateSelect(llvm::ConstantVector::get(first), smaller(v, other), greater(v, other));
}

// In each block of `size` words, compares word i of the first half with the word at the same distance from
// the end.
void KernelEmitter::Sorter::compare_reversed(Value* size, std::int64_t count) {
  std::vector<int> backwards(static_cast<std::size_t>(lanes_));
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  auto reversed = [&](Value* v) { return lanes_ == 1 ? v : b_.CreateShuffleVector(v, backwards); };
  Value* half = b_.CreateLShr(size, number(1));
  loop(number(0), number(count), size, [&](Value* block) {
    Value* last = b_.CreateSub(b_.CreateAdd(block, size), number(lanes_));
    loop(number(0), half, number(lanes_), [&](Value* i) {
      Value *low = b_.CreateAdd(block, i), *high = b_.CreateSub(last, i);
      Value *x = load(low), *y = reversed(load(high));
      store(smaller(x, y), low);
      store(reversed(greater(x, y)), high);
    });
  });
}

// In each block of 2 * distance words, compares word i with word i + distance.
void KernelEmitter::Sorter::compare_apart(Value* distance, std::int64_t count) {
  loop(number(0), number(count), b_.CreateShl(distance, number(1)), [&](Value* block) {
    loop(block, b_.CreateAdd(block, distance), number(lanes_), [&](Value* low) {
      Value* high = b_.CreateAdd(low, distance);
      Value *x = load(low), *y = load(high);
      store(smaller(x, y), low);
      store(greater(x, y), high);
    });
  });
}

} // namespace kiln::cpu
