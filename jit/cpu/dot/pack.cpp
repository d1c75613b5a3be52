// Emits the packing routine: copies of contiguous rows, transposition in vectors, or one element at a time.
#include <algorithm>
#include <kiln/jit/cpu/dot/convert.h>
#include <kiln/jit/cpu/dot/pack.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/emit/prefetch.h>

namespace kiln::cpu::dot {

namespace {

using llvm::Value;

struct Packer {
  Builder& b;
  const PackSpec& spec;
  int group; // rows of the source in one packed row
  llvm::Type* from;
  llvm::Type* to; // one packed element: f32, f64, i16, i8, or i32 holding a group
  llvm::Align from_align;
  llvm::Align to_align;
  Value *packed, *packed_stride, *source, *row_stride, *column_stride, *rows, *columns, *padded;

  Packer(Builder& builder, const PackSpec& s, llvm::Function* f) : b(builder), spec(s) {
    const bool groups = spec.order == PackOrder::RowGroups;
    group = !groups ? 1 : spec.panel == PanelKind::I8Quads ? 4 : 2;
    from = memory_type(b, spec.from);
    to = groups ? b.getInt32Ty() : panel_element_type(b, spec.panel);
    from_align = llvm::Align(static_cast<std::uint64_t>(size_of(spec.from)));
    to_align = llvm::Align(to->getPrimitiveSizeInBits() / 8);
    packed = f->getArg(0), packed_stride = f->getArg(1), source = f->getArg(2), row_stride = f->getArg(3);
    column_stride = f->getArg(4), rows = f->getArg(5), columns = f->getArg(6), padded = f->getArg(7);
  }

  Value* zero() { return b.getInt64(0); }
  llvm::Type* vector_of(llvm::Type* element) {
    return llvm::FixedVectorType::get(element, static_cast<unsigned>(spec.lanes));
  }
  Value* source_at(Value* r, Value* c) {
    return b.CreateGEP(from, source, b.CreateAdd(b.CreateMul(r, row_stride), b.CreateMul(c, column_stride)));
  }
  Value* packed_at(Value* r, Value* c) {
    return b.CreateGEP(to, packed, b.CreateAdd(b.CreateMul(r, packed_stride), c));
  }
  Value* convert(Value* v) { return to_panel(b, v, spec.from, spec.panel, spec.target); }
  Value* whole_vectors(Value* count) {
    return b.CreateAnd(count, b.getInt64(~std::uint64_t(spec.lanes - 1)));
  }

  // The row of the source at which row r of the packed block begins.
  Value* source_row(Value* r) { return group > 1 ? b.CreateMul(r, b.getInt64(group)) : r; }

  // Loads and converts one packed element or vector. The first row of a group is the lowest part of each
  // element.
  template <class Load> Value* packed_value(Value* r, Value* c, Load&& load) {
    Value* first = source_row(r);
    Value* value = convert(load(source_at(first, c)));
    if (group == 1) return value;
    llvm::Type* wide = b.getInt32Ty();
    if (auto* v = llvm::dyn_cast<llvm::FixedVectorType>(value->getType()))
      wide = llvm::FixedVectorType::get(wide, v->getNumElements());
    value = b.CreateZExt(value, wide);
    for (int i = 1; i < group; ++i) {
      Value* next = convert(load(source_at(b.CreateAdd(first, b.getInt64(i)), c)));
      value = b.CreateOr(value,
                         b.CreateShl(b.CreateZExt(next, wide), static_cast<std::uint64_t>(i * 32 / group)));
    }
    return value;
  }

  // Rows of a large matrix are pages apart. A prefetch of an address past the end is harmless.
  void prefetch_rows_ahead(Value* r, Value* c) {
    Value* first = b.CreateAdd(source_row(r), b.getInt64(group > 1 ? tuning::pack_prefetch_grouped_rows
                                                                   : tuning::pack_prefetch_rows));
    for (int i = 0; i < group; ++i) {
      Value* row = b.CreateAdd(first, b.getInt64(static_cast<std::uint64_t>(i)));
      prefetch_line(b, source_at(row, c), Cache::L2);
    }
  }

  // Whether AVX-512's shuffles interleave the rows of a group, whose elements need no conversion: pairs of
  // bf16, or bytes.
  bool interleaves() const {
    const bool as_they_are = spec.panel == PanelKind::Bf16Pairs || spec.panel == PanelKind::I8Quads;
    return as_they_are && spec.order == PackOrder::RowGroups && spec.target.isa == DotIsa::Avx512;
  }
  // Interleaves one vector of each row of a group, from column c on.
  void copy_interleaved(Value* r, Value* c) {
    const auto count = static_cast<unsigned>(group * spec.lanes);
    llvm::SmallVector<Value*, 4> vectors;
    for (int i = 0; i < group; ++i) {
      Value* at = source_at(b.CreateAdd(source_row(r), b.getInt64(static_cast<std::uint64_t>(i))), c);
      vectors.push_back(b.CreateAlignedLoad(llvm::FixedVectorType::get(from, count), at, from_align));
    }
    if (group == 4) {
      auto* pairs = llvm::FixedVectorType::get(b.getInt16Ty(), count / 2);
      const auto first = interleaved(b, vectors[0], vectors[1]),
                 second = interleaved(b, vectors[2], vectors[3]);
      vectors.clear();
      for (std::size_t half = 0; half < 2; ++half)
        llvm::append_range(vectors, interleaved(b, b.CreateBitCast(first[half], pairs),
                                                b.CreateBitCast(second[half], pairs)));
    } else {
      const auto both = interleaved(b, vectors[0], vectors[1]);
      vectors.assign(both.begin(), both.end());
    }
    for (std::size_t v = 0; v < vectors.size(); ++v) {
      Value* at = b.CreateAdd(c, b.getInt64(v * static_cast<std::uint64_t>(spec.lanes)));
      b.CreateAlignedStore(b.CreateBitCast(vectors[v], vector_of(to)), packed_at(r, at), to_align);
    }
  }

  void copy_vector(Value* r, Value* c) {
    Value* v =
        packed_value(r, c, [&](Value* p) { return b.CreateAlignedLoad(vector_of(from), p, from_align); });
    b.CreateAlignedStore(v, packed_at(r, c), to_align);
  }

  void copy_elements(Value* r_begin, Value* r_end, Value* c_begin, Value* c_end) {
    emit_for(b, r_begin, r_end, 1, [&](Value* r) {
      emit_for(b, c_begin, c_end, 1, [&](Value* c) {
        Value* v = packed_value(r, c, [&](Value* p) { return b.CreateAlignedLoad(from, p, from_align); });
        b.CreateAlignedStore(v, packed_at(r, c), to_align);
      });
    });
  }

  // Zeroes the padding before the columns are written, because whole vectors of zeros may cover some of them:
  // a sliver of one column is nearly all padding, which has to cost whole vectors only.
  void zero_padding(Value* row_count) {
    emit_if(b, b.CreateICmpSLT(columns, padded), [&] {
      auto zeros = [&](Value* r, Value* c, llvm::Type* type) {
        b.CreateAlignedStore(llvm::Constant::getNullValue(type), packed_at(r, c), to_align);
      };
      Value *begin = whole_vectors(columns), *end = whole_vectors(padded);
      Value* rest = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, columns, end);
      emit_for(b, zero(), row_count, 1, [&](Value* r) {
        emit_for(b, begin, end, spec.lanes, [&](Value* c) { zeros(r, c, vector_of(to)); });
        emit_for(b, rest, padded, 1, [&](Value* c) { zeros(r, c, to); });
      });
    });
  }

  // Packs the last rows where they do not fill a group; the missing ones become zero.
  void last_rows(Value* whole_rows) {
    Value* left = b.CreateAnd(rows, b.getInt64(group - 1));
    emit_if(b, b.CreateICmpSGT(left, zero()), [&] {
      b.CreateMemSet(packed_at(whole_rows, zero()), b.getInt8(0), b.CreateShl(padded, 2), llvm::Align(4));
      emit_for(b, zero(), left, 1, [&](Value* i) {
        emit_for(b, zero(), columns, 1, [&](Value* c) {
          Value* x = convert(
              b.CreateAlignedLoad(from, source_at(b.CreateAdd(source_row(whole_rows), i), c), from_align));
          Value* part = b.CreateAdd(b.CreateMul(c, b.getInt64(group)), i);
          b.CreateAlignedStore(x, b.CreateGEP(x->getType(), packed_at(whole_rows, zero()), part),
                               llvm::Align(1));
        });
      });
    });
  }

  // Masked vector loads need AVX-512 for narrow elements, AVX2 for f32 and f64.
  bool has_masked_loads() const {
    return spec.target.isa == DotIsa::Avx512 || (spec.target.isa == DotIsa::Avx2 && size_of(spec.from) >= 4);
  }

  // Copies vectors of row r from column c on, and prefetches those of later rows.
  void copy_vectors(Value* r, Value* c) {
    const int step = spec.lanes * spec.vectors_together;
    const auto line = static_cast<int>(line_bytes / size_of(spec.from));
    for (int i = 0; !spec.target.hardware_prefetches_rows && i < step; i += std::max(line, spec.lanes))
      prefetch_rows_ahead(r, b.CreateAdd(c, b.getInt64(i)));
    int i = 0;
    for (; interleaves() && i + group * spec.lanes <= step; i += group * spec.lanes)
      copy_interleaved(r, b.CreateAdd(c, b.getInt64(static_cast<std::uint64_t>(i))));
    for (; i < step; i += spec.lanes)
      copy_vector(r, b.CreateAdd(c, b.getInt64(static_cast<std::uint64_t>(i))));
  }

  // Copies contiguous rows.
  void copy_rows(Value* row_count) {
    if (!spec.exactly) return copy_any_rows(row_count);
    emit_if_else(
        b, b.CreateICmpEQ(columns, b.getInt64(spec.lanes * spec.vectors_together)),
        [&] {
          constexpr int together = tuning::pack_unroll;
          Value* whole = b.CreateAnd(row_count, b.getInt64(-together));
          emit_for(b, zero(), whole, together, [&](Value* r) {
            for (int i = 0; i < together; ++i)
              copy_vectors(b.CreateAdd(r, b.getInt64(i)), zero());
          });
          emit_for(b, whole, row_count, 1, [&](Value* r) { copy_vectors(r, zero()); });
        },
        [&] { copy_any_rows(row_count); });
  }

  void copy_any_rows(Value* row_count) {
    Value* whole = whole_vectors(columns);
    const int step = spec.lanes * spec.vectors_together;
    Value* steps = b.CreateMul(b.CreateUDiv(columns, b.getInt64(step)), b.getInt64(step));
    emit_for(b, zero(), row_count, 1, [&](Value* r) {
      emit_for(b, zero(), steps, step, [&](Value* c) { copy_vectors(r, c); });
      emit_for(b, steps, whole, spec.lanes, [&](Value* c) { copy_vector(r, c); });
    });
    if (!has_masked_loads()) return copy_elements(zero(), row_count, whole, columns);
    emit_if(b, b.CreateICmpSLT(whole, columns), [&] {
      Value* mask = lanes_below(b, b.CreateSub(columns, whole), spec.lanes);
      llvm::Type* v = vector_of(from);
      emit_for(b, zero(), row_count, 1, [&](Value* r) {
        Value* value = packed_value(r, whole, [&](Value* p) {
          return b.CreateMaskedLoad(v, p, from_align, mask, llvm::Constant::getNullValue(v));
        });
        b.CreateMaskedStore(value, packed_at(r, whole), to_align, mask);
      });
    });
  }

  // Rows in, columns out: log2(lanes) rounds of interleaving row i with row i + lanes/2.
  void transpose(llvm::SmallVectorImpl<Value*>& v) {
    const int lanes = spec.lanes;
    llvm::SmallVector<int, 16> low, high;
    for (int i = 0; i < lanes; ++i) {
      low.push_back(i / 2 + (i % 2) * lanes);
      high.push_back(i / 2 + lanes / 2 + (i % 2) * lanes);
    }
    for (int round = 1; round < lanes; round *= 2) {
      llvm::SmallVector<Value*, 16> next;
      for (int i = 0; i < lanes / 2; ++i) {
        Value** x = v.begin() + i;
        next.push_back(b.CreateShuffleVector(x[0], x[lanes / 2], low));
        next.push_back(b.CreateShuffleVector(x[0], x[lanes / 2], high));
      }
      v.assign(next.begin(), next.end());
    }
  }

  // Loads `lanes` packed values of column c, starting at row r, where columns of the source are contiguous.
  Value* load_column(Value* r, Value* c) {
    const auto count = static_cast<unsigned>(spec.lanes * group);
    Value* address = source_at(source_row(r), c);
    // The hardware does not prefetch sixteen columns at once this far.
    if (!spec.target.hardware_prefetches_rows)
      prefetch_line(b, b.CreateConstGEP1_64(b.getInt8Ty(), address, tuning::pack_prefetch_column_bytes),
                    Cache::L2);
    Value* v = convert(b.CreateAlignedLoad(llvm::FixedVectorType::get(from, count), address, from_align));
    return group > 1 ? b.CreateBitCast(v, vector_of(to)) : v;
  }

  // Transposes blocks of as many rows and columns as there are lanes. The last blocks overlap the ones before
  // them and copy the shared elements again.
  void copy_transposed(Value* row_count) {
    Value* lanes = b.getInt64(spec.lanes);
    auto for_blocks = [&](Value* extent, auto&& body) {
      Value* last = b.CreateSub(extent, lanes);
      emit_for(b, zero(), extent, spec.lanes, [&](Value* i) { body(smin(b, i, last)); });
    };
    for_blocks(columns, [&](Value* c) {
      for_blocks(row_count, [&](Value* r) {
        llvm::SmallVector<Value*, 16> block;
        for (int i = 0; i < spec.lanes; ++i)
          block.push_back(load_column(r, b.CreateAdd(c, b.getInt64(i))));
        transpose(block);
        for (int i = 0; i < spec.lanes; ++i)
          b.CreateAlignedStore(block[static_cast<std::size_t>(i)],
                               packed_at(b.CreateAdd(r, b.getInt64(i)), c), to_align);
      });
    });
  }

  // Copies rows that are not contiguous. Contiguous columns are transposed if they make at least one block.
  void copy_columns(Value* row_count) {
    auto by_elements = [&] { copy_elements(zero(), row_count, zero(), columns); };
    if (!spec.transposes) return by_elements();
    Value* least = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, row_count, columns);
    Value* blocks = b.CreateAnd(b.CreateICmpEQ(row_stride, b.getInt64(1)),
                                b.CreateICmpSGE(least, b.getInt64(spec.lanes)));
    emit_if_else(b, blocks, [&] { copy_transposed(row_count); }, by_elements);
  }

  void build() {
    Value* row_count = group > 1 ? b.CreateUDiv(rows, b.getInt64(group)) : rows;
    zero_padding(row_count);
    switch (spec.strides) {
    case DotStrides::UnitInner:
      column_stride = b.getInt64(1);
      copy_rows(row_count);
      break;
    case DotStrides::UnitOuter:
      row_stride = b.getInt64(1);
      copy_columns(row_count);
      break;
    case DotStrides::Any:
      emit_if_else(
          b, b.CreateICmpEQ(column_stride, b.getInt64(1)), [&] { copy_rows(row_count); },
          [&] { copy_columns(row_count); });
      break;
    }
    if (group > 1) last_rows(row_count);
    b.CreateRetVoid();
  }
};

std::string routine_name(const PackSpec& spec) {
  static const char* const panels[] = {"f32", "f64", "i16", "bf16", "i8"};
  std::string name = "kiln.dot.pack." + std::string(kiln::name(spec.from)) + ".";
  name += panels[static_cast<int>(spec.panel)];
  name += spec.order == PackOrder::RowGroups ? ".rowgroups." : ".";
  if (!spec.transposes) name += "elements.";
  if (spec.vectors_together != tuning::packed_vectors) name += std::to_string(spec.vectors_together) + ".";
  if (spec.exactly) name += "exactly.";
  return name + strides_name(spec.strides) + "." + std::to_string(spec.lanes) + "." + isa_name(spec.target);
}

} // namespace

llvm::Function* pack_routine(Builder& b, const PackSpec& spec) {
  llvm::Type *ptr = b.getPtrTy(), *i64 = b.getInt64Ty();
  return routine(b, routine_name(spec), {ptr, i64, ptr, i64, i64, i64, i64, i64},
                 [&](llvm::Function* f) { Packer(b, spec, f).build(); });
}

} // namespace kiln::cpu::dot
