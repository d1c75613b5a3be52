// Records a whole-tensor expression as tile IR, and packs the arguments of a call.
#include <kiln/jit/runtime/assign/assign_kernel.h>

#include <kiln/dsl/detail/recording.h>
#include <kiln/dsl/float_bits.h>
#include <kiln/dsl/symbol.h>

#include <bit>
#include <cstring>

namespace kiln::detail {
namespace {

using ir::Opcode;
using ir::Type;
using ir::Value;

class Recorder {
public:
  Recorder(const AssignSite& site, const AssignKey& key, const Location& here)
      : site_(site), key_(key), here_(here), recording_("assign", {}, here),
        builder_(&recording_.kernel->body), placeholder_{to_dim(assign_block.info)} {
    builder_.set_location(here);
    for (int a = 0; a < key.rank; ++a)
      if (in_tile(a)) shape_.push_back(extent(a));
  }

  std::unique_ptr<ir::Kernel> run() {
    add_parameters();
    program_tile();
    std::vector<Handle> leaves;
    int view = 0;
    for (int i = 0; i < site_.leaf_count; ++i) {
      Value* parameter = recording_.kernel->body.args[static_cast<std::size_t>(i) + 1].get();
      if (site_.leaves[i].kind == AssignLeaf::Kind::View) parameter = load(parameter, key_.views[view++]);
      leaves.push_back(recording_.handle(parameter));
    }
    std::size_t first = recording_.kernel->body.ops.size();
    Handle result = site_.record(leaves.data());
    result = recording_.broadcast(recording_.cast(result, site_.out), placeholder_);
    check(recording_.kernel->body, first);
    std::vector<Value*> operands{recording_.kernel->body.args[0].get(), result.value};
    operands.insert(operands.end(), offsets_.begin(), offsets_.end());
    std::vector<std::int64_t> axes;
    for (int a = 0; a < key_.rank; ++a)
      if (in_tile(a)) axes.push_back(a);
    if (has_padding()) operands.push_back(reshape(outside_padding(rows_of(shape_))));
    ir::Op* store = builder_.create(Opcode::ViewStore, operands, {});
    store->set("axes", axes);
    if (has_padding()) store->set("has_mask", std::int64_t{1});
    put_shape(recording_.kernel->body);
    return std::move(recording_.kernel);
  }

private:
  bool is_narrow(int axis) const { return key_.narrow > 0 && axis == key_.rank - 1; }
  bool is_columns(int axis) const { return key_.columns > 0 && axis == key_.rank - 2; }
  bool in_tile(int axis) const { return key_.tile_log[axis] > 0 || is_narrow(axis) || is_columns(axis); }
  std::int64_t rows(int axis) const {
    return is_columns(axis) ? key_.columns : std::int64_t{1} << key_.tile_log[axis];
  }
  ir::Dim extent(int axis) const { return ir::Dim(rows(axis) * (is_narrow(axis) ? key_.narrow : 1)); }

  void add_parameters() {
    ir::Region& body = recording_.kernel->body;
    auto layout = [](bool unit) { return unit ? LayoutClass::Unit : LayoutClass::Any; };
    body.add_arg(Type::view(site_.out, key_.rank, false, layout(key_.out_unit)), intern("out"));
    int view = 0;
    for (int i = 0; i < site_.leaf_count; ++i) {
      const AssignLeaf& leaf = site_.leaves[i];
      if (leaf.kind != AssignLeaf::Kind::View) {
        body.add_arg(Type::scalar(leaf.dtype));
        continue;
      }
      AssignKey::View v = key_.views[view++];
      const int axes = std::popcount(v.full) + (v.along_rows == AlongRows::Apart);
      body.add_arg(Type::view(leaf.dtype, std::max(1, axes), true, layout(v.unit)));
    }
  }

  void program_tile() {
    ir::Shape dims;
    for (int a = 0; a < key_.rank; ++a) {
      dims.push_back(extent(a));
      recording_.kernel->grid.push_back({0, a, dims.back()});
    }
    std::vector<Type> types(dims.size(), Type::scalar(DType::I64));
    ir::Op* op = builder_.create(Opcode::ProgramTile, {recording_.kernel->body.args[0].get()}, types);
    op->set("dims", dims);
    for (int a = 0; a < key_.rank; ++a)
      offsets_.push_back(op->result(a));
  }

  bool has_padding() const { return key_.width < key_.narrow; }
  // The shape with an axis of rows and one of columns for the axis of narrow rows.
  ir::Shape rows_of(ir::Shape shape) const {
    shape.back() = ir::Dim(rows(key_.rank - 1));
    shape.push_back(ir::Dim(key_.narrow));
    return shape;
  }
  Value* reshape(Value* rows) {
    return builder_.create(Opcode::Reshape, {rows}, {rows->type.with_shape(shape_)})->result();
  }
  // The mask of the elements that are not padding, in a shape whose last axis is that of columns.
  Value* outside_padding(const ir::Shape& shape) {
    const ir::Shape row{ir::Dim(key_.narrow)};
    ir::Op* column = builder_.create(Opcode::Arange, {}, {Type::tile(DType::I32, row)});
    column->set("start", std::int64_t{0});
    Value* width = builder_.splat(builder_.constant(DType::I32, std::int64_t{key_.width}), row);
    Value* inside = builder_.binary(Opcode::Lt, column->result(), width);
    return builder_.broadcast(inside, shape);
  }

  // Loads the operand's part of the program's tile. Only axes along which the operand varies are loaded.
  Value* load(Value* view, AssignKey::View kind) {
    std::vector<Value*> operands{view};
    std::vector<std::int64_t> axes;
    ir::Shape loaded;
    for (int a = 0; a < key_.rank; ++a) {
      if (!(kind.full >> a & 1)) continue;
      const auto along = is_narrow(a) ? kind.along_rows : AlongRows::All;
      Value* offset = offsets_[static_cast<std::size_t>(a)];
      if (along == AlongRows::Row) offset = builder_.index(0);
      if (along == AlongRows::Column || along == AlongRows::Apart) // programs begin with whole rows
        offset = builder_.binary(Opcode::Div, offset, builder_.index(key_.narrow));
      if (in_tile(a)) {
        axes.push_back(static_cast<std::int64_t>(operands.size()) - 1);
        loaded.push_back(along == AlongRows::Row   ? ir::Dim(key_.narrow)
                         : along == AlongRows::All ? extent(a)
                                                   : ir::Dim(rows(a)));
      }
      operands.push_back(offset);
      if (along == AlongRows::Apart) {
        axes.push_back(static_cast<std::int64_t>(operands.size()) - 1);
        loaded.push_back(ir::Dim(key_.narrow));
        operands.push_back(builder_.index(0));
      }
    }
    if (operands.size() == 1) operands.push_back(builder_.index(0));
    const bool masked = kind.along_rows == AlongRows::Apart && has_padding();
    if (masked) operands.push_back(outside_padding(loaded));
    ir::Op* op = builder_.create(Opcode::ViewLoad, operands, {Type::tile(view->type.dtype, loaded)});
    op->set("axes", axes);
    if (masked) op->set("has_mask", std::int64_t{1});
    Value* v = op->result();
    if (loaded.empty()) {
      v = builder_.splat(v, shape_);
    } else {
      ir::Shape whole = shape_;
      std::int64_t axis = 0;
      auto expand = [&](std::int64_t at) {
        loaded.insert(loaded.begin() + at, ir::Dim(1));
        ir::Op* expanded = builder_.create(Opcode::ExpandDims, {v}, {v->type.with_shape(loaded)});
        expanded->set("axis", at);
        v = expanded->result();
      };
      for (int a = 0; a < key_.rank; ++a) {
        if (!in_tile(a)) continue;
        if (!(kind.full >> a & 1)) expand(axis);
        ++axis;
      }
      if (kind.along_rows != AlongRows::All) { // rows and columns are two axes until they are repeated
        if (kind.along_rows == AlongRows::Row) expand(axis - 1);
        if (kind.along_rows == AlongRows::Column) expand(axis);
        whole = rows_of(whole);
      }
      v = builder_.broadcast(v, whole);
      if (kind.along_rows != AlongRows::All) v = reshape(v);
    }
    v->type.shape = placeholder_; // put_shape replaces it
    return v;
  }

  // A user's function may have recorded any operation. UserError unless all of them work element by element.
  void check(const ir::Region& region, std::size_t first = 0) const {
    for (std::size_t i = first; i < region.ops.size(); ++i) {
      const ir::Op& op = *region.ops[i];
      bool allowed = ir::is_elementwise(op.code) || op.info().cls == ir::OpClass::Control ||
                     op.is(Opcode::Constant) || op.is(Opcode::Splat);
      if (!allowed)
        throw UserError(op.loc ? op.loc : SourceLocation(here_),
                        "assign: a function given to map uses " + std::string(ir::name(op.code)) +
                            ", which does not work element by element; write a kernel for it");
      for (const auto& inner : op.regions)
        check(*inner);
    }
  }

  // Replaces the placeholder shape of the recorded tiles by the shape of the tile.
  void put_shape(ir::Region& region) const {
    auto put = [&](Value& v) {
      if (v.type.shape == placeholder_) v.type.shape = shape_;
    };
    for (const auto& arg : region.args)
      put(*arg);
    for (const auto& op : region.ops) {
      for (const auto& result : op->results)
        put(*result);
      for (const auto& inner : op->regions)
        put_shape(*inner);
    }
  }

  const AssignSite& site_;
  const AssignKey& key_;
  const Location& here_;
  Recording recording_;
  ir::Builder builder_;
  ir::Shape placeholder_, shape_;
  std::vector<Value*> offsets_;
};

[[noreturn, gnu::cold]] void does_not_fit(DType t, const std::string& number, const Location& here) {
  throw UserError(here,
                  "assign: the number " + number + " does not fit into " + std::string(name(t)) +
                      ", the dtype of the operand next to it; cast that operand to a wider dtype first");
}

std::uint64_t integer_bits(DType t, std::int64_t value, const Location& here) {
  if (t == DType::Bool) return value != 0;
  if (int bits = 8 * size_of(t); bits < 64) {
    // A negative number is converted to an unsigned dtype modulo 2^bits, as in C++.
    std::int64_t least = -(std::int64_t{1} << (bits - 1)), limit = std::int64_t{1} << bits;
    if (value < least || value >= (is_signed(t) ? limit / 2 : limit))
      does_not_fit(t, std::to_string(value), here);
    return static_cast<std::uint64_t>(value) & static_cast<std::uint64_t>(limit - 1);
  }
  return static_cast<std::uint64_t>(value);
}

// The bytes of a number in the kernel's dtype.
std::uint64_t number_bits(const AssignLeaf& leaf, const AssignOperand& number, const Location& here) {
  bool integer = leaf.kind != AssignLeaf::Kind::Float, negative = leaf.kind == AssignLeaf::Kind::Signed;
  auto value = static_cast<std::int64_t>(number.integer);
  if (integer && !is_float(leaf.dtype)) {
    if (!negative && value < 0 && leaf.dtype != DType::U64)
      does_not_fit(leaf.dtype, std::to_string(number.integer), here);
    return integer_bits(leaf.dtype, value, here);
  }
  double real = !integer   ? number.real
                : negative ? static_cast<double>(value)
                           : static_cast<double>(number.integer);
  if (leaf.dtype == DType::F64) return std::bit_cast<std::uint64_t>(real);
  if (leaf.dtype == DType::F32) return std::bit_cast<std::uint32_t>(static_cast<float>(real));
  return encode_float(leaf.dtype, real);
}

} // namespace

std::unique_ptr<ir::Kernel> record_assign(const AssignSite& site, const AssignKey& key,
                                          const Location& here) {
  return Recorder(site, key, here).run();
}

int pack_assign(std::uint64_t* words, const AssignSite& site, const AssignPlan& plan,
                const AssignOperand* operands, const Location& here) {
  std::uint64_t* next = words;
  // Packs the pointer, and extents and strides of the axes along which the view varies.
  auto pack_view = [&](const AssignPlan::View& v, bool all) {
    *next++ = reinterpret_cast<std::uint64_t>(v.data);
    int count = 0;
    std::int64_t strides[max_rank];
    for (int a = 0; a < plan.rank; ++a) {
      if (!all && v.strides[a] == 0) continue;
      if (v.along_rows == AlongRows::Apart && a == plan.rank - 1) {
        *next++ = static_cast<std::uint64_t>((plan.extents[a] - 1) / plan.narrow + 1);
        *next++ = static_cast<std::uint64_t>(plan.width);
        strides[count++] = v.row_stride;
      } else {
        *next++ = static_cast<std::uint64_t>(plan.extent_of(v, a));
      }
      strides[count++] = v.strides[a];
    }
    if (count == 0) *next++ = 1, strides[count++] = 1;
    for (int k = 0; k < count; ++k)
      *next++ = static_cast<std::uint64_t>(strides[k]);
  };
  pack_view(plan.out, true);
  int view = 0;
  for (int i = 0; i < site.leaf_count; ++i) {
    if (site.leaves[i].kind == AssignLeaf::Kind::View)
      pack_view(plan.views[view++], false);
    else
      *next++ = number_bits(site.leaves[i], operands[i], here);
  }
  return static_cast<int>(next - words);
}

} // namespace kiln::detail
