// Loops over K as one product, and the products that a group of programs shares (product_loop.h,
// macro_product.h).
#include <kiln/jit/cpu/emit/kernel_emitter.h>

#include <kiln/jit/passes/rewrite_rules.h>

#include <algorithm>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

namespace {

// Where operands are computed first, so many steps of K at a time.
constexpr std::int64_t gathered_depth = 512;
constexpr std::int64_t unknown_depth = std::int64_t{1} << 40;

} // namespace

// K of the whole loop: a last step that is begun is done, as far as the views reach.
Value* KernelEmitter::product_depth(const ProductLoop& product) {
  Value *begin = scalar(product.loop->operand(0)), *end = scalar(product.loop->operand(1));
  Value* step = b_.getInt64(static_cast<std::uint64_t>(product.step));
  Value* length = b_.CreateSub(end, begin);
  Value* steps = b_.CreateAdd(b_.CreateUDiv(b_.CreateSub(length, b_.getInt64(1)), step), b_.getInt64(1));
  return b_.CreateSelect(b_.CreateICmpSGT(end, begin), b_.CreateMul(steps, step), b_.getInt64(0));
}

// The loop's scalars, where its index has this value.
void KernelEmitter::enter_product(const ProductLoop& product, Value* index) {
  const ir::Region& body = *product.loop->region();
  scalars_[body.args[0].get()] = index;
  for (const auto& op : body.ops)
    if (op->num_results() == 1 && op->result()->type.is_scalar()) emit_scalar(*op);
}

// `depth` of a plain operand along K (axis `k_axis` of the operand), from the index that the loop has now,
// and `other_extent` along the other axis of a matrix, or its tile's.
KernelEmitter::Matrix KernelEmitter::plain_matrix(const ProductOperand& operand, std::size_t k_axis,
                                                  Value* depth, Value* other_extent) {
  Values extents = constants(extents_of(operand.load->result()->type));
  extents[operand.order[k_axis]] = depth;
  if (other_extent) extents[operand.order[1 - k_axis]] = other_extent;
  return view_matrix(*operand.load, operand.order, extents);
}

// The sums of a loop whose product the group computed; a program that takes no part in one computes its own.
bool KernelEmitter::take_shared_sums(const ir::Op& loop) {
  if (!macro_) return false;
  for (std::size_t i = 0; i < macro_->products.size(); ++i) {
    if (macro_->products[i].loop != &loop) continue;
    flush();
    const Buffer part = group_.parts[i];
    if (group_.shared) {
      buffers_[loop.region()->args[1].get()] = part;
      emit_if(b_, b_.CreateNot(group_.shared), [&] { emit_own_for(loop); });
    }
    buffers_[loop.result()] = part;
    return true;
  }
  return false;
}

void KernelEmitter::emit_product_loop(const ProductLoop& product) {
  flush();
  const ir::Op& loop = *product.loop;
  Buffer sums = own_buffer(loop.region()->args[1].get());
  buffers_[loop.result()] = sums;
  const bool plain = product.a.load && product.b.load;
  auto zero = passes::constant_of(loop.operand(3));
  const bool accumulate = !plain || !zero || *zero != 0;
  if (accumulate) {
    Root root{Root::Kind::Fill, loop.operand(3)};
    root.buffer = sums;
    emit_nest({root}, sums.extents);
  }
  locate(*product.dot);
  Value *begin = scalar(loop.operand(0)), *depth = product_depth(product);
  if (!plain) return emit_in_chunks(product, begin, depth, sums);
  enter_product(product, begin);
  DotShape shape = dot_shape(*product.dot);
  shape.k = unknown_depth;
  const std::size_t rank = sums.extents.size();
  multiply(shape, plain_matrix(product.a, rank - 1, depth), plain_matrix(product.b, rank - 2, depth),
           sums_in(sums, accumulate));
}

// Of operands that are computed, some steps of K are put side by side in scratch, then multiplied at once.
void KernelEmitter::emit_in_chunks(const ProductLoop& product, Value* begin, Value* depth,
                                   const Buffer& sums) {
  const std::int64_t chunk = std::max<std::int64_t>(1, gathered_depth / product.step) * product.step;
  auto gathered = [&](const ProductOperand& operand, std::size_t k_axis) {
    auto extents = extents_of(operand.value->type);
    extents[k_axis] = chunk;
    return make_buffer(operand.value->type.dtype, false, extents);
  };
  Buffer a, b;
  if (!product.a.load) a = gathered(product.a, 1);
  if (!product.b.load) b = gathered(product.b, 0);
  auto fill = [&](const ProductOperand& operand, const Buffer& whole, std::size_t k_axis, Value* at) {
    Root root{Root::Kind::Fill, operand.value};
    root.buffer = whole;
    root.buffer.extents = extents_of(operand.value->type);
    Value* offset = b_.CreateMul(at, b_.getInt64(static_cast<std::uint64_t>(whole.strides[k_axis])));
    root.buffer.pointer = b_.CreateGEP(memory_type(context_, whole.dtype), whole.pointer, offset);
    emit_nest({root}, root.buffer.extents);
  };
  const ir::Region& body = *product.loop->region();
  DotShape shape = dot_shape(*product.dot);
  shape.k = chunk;
  Value *step = b_.getInt64(static_cast<std::uint64_t>(product.step)), *none = b_.getInt64(0);
  emit_loop(b_, none, depth, b_.getInt64(static_cast<std::uint64_t>(chunk)), {},
            [&](Value* k, const Values&, llvm::Instruction*) -> Values {
              Value* here = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateSub(depth, k),
                                                     b_.getInt64(static_cast<std::uint64_t>(chunk)));
              emit_loop(b_, none, here, step, {},
                        [&](Value* at, const Values&, llvm::Instruction*) -> Values {
                          scalars_[body.args[0].get()] = b_.CreateAdd(begin, b_.CreateAdd(k, at));
                          for (const auto& op : body.ops)
                            if (!op->is(Opcode::Dot) && !op->is(Opcode::Yield)) emit_op(*op);
                          flush();
                          if (!product.a.load) fill(product.a, a, 1, at);
                          if (!product.b.load) fill(product.b, b, 0, at);
                          return {};
                        });
              enter_product(product, b_.CreateAdd(begin, k));
              locate(*product.dot);
              auto matrix = [&](const ProductOperand& operand, const Buffer& whole, std::size_t k_axis) {
                if (operand.load) return plain_matrix(operand, k_axis, here);
                Matrix m = buffer_matrix(whole);
                m.valid[k_axis] = here;
                return m;
              };
              multiply(shape, matrix(product.a, a, 1), matrix(product.b, b, 0), sums_in(sums, true));
              return {};
            });
}

// One product for all programs of a group, then each of them.
void KernelEmitter::emit_group(Value* number) {
  const MacroTile& tile = macro_->tile;
  const std::size_t rank = grid_.size();
  auto grouped = [&](std::size_t axis) {
    const int a = static_cast<int>(axis);
    return a == tile.m_axis || a == tile.n_axis || a == tile.run_axis;
  };
  Value* one = b_.getInt64(1);
  Values groups, counts;
  for (std::size_t axis = 0; axis < rank; ++axis)
    groups.push_back(grouped(axis)
                         ? b_.CreateUDiv(b_.CreateAdd(grid_[axis], b_.CreateSub(group_.size[axis], one)),
                                         group_.size[axis])
                         : grid_[axis]);
  Values first = coordinates_of(number, groups);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (grouped(axis)) first[axis] = b_.CreateMul(first[axis], group_.size[axis]);
    counts.push_back(grouped(axis) ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, group_.size[axis],
                                                              b_.CreateSub(grid_[axis], first[axis]))
                                   : one);
  }
  if (tile.run_axis >= 0) return emit_run(first, counts[static_cast<std::size_t>(tile.run_axis)]);
  const auto m_axis = static_cast<std::size_t>(tile.m_axis), n_axis = static_cast<std::size_t>(tile.n_axis);
  Value *count_m = tile.m_axis >= 0 ? counts[m_axis] : one,
        *count_n = tile.n_axis >= 0 ? counts[n_axis] : one;
  emit_rectangle(first, count_m, count_n, [&](Value* m, Value* n) {
    Values at = first;
    if (tile.m_axis >= 0) at[m_axis] = b_.CreateAdd(first[m_axis], m);
    if (tile.n_axis >= 0) at[n_axis] = b_.CreateAdd(first[n_axis], n);
    return at;
  });
}

// The product of so many programs in each direction, the first of which is at `first`, and then each of them.
void KernelEmitter::emit_rectangle(const Values& first, Value* count_m, Value* count_n,
                                   llvm::function_ref<Values(Value* m, Value* n)> coordinates) {
  const MacroTile& tile = macro_->tile;
  Value *one = b_.getInt64(1), *none = b_.getInt64(0);
  Value *tile_m = b_.getInt64(static_cast<std::uint64_t>(tile.tile_m)),
        *tile_n = b_.getInt64(static_cast<std::uint64_t>(tile.tile_n));
  Value* rows = b_.CreateMul(count_m, tile_m);
  if (group_.shared) rows = b_.CreateSelect(group_.shared, rows, none);
  emit_shared_products(first, rows, b_.CreateMul(count_n, tile_n));

  group_.parts = group_.sums;
  for (Buffer& part : group_.parts)
    part.extents = {tile.tile_m, tile.tile_n};
  auto program = [&](Value* m, Value* n) {
    const Values at = coordinates(m, n);
    Value* linear = none;
    for (std::size_t axis = 0; axis < grid_.size(); ++axis)
      linear = b_.CreateAdd(b_.CreateMul(linear, grid_[axis]), at[axis]);
    for (std::size_t i = 0; i < group_.sums.size(); ++i) {
      const Buffer& sums = group_.sums[i];
      Value* row = b_.CreateMul(b_.CreateMul(m, tile_m), stride_of(sums, 0));
      group_.parts[i].pointer = b_.CreateGEP(memory_type(context_, sums.dtype), sums.pointer,
                                             b_.CreateAdd(row, b_.CreateMul(n, tile_n)));
    }
    emit_program(linear, at);
  };
  if (group_.stored) count_m = b_.CreateSelect(group_.stored, none, count_m);
  emit_loop(b_, none, count_m, one, {}, [&](Value* m, const Values&, llvm::Instruction*) -> Values {
    emit_loop(b_, none, count_n, one, {}, [&](Value* n, const Values&, llvm::Instruction*) -> Values {
      program(m, n);
      return {};
    });
    return {};
  });
}

// A buffer for the sums of a group, whose rows are `columns` long. Rows a power of two apart would share the
// sets of the cache with each other and with B's, so that they are an odd number of lines long. Where few
// rows meet B as it comes from memory, and one is a few lines ahead of B's in a page of 4 KiB, loads of B
// look to the CPU like what was just stored: four rows take a seventh less with 17 lines between them than
// with one (Zen 4).
Buffer KernelEmitter::make_sums(DType dtype, Value* columns) {
  const MacroTile& tile = macro_->tile;
  const std::int64_t line = 64 / size_of(dtype), between_rows = tile.tile_m <= few_rows ? 16 * line : 0;
  const std::int64_t rows = tile.tile_m * tile.most_m;
  const std::int64_t programs = std::min(tile.most_programs, tile.most_m * tile.most_n);
  Buffer sums =
      make_buffer(dtype, false, {programs * tile.tile_m * tile.tile_n + rows * (between_rows + 2 * line)});
  sums.extents = {rows, tile.tile_n * tile.most_n};
  sums.strides = {0, 1};
  auto number = [&](std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); };
  Value* whole_lines = b_.CreateAnd(b_.CreateAdd(columns, number(line - 1)), number(-line));
  sums.row_stride = b_.CreateAdd(b_.CreateOr(whole_lines, number(line)), number(between_rows));
  return sums;
}

// The sums of `rows` x `columns` that begin where the program at `first` has its tile.
void KernelEmitter::emit_shared_products(const Values& first, Value* rows, Value* columns) {
  coordinates_ = first;
  for (const ir::Op* op : macro_->scalars)
    emit_scalar(*op);
  for (std::size_t i = group_.sums.size(); i < macro_->products.size(); ++i)
    group_.sums.push_back(make_sums(macro_->products[i].dot->result()->type.dtype, columns));
  for (std::size_t i = 0; i < macro_->products.size(); ++i)
    emit_shared_product(macro_->products[i], group_.sums[i], rows, columns);
}

void KernelEmitter::emit_shared_product(const ProductLoop& product, const Buffer& buffer, Value* rows,
                                        Value* columns) {
  locate(*product.dot);
  Sums sums{buffer.pointer, buffer.dtype, strides_of(buffer), {rows, columns}, false};
  if (group_.stored = stores_sums(); group_.stored) {
    const Matrix c = view_matrix(*macro_->store, {0, 1}, {rows, columns});
    auto there = [&](Value* of_view, Value*& otherwise) {
      otherwise = b_.CreateSelect(group_.stored, of_view, otherwise);
    };
    there(c.pointer, sums.pointer);
    there(c.strides[0], sums.strides[0]);
    there(c.valid[0], sums.extents[0]);
    there(c.valid[1], sums.extents[1]);
  }
  Value* depth = product_depth(product);
  enter_product(product, scalar(product.loop->operand(0)));
  const Matrix a = plain_matrix(product.a, 1, depth, sums.extents[0]),
               b = plain_matrix(product.b, 0, depth, sums.extents[1]);
  auto of_rows = [&](std::int64_t most) {
    DotShape shape = dot_shape(*product.dot);
    shape.m = most, shape.n = buffer.extents[1], shape.k = unknown_depth;
    multiply(shape, a, b, sums);
  };
  // Tiles of few rows come in launches of few rows, and in launches of many. The launch decides, not the
  // group: few rows are added up in another order, and the last rows of many must not depend on how these are
  // tiled.
  const std::int64_t tile_m = macro_->tile.tile_m;
  if (tile_m > few_rows || buffer.extents[0] == tile_m) return of_rows(buffer.extents[0]);
  Value* one_tile =
      b_.CreateICmpSLE(rows_of_launch(product), b_.getInt64(static_cast<std::uint64_t>(tile_m)));
  emit_if_else(b_, one_tile, [&] { of_rows(tile_m); }, [&] { of_rows(buffer.extents[0]); });
}

// Rows of A that the programs of the whole grid have; all of A's, where these are not grouped along an axis.
Value* KernelEmitter::rows_of_launch(const ProductLoop& product) {
  const ir::Op& load = *product.a.load;
  const auto axis = static_cast<std::size_t>(load.integers("axes")[product.a.order[0]]);
  if (macro_->tile.m_axis < 0) return facts(load.operand(0)).extents[axis];
  Value* of_grid = b_.CreateMul(grid_[static_cast<std::size_t>(macro_->tile.m_axis)],
                                b_.getInt64(static_cast<std::uint64_t>(macro_->tile.tile_m)));
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, of_grid, facts(load.operand(0)).extents[axis]);
}

// i1: the sums, which nothing that other programs read or store must meet half done, may be added up where
// they are stored.
Value* KernelEmitter::stores_sums() {
  const ir::Op* store = macro_->store;
  if (!store || options_.debug) return nullptr;
  const ir::Value* view = store->operand(0);
  const ProductLoop& product = macro_->products[0]; // what is stored is the only one's
  Value* from_a = disjoint(view, product.a.load->operand(0));
  Value* from_b = disjoint(view, product.b.load->operand(0));
  Value* distinct = distinct_elements(view);
  IRBuilder::InsertPointGuard guard(b_);
  b_.SetInsertPoint(entry_end_);
  Value* apart = b_.CreateAnd(b_.CreateAnd(from_a, from_b), distinct);
  for (std::size_t axis = 0; axis < grid_.size(); ++axis)
    if (!(macro_->apart >> axis & 1))
      apart = b_.CreateAnd(apart, b_.CreateICmpSLE(grid_[axis], b_.getInt64(1)));
  return apart;
}

} // namespace kiln::cpu
