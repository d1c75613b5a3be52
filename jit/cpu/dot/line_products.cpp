// Emits skinny products that read B line by line.
#include <kiln/jit/cpu/dot/line_products.h>

#include <kiln/jit/cpu/dot/convert.h>
#include <kiln/jit/cpu/dot/microkernel.h>
#include <kiln/jit/cpu/dot/store_lane_sums.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/emit/prefetch.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace kiln::cpu::dot {

namespace {

using emit::Values;
using llvm::Value;

// Parts of `whole`, as equal as possible, and at most `most`.
std::int64_t equal_part(std::int64_t whole, std::int64_t most) {
  const std::int64_t parts = (whole - 1) / most + 1;
  return (whole - 1) / parts + 1;
}

// The vectors of columns and the rows of an outer product that are in registers together.
struct OuterLineTile {
  std::int64_t vectors, rows;
};

// The vectors are a divisor of those of a row, and whole groups; 0 if there is none that is large enough.
OuterLineTile outer_line_tile(const Plan& plan) {
  const std::int64_t most =
      plan.blocks_rows ? tuning::blocked_line_product_rows : tuning::line_product_tile_rows;
  const std::int64_t sums = plan.blocks_rows ? tuning::blocked_line_product_sums : tuning::line_product_sums;
  const std::int64_t rows = equal_part(std::max<std::int64_t>(plan.shape.m, 1), most);
  const std::int64_t all = plan.shape.n / plan.lanes;
  std::int64_t vectors = std::min({all, tuning::line_product_vectors, sums / rows});
  while (vectors > 0 && (all % vectors != 0 || vectors % plan.group() != 0))
    --vectors;
  return {vectors < std::min(all, tuning::min_line_product_vectors) ? 0 : vectors, rows};
}

struct LineProducts {
  Builder& b;
  const Plan& plan;
  const bool of_columns;     // the lines are columns
  const std::int64_t length; // elements of a line
  llvm::Type *a_element, *b_element, *c_element;
  llvm::FixedVectorType* c_vector;
  llvm::Align c_align;
  Value *a, *a_row_stride, *a_column_stride, *b_pointer, *b_stride, *c, *c_stride, *m, *n, *k, *accumulate,
      *to_next_b;
  std::int64_t passes = 1; // of outer products over B

  LineProducts(Builder& builder, const Plan& p, bool columns, llvm::Function* f)
      : b(builder), plan(p), of_columns(columns), length(columns ? p.shape.k : p.shape.n),
        a_element(memory_type(b, p.shape.a)), b_element(memory_type(b, p.shape.b)),
        c_element(accumulator_type(b, p)),
        c_vector(llvm::FixedVectorType::get(c_element, static_cast<unsigned>(p.lanes))),
        c_align(static_cast<std::uint64_t>(size_of(p.accumulator))) {
    Value** const arguments[] = {
        &a, &a_row_stride, &a_column_stride, &b_pointer, &b_stride, &c, &c_stride, &m, &n,
        &k, &accumulate,   &to_next_b};
    unsigned index = 0;
    for (Value** argument : arguments)
      *argument = f->getArg(index++);
  }

  Value* number(std::int64_t x) { return b.getInt64(static_cast<std::uint64_t>(x)); }
  bool multiplies_pairs() const { return plan.panel == PanelKind::Bf16Pairs; }
  // The elements of a line that a step loads.
  std::int64_t together() const { return plan.lanes * plan.group(); }
  Value* product(Value* x, Value* y, Value* sum) {
    return multiplies_pairs() ? bf16_pair_products(b, plan, x, y, sum)
                              : fused_multiply_add(b, plan, x, y, sum);
  }
  PanelKind panel() const {
    return multiplies_pairs()               ? PanelKind::Bf16Pairs
           : plan.accumulator == DType::F64 ? PanelKind::F64
                                            : PanelKind::F32;
  }
  Value* load(DType from, Value* line, Value* element) {
    auto* type = llvm::FixedVectorType::get(memory_type(b, from), static_cast<unsigned>(together()));
    Value* address = b.CreateGEP(memory_type(b, from), line, element);
    Value* bits = b.CreateAlignedLoad(type, address, llvm::Align(static_cast<std::uint64_t>(size_of(from))));
    return to_panel(b, bits, from, panel(), plan.target);
  }
  Value* a_row(Value* i) { return b.CreateGEP(a_element, a, b.CreateMul(i, a_row_stride)); }
  Value* line_of_b(Value* line) { return b.CreateGEP(b_element, b_pointer, b.CreateMul(line, b_stride)); }
  // Rows of A past the end repeat the last one.
  Value* row_inside(Value* i) { return smin(b, i, b.CreateSub(m, number(1))); }

  // The address of the line of B that is `tuning::line_prefetch_bytes` after `line`, which may be one of the
  // next B. `lines` is the number of lines of B.
  Value* line_ahead(Value* line, Value* lines) {
    const std::int64_t bytes = length * size_of(plan.shape.b);
    const std::int64_t distance = std::max<std::int64_t>(plan.group(), tuning::line_prefetch_bytes / bytes);
    Value* there = b.CreateAdd(line, number(distance));
    Value* beyond = b.CreateSub(there, lines);
    Value* here = b.CreateICmpSLT(beyond, number(0));
    Value* base = b.CreateSelect(here, b_pointer, b.CreateGEP(b.getInt8Ty(), b_pointer, to_next_b));
    return b.CreateGEP(b_element, base, b.CreateMul(b.CreateSelect(here, there, beyond), b_stride));
  }
  std::int64_t elements_of_line() const { return line_bytes / size_of(plan.shape.b); } // of the cache
  void prefetch(Value* line, Value* element) {
    prefetch_line(b, b.CreateGEP(b_element, line, element), Cache::L2);
  }

  // --- Columns of B contiguous ---

  void inner() {
    emit_for(b, number(0), n, plan.lanes, [&](Value* j) {
      Values sums;
      for (int q = 0; q < plan.lanes; ++q)
        sums.push_back(column_sum(b.CreateAdd(j, number(q))));
      store_lane_sums(b, plan, {c, c_stride, m, n, accumulate}, number(0), j, plan.lanes, sums);
    });
    b.CreateRetVoid();
  }

  // The sum of products of a column with the row of A, in lanes. Columns past the end repeat the last one.
  Value* column_sum(Value* column) {
    column = smin(b, column, b.CreateSub(n, number(1)));
    Value* line = line_of_b(column);
    Value* ahead = plan.shape.prefetches_next_b ? line_ahead(column, n) : nullptr;
    Value* sum = llvm::Constant::getNullValue(c_vector);
    for (std::int64_t p = 0; p < length; p += together()) {
      if (ahead && p % elements_of_line() == 0) prefetch(ahead, number(p));
      sum = product(load(plan.shape.a, a, number(p)), load(plan.shape.b, line, number(p)), sum);
    }
    return sum;
  }

  // --- Rows of B contiguous ---

  void outer() {
    const OuterLineTile tile = outer_line_tile(plan);
    const std::int64_t columns = tile.vectors * plan.lanes;
    const std::int64_t of_rows = (std::max<std::int64_t>(plan.shape.m, 1) - 1) / tile.rows + 1;
    passes = of_rows * (length / columns);
    emit_for(b, number(0), n, columns, [&](Value* j) {
      Value* pass = b.CreateMul(b.CreateUDiv(j, number(columns)), number(of_rows));
      emit_for(b, number(0), m, tile.rows, [&](Value* i) {
        outer_tile_at(tile, i, j, b.CreateAdd(pass, b.CreateUDiv(i, number(tile.rows))));
      });
    });
    b.CreateRetVoid();
  }

  // Computes a tile of C, in the given one of the passes over B.
  void outer_tile_at(const OuterLineTile& tile, Value* i, Value* j, Value* pass) {
    Values of_a, of_c, sums;
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      Value* row = row_inside(b.CreateAdd(i, number(r)));
      of_a.push_back(a_row(row));
      of_c.push_back(b.CreateGEP(c_element, c, b.CreateAdd(b.CreateMul(row, c_stride), j)));
    }
    for (Value* row : of_c)
      for (Value* old : load_c(row, tile.vectors))
        sums.push_back(b.CreateSelect(accumulate, old, llvm::Constant::getNullValue(c_vector)));
    const int group = plan.group();
    Value* whole = b.CreateAnd(k, number(-group));
    sums = emit::emit_loop(b, number(0), whole, number(group), sums,
                           [&](Value* p, const Values& at, llvm::Instruction*) {
                             prefetch_rows(p, group, pass);
                             return outer_step(tile, of_a, p, group, j, at);
                           })
               .results;
    if (group > 1)
      sums =
          emit::emit_loop(b, whole, k, number(1), sums, [&](Value* p, const Values& at, llvm::Instruction*) {
            return outer_step(tile, of_a, p, 1, j, at);
          }).results;
    // Rows past the end store what the last one stores.
    auto left = sums.begin();
    for (Value* row : of_c) {
      store_c(row, {left, left + tile.vectors});
      left += tile.vectors;
    }
  }

  // Prefetches as much as `count` rows during one of several passes. A single pass prefetches rows that it
  // reads soon. Several passes prefetch equal parts of the next B, so that memory is never idle.
  void prefetch_rows(Value* p, int count, Value* pass) {
    if (!plan.shape.prefetches_next_b) return;
    if (passes == 1) {
      Value* row = line_ahead(p, k);
      for (int g = 0; g < count; ++g, row = b.CreateGEP(b_element, row, b_stride))
        for (std::int64_t e = 0; e < length; e += elements_of_line())
          prefetch(row, number(e));
      return;
    }
    const std::int64_t lines = (length - 1) / elements_of_line() + 1,
                       of_step = (count * lines - 1) / passes + 1;
    Value* step =
        b.CreateAdd(b.CreateMul(pass, b.CreateUDiv(k, number(count))), b.CreateUDiv(p, number(count)));
    for (std::int64_t l = 0; l < of_step; ++l) {
      Value* line = b.CreateAdd(b.CreateMul(step, number(of_step)), number(l));
      Value* row = smin(b, b.CreateUDiv(line, number(lines)), b.CreateSub(k, number(1)));
      Value* element = b.CreateMul(b.CreateURem(line, number(lines)), number(elements_of_line()));
      Value* next = b.CreateGEP(b.getInt8Ty(), line_of_b(row), to_next_b);
      prefetch(next, element);
    }
  }

  // A part of a row of C in the order of sums. If pairs are multiplied, two vectors of sums hold alternate
  // groups of four columns, as interleaving within 128 bits is a single instruction.
  Values load_c(Value* row, std::int64_t vectors) {
    Values all;
    for (std::int64_t v = 0; v < vectors; ++v)
      all.push_back(b.CreateAlignedLoad(c_vector, c_place(row, v), c_align));
    for (std::size_t v = 0; multiplies_pairs() && v < all.size(); v += 2)
      std::tie(all[v], all[v + 1]) =
          std::pair(every_other_group(all[v], all[v + 1], 0), every_other_group(all[v], all[v + 1], 1));
    return all;
  }
  void store_c(Value* row, Values sums) {
    for (std::size_t v = 0; multiplies_pairs() && v < sums.size(); v += 2)
      std::tie(sums[v], sums[v + 1]) =
          std::pair(groups_in_turn(sums[v], sums[v + 1], 0), groups_in_turn(sums[v], sums[v + 1], 1));
    for (std::size_t v = 0; v < sums.size(); ++v)
      b.CreateAlignedStore(sums[v], c_place(row, static_cast<std::int64_t>(v)), c_align);
  }
  static constexpr int of_group = 4; // lanes in 128 bits
  Value* every_other_group(Value* x, Value* y, int first) {
    llvm::SmallVector<int, 16> order;
    for (int lane = 0; lane < plan.lanes; ++lane)
      order.push_back((2 * (lane / of_group) + first) * of_group + lane % of_group);
    return b.CreateShuffleVector(x, y, order);
  }
  Value* groups_in_turn(Value* x, Value* y, int half) {
    llvm::SmallVector<int, 16> order;
    for (int lane = 0; lane < plan.lanes; ++lane) {
      const int group = half * plan.lanes / of_group + lane / of_group;
      order.push_back(group / 2 * of_group + group % 2 * plan.lanes + lane % of_group);
    }
    return b.CreateShuffleVector(x, y, order);
  }
  // Pairs of elements of two rows, within 128 bits: of the lower and of the upper halves.
  Value* pairs_of(Value* x, Value* y, int half) {
    const int elements = 2 * plan.lanes;
    llvm::SmallVector<int, 32> order;
    for (int e = 0; e < elements; ++e)
      order.push_back(e / 8 * 8 + half * 4 + e % 8 / 2 + (e % 2 ? elements : 0));
    return b.CreateShuffleVector(x, y, order);
  }

  Value* c_place(Value* row, std::int64_t v) {
    return b.CreateConstGEP1_64(c_element, row, static_cast<std::uint64_t>(v * plan.lanes));
  }

  // Adds the products of `count` rows of B, a group or a part of one.
  Values outer_step(const OuterLineTile& tile, const Values& of_a, Value* p, int count, Value* j,
                    Values sums) {
    Values lines;
    for (int g = 0; g < count; ++g)
      lines.push_back(line_of_b(b.CreateAdd(p, number(g))));
    Values of_b;
    for (std::int64_t e = 0; e < tile.vectors * plan.lanes; e += together()) {
      Value* element = b.CreateAdd(j, number(e));
      Value* row = load(plan.shape.b, lines[0], element);
      if (!multiplies_pairs()) {
        of_b.push_back(row);
        continue;
      }
      Value* second =
          count > 1 ? load(plan.shape.b, lines[1], element) : llvm::Constant::getNullValue(row->getType());
      of_b.push_back(pairs_of(row, second, 0));
      of_b.push_back(pairs_of(row, second, 1));
    }
    std::size_t s = 0;
    for (Value* row : of_a) {
      Value* x = splat_of_a(row, p, count);
      for (Value* y : of_b) {
        sums[s] = product(x, y, sums[s]);
        ++s;
      }
    }
    return sums;
  }

  // An element of A in all lanes, or a pair of neighbours, of which a missing second one is zero.
  Value* splat_of_a(Value* row, Value* p, int count) {
    const llvm::Align align(static_cast<std::uint64_t>(size_of(plan.shape.a)));
    Value* place = b.CreateGEP(a_element, row, b.CreateMul(p, a_column_stride));
    const auto lanes = static_cast<unsigned>(plan.lanes);
    if (!multiplies_pairs())
      return b.CreateVectorSplat(lanes, to_panel(b, b.CreateAlignedLoad(a_element, place, align),
                                                 plan.shape.a, panel(), plan.target));
    Value* pair = count > 1 ? static_cast<Value*>(b.CreateAlignedLoad(b.getInt32Ty(), place, align))
                            : b.CreateZExt(b.CreateAlignedLoad(a_element, place, align), b.getInt32Ty());
    return b.CreateVectorSplat(lanes, pair);
  }
};

llvm::Function* line_products(Builder& b, const Plan& plan, bool of_columns) {
  const DotShape& shape = plan.shape;
  // Everything on which the code depends.
  const std::string name = std::string("kiln.dot.") + (of_columns ? "inner" : "outer") + ".lines." +
                           std::string(kiln::name(shape.a)) + "." + std::string(kiln::name(shape.b)) + "." +
                           std::to_string(of_columns ? shape.k : shape.n) + "." + std::to_string(shape.m) +
                           (plan.panel == PanelKind::Bf16Pairs ? ".pairs." : ".") + isa_name(plan.target) +
                           (shape.prefetches_next_b ? ".ahead" : "");
  llvm::Type *ptr = b.getPtrTy(), *i64 = b.getInt64Ty();
  return routine(b, name, {ptr, i64, i64, ptr, i64, ptr, i64, i64, i64, i64, b.getInt1Ty(), i64},
                 [&](llvm::Function* f) {
                   LineProducts lines(b, plan, of_columns, f);
                   if (of_columns)
                     lines.inner();
                   else
                     lines.outer();
                 });
}

// Whether lines of `length` elements are whole vectors, and few enough for code without a loop over them.
bool fits(const Plan& plan, std::int64_t length) {
  const std::int64_t together = plan.lanes * plan.group();
  return length > 0 && length % together == 0 && length / together <= tuning::max_line_vectors;
}

} // namespace

bool inner_line_products_possible(const Plan& plan) {
  return inner_products_possible(plan) && fits(plan, plan.shape.k) &&
         plan.shape.k >= tuning::min_inner_product_k && plan.shape.m <= 1;
}

bool outer_line_products_possible(const Plan& plan) {
  return plan.skinny && !plan.amx && is_float(plan.accumulator) && plan.target.has_masks() &&
         plan.shape.b_strides != DotStrides::UnitOuter && fits(plan, plan.shape.n) &&
         plan.shape.m <= tuning::line_product_rows && outer_line_tile(plan).vectors > 0;
}

llvm::Function* inner_line_products(Builder& b, const Plan& plan) { return line_products(b, plan, true); }
llvm::Function* outer_line_products(Builder& b, const Plan& plan) { return line_products(b, plan, false); }

} // namespace kiln::cpu::dot
