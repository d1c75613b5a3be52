// Emits loads and stores of vectors that span several narrow rows with padding between them.
//
// The lanes of the padding must not be written, and rows that are a run-time distance apart are loaded one
// after the other into the lanes of one vector. AVX-512 has masked loads and stores of all elements. The
// masked stores of AVX2 are slow on many processors and have no elements of one or two bytes, so that each
// row is loaded and stored as one or two shorter vectors there: 3 elements as two pairs that overlap, 7 as
// two groups of four.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/passes/axes.h>

#include <algorithm>
#include <bit>
#include <numeric>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

namespace {

bool is_on(const llvm::Constant* mask, int lane) {
  const llvm::Constant* bit = mask->getAggregateElement(static_cast<unsigned>(lane));
  return bit && bit->isOneValue();
}

// The lanes of one of the two vectors that cover a run.
int lanes_of_part(int count) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(count))); }

} // namespace

// The load of narrow rows along the last axis of `domain`, which have an axis of their own before `reshape`;
// null if `reshape` is something else.
const ir::Op* KernelEmitter::load_of_rows(const ir::Op& reshape,
                                          const std::vector<std::int64_t>& domain) const {
  if (!reshape.is(Opcode::Reshape) || extents_of(reshape.result()->type) != domain) return nullptr;
  const ir::Value* rows = reshape.operand(0);
  const auto extents = extents_of(rows->type);
  if (extents.size() != domain.size() + 1 || !std::equal(domain.begin(), domain.end() - 1, extents.begin()))
    return nullptr;
  while (rows->def && !plan_.has_buffer(rows) &&
         (rows->def->is(Opcode::Broadcast) || rows->def->is(Opcode::ExpandDims)))
    rows = rows->def->operand(0);
  if (!rows->def || plan_.has_buffer(rows) || !rows->def->is(Opcode::ViewLoad)) return nullptr;
  const auto loaded = extents_of(rows->type);
  const ir::Op& load = *rows->def;
  const bool both = loaded.size() >= 2 && loaded.back() == extents.back() &&
                    loaded[loaded.size() - 2] == extents[extents.size() - 2];
  const ir::Type& view = load.operand(0)->type;
  const bool contiguous =
      view.layout != LayoutClass::Any && both && load.integers("axes").back() == view.view_rank - 1;
  return contiguous && !load.other() ? &load : nullptr;
}

// Evaluates the current vector of such rows; null if `reshape` is something else.
Value* KernelEmitter::rows_apart(Nest& nest, const ir::Op& reshape, const Indices& at) {
  const ir::Op* load = load_of_rows(reshape, nest.domain);
  if (!load || reshape.operand(0)->type.shape.back().value() != nest.narrow) return nullptr;
  Value* first = b_.CreateExactSDiv(nest.step, b_.getInt64(static_cast<std::uint64_t>(nest.narrow)));
  Indices inside = at;
  inside.back() = Index{first, true, nullptr, nest.hoist_depth, false, nest.narrow};
  inside.push_back(Index{b_.getInt64(0)});
  for (const ir::Value* v = reshape.operand(0); v->def != load; v = v->def->operand(0))
    inside = operand_indices(*v->def, inside);
  const std::size_t row = inside.size() - 2;
  auto at_column = [&](int c) {
    Indices there = inside;
    there.back() = Index{b_.getInt64(static_cast<std::uint64_t>(c))};
    return there;
  };
  int width = nest.narrow; // without the columns that the load masks off
  for (int c = 0; load->mask() && c < nest.narrow; ++c) {
    auto* wanted = llvm::dyn_cast<llvm::ConstantInt>(element(nest, load->mask(), at_column(c)));
    if (!wanted || (wanted->isOne() && c > width)) return nullptr; // not a constant number of columns
    if (wanted->isZero()) width = std::min(width, c);
  }
  if (width == 0) return nullptr;
  for (int c : {0, width - 1}) // the fast part ends where either is not inside
    internal_check(!view_access(nest, *load, at_column(c)).mask, "a load of narrow rows needs a mask");
  Indices corner = inside;
  corner[row].linear = false;
  Value* address = view_access(nest, *load, corner, /*address_only=*/true).address;
  Value* stride = facts(load->operand(0)).strides[static_cast<std::size_t>(load->integers("axes")[row])];
  return load_runs(nest, load->result()->type.dtype, address, stride, width);
}

// Loads the current vector from rows of `width` elements that are `stride` elements apart. Lanes past the
// width of a row are zero.
Value* KernelEmitter::load_runs(Nest& nest, DType dtype, Value* address, Value* stride, int width) {
  llvm::Type* element = memory_type(context_, dtype);
  const llvm::Align align(static_cast<unsigned>(size_of(dtype)));
  Value* bits = llvm::Constant::getNullValue(lanes_type(element, nest.lanes));
  for (int lane = 0; lane < nest.lanes;) {
    const auto row = (nest.phase + lane) / nest.narrow;
    const int column = static_cast<int>((nest.phase + lane) % nest.narrow);
    const int of_row = std::min(nest.narrow - column, nest.lanes - lane);
    if (const int count = std::min(of_row, width - column); count > 0) {
      Value* position = b_.CreateAdd(b_.CreateMul(stride, b_.getInt64(static_cast<std::uint64_t>(row))),
                                     b_.getInt64(static_cast<std::uint64_t>(column)));
      bits = load_run(bits, b_.CreateGEP(element, address, position), align, lane, count);
    }
    lane += of_row;
  }
  return from_memory(b_, numbers_, bits, dtype);
}

// Loads `count` elements into the lanes of a vector from `lane` on.
Value* KernelEmitter::load_run(Value* into, Value* address, llvm::Align align, int lane, int count) {
  const int lanes = lanes_of(into);
  llvm::Type* element = into->getType()->getScalarType();
  if (target_.avx512) {
    std::vector<llvm::Constant*> wanted;
    for (int l = 0; l < lanes; ++l)
      wanted.push_back(b_.getInt1(l >= lane && l < lane + count));
    Value* lane_0 = b_.CreateConstGEP1_64(element, address, static_cast<std::uint64_t>(-lane));
    return b_.CreateMaskedLoad(into->getType(), lane_0, align, llvm::ConstantVector::get(wanted), into);
  }
  const int part = lanes_of_part(count);
  for (int first : {0, count - part}) {
    Value* from = b_.CreateConstGEP1_64(element, address, static_cast<std::uint64_t>(first));
    if (part == 1) {
      into = b_.CreateInsertElement(into, b_.CreateAlignedLoad(element, from, align),
                                    static_cast<std::uint64_t>(lane));
    } else {
      std::vector<int> widened(static_cast<std::size_t>(lanes), -1), order(static_cast<std::size_t>(lanes));
      std::iota(order.begin(), order.end(), 0);
      for (int l = 0; l < part; ++l) {
        widened[static_cast<std::size_t>(lane + first + l)] = l;
        order[static_cast<std::size_t>(lane + first + l)] = lanes + lane + first + l;
      }
      Value* loaded = b_.CreateAlignedLoad(lanes_type(element, part), from, align);
      into = b_.CreateShuffleVector(into, b_.CreateShuffleVector(loaded, widened), order);
    }
    if (part == count) break;
  }
  return into;
}

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
    const int count = lanes_of_part(end - first);
    store(first, count);
    if (count < end - first) store(end - count, count);
    first = end;
  }
  return true;
}

} // namespace kiln::cpu
