// Draws the memory accesses of random kernels: through views, pointers and indices, and by atomics.
#include <dsl/random_kernel_generator.h>

#include <string>

namespace kiln::test {

using namespace kiln::ir;

std::vector<Value*> KernelGenerator::offsets_in(Value* view) {
  std::vector<Value*> offsets;
  for (int i = 0; i < view->type.view_rank; ++i) {
    bool own = view->type.view_rank == static_cast<int>(offsets_.size()) && chance(60);
    offsets.push_back(own ? offsets_[static_cast<std::size_t>(i)] : index());
  }
  return offsets;
}

std::vector<std::int64_t> KernelGenerator::tile_axes(Value* view, const Shape& shape) {
  std::vector<std::int64_t> axes;
  for (int i = 0; i < view->type.view_rank; ++i)
    axes.push_back(i);
  if (!chance(60)) shuffle(axes);
  axes.resize(shape.size());
  return axes;
}

// An input, or a view that the kernel makes of one: a slice, a view of its address, or both.
Value* KernelGenerator::input() {
  Value* view = one_of(inputs_);
  if (chance(10)) view = view_of_pointer(view);
  if (chance(20)) view = slice(view, chance(60) ? index() : value_of(Type::scalar(DType::I64)));
  return view;
}

// The whole memory of a view, through its address.
Value* KernelGenerator::view_of_pointer(Value* view) {
  const Type& type = view->type;
  std::vector<Value*> operands = {
      build_.create(Opcode::ViewData, {view}, {Type::pointer_to(type.dtype, type.readonly)})->result()};
  if (chance(30)) { // as an address that was read from memory
    Value* bits = build_.create(Opcode::Bitcast, {operands[0]}, {Type::scalar(DType::U64)})->result();
    operands[0] =
        build_.create(Opcode::Bitcast, {bits}, {Type::pointer_to(type.dtype, type.readonly)})->result();
  }
  for (Opcode code : {Opcode::ViewExtent, Opcode::ViewStride})
    for (std::int64_t axis = 0; axis < type.view_rank; ++axis) {
      Op* fact = build_.create(code, {view}, {Type::scalar(DType::I64)});
      fact->set("axis", axis);
      operands.push_back(fact->result());
    }
  return build_.create(Opcode::ViewOf, operands, {Type::view(type.dtype, type.view_rank, type.readonly)})
      ->result();
}

Value* KernelGenerator::slice(Value* view, Value* begin) {
  const Type& type = view->type;
  Value* end = chance(50) ? build_.binary(Opcode::Add, begin, build_.index(between(-1, 40)))
                          : value_of(Type::scalar(DType::I64));
  Op* op = build_.create(Opcode::ViewSlice, {view, begin, end},
                         {Type::view(type.dtype, type.view_rank, type.readonly)});
  op->set("axis", between(0, type.view_rank - 1));
  return op->result();
}

void KernelGenerator::load() {
  Value* view = input();
  Shape shape = any_shape();
  if (static_cast<int>(shape.size()) > view->type.view_rank)
    shape.resize(static_cast<std::size_t>(view->type.view_rank), Dim(1));
  Type type = Type::tile(view->type.dtype, shape);
  std::vector<Value*> operands = {view};
  for (Value* offset : offsets_in(view))
    operands.push_back(offset);
  bool mask = chance(30), other = chance(30);
  if (mask)
    operands.push_back(value_of(chance(80) ? type.with_dtype(DType::Bool) : Type::scalar(DType::Bool)));
  if (other) operands.push_back(value_of(chance(50) ? type : Type::scalar(type.dtype)));
  Op* op = build_.create(Opcode::ViewLoad, operands, {type});
  op->set("axes", tile_axes(view, shape));
  if (mask) op->set("has_mask", std::int64_t{1});
  if (other) op->set("has_other", std::int64_t{1});
  add(op->result());
}

// Loads through pointers to a tile of a view, with the bounds of the view as the mask.
void KernelGenerator::pointer_load() {
  Value* view = input();
  Shape shape = any_shape();
  if (static_cast<int>(shape.size()) > view->type.view_rank)
    shape.resize(static_cast<std::size_t>(view->type.view_rank), Dim(1));
  std::vector<Value*> operands = {view};
  for (Value* offset : offsets_in(view))
    operands.push_back(offset);
  auto axes = tile_axes(view, shape);
  Op* pointers = build_.create(Opcode::ViewPtrs, operands, {Type::pointer_to(view->type.dtype, true, shape)});
  Op* inside = build_.create(Opcode::ViewMask, operands, {Type::tile(DType::Bool, shape)});
  pointers->set("axes", axes);
  inside->set("axes", axes);
  Type type = Type::tile(view->type.dtype, shape);
  operands = {pointers->result(), inside->result()};
  bool other = chance(50);
  if (other) operands.push_back(value_of(type));
  Op* op = build_.create(Opcode::Load, operands, {type});
  op->set("has_mask", std::int64_t{1});
  if (other) op->set("has_other", std::int64_t{1});
  add(op->result());
}

// Loads through pointers that are computed from a view's address and strides, as kernels with raw pointers
// do.
void KernelGenerator::raw_load() {
  Value* view = input();
  Shape shape = {one_of(dims_)};
  Type indices = Type::tile(DType::I64, shape);
  Op* data = build_.create(Opcode::ViewData, {view}, {Type::pointer_to(view->type.dtype, true)});
  Value* pointers = build_.splat(data->result(), shape);
  Value* inside = build_.splat(build_.constant(DType::Bool, std::int64_t{1}), shape);
  for (std::int64_t axis = 0; axis < view->type.view_rank; ++axis) {
    Value* i = chance(50) ? value_of(indices) : counting(index(), static_cast<int>(between(-1, 0)), shape);
    auto fact = [&](Opcode code) {
      Op* op = build_.create(code, {view}, {Type::scalar(DType::I64)});
      op->set("axis", axis);
      return build_.splat(op->result(), shape);
    };
    inside = build_.binary(Opcode::And, inside, build_.binary(Opcode::Lt, i, fact(Opcode::ViewExtent)));
    inside = build_.binary(Opcode::And, inside,
                           build_.binary(Opcode::Ge, i, build_.splat(build_.index(0), shape)));
    Value* offset = build_.binary(Opcode::Mul, i, fact(Opcode::ViewStride));
    pointers = build_.create(Opcode::PtrAdd, {pointers, offset}, {pointers->type})->result();
  }
  Op* op = build_.create(Opcode::Load, {pointers, inside}, {Type::tile(view->type.dtype, shape)});
  op->set("has_mask", std::int64_t{1});
  add(op->result());
}

// A tile of offset + first, offset + first + 1, ... along an axis of the shape. For axis -1, all elements are
// the offset.
Value* KernelGenerator::counting(Value* offset, int axis, const Shape& shape, std::int64_t first) {
  Value* start = build_.splat(offset, shape);
  if (axis < 0) return start;
  const Dim& extent = shape[static_cast<std::size_t>(axis)];
  Op* range = build_.create(Opcode::Arange, {}, {Type::tile(chance(50) ? DType::I64 : DType::I32, {extent})});
  range->set("start", first);
  Value* along = build_.cast(range->result(), DType::I64);
  for (int other = 0; other < static_cast<int>(shape.size()); ++other) {
    if (other == axis) continue;
    Shape wider = along->type.shape;
    wider.insert(other < axis ? wider.begin() : wider.end(), Dim(1));
    Op* expanded = build_.create(Opcode::ExpandDims, {along}, {along->type.with_shape(wider)});
    expanded->set("axis", other < axis ? std::int64_t{0} : along->type.rank());
    along = expanded->result();
  }
  along = build_.broadcast(along, shape);
  return chance(50) ? build_.binary(Opcode::Add, start, along) : build_.binary(Opcode::Add, along, start);
}

// Gathers by random indices, or by indices that count, which passes can turn into a load of a tile.
void KernelGenerator::gather() {
  Value* view = input();
  Shape shape = any_tile()->type.shape;
  std::vector<Value*> operands = {view};
  const bool tile = chance(50);
  Value* inside = nullptr;
  for (std::int64_t axis = 0; axis < view->type.view_rank; ++axis) {
    const auto along = static_cast<int>(between(-1, static_cast<std::int64_t>(shape.size()) - 1));
    Value* i = tile || chance(20) ? counting(index(), along, shape, chance(70) ? 0 : between(-5, 5))
                                  : value_of(Type::tile(DType::I64, shape));
    operands.push_back(i);
    if (!chance(40)) continue;
    Op* extent = build_.create(Opcode::ViewExtent, {view}, {Type::scalar(DType::I64)});
    extent->set("axis", axis);
    Value* bound = build_.splat(extent->result(), shape);
    Value* below = chance(50) ? build_.binary(Opcode::Lt, i, bound) : build_.binary(Opcode::Gt, bound, i);
    inside = inside ? build_.binary(Opcode::And, inside, below) : below;
  }
  if (chance(20)) {
    Value* some = value_of(Type::tile(DType::Bool, shape));
    inside = inside ? build_.binary(Opcode::And, some, inside) : some;
  }
  if (inside) operands.push_back(inside);
  const Type type = Type::tile(view->type.dtype, shape);
  const bool other = chance(30);
  if (other) operands.push_back(value_of(chance(50) ? type : Type::scalar(type.dtype)));
  Op* op = build_.create(Opcode::ViewGather, operands, {type});
  if (inside) op->set("has_mask", std::int64_t{1});
  if (other) op->set("has_other", std::int64_t{1});
  add(op->result());
}

void KernelGenerator::facts() {
  Opcode code = chance(50) ? Opcode::ProgramId : Opcode::NumPrograms;
  Op* op = build_.create(code, {}, {Type::scalar(DType::I64)});
  op->set("axis", between(0, static_cast<std::int64_t>(tile_.size()) - 1));
  add(op->result());
}

void KernelGenerator::atomic() {
  Shape shape = {one_of(dims_)};
  Value* offset = index();
  Op* pointers = build_.create(Opcode::ViewPtrs, {counts_, offset},
                               {Type::pointer_to(counts_->type.dtype, false, shape)});
  Op* inside = build_.create(Opcode::ViewMask, {counts_, offset}, {Type::tile(DType::Bool, shape)});
  pointers->set("axes", std::vector<std::int64_t>{0});
  inside->set("axes", std::vector<std::int64_t>{0});
  Type type = Type::tile(counts_->type.dtype, shape);
  Op* op = build_.create(Opcode::AtomicRmw, {pointers->result(), value_of(type), inside->result()}, {type});
  op->set("has_mask", std::int64_t{1});
  op->set("kind", std::string(atomic_kind_));
  if (chance(50)) op->set("order", std::string("relaxed"));
}

// Stores to the program's own tile of an output: as a tile, by a scatter, or through pointers.
void KernelGenerator::store(Value* v, Value* output) {
  v = build_.cast(reshaped(v, tile_), output->type.dtype);
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < tile_.size(); ++i)
    axes.push_back(static_cast<std::int64_t>(i));
  bool mask = chance(20);
  Op* op = nullptr;
  if (chance(10)) output = view_of_pointer(output);
  if (chance(10)) output = slice(output, build_.index(0)); // at 0, so that each program keeps its elements
  if (chance(15)) {
    std::vector<Value*> operands = {output};
    operands.insert(operands.end(), offsets_.begin(), offsets_.end());
    Op* pointers =
        build_.create(Opcode::ViewPtrs, operands, {Type::pointer_to(output->type.dtype, false, tile_)});
    Op* inside = build_.create(Opcode::ViewMask, operands, {Type::tile(DType::Bool, tile_)});
    pointers->set("axes", axes);
    inside->set("axes", axes);
    Value* written = inside->result();
    if (mask) written = build_.binary(Opcode::And, written, value_of(written->type));
    op = build_.create(Opcode::Store, {pointers->result(), v, written}, {});
    mask = true;
  } else {
    bool scatter = chance(15);
    std::vector<Value*> operands = {output, v};
    for (std::size_t i = 0; i < tile_.size(); ++i) {
      operands.push_back(scatter ? counting(offsets_[i], static_cast<int>(i), tile_) : offsets_[i]);
    }
    if (mask) operands.push_back(value_of(Type::tile(DType::Bool, tile_)));
    op = build_.create(scatter ? Opcode::ViewScatter : Opcode::ViewStore, operands, {});
    if (!scatter) op->set("axes", axes);
  }
  if (mask) op->set("has_mask", std::int64_t{1});
}

} // namespace kiln::test
