// Emits the AMX routine: loads of tiles, their products, and masked or rounded stores of the sums.
#include <kiln/jit/cpu/dot/amx.h>

#include <kiln/jit/cpu/dot/microkernel.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/emit/prefetch.h>

#include <llvm/IR/IntrinsicsX86.h>

namespace kiln::cpu::dot {

namespace {

using llvm::Value;

constexpr std::int64_t row_bytes = 64;
// The eight tile registers hold 2 x 2 tiles of C, 2 of A and 2 of B.
constexpr int first_c_tile = 0, first_a_tile = 4, first_b_tile = 6;

struct AmxKernel {
  Builder& b;
  const Plan& plan;
  Value *a, *a_stride, *b_panel, *b_stride, *c, *c_stride; // strides in bytes; b_stride is that of a sliver
  Value *m, *n, *steps, *accumulate;
  Value *ahead, *ahead_stride;
  Value *rounded = nullptr, *rounded_stride = nullptr; // only if the shape rounds

  AmxKernel(Builder& builder, const Plan& p, llvm::Function* f) : b(builder), plan(p) {
    Value** const arguments[] = {&a, &a_stride, &b_panel,    &c,     &c_stride,    &m,
                                 &n, &steps,    &accumulate, &ahead, &ahead_stride};
    unsigned index = 0;
    for (Value** argument : arguments)
      *argument = f->getArg(index++);
    if (plan.shape.rounds) {
      rounded = f->getArg(index);
      rounded_stride = b.CreateMul(f->getArg(index + 1), b.getInt64(2));
    }
    auto of_a = [&](Value* elements) {
      return b.CreateMul(elements, b.getInt64(static_cast<std::uint64_t>(4 / plan.group())));
    };
    a_stride = of_a(a_stride);
    ahead_stride = of_a(ahead_stride);
    b_stride = b.getInt64(static_cast<std::uint64_t>(plan.nr()) * 4);
    c_stride = b.CreateMul(c_stride, b.getInt64(4));
  }

  void tile_operation(llvm::Intrinsic::ID id, int tile) { b.CreateIntrinsic(id, {}, {number(tile)}); }
  void tile_memory(llvm::Intrinsic::ID id, int tile, Value* address, Value* stride) {
    b.CreateIntrinsic(id, {}, {number(tile), address, stride});
  }
  llvm::ConstantInt* number(int tile) { return b.getInt8(static_cast<std::uint8_t>(tile)); }
  Value* add_bytes(Value* pointer, Value* bytes) { return b.CreateGEP(b.getInt8Ty(), pointer, bytes); }
  // The address of tile (i, j) of a block of C or of an operand.
  Value* tile_address(Value* pointer, Value* stride, int i, int j) {
    Value* down = b.CreateMul(stride, b.getInt64(static_cast<std::uint64_t>(i * amx_tile_rows)));
    return add_bytes(pointer, b.CreateAdd(down, b.getInt64(static_cast<std::uint64_t>(j * row_bytes))));
  }
  template <class Each> void each_sum(int halves, Each&& each) {
    for (int i = 0; i < halves; ++i)
      for (int j = 0; j < 2; ++j)
        each(first_c_tile + 2 * i + j, i, j);
  }

  llvm::Intrinsic::ID product_intrinsic() const {
    if (plan.panel == PanelKind::Bf16Pairs) return llvm::Intrinsic::x86_tdpbf16ps;
    const bool signed_a = plan.shape.a == DType::I8, signed_b = plan.shape.b == DType::I8;
    if (signed_a) return signed_b ? llvm::Intrinsic::x86_tdpbssd : llvm::Intrinsic::x86_tdpbsud;
    return signed_b ? llvm::Intrinsic::x86_tdpbusd : llvm::Intrinsic::x86_tdpbuud;
  }

  void build() {
    auto* buffer = b.CreateAlloca(b.getInt8Ty(), b.getInt64(amx_extent * 2 * row_bytes));
    buffer->setAlignment(llvm::Align(64));
    Value* whole = b.CreateICmpEQ(n, b.getInt64(amx_extent));
    Value* rounds = rounded ? b.CreateIsNotNull(rounded) : b.getFalse();
    Value* direct = b.CreateAnd(whole, b.CreateNot(rounds));
    Value* place = b.CreateSelect(direct, c, buffer);
    Value* stride = b.CreateSelect(direct, c_stride, b.getInt64(2 * row_bytes));
    Value *loads = b.CreateAnd(whole, accumulate), *from = c, *from_stride = c_stride;
    if (plan.begins_with_c()) {
      emit_if(b, b.CreateAnd(accumulate, b.CreateNot(whole)), [&] { copy_c(buffer); });
      loads = accumulate;
      from = b.CreateSelect(whole, c, buffer);
      from_stride = b.CreateSelect(whole, c_stride, b.getInt64(2 * row_bytes));
      accumulate = b.getFalse(); // the sums that are stored include C
    }
    emit_if_else(
        b, b.CreateICmpSGT(m, b.getInt64(amx_tile_rows)),
        [&] { multiply(2, loads, from, from_stride, place, stride); },
        [&] { multiply(1, loads, from, from_stride, place, stride); });
    emit_if(b, b.CreateNot(direct), [&] {
      auto store = [&] {
        store_columns(buffer, [&](Value* sum, Value* row, int v, Value* mask) {
          b.CreateMaskedStore(sum, at_row(c, c_stride, row, v * row_bytes), llvm::Align(4), mask);
        });
      };
      if (!rounded) return store();
      emit_if_else(b, rounds, [&] { store_rounded(buffer, whole); }, store);
    });
    b.CreateRetVoid();
  }

  // Multiplies rows that fill one or two tiles, of which the last may be configured with fewer rows.
  void multiply(int halves, Value* loads, Value* from, Value* from_stride, Value* place, Value* stride) {
    auto move = [&](llvm::Intrinsic::ID id, Value* at, Value* row_stride) {
      each_sum(halves, [&](int tile, int i, int j) {
        tile_memory(id, tile, tile_address(at, row_stride, i, j), row_stride);
      });
    };
    emit_if_else(
        b, loads, [&] { move(llvm::Intrinsic::x86_tileloadd64, from, from_stride); },
        [&] {
          each_sum(halves, [&](int tile, int, int) { tile_operation(llvm::Intrinsic::x86_tilezero, tile); });
        });
    Value* row_end = b.CreateMul(steps, b.getInt64(4));
    emit_for(b, b.getInt64(0), row_end, row_bytes, [&](Value* along_row) {
      Value* a_at = add_bytes(a, along_row);
      Value* b_at =
          add_bytes(b_panel, b.CreateMul(along_row, b.getInt64(static_cast<std::uint64_t>(plan.nr()))));
      for (std::int64_t row = 0; row < tuning::amx_prefetch_rows; ++row) {
        Value* at = add_bytes(ahead, b.CreateMul(ahead_stride, b.getInt64(static_cast<std::uint64_t>(row))));
        prefetch_line(b, add_bytes(at, along_row), Cache::L2);
      }
      for (int i = 0; i < halves; ++i) {
        tile_memory(llvm::Intrinsic::x86_tileloadd64, first_a_tile + i, tile_address(a_at, a_stride, i, 0),
                    a_stride);
        for (int j = 0; j < 2; ++j) {
          if (i == 0)
            tile_memory(llvm::Intrinsic::x86_tileloadd64, first_b_tile + j,
                        tile_address(b_at, b_stride, 0, j), b_stride);
          b.CreateIntrinsic(
              product_intrinsic(), {},
              {number(first_c_tile + 2 * i + j), number(first_a_tile + i), number(first_b_tile + j)});
          const std::int64_t rows = amx_tile_rows / (2 * halves);
          prefetch_rows(b_at, amx_tile_rows + (2 * i + j) * rows, rows);
        }
      }
    });
    move(llvm::Intrinsic::x86_tilestored64, place, stride);
  }

  // Copies the first m rows and n columns of C to a buffer of whole tiles.
  void copy_c(Value* buffer) {
    Value* none = llvm::Constant::getNullValue(vector_of_sums());
    emit_for(b, b.getInt64(0), m, 1, [&](Value* row) {
      for (int v = 0; v < 2; ++v) {
        Value* mask = lanes_below(b, b.CreateSub(n, b.getInt64(static_cast<std::uint64_t>(v * plan.lanes))),
                                  plan.lanes);
        Value* old = b.CreateMaskedLoad(vector_of_sums(), at_row(c, c_stride, row, v * row_bytes),
                                        llvm::Align(4), mask, none);
        b.CreateAlignedStore(old, at_row(buffer, b.getInt64(2 * row_bytes), row, v * row_bytes),
                             llvm::Align(64));
      }
    });
  }

  // Prefetches rows of B's sliver for the next step, both tiles of each, between the products of this step.
  // Products of 1024 and 2048 cubed take a fifth less time where another thread shares the core, and half a
  // percent more where none does (Emerald Rapids). Prefetching two steps ahead, or one line of each row,
  // saves less.
  void prefetch_rows(Value* sliver, std::int64_t first, std::int64_t rows) {
    for (std::int64_t row = first; row < first + rows; ++row) {
      Value* at = add_bytes(sliver, b.CreateMul(b_stride, b.getInt64(static_cast<std::uint64_t>(row))));
      for (int j = 0; j < 2; ++j)
        prefetch_line(b, add_bytes(at, b.getInt64(static_cast<std::uint64_t>(j * row_bytes))), Cache::L1);
    }
  }

  llvm::Type* vector_of_sums() {
    return llvm::FixedVectorType::get(accumulator_type(b, plan), static_cast<unsigned>(plan.lanes));
  }
  // The address of byte `column` of a row.
  Value* at_row(Value* pointer, Value* stride, Value* row, std::int64_t column) {
    Value* bytes = b.CreateAdd(b.CreateMul(row, stride), b.getInt64(static_cast<std::uint64_t>(column)));
    return add_bytes(pointer, bytes);
  }
  Value* sums_of_row(Value* buffer, Value* row, int v) {
    Value* at = at_row(buffer, b.getInt64(2 * row_bytes), row, v * row_bytes);
    return b.CreateAlignedLoad(vector_of_sums(), at, llvm::Align(64));
  }

  // Calls `store(sum, row, vector, mask)` for each vector of the first n columns, after C has been added
  // where the product accumulates.
  template <class Store> void store_columns(Value* buffer, Store&& store) {
    const llvm::Align align(4);
    Value* none = llvm::Constant::getNullValue(vector_of_sums());
    emit_for(b, b.getInt64(0), m, 1, [&](Value* row) {
      for (int v = 0; v < 2; ++v) {
        Value* mask = lanes_below(b, b.CreateSub(n, b.getInt64(static_cast<std::uint64_t>(v * plan.lanes))),
                                  plan.lanes);
        Value* sum = sums_of_row(buffer, row, v);
        Value* old = b.CreateMaskedLoad(
            vector_of_sums(), at_row(c, c_stride, row, v * row_bytes), align,
            b.CreateSelect(accumulate, mask, llvm::Constant::getNullValue(mask->getType())), none);
        Value* added = plan.accumulator == DType::I32 ? b.CreateAdd(old, sum) : b.CreateFAdd(old, sum);
        store(b.CreateSelect(accumulate, added, sum), row, v, mask);
      }
    });
  }

  // Rounds one or two vectors of sums to bf16, in order. Denormal sums become zero, as they do in tile
  // registers.
  Value* round(Value* sums) {
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_512, {}, {sums});
  }
  Value* round(Value* first, Value* second) {
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtne2ps2bf16_512, {}, {second, first});
  }

  void store_rounded(Value* buffer, Value* whole) {
    emit_if_else(
        b, whole,
        [&] {
          emit_for(b, b.getInt64(0), m, 1, [&](Value* row) {
            Value* both = round(sums_of_row(buffer, row, 0), sums_of_row(buffer, row, 1));
            b.CreateAlignedStore(both, at_row(rounded, rounded_stride, row, 0), llvm::Align(2));
          });
        },
        [&] {
          store_columns(buffer, [&](Value* sum, Value* row, int v, Value* mask) {
            Value* to = at_row(rounded, rounded_stride, row, v * row_bytes / 2);
            b.CreateMaskedStore(round(sum), to, llvm::Align(2), mask);
          });
        });
  }
};

} // namespace

// Uses palette 1: each register has rows of 64 bytes. Registers of C and of A have as many rows as there are
// in their half of the 32 rows.
void emit_configure_amx(Builder& b, Value* rows) {
  auto* f = routine(b, "kiln.dot.tiles.configure", {b.getInt64Ty()}, [&](llvm::Function* f) {
    constexpr std::uint64_t bytes = 64, at_columns = 16, at_rows = 48;
    auto* config = b.CreateAlloca(b.getInt8Ty(), b.getInt64(bytes));
    config->setAlignment(llvm::Align(64));
    b.CreateMemSet(config, b.getInt8(0), bytes, llvm::Align(64));
    b.CreateStore(b.getInt8(1), config);
    Value *all = b.getInt64(amx_tile_rows), *second = b.CreateSub(f->getArg(0), all);
    Value* const rows_of_half[] = {smin(b, f->getArg(0), all),
                                   b.CreateSelect(b.CreateICmpSGT(second, b.getInt64(0)), second, all)};
    for (int tile = 0; tile < 8; ++tile) {
      Value* own =
          tile >= first_b_tile ? all : rows_of_half[tile >= first_a_tile ? tile - first_a_tile : tile / 2];
      const auto at = static_cast<std::uint64_t>(tile);
      b.CreateStore(b.getInt16(row_bytes), b.CreateConstGEP1_64(b.getInt8Ty(), config, at_columns + 2 * at));
      b.CreateStore(b.CreateTrunc(own, b.getInt8Ty()),
                    b.CreateConstGEP1_64(b.getInt8Ty(), config, at_rows + at));
    }
    b.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, llvm::ArrayRef<llvm::Type*>(), {config});
    b.CreateRetVoid();
  });
  b.CreateCall(f, {rows});
}

void emit_release_amx(Builder& b) {
  b.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, llvm::ArrayRef<llvm::Type*>(), {});
}

llvm::Function* amx_routine(Builder& b, const Plan& plan) {
  llvm::Type *ptr = b.getPtrTy(), *i64 = b.getInt64Ty();
  const std::string name = "kiln.dot.tiles." + std::string(kiln::name(plan.shape.a)) + "." +
                           std::string(kiln::name(plan.shape.b)) + "." + std::to_string(plan.nr());
  llvm::SmallVector<llvm::Type*, 14> parameters = {ptr, i64, ptr,           ptr, i64, i64,
                                                   i64, i64, b.getInt1Ty(), ptr, i64};
  if (plan.shape.rounds) parameters.append({ptr, i64});
  return routine(b, name + (plan.shape.rounds ? ".rounds" : "") + (plan.begins_with_c() ? ".fixed" : ""),
                 parameters, [&](llvm::Function* f) { AmxKernel(b, plan, f).build(); });
}

} // namespace kiln::cpu::dot
