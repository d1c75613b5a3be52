// Emits the microkernel: a K loop whose accumulators are phis.
#include <algorithm>
#include <kiln/jit/cpu/dot/c_tile.h>
#include <kiln/jit/cpu/dot/convert.h>
#include <kiln/jit/cpu/dot/microkernel.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/emit/prefetch.h>
#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>

namespace kiln::cpu::dot {

namespace {

using llvm::Value;

// Steps of K per iteration of the K loop.
int unrolled_steps(const Plan& plan) {
  if (plan.panel == PanelKind::I16Pairs)
    return plan.target.isa == DotIsa::Avx2 ? tuning::avx2_pairs_unrolled_k : 1;
  if (plan.target.slow_l2) return tuning::slow_l2_unrolled_k;
  return plan.blocks_rows ? tuning::blocked_unrolled_k : 1;
}

// Adds the dot products of four bytes of A and B each to `sum`. On x86 one operand is unsigned, the other
// signed.
Value* byte_products(Builder& b, const Plan& plan, Value* of_a, Value* of_b, Value* sum) {
  llvm::Type* bytes = llvm::FixedVectorType::get(b.getInt8Ty(), static_cast<unsigned>(plan.lanes) * 4);
  Value *with_sign = b.CreateBitCast(of_b, bytes), *without = b.CreateBitCast(of_a, bytes);
  if (!plan.target.x86 && plan.shape.a == plan.shape.b) {
    const auto id =
        plan.shape.a == DType::I8 ? llvm::Intrinsic::aarch64_neon_sdot : llvm::Intrinsic::aarch64_neon_udot;
    return b.CreateIntrinsic(id, {sum->getType(), bytes}, {sum, without, with_sign});
  }
  if (plan.shape.b == DType::U8) std::swap(with_sign, without);
  if (!plan.target.x86)
    return b.CreateIntrinsic(llvm::Intrinsic::aarch64_neon_usdot, {sum->getType(), bytes},
                             {sum, without, with_sign});
  return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpdpbusd_512, {}, {sum, without, with_sign});
}

struct Microkernel {
  Builder& b;
  const Plan& plan;
  const bool packs;
  llvm::Type* c_element;
  llvm::Type* c_vector;
  llvm::Type* ab_element; // the type that one step reads from A: an element, or a group as i32
  llvm::Type* b_element;  // the type that B's row stride counts
  llvm::Type* a_part;     // the type that A's row stride counts: an element, or a part of a group
  llvm::Type* ab_vector;
  llvm::Align c_align;
  llvm::Align ab_align;

  Microkernel(Builder& builder, const Plan& p, bool packs_b) : b(builder), plan(p), packs(packs_b) {
    c_element = accumulator_type(b, plan);
    ab_element = plan.group() > 1 ? b.getInt32Ty() : c_element;
    b_element = packs ? memory_type(b, plan.shape.b) : ab_element;
    c_vector = llvm::FixedVectorType::get(c_element, static_cast<unsigned>(plan.lanes));
    a_part = plan.group() > 1 ? b.getIntNTy(32U / static_cast<unsigned>(plan.group())) : ab_element;
    ab_vector = llvm::FixedVectorType::get(ab_element, static_cast<unsigned>(plan.lanes));
    c_align = llvm::Align(static_cast<std::uint64_t>(size_of(plan.accumulator)));
    ab_align = plan.group() > 1 ? llvm::Align(static_cast<std::uint64_t>(4 / plan.group())) : c_align;
  }

  // Sums of two products each, for targets without the multiply-add-pairs instruction.
  Value* i16_pair_products(Value* x, Value* y) {
    auto low = [&](Value* v) { return b.CreateAShr(b.CreateShl(v, 16), 16); };
    auto high = [&](Value* v) { return b.CreateAShr(v, 16); };
    return b.CreateAdd(b.CreateMul(low(x), low(y)), b.CreateMul(high(x), high(y)));
  }

  Value* multiply_add(Value* x, Value* y, Value* sum) {
    switch (plan.panel) {
    case PanelKind::F32:
    case PanelKind::F64: return fused_multiply_add(b, plan, x, y, sum);
    case PanelKind::I16Pairs: {
      if (!plan.target.x86) return b.CreateAdd(sum, i16_pair_products(x, y));
      llvm::Type* pairs = llvm::FixedVectorType::get(b.getInt16Ty(), static_cast<unsigned>(plan.lanes) * 2);
      const auto id = plan.target.isa == DotIsa::Avx512 ? llvm::Intrinsic::x86_avx512_pmaddw_d_512
                      : plan.target.isa == DotIsa::Avx2 ? llvm::Intrinsic::x86_avx2_pmadd_wd
                                                        : llvm::Intrinsic::x86_sse2_pmadd_wd;
      return b.CreateAdd(sum,
                         b.CreateIntrinsic(id, {}, {b.CreateBitCast(x, pairs), b.CreateBitCast(y, pairs)}));
    }
    case PanelKind::I8Quads: return byte_products(b, plan, x, y, sum);
    case PanelKind::Bf16Pairs: return bf16_pair_products(b, plan, x, y, sum);
    }
    return nullptr;
  }

  // Loads what one step reads of B: a row of a sliver, or a group of rows in memory, which it arranges as a
  // row of a sliver.
  llvm::SmallVector<Value*, 8> load_row(Value* row) {
    llvm::SmallVector<Value*, 8> vectors;
    for (int v = 0; v < plan.vectors; ++v)
      vectors.push_back(b.CreateAlignedLoad(ab_vector, vector_at(row, v), ab_align));
    return vectors;
  }
  llvm::SmallVector<Value*, 8> load_source_rows(Value* row, Value* stride) {
    const DType from = plan.shape.b;
    const auto count = static_cast<unsigned>(plan.group() * plan.lanes);
    llvm::Type* type = llvm::FixedVectorType::get(b_element, count);
    llvm::SmallVector<Value*, 8> vectors;
    for (unsigned column = 0; column < static_cast<unsigned>(plan.nr()); column += count) {
      llvm::SmallVector<Value*, 2> of_rows;
      for (int i = 0; i < plan.group(); ++i) {
        Value* at = row_of(row, b_element, stride, b.getInt64(static_cast<std::uint64_t>(i)));
        Value* v = b.CreateAlignedLoad(type, b.CreateConstGEP1_64(b_element, at, column),
                                       llvm::Align(static_cast<std::uint64_t>(size_of(from))));
        of_rows.push_back(to_panel(b, v, from, plan.panel, plan.target));
      }
      if (plan.group() == 2) {
        const auto both = interleaved(b, of_rows[0], of_rows[1]);
        of_rows.assign(both.begin(), both.end());
      }
      for (Value* v : of_rows)
        vectors.push_back(b.CreateBitCast(v, ab_vector));
    }
    return vectors;
  }
  void store_row(llvm::ArrayRef<Value*> vectors, Value* row) {
    for (int v = 0; v < plan.vectors; ++v)
      b.CreateAlignedStore(vectors[static_cast<std::size_t>(v)], vector_at(row, v), ab_align);
  }
  // The rows of B that one step reads, in memory or of a sliver.
  int rows_of_step() const { return packs ? plan.group() : 1; }
  Value* vector_at(Value* row, int v) {
    return b.CreateConstGEP1_64(ab_element, row, static_cast<std::uint64_t>(v * plan.lanes));
  }

  Value* row_of(Value* base, llvm::Type* element, Value* stride, Value* row) {
    return b.CreateGEP(element, base, b.CreateMul(row, stride));
  }

  // The state of the K loop.
  struct State {
    Value *step, *b_row;
    llvm::SmallVector<Value*, 32> sums;
  };

  // Emits `do state = body(state) while (state.step < end)`, or a while loop if it may have no iteration.
  template <class Body>
  State loop(const State& from, const char* name, Body&& body, Value* end, bool may_be_empty = false) {
    llvm::BasicBlock *before = b.GetInsertBlock(), *inside = new_block(b, name),
                     *done = new_block(b, "k.done");
    if (may_be_empty)
      b.CreateCondBr(b.CreateICmpULT(from.step, end), inside, done);
    else
      b.CreateBr(inside);
    b.SetInsertPoint(inside);
    auto phi = [&](Value* start) -> Value* {
      llvm::PHINode* phi = b.CreatePHI(start->getType(), 2);
      phi->addIncoming(start, before);
      return phi;
    };
    State at{phi(from.step), phi(from.b_row), {}};
    for (Value* sum : from.sums)
      at.sums.push_back(phi(sum));
    State next = body(at);
    auto continues = [&](Value* phi, Value* value) {
      llvm::cast<llvm::PHINode>(phi)->addIncoming(value, b.GetInsertBlock());
    };
    continues(at.step, next.step);
    continues(at.b_row, next.b_row);
    for (std::size_t i = 0; i < at.sums.size(); ++i)
      continues(at.sums[i], next.sums[i]);
    llvm::BasicBlock* last = b.GetInsertBlock();
    b.CreateCondBr(b.CreateICmpULT(next.step, end), inside, done);
    b.SetInsertPoint(done);
    if (!may_be_empty) return next;
    auto either = [&](Value* none, Value* some) -> Value* {
      llvm::PHINode* phi = b.CreatePHI(some->getType(), 2);
      phi->addIncoming(none, before);
      phi->addIncoming(some, last);
      return phi;
    };
    next.step = either(from.step, next.step);
    next.b_row = either(from.b_row, next.b_row);
    for (std::size_t i = 0; i < next.sums.size(); ++i)
      next.sums[i] = either(from.sums[i], next.sums[i]);
    return next;
  }

  static llvm::SmallVector<Value*, 32> repeated(llvm::ArrayRef<Value*> row, unsigned times) {
    llvm::SmallVector<Value*, 32> all;
    for (unsigned i = 0; i < times; ++i)
      all.append(row.begin(), row.end());
    return all;
  }

  // Adds the products of one step to the sums.
  llvm::SmallVector<Value*, 32> add_products(const State& at, llvm::ArrayRef<Value*> row_pointers,
                                             Value* signs, llvm::ArrayRef<Value*> b_vectors) {
    const auto vectors = static_cast<unsigned>(plan.vectors), lanes = static_cast<unsigned>(plan.lanes);
    llvm::SmallVector<Value*, 32> sums;
    for (Value* row : row_pointers) {
      Value* x = b.CreateAlignedLoad(ab_element, b.CreateGEP(ab_element, row, at.step), ab_align);
      Value* splat = b.CreateVectorSplat(lanes, x);
      if (plan.shifts_a()) splat = b.CreateXor(splat, signs);
      for (unsigned v = 0; v < vectors; ++v)
        sums.push_back(multiply_add(splat, b_vectors[v], at.sums[sums.size()]));
    }
    return sums;
  }

  void build(llvm::Function* f) {
    Value *a = f->getArg(0), *a_stride = f->getArg(1), *panel = f->getArg(2), *b_stride = f->getArg(3);
    Value *c = f->getArg(4), *c_stride = f->getArg(5), *m = f->getArg(6), *n = f->getArg(7);
    Value *k = f->getArg(8), *accumulate = f->getArg(9), *corrections = f->getArg(10),
          *packed = f->getArg(11), *to_next_b = f->getArg(12);
    const auto rows = static_cast<unsigned>(plan.mr), vectors = static_cast<unsigned>(plan.vectors);
    const auto lanes = static_cast<unsigned>(plan.lanes);

    CTile to(b, plan, c, c_stride, m, n);

    // A short tile computes its last row again in place of the missing rows, and does not store those.
    llvm::SmallVector<Value*, 8> row_pointers;
    Value* last_row = b.CreateSub(m, b.getInt64(1));
    for (unsigned r = 0; r < rows; ++r)
      row_pointers.push_back(row_of(a, a_part, a_stride, smin(b, b.getInt64(r), last_row)));

    llvm::SmallVector<Value*, 8> start(vectors, llvm::Constant::getNullValue(c_vector));
    for (unsigned v = 0; plan.shifts_a() && v < vectors; ++v)
      start[v] =
          b.CreateAlignedLoad(c_vector, b.CreateConstGEP1_64(c_element, corrections, v * lanes), c_align);

    // 0x80 in every byte, loaded as a value that LLVM does not know. LLVM would flip a scalar and broadcast
    // that on the ports that multiply, in place of a broadcast that is a load.
    Value* signs = nullptr;
    if (plan.shifts_a())
      signs = b.CreateAlignedLoad(ab_vector, b.CreateConstGEP1_64(c_element, corrections, vectors * lanes),
                                  c_align);

    State first{b.getInt64(0), panel, repeated(start, rows)};
    if (plan.begins_with_c()) {
      first.sums = to.load(first.sums, accumulate);
      accumulate = b.getFalse();
    }
    auto one_step = [&](const State& at) {
      if (plan.shape.prefetches_next_b && (plan.streams_b() || packs))
        prefetch_row(b.CreateGEP(b.getInt8Ty(), at.b_row, to_next_b), b_stride, Cache::L2);
      else if (plan.streams_b() || packs)
        prefetch_rows_ahead(at.b_row, b_stride, plan.streamed_steps_ahead, Cache::L2);
      if (plan.target.slow_l2)
        prefetch_rows_ahead(at.b_row, b_stride, tuning::sliver_prefetch_rows, Cache::L1);
      const auto b_vectors = packs ? load_source_rows(at.b_row, b_stride) : load_row(at.b_row);
      if (packs)
        store_row(b_vectors,
                  row_of(packed, ab_element, b.getInt64(static_cast<std::uint64_t>(plan.nr())), at.step));
      State next;
      next.step = b.CreateNUWAdd(at.step, b.getInt64(1));
      next.sums = add_products(at, row_pointers, signs, b_vectors);
      next.b_row =
          row_of(at.b_row, b_element, b_stride, b.getInt64(static_cast<std::uint64_t>(rows_of_step())));
      return next;
    };
    auto to_the_end = [&](const State& from, Value* end) {
      return loop(from, "k.loop", [&](const State& at) { return one_step(at); }, end);
    };
    if (!plan.streams_b()) to.prefetch();
    // The hardware prefetches packed rows, and blocked rows are in L2: prefetching them costs 2 to 4 %.
    const bool prefetches_next_rows = !plan.streams_b() && !plan.blocks_rows && !plan.target.slow_l2;
    State last;
    const int steps = unrolled_steps(plan);
    if (steps > 1) {
      Value* whole = b.CreateAnd(k, b.getInt64(~std::uint64_t(steps - 1)));
      auto turn = [&](State at) {
        for (int i = 0; i < steps; ++i)
          at = one_step(at);
        return at;
      };
      last = loop(loop(first, "k.turn", turn, whole, true), "k.loop", one_step, k, true);
    } else if (!prefetches_next_rows) {
      last = to_the_end(first, k);
    } else {
      // Prefetches a line of each row of the next tile, as often as the steps consume a line.
      const std::int64_t steps =
          line_bytes / static_cast<std::int64_t>(ab_element->getScalarSizeInBits() / 8);
      Value* next_rows = row_of(a, a_part, a_stride, b.getInt64(rows));
      last = loop(
          first, "k.line",
          [&](const State& at) {
            for (unsigned r = 0; r < rows; ++r)
              prefetch_line(
                  b, b.CreateGEP(ab_element, row_of(next_rows, a_part, a_stride, b.getInt64(r)), at.step),
                  Cache::L1);
            Value* end = b.CreateAdd(at.step, b.getInt64(static_cast<std::uint64_t>(steps)));
            return to_the_end(at, b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, end, k));
          },
          k);
    }
    to.store(last.sums, accumulate);
    b.CreateRetVoid();
  }

  // Prefetches rows of B. They come from memory, pages apart, where the hardware does not prefetch; or from
  // L2. L1 waits for too few lines at a time to read memory by itself: with the lines in L2, 6 to 32 rows
  // take half as long (Zen 4).
  void prefetch_rows_ahead(Value* b_row, Value* b_stride, std::int64_t rows, Cache into) {
    prefetch_row(
        row_of(b_row, b_element, b_stride, b.getInt64(static_cast<std::uint64_t>(rows * rows_of_step()))),
        b_stride, into);
  }

  // Prefetches what one step reads of B.
  void prefetch_row(Value* b_row, Value* b_stride, Cache into) {
    const auto element = static_cast<std::int64_t>(b_element->getPrimitiveSizeInBits() / 8);
    const std::int64_t step = std::max<std::int64_t>(line_bytes / element, plan.lanes);
    for (int i = 0; i < rows_of_step(); ++i) {
      Value* ahead = row_of(b_row, b_element, b_stride, b.getInt64(static_cast<std::uint64_t>(i)));
      for (std::int64_t j = 0; j < plan.nr(); j += step)
        prefetch_line(b, b.CreateConstGEP1_64(b_element, ahead, static_cast<std::uint64_t>(j)), into);
    }
  }
};

} // namespace

llvm::Type* accumulator_type(Builder& b, const Plan& plan) {
  if (plan.accumulator == DType::F64) return b.getDoubleTy();
  return plan.accumulator == DType::F32 ? b.getFloatTy() : static_cast<llvm::Type*>(b.getInt32Ty());
}

// fmuladd would not do: a target machine that must not contract makes it two instructions.
Value* fused_multiply_add(Builder& b, const Plan& plan, Value* x, Value* y, Value* sum) {
  const bool fused = plan.target.isa != DotIsa::Generic || !plan.target.x86;
  return fused ? b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, sum})
               : b.CreateFAdd(b.CreateFMul(x, y), sum);
}

Value* bf16_pair_products(Builder& b, const Plan& plan, Value* x, Value* y, Value* sum) {
  llvm::Type* pairs = llvm::FixedVectorType::get(b.getBFloatTy(), static_cast<unsigned>(plan.lanes) * 2);
  return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                           {sum, b.CreateBitCast(x, pairs), b.CreateBitCast(y, pairs)});
}

llvm::Function* microkernel(Builder& b, const Plan& plan, bool packs) {
  llvm::Type *ptr = b.getPtrTy(), *i64 = b.getInt64Ty();
  const std::string name =
      "kiln.dot.micro." + plan.tile_name() + (packs ? ".packs." + std::string(kiln::name(plan.shape.b)) : "");
  return routine(b, name, {ptr, i64, ptr, i64, ptr, i64, i64, i64, i64, b.getInt1Ty(), ptr, ptr, i64},
                 [&](llvm::Function* f) { Microkernel(b, plan, packs).build(f); });
}

// The microkernel multiplies a signed A as A + 128, an unsigned A as A - 128.
llvm::Function* corrections_routine(Builder& b, const Plan& plan) {
  llvm::Type *ptr = b.getPtrTy(), *i64 = b.getInt64Ty();
  return routine(b, "kiln.dot.corrections." + plan.tile_name(), {ptr, ptr, i64}, [&](llvm::Function* f) {
    auto* vector = llvm::FixedVectorType::get(b.getInt32Ty(), static_cast<unsigned>(plan.lanes));
    auto address = [&](Value* base, int v) {
      return b.CreateConstGEP1_64(b.getInt32Ty(), base, static_cast<std::uint64_t>(v * plan.lanes));
    };
    const llvm::Align align(4);
    Value* ones = b.CreateVectorSplat(static_cast<unsigned>(plan.lanes), b.getInt32(0x01010101));
    for (int v = 0; v < plan.vectors; ++v)
      b.CreateAlignedStore(llvm::Constant::getNullValue(vector), address(f->getArg(0), v), align);
    emit_for(b, b.getInt64(0), f->getArg(2), 1, [&](Value* step) {
      Value* row = b.CreateGEP(b.getInt32Ty(), f->getArg(1), b.CreateMul(step, b.getInt64(plan.nr())));
      for (int v = 0; v < plan.vectors; ++v) {
        Value* sum = b.CreateAlignedLoad(vector, address(f->getArg(0), v), align);
        Value* bytes = b.CreateAlignedLoad(vector, address(row, v), align);
        b.CreateAlignedStore(byte_products(b, plan, ones, bytes, sum), address(f->getArg(0), v), align);
      }
    });
    Value* signs = b.CreateVectorSplat(static_cast<unsigned>(plan.lanes), b.getInt32(0x80808080));
    b.CreateAlignedStore(signs, address(f->getArg(0), plan.vectors), align);
    for (int v = 0; v < plan.vectors; ++v) {
      Value* sum = b.CreateShl(b.CreateAlignedLoad(vector, address(f->getArg(0), v), align), 7);
      b.CreateAlignedStore(plan.shape.a == DType::I8 ? b.CreateNeg(sum) : sum, address(f->getArg(0), v),
                           align);
    }
    b.CreateRetVoid();
  });
}

} // namespace kiln::cpu::dot
