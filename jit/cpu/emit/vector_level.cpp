// Emits the vector loop of a nest: chooses the width of its steps, and emits its fast and its guarded part.
#include <kiln/jit/cpu/emit/vector_level.h>

#include <kiln/jit/cpu/abi.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/emit/combine.h>
#include <kiln/jit/emit/prefetch.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <utility>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

Values flatten(const Accumulators& accumulators) {
  Values flat;
  for (const Accumulator& a : accumulators) {
    flat.insert(flat.end(), a.values.begin(), a.values.end());
    if (a.has) flat.push_back(a.has);
  }
  return flat;
}

Accumulators unflatten(const Values& flat, const Accumulators& like) {
  Accumulators result = like;
  std::size_t at = 0;
  for (Accumulator& a : result) {
    for (Value*& v : a.values)
      v = flat[at++];
    if (a.has) a.has = flat[at++];
  }
  return result;
}

// Whether vectors of this nest may begin at any column: none of its values is reshaped, because reshapes
// count on vectors that begin at multiples of their length.
bool KernelEmitter::begins_anywhere(const ir::Value* v, Visited& seen) const {
  if (!v->type.is_tile() || !v->def || !seen.insert({v, true}).second || plan_.has_buffer(v)) return true;
  return !v->def->is(Opcode::Reshape) &&
         std::all_of(v->def->operands.begin(), v->def->operands.end(),
                     [&](const ir::Value* operand) { return begins_anywhere(operand, seen); });
}

// i1: a view is so large that the next kernel would not find what is stored to it in the caches
// (LaunchContext::stream_bytes).
Value* KernelEmitter::is_large(const ir::Value* of) {
  streams_ = true;
  ViewFacts& view = facts(of);
  if (view.streams) return view.streams;
  IRBuilder::InsertPointGuard guard(b_);
  b_.SetInsertPoint(entry_end_);
  Value* written = b_.getInt64(static_cast<std::uint64_t>(size_of(of->type.dtype)));
  for (Value* extent : view.extents)
    written = b_.CreateMul(written, extent);
  Value* least =
      b_.CreateLoad(b_.getInt64Ty(), b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), launch_context_,
                                                                   offsetof(LaunchContext, stream_bytes)));
  return view.streams = b_.CreateICmpSGE(written, least);
}

// Whether the vectors of this row may be stored with non-temporal stores, which saves reading what is
// overwritten. The view must be large enough (LaunchContext::stream_bytes). Non-temporal stores are of whole
// vectors at aligned addresses, so that the columns before the first aligned address are stored by masked
// stores, as those after the last whole line are.
std::optional<KernelEmitter::Streaming> KernelEmitter::may_stream(Nest& nest, const Indices& at) {
  if (nest.roots.size() != 1 || nest.lanes == 1) return std::nullopt;
  const Root& root = nest.roots[0];
  if (root.kind != Root::Kind::Store || root.stored_from) return std::nullopt;
  const ir::Op& op = *root.op;
  if (!op.is(Opcode::ViewStore) || op.mask()) return std::nullopt;
  const ir::Type& type = op.operand(0)->type;
  const auto& axes = op.integers("axes");
  bool rows = type.layout != LayoutClass::Any && !axes.empty() && axes.back() == type.view_rank - 1 &&
              nest.vector_axis == static_cast<int>(axes.size()) - 1;
  const int bytes = nest.native_lanes * size_of(type.dtype);
  if (!rows || bytes < 16) return std::nullopt;
  // The rows of a block are stored in turn, so that each vector must be a whole line.
  const bool block = !nest.rows.empty();
  if (block && (bytes != line_bytes || nest.transposed_stores.count(&op))) return std::nullopt;
  Value* large = is_large(op.operand(0));
  Value* address = root.destination ? destination_address(root, at)
                                    : view_access(nest, op, at, /*address_only=*/true).address;
  address = b_.CreatePtrToInt(address, b_.getInt64Ty());
  const auto past_multiple = [&](int unit) {
    return b_.CreateAnd(address, b_.getInt64(static_cast<std::uint64_t>(unit - 1)));
  };
  Visited seen;
  Streaming streaming;
  Value* misaligned = past_multiple(bytes);
  if (block) {
    const auto row_axis = static_cast<std::size_t>(axes[static_cast<std::size_t>(nest.outer_axes.back())]);
    Value* row_bytes = b_.CreateMul(facts(op.operand(0)).strides[row_axis],
                                    b_.getInt64(static_cast<std::uint64_t>(size_of(type.dtype))));
    misaligned = b_.CreateOr(misaligned, b_.CreateAnd(row_bytes, b_.getInt64(line_bytes - 1)));
  } else if (begins_anywhere(op.stored_value(), seen)) {
    misaligned = past_multiple(size_of(type.dtype));
    Value* to_line = b_.CreateAnd(b_.CreateNeg(address), b_.getInt64(line_bytes - 1));
    Value* columns = b_.CreateLShr(
        to_line, static_cast<std::uint64_t>(std::countr_zero(static_cast<unsigned>(size_of(type.dtype)))));
    const auto extent = nest.domain[static_cast<std::size_t>(nest.vector_axis)];
    streaming.first = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, columns,
                                               b_.getInt64(static_cast<std::uint64_t>(extent)));
    streaming.line = std::max(line_bytes / size_of(type.dtype), 1);
  }
  streaming.holds = b_.CreateAnd(large, b_.CreateICmpEQ(misaligned, b_.getInt64(0)));
  if (root.direct) streaming.holds = b_.CreateAnd(streaming.holds, root.direct);
  return streaming;
}

// The end of the fast part: before the first step from column `first` on that is not completely inside the
// views and below column `most`.
Value* KernelEmitter::vector_end(Nest& nest, Value* first, std::int64_t most, std::int64_t step) {
  Value* end = b_.getInt64(static_cast<std::uint64_t>(most));
  for (Value* limit : nest.limits)
    end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, limit);
  if (nest.limits.empty() && first == b_.getInt64(0))
    return b_.getInt64(static_cast<std::uint64_t>(most / step * step));
  end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, end, b_.getInt64(0)); // the difference must not wrap
  Value* columns = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b_.CreateSub(end, first), b_.getInt64(0));
  Value* rest = b_.CreateURem(columns, b_.getInt64(static_cast<std::uint64_t>(step)));
  return b_.CreateAdd(first, b_.CreateSub(columns, rest));
}

KernelEmitter::VectorLevel::VectorLevel(KernelEmitter& emitter, Nest& nest, Indices& at)
    : e_(emitter), b_(emitter.b_), nest_(nest), at_(at), outer_(static_cast<int>(nest.outer_axes.size())),
      axis_(static_cast<std::size_t>(nest.vector_axis)), extent_(nest.domain[axis_]),
      down_columns_(nest.reduced_axis >= 0), hosts_(nest.always && nest.rows.empty() && e_.deferral_.store &&
                                                    !e_.deferral_.body && e_.region_depth_ == 1) {
  for (const Root& root : nest.roots) {
    carries_values_ |= root.carries_values();
    scans_ |= root.kind == Root::Kind::Scan && !down_columns_;
    all_simple_ &= !root.carries_values() || simple_combine(*root.op);
  }
}

void KernelEmitter::VectorLevel::emit() {
  choose_width();
  choose_chains();
  nest_.hoisted.clear();
  nest_.clear_limits();
  nest_.limit_depth = outer_;
  Value* fast_end = b_.getInt64(0);
  const auto streaming = whole_ > 0 && !carries_values_ ? e_.may_stream(nest_, at_) : std::nullopt;
  if (streaming)
    fast_end = fast_parts(*streaming);
  else if (whole_ > 0)
    fast_end = fast_part(b_.getInt64(0), chunk_);
  Accumulators total = merged_chains();
  narrow(total);
  if (whole_ < extent_ || !nest_.limits.empty() || any_column_) {
    Value* begin_out_of_bounds = out_of_bounds_begin(fast_end);
    total = guarded_part(fast_end, begin_out_of_bounds ? begin_out_of_bounds : guarded_end(), total);
    if (begin_out_of_bounds) total = out_of_bounds_part(begin_out_of_bounds, total);
  }
  nest_.hoist_point = nullptr;
  nest_.hoisted.clear();
  nest_.memo.clear();
  nest_.tail = nullptr;
  at_[axis_] = Index{b_.getInt64(0)};
  if (!down_columns_) finish(total);
}

// How many registers one step covers.
//
// A function such as exp is a long chain of dependent operations. Several registers per step keep the
// processor busy, also where its schedulers hold no more than one register's chain.
//
// Down columns, several registers read whole lines of each row. With one register, a line could leave the
// cache before the next step reads the rest of it (for example if rows are a power of two apart), and fewer
// loads would be in flight at once. On Zen 4 column sums of 1024 x 4096 floats take 0.10 ns an element with 8
// registers and 0.145 with 4. Sums of exponentials spill with 8 and take 0.45 ns; with 4 they take 0.34.
int KernelEmitter::VectorLevel::registers_of_step() {
  if (!nest_.rows.empty() || scans_) return 1;
  const bool functions = e_.evaluates_functions(nest_);
  int registers = functions ? e_.target_.registers_per_step : 1;
  int running = 0; // running values of each column
  for (const Root& root : nest_.roots) {
    if (!root.carries_values()) continue;
    running += static_cast<int>(root.op->operands.size());
    if (!down_columns_ && !simple_combine(*root.op)) return 1; // without an identity: one
  }
  if (down_columns_ && running <= tuning::max_column_values)
    registers = std::max(registers, running == 1 && !functions ? tuning::single_value_column_registers
                                                               : tuning::column_registers);
  return registers;
}

void KernelEmitter::VectorLevel::choose_width() {
  const int registers = registers_of_step();
  if (down_columns_ && !all_simple_) {
    // Comparisons of wider vectors would be packed into one mask and unpacked for each register: on Zen 4
    // argmin of 64 x 1024 floats down columns takes 0.17 ns an element this way, and 0.26 with wide vectors.
    while (2 * side_by_side_ <= registers && extent_ >= 2 * side_by_side_ * nest_.native_lanes)
      side_by_side_ *= 2;
    return;
  }
  // Functions compute with floats, of which a vector of bytes already takes several registers.
  const int most_lanes = registers * e_.target_.vector_bytes / size_of(DType::F32);
  const int least_steps = down_columns_ ? 1 : 2;
  for (int lanes = registers * nest_.native_lanes; lanes > nest_.native_lanes; lanes /= 2)
    if (lanes <= most_lanes && extent_ >= least_steps * lanes) {
      nest_.lanes = lanes;
      return;
    }
}

// Chooses how many accumulators hide the latency of the combining operation, as far as there are registers
// for them. On Zen 4 argmax of rows takes 0.17 ns an element with four and 0.29 with one; with AVX2 0.19 and
// 0.33.
void KernelEmitter::VectorLevel::choose_chains() {
  nest_.unroll = 1;
  nest_.narrow = nest_.rows.empty() && !carries_values_ ? e_.width_of_narrow_rows(nest_) : 0;
  if (nest_.narrow > 0) nest_.unroll = nest_.narrow / std::gcd(nest_.narrow, nest_.lanes);
  if (carries_values_ && !down_columns_) {
    initial_ = e_.initial_accumulators(nest_);
    const int chains = scans_ ? 1 : tuning::reduction_accumulators * nest_.native_lanes / nest_.lanes;
    const int values = static_cast<int>(flatten(initial_).size());
    while (nest_.unroll < chains && 2 * nest_.unroll * values <= e_.target_.vector_registers &&
           extent_ >= 2 * nest_.unroll * nest_.lanes)
      nest_.unroll *= 2;
  }
  for (int k = 0; k < nest_.unroll; ++k)
    for (Value* v : flatten(initial_))
      flat_.push_back(v);
  chunk_ = static_cast<std::int64_t>(nest_.lanes) * nest_.unroll * side_by_side_;
  whole_ = extent_ / chunk_ * chunk_;
}

// Emits the body of one step, and returns the accumulators after it.
Accumulators KernelEmitter::VectorLevel::step(Value* j, Accumulators accumulators,
                                              llvm::Instruction* preheader, bool guarded, Value* tail) {
  const bool reversed = scans_ && nest_.reversed;
  if (reversed) j = b_.CreateNSWSub(constant(extent_ - nest_.lanes), j);
  at_[axis_] = Index{j, nest_.lanes > 1, nullptr, outer_ + 1, !reversed};
  nest_.loop_lanes = nest_.lanes;
  nest_.guarded = guarded;
  nest_.tail = tail;
  nest_.memo.clear();
  if (down_columns_) {
    for (const Columns& columns : reduced_columns(guarded ? 1 : side_by_side_)) {
      at_[axis_] = columns.at[axis_];
      finish(columns.running);
    }
    return accumulators;
  }
  nest_.hoist_point = preheader;
  nest_.hoist_depth = outer_ + 1;
  if (nest_.rows.empty())
    e_.emit_roots(nest_, at_, &accumulators);
  else
    block_of_rows();
  return accumulators;
}

// Emits every row of the block: unrolled, or in a loop if there are masks.
void KernelEmitter::VectorLevel::block_of_rows() {
  Index& row = at_[static_cast<std::size_t>(nest_.outer_axes.back())];
  const Index before = row;
  if (!nest_.guarded) {
    for (Value* r : nest_.rows) {
      row.base = r;
      e_.emit_roots(nest_, at_, nullptr);
    }
  } else {
    Value* end = b_.CreateNSWAdd(nest_.rows[0], constant(nest_.block));
    emit_loop(b_, nest_.rows[0], end, constant(1), {},
              [&](Value* r, const Values&, llvm::Instruction*) -> Values {
                row = Index{r, false, nullptr, outer_ + 2};
                nest_.memo.clear();
                e_.emit_roots(nest_, at_, nullptr);
                return {};
              });
    nest_.memo.clear();
  }
  row = before;
}

Accumulators KernelEmitter::VectorLevel::chain(int k) const {
  const auto each = static_cast<std::ptrdiff_t>(flat_.size()) / nest_.unroll;
  return unflatten(Values(flat_.begin() + each * k, flat_.begin() + each * (k + 1)), initial_);
}

Accumulators KernelEmitter::VectorLevel::merged_chains() {
  std::vector<Accumulators> chains;
  for (int k = 0; k < nest_.unroll; ++k)
    chains.push_back(chain(k));
  for (; chains.size() > 1; chains.resize(chains.size() / 2)) // their number is a power of two
    for (std::size_t k = 0; k < chains.size() / 2; ++k) {
      const Accumulators left = chains[2 * k], right = chains[2 * k + 1];
      each_reduction(
          [&](const Root& root, std::size_t r) { chains[k][r] = e_.merge(nest_, root, left[r], right[r]); });
    }
  return chains[0];
}

void KernelEmitter::VectorLevel::narrow(Accumulators& total) {
  if (nest_.lanes == nest_.native_lanes) return;
  if (!down_columns_)
    for (int lanes = nest_.lanes; lanes > nest_.native_lanes; lanes /= 2)
      each_reduction(
          [&](const Root& root, std::size_t r) { total[r] = e_.fold_half(nest_, root, total[r]); });
  nest_.lanes = nest_.native_lanes;
  nest_.hoisted.clear();
}

void KernelEmitter::VectorLevel::finish(const Accumulators& total) {
  each_reduction([&](const Root& root, std::size_t r) { e_.finish_reduction(nest_, root, total[r], at_); });
}

// The number of instructions in the blocks that have been added to the function after `last`.
static std::size_t instructions_after(const llvm::BasicBlock& last) {
  const llvm::Function& function = *last.getParent();
  std::size_t count = 0;
  for (auto block = std::next(last.getIterator()); block != function.end(); ++block)
    count += block->size();
  return count;
}

// Emits the fast part from column `first` on, which covers a multiple of `whole` columns. Its end is known
// only after its body has shown which views it accesses.
Value* KernelEmitter::VectorLevel::fast_part(Value* first, std::int64_t whole) {
  auto* open_end = new llvm::FreezeInst(b_.getInt64(0), "end", b_.GetInsertBlock());
  llvm::BasicBlock *here = b_.GetInsertBlock(), *last = &e_.function_->back();
  const std::size_t before = here->size();
  llvm::PHINode* index = nullptr;
  Loop loop = emit_loop(b_, first, open_end, constant(chunk_), flat_,
                        [&](Value* j, const Values& carried, llvm::Instruction* preheader) -> Values {
                          nest_.limit_point = preheader;
                          index = llvm::cast<llvm::PHINode>(j);
                          flat_ = carried;
                          Values next;
                          for (int k = 0; k < nest_.unroll; ++k) {
                            if (k == 0) nest_.step = j, nest_.columns.clear();
                            nest_.phase = std::int64_t{k} * nest_.lanes;
                            Accumulators now = chain(k);
                            Value* start = k == 0 ? j : b_.CreateNSWAdd(j, constant(k * nest_.lanes));
                            now = step(start, now, preheader, false, nullptr);
                            for (Value* v : flatten(now))
                              next.push_back(v);
                          }
                          return next;
                        });
  flat_ = loop.results;
  if (hosts_)
    e_.deferral_.hosts.push_back(
        {index, chunk_, nest_.native_lanes, here->size() - before + instructions_after(*last)});
  IRBuilder::InsertPointGuard guard(b_);
  b_.SetInsertPoint(loop.preheader_end);
  Value* end = e_.vector_end(nest_, first, extent_, std::max(chunk_, whole));
  open_end->replaceAllUsesWith(end);
  open_end->eraseFromParent();
  return end;
}

// Emits the columns before the first aligned address, which are less than a line.
void KernelEmitter::VectorLevel::columns_before(Value* first) {
  const int lanes = std::exchange(nest_.lanes, nest_.native_lanes);
  emit_loop(b_, b_.getInt64(0), first, constant(nest_.lanes), {},
            [&](Value* j, const Values&, llvm::Instruction* preheader) -> Values {
              step(j, {}, preheader, true, lanes_below(first, j));
              return {};
            });
  nest_.lanes = lanes;
  nest_.hoisted.clear();
}

Value* KernelEmitter::VectorLevel::fast_parts(const Streaming& streams) {
  Deferral& deferral = e_.deferral_;
  const bool defers =
      hosts_ && nest_.narrow == 0 && nest_.roots[0].op == deferral.store && !deferral.hosts.empty();
  if (defers) deferral.before_store = new llvm::FreezeInst(b_.getInt64(0), "before", b_.GetInsertBlock());
  auto* streaming = llvm::BasicBlock::Create(e_.context_, "streaming", e_.function_);
  auto* caching = llvm::BasicBlock::Create(e_.context_, "caching", e_.function_);
  auto* join = llvm::BasicBlock::Create(e_.context_, "join", e_.function_);
  b_.CreateCondBr(streams.holds, streaming, caching);
  b_.SetInsertPoint(join);
  llvm::PHINode* end = b_.CreatePHI(b_.getInt64Ty(), 2);
  auto store_vector = [&](Value* j, llvm::Instruction* preheader) { step(j, {}, preheader, false, nullptr); };
  any_column_ = streams.first != nullptr;
  for (auto* block : {streaming, caching}) {
    b_.SetInsertPoint(block);
    nest_.clear_limits();
    nest_.hoisted.clear();
    Value* first = b_.getInt64(0);
    if (block == streaming && any_column_) columns_before(first = streams.first);
    nest_.streaming = block == streaming;
    Value* reached = nest_.streaming && defers ? e_.defer_row(nest_, first, streams.line, store_vector)
                                               : fast_part(first, nest_.streaming ? streams.line : chunk_);
    end->addIncoming(reached, b_.GetInsertBlock());
    b_.CreateBr(join);
  }
  b_.SetInsertPoint(join);
  nest_.hoisted.clear();
  return end;
}

Value* KernelEmitter::VectorLevel::guarded_end() {
  if (Value* bound = nest_.bounds[axis_]) return bound; // at most the extent
  if (any_column_) return constant(extent_);
  return constant((extent_ + nest_.lanes - 1) / nest_.lanes * nest_.lanes);
}

Accumulators KernelEmitter::VectorLevel::guarded_part(Value* begin, Value* end, const Accumulators& so_far) {
  Loop loop = emit_loop(b_, begin, end, constant(nest_.lanes), flatten(so_far),
                        [&](Value* j, const Values& carried, llvm::Instruction* preheader) -> Values {
                          Value* tail = lanes_below_extent(j);
                          return flatten(step(j, unflatten(carried, so_far), preheader, true, tail));
                        });
  return unflatten(loop.results, so_far);
}

Value* KernelEmitter::VectorLevel::lanes_below_extent(Value* j) {
  return extent_ % nest_.lanes == 0 && !any_column_ ? nullptr : lanes_below(constant(extent_), j);
}

// The mask of lanes of the vector at column `j` that are below column `end`.
Value* KernelEmitter::VectorLevel::lanes_below(Value* end, Value* j) {
  Value* left = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateSub(end, j), constant(nest_.lanes));
  Value* lane = b_.CreateTrunc(lane_numbers(b_, nest_.lanes), lanes_type(b_.getInt32Ty(), nest_.lanes));
  return b_.CreateICmpSLT(lane, widen(b_, b_.CreateTrunc(left, b_.getInt32Ty()), nest_.lanes));
}

void KernelEmitter::emit_vector_level(Nest& nest, Indices& at) {
  if (nest.vector_axis >= 0) return VectorLevel(*this, nest, at).emit();
  nest.guarded = true;
  nest.memo.clear();
  emit_roots(nest, at, nullptr);
}

} // namespace kiln::cpu
