// Emits the outer and the inner products of skinny matrices.
#include <kiln/jit/cpu/dot/few_rows.h>

#include <kiln/jit/cpu/dot/convert.h>
#include <kiln/jit/cpu/dot/microkernel.h>
#include <kiln/jit/cpu/dot/store_lane_sums.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/emit/prefetch.h>

namespace kiln::cpu::dot {

namespace {

using llvm::Value;

bool of_one_row(const Plan& plan) { return plan.shape.m <= 1; }

// The vectors of columns that an outer product computes at a time.
int outer_vectors(const Plan& plan) {
  return of_one_row(plan) && !plan.blocks_rows ? tuning::one_row_outer_product_vectors
                                               : tuning::outer_product_vectors;
}

struct InnerTile {
  std::int64_t rows;
  int columns;
};

// The rows of A and the columns of B that inner products combine at a time. For a short K, adding up lanes
// takes a large part of the time, which is least for as many sums as a vector has lanes.
InnerTile inner_tile(const Plan& plan) {
  const std::int64_t rows = std::max<std::int64_t>(plan.shape.m, 1);
  if (rows == 1) return {1, tuning::one_row_inner_product_columns};
  const std::int64_t most =
      plan.blocks_rows ? tuning::blocked_inner_product_rows : tuning::inner_product_tile_rows;
  const std::int64_t tiles = (rows - 1) / most + 1;
  const bool is_short = plan.shape.k <= tuning::short_inner_product_k;
  return {(rows - 1) / tiles + 1, is_short || plan.blocks_rows ? tuning::short_inner_product_tile_columns
                                                               : tuning::inner_product_tile_columns};
}

// Whether inner products combine all rows of A at a time.
bool one_tile_of_rows(const Plan& plan) { return inner_tile(plan).rows >= plan.shape.m; }

struct FewRows {
  Builder& b;
  const Plan& plan;
  llvm::Type* c_element;
  llvm::Type* c_vector;
  llvm::Align c_align;
  Value *a, *a_stride, *b_pointer, *b_stride, *c, *c_stride, *m, *n, *k, *accumulate, *to_next_b;

  FewRows(Builder& builder, const Plan& p, llvm::Function* f) : b(builder), plan(p) {
    c_element = accumulator_type(b, plan);
    c_vector = vector_of(c_element);
    c_align = llvm::Align(static_cast<std::uint64_t>(size_of(plan.accumulator)));
    Value** const arguments[] = {&a, &a_stride, &b_pointer, &b_stride,   &c,        &c_stride,
                                 &m, &n,        &k,         &accumulate, &to_next_b};
    unsigned index = 0;
    for (Value** argument : arguments)
      *argument = f->getArg(index++);
  }

  Value* number(std::int64_t x) { return b.getInt64(static_cast<std::uint64_t>(x)); }
  llvm::Type* vector_of(llvm::Type* element) {
    return llvm::FixedVectorType::get(element, static_cast<unsigned>(plan.lanes));
  }
  Value* at(llvm::Type* element, Value* base, Value* row, Value* stride, Value* column) {
    return b.CreateGEP(element, base, b.CreateAdd(b.CreateMul(row, stride), column));
  }
  llvm::Align align_of(DType t) { return llvm::Align(static_cast<std::uint64_t>(size_of(t))); }

  // Loads a vector and converts it to accumulator elements. If there is a mask, only its lanes are loaded.
  Value* load(DType from, Value* address, Value* mask) {
    llvm::Type* type = vector_of(memory_type(b, from));
    Value* bits = mask ? static_cast<Value*>(b.CreateMaskedLoad(type, address, align_of(from), mask,
                                                                llvm::Constant::getNullValue(type)))
                       : b.CreateAlignedLoad(type, address, align_of(from));
    const PanelKind panel = plan.accumulator == DType::F64 ? PanelKind::F64 : PanelKind::F32;
    return to_panel(b, bits, from, panel, plan.target);
  }
  Value* fused(Value* x, Value* y, Value* sum) { return fused_multiply_add(b, plan, x, y, sum); }

  // What one step of an inner product reads of a row or column: a vector of elements that are converted, or
  // twice as many bf16 where an instruction multiplies pairs of them.
  bool multiplies_pairs() const { return plan.panel == PanelKind::Bf16Pairs; }
  int inner_lanes() const { return multiplies_pairs() ? 2 * plan.lanes : plan.lanes; }
  Value* load_inner(DType from, Value* address, Value* mask) {
    if (!multiplies_pairs()) return load(from, address, mask);
    auto* type = llvm::FixedVectorType::get(memory_type(b, from), static_cast<unsigned>(inner_lanes()));
    if (!mask) return b.CreateAlignedLoad(type, address, align_of(from));
    return b.CreateMaskedLoad(type, address, align_of(from), mask, llvm::Constant::getNullValue(type));
  }
  Value* inner_product(Value* x, Value* y, Value* sum) {
    return multiplies_pairs() ? bf16_pair_products(b, plan, x, y, sum) : fused(x, y, sum);
  }

  // --- Rows of B contiguous ---

  // C[:, j : j + vectors] += A[:, k0 : k0 + depth] * B[k0 : k0 + depth, j : j + vectors]. The rows of B stay
  // in registers for all rows of A.
  void outer_step(Value* k0, int depth, Value* j, int vectors, Value* mask) {
    llvm::Type* element = memory_type(b, plan.shape.b);
    llvm::SmallVector<Value*, 16> of_b;
    for (int p = 0; p < depth; ++p) {
      Value* row = at(element, b_pointer, b.CreateAdd(k0, number(p)), b_stride, j);
      if (plan.shape.prefetches_next_b)
        prefetch_lines(b, b.CreateGEP(b.getInt8Ty(), row, to_next_b),
                       vectors * plan.lanes * size_of(plan.shape.b), Cache::L2);
      else if (!mask && !plan.target.hardware_prefetches_rows)
        prefetch_lines(b, b.CreateConstGEP1_64(b.getInt8Ty(), row, tuning::skinny_prefetch_bytes),
                       vectors * plan.lanes * size_of(plan.shape.b), Cache::L2);
      for (int v = 0; v < vectors; ++v)
        of_b.push_back(load(plan.shape.b,
                            b.CreateConstGEP1_64(element, row, static_cast<std::uint64_t>(v * plan.lanes)),
                            mask));
    }
    auto add_to_row = [&](Value* r) {
      Value* c_row = at(c_element, c, r, c_stride, j);
      Value* a_row = at(c_element, a, r, a_stride, k0);
      llvm::SmallVector<Value*, 4> sums, places;
      for (int v = 0; v < vectors; ++v) {
        places.push_back(b.CreateConstGEP1_64(c_element, c_row, static_cast<std::uint64_t>(v * plan.lanes)));
        sums.push_back(mask ? static_cast<Value*>(b.CreateMaskedLoad(c_vector, places.back(), c_align, mask,
                                                                     llvm::Constant::getNullValue(c_vector)))
                            : b.CreateAlignedLoad(c_vector, places.back(), c_align));
      }
      for (int p = 0; p < depth; ++p) {
        Value* x = b.CreateAlignedLoad(
            c_element, b.CreateConstGEP1_64(c_element, a_row, static_cast<std::uint64_t>(p)), c_align);
        Value* splat = b.CreateVectorSplat(static_cast<unsigned>(plan.lanes), x);
        for (int v = 0; v < vectors; ++v) {
          auto i = static_cast<std::size_t>(v);
          sums[i] = fused(splat, of_b[static_cast<std::size_t>(p * vectors + v)], sums[i]);
        }
      }
      for (int v = 0; v < vectors; ++v) {
        auto i = static_cast<std::size_t>(v);
        if (mask)
          b.CreateMaskedStore(sums[i], places[i], c_align, mask);
        else
          b.CreateAlignedStore(sums[i], places[i], c_align);
      }
    };
    if (of_one_row(plan))
      add_to_row(number(0));
    else
      emit_for(b, number(0), m, 1, add_to_row);
  }

  void outer_columns(Value* k0, int depth, Value* begin, Value* end) {
    const std::int64_t step = static_cast<std::int64_t>(plan.lanes) * outer_vectors(plan);
    Value* whole = b.CreateAdd(begin, b.CreateAnd(b.CreateSub(end, begin), number(-step)));
    emit_for(b, begin, whole, step,
             [&](Value* j) { outer_step(k0, depth, j, outer_vectors(plan), nullptr); });
    emit_for(b, whole, end, plan.lanes,
             [&](Value* j) { outer_step(k0, depth, j, 1, lanes_below(b, b.CreateSub(end, j), plan.lanes)); });
  }

  void outer() {
    emit_if(b, b.CreateNot(accumulate), [&] {
      emit_for(b, number(0), m, 1, [&](Value* r) {
        b.CreateMemSet(at(c_element, c, r, c_stride, number(0)), b.getInt8(0),
                       b.CreateMul(n, number(size_of(plan.accumulator))), c_align);
      });
    });
    Value* whole = b.CreateAnd(k, number(-tuning::outer_product_k));
    Value* share = b.CreateAnd(b.CreateUDiv(number(tuning::outer_product_run), m),
                               number(-plan.lanes * outer_vectors(plan)));
    Value* run = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, number(tuning::min_outer_product_run), share);
    emit_for(b, number(0), n, run, [&](Value* begin) {
      Value* end = smin(b, n, b.CreateAdd(begin, run));
      emit_for(b, number(0), whole, tuning::outer_product_k,
               [&](Value* k0) { outer_columns(k0, tuning::outer_product_k, begin, end); });
      emit_for(b, whole, k, 1, [&](Value* k0) { outer_columns(k0, 1, begin, end); });
    });
    b.CreateRetVoid();
  }

  // --- Columns of B contiguous ---

  // Pointers to `most` rows of A or columns of B. Those past the end repeat the last one; their results are
  // not stored.
  llvm::SmallVector<Value*, 4> lines(DType t, Value* base, Value* stride, Value* first, Value* count,
                                     std::int64_t most) {
    llvm::SmallVector<Value*, 4> pointers;
    for (std::int64_t i = 0; i < most; ++i) {
      Value* line = smin(b, b.CreateAdd(first, number(i)), b.CreateSub(count, number(1)));
      pointers.push_back(b.CreateGEP(memory_type(b, t), base, b.CreateMul(line, stride)));
    }
    return pointers;
  }

  llvm::SmallVector<Value*, 16> inner_step(llvm::ArrayRef<Value*> of_a, llvm::ArrayRef<Value*> of_b, Value* p,
                                           llvm::ArrayRef<Value*> sums, Value* mask, bool prefetches) {
    auto place = [&](DType t, Value* line) { return b.CreateGEP(memory_type(b, t), line, p); };
    llvm::SmallVector<Value*, 4> x;
    for (Value* line : of_a)
      x.push_back(load_inner(plan.shape.a, place(plan.shape.a, line), mask));
    llvm::SmallVector<Value*, 16> next(sums.size());
    for (std::size_t j = 0; j < of_b.size(); ++j) {
      Value* column = place(plan.shape.b, of_b[j]);
      if (prefetches)
        prefetch_lines(b, b.CreateGEP(b.getInt8Ty(), column, inner_distance()),
                       inner_lanes() * size_of(plan.shape.b), Cache::L2);
      Value* y = load_inner(plan.shape.b, column, mask);
      for (std::size_t i = 0; i < x.size(); ++i)
        next[i * of_b.size() + j] = inner_product(x[i], y, sums[i * of_b.size() + j]);
    }
    return next;
  }

  // The distance of what an inner product prefetches.
  Value* inner_distance() {
    return plan.shape.prefetches_next_b ? to_next_b : number(tuning::skinny_prefetch_bytes);
  }

  // Emits a loop over whole vectors of k, then a masked last step; the sums stay in registers.
  llvm::SmallVector<Value*, 16> inner_sums(llvm::ArrayRef<Value*> of_a, llvm::ArrayRef<Value*> of_b,
                                           bool prefetches) {
    Value* whole = b.CreateAnd(k, number(-inner_lanes()));
    llvm::SmallVector<Value*, 16> sums(of_a.size() * of_b.size(), llvm::Constant::getNullValue(c_vector));
    auto loop = [&](Value* begin, Value* end, bool masked) {
      llvm::BasicBlock *before = b.GetInsertBlock(), *body = new_block(b, "k.loop"),
                       *after = new_block(b, "k.done");
      b.CreateCondBr(b.CreateICmpSLT(begin, end), body, after);
      b.SetInsertPoint(body);
      llvm::PHINode* p = b.CreatePHI(b.getInt64Ty(), 2);
      p->addIncoming(begin, before);
      llvm::SmallVector<Value*, 16> phis;
      for (Value* s : sums) {
        llvm::PHINode* phi = b.CreatePHI(c_vector, 2);
        phi->addIncoming(s, before);
        phis.push_back(phi);
      }
      Value* mask = masked ? lanes_below(b, b.CreateSub(end, p), inner_lanes()) : nullptr;
      auto next = inner_step(of_a, of_b, p, phis, mask, prefetches && !masked);
      Value* following = b.CreateNSWAdd(p, number(inner_lanes()));
      p->addIncoming(following, b.GetInsertBlock());
      for (std::size_t i = 0; i < phis.size(); ++i)
        llvm::cast<llvm::PHINode>(phis[i])->addIncoming(next[i], b.GetInsertBlock());
      llvm::BasicBlock* last = b.GetInsertBlock();
      b.CreateCondBr(b.CreateICmpSLT(following, end), body, after);
      b.SetInsertPoint(after);
      for (std::size_t i = 0; i < sums.size(); ++i) {
        llvm::PHINode* phi = b.CreatePHI(c_vector, 2);
        phi->addIncoming(sums[i], before);
        phi->addIncoming(next[i], last);
        sums[i] = phi;
      }
    };
    loop(number(0), whole, false);
    loop(whole, k, true);
    return sums;
  }

  void inner() {
    if (plan.shape.prefetches_next_b) {
      inner_columns(true);
    } else if (inner_lanes() * size_of(plan.shape.b) == line_bytes) {
      Value* bytes = b.CreateMul(b.CreateMul(n, k), number(size_of(plan.shape.b)));
      Value* far = b.CreateICmpSGT(bytes, number(tuning::min_prefetched_b_l2s * plan.target.l2_bytes));
      emit_if_else(b, far, [&] { inner_columns(true); }, [&] { inner_columns(false); });
    } else {
      inner_columns(false);
    }
    b.CreateRetVoid();
  }

  void inner_columns(bool prefetches) {
    const InnerTile tile = inner_tile(plan);
    emit_for(b, number(0), n, tile.columns, [&](Value* j) {
      auto of_b = lines(plan.shape.b, b_pointer, b_stride, j, n, tile.columns);
      const auto rows = [&](Value* i, bool prefetches) {
        auto of_a = lines(plan.shape.a, a, a_stride, i, m, tile.rows);
        store_lane_sums(b, plan, {c, c_stride, m, n, accumulate}, i, j, tile.columns,
                        inner_sums(of_a, of_b, prefetches));
      };
      // The first rows prefetch for all rows.
      if (prefetches) rows(number(0), true);
      if (prefetches && one_tile_of_rows(plan)) return;
      emit_for(b, number(prefetches ? tile.rows : 0), m, tile.rows, [&](Value* i) { rows(i, false); });
    });
  }
};

llvm::Function* few_rows_routine(Builder& b, const Plan& plan, const char* kind, void (FewRows::*emit)()) {
  llvm::Type *ptr = b.getPtrTy(), *i64 = b.getInt64Ty();
  const std::string name =
      std::string("kiln.dot.") + kind + "." + std::string(kiln::name(plan.shape.a)) + "." +
      std::string(kiln::name(plan.shape.b)) + "." + std::to_string(inner_tile(plan).rows) + "x" +
      std::to_string(inner_tile(plan).columns) + "." + isa_name(plan.target) +
      (plan.shape.prefetches_next_b ? ".ahead" : "") + (one_tile_of_rows(plan) ? ".all" : "");
  return routine(b, name, {ptr, i64, ptr, i64, ptr, i64, i64, i64, i64, b.getInt1Ty(), i64},
                 [&](llvm::Function* f) {
                   FewRows few(b, plan, f);
                   (few.*emit)();
                 });
}

} // namespace

llvm::Function* outer_products(Builder& b, const Plan& plan) {
  return few_rows_routine(b, plan, "outer", &FewRows::outer);
}

llvm::Function* inner_products(Builder& b, const Plan& plan) {
  return few_rows_routine(b, plan, "inner", &FewRows::inner);
}

} // namespace kiln::cpu::dot
