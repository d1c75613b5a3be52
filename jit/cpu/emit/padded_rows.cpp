// Emits stores of vectors that span several narrow rows with padding between them.
//
// The lanes of the padding must not be written. AVX-512 has masked stores of all elements. The masked stores
// of AVX2 are slow on many processors and have no elements of one or two bytes, so that each row is stored as
// one or two shorter vectors there: 3 elements as two pairs that overlap, 7 as two groups of four.
#include <kiln/jit/cpu/emit/kernel_emitter.h>

#include <bit>
#include <numeric>

namespace kiln::cpu {

using llvm::Value;

namespace {

bool is_on(const llvm::Constant* mask, int lane) {
  const llvm::Constant* bit = mask->getAggregateElement(static_cast<unsigned>(lane));
  return bit && bit->isOneValue();
}

} // namespace

// Stores the lanes of a constant mask as runs of neighbours. Returns false if a masked store is better.
bool KernelEmitter::store_runs(Value* bits, Value* address, llvm::Align align, Value* mask) {
  auto* lanes_on = llvm::dyn_cast<llvm::Constant>(mask);
  if (target_.avx512 || !lanes_on || !is_vector(mask)) return false;
  const int lanes = lanes_of(bits);
  for (int l = 0; l < lanes; ++l)
    if (!lanes_on->getAggregateElement(static_cast<unsigned>(l))) return false; // scalable, or an expression
  llvm::Type* element = bits->getType()->getScalarType();
  auto store = [&](int first, int count) {
    std::vector<int> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), first);
    Value* part = count == 1 ? b_.CreateExtractElement(bits, static_cast<std::uint64_t>(first))
                             : b_.CreateShuffleVector(bits, order);
    b_.CreateAlignedStore(part, b_.CreateConstGEP1_64(element, address, static_cast<std::uint64_t>(first)),
                          align);
  };
  for (int first = 0; first < lanes; ++first) {
    int end = first;
    while (end < lanes && is_on(lanes_on, end))
      ++end;
    if (end == first) continue;
    const int count = static_cast<int>(std::bit_floor(static_cast<unsigned>(end - first)));
    store(first, count);
    if (count < end - first) store(end - count, count);
    first = end;
  }
  return true;
}

} // namespace kiln::cpu
