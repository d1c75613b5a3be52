// Builds kernels operation by operation.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kiln::test {

using ir::Builder, ir::Kernel, ir::Op, ir::Opcode, ir::Region, ir::Shape, ir::Type, ir::Value;

// A kernel under construction, with short functions for common operations. All operations are at
// kernel.cpp:7.
struct Make : Kernel {
  Builder b{&body};
  explicit Make(std::string name = "test") : Kernel(std::move(name)) { b.set_location({"kernel.cpp", 7}); }

  Value* view(DType t, int rank) { return body.add_arg(Type::view(t, rank, false)); }
  Value* pointer(DType t) { return body.add_arg(Type::pointer_to(t, false)); }
  Value* scalar(DType t) { return body.add_arg(Type::scalar(t)); }

  Value* extent(Value* v, int axis) {
    Op* op = b.create(Opcode::ViewExtent, {v}, {Type::scalar(DType::I64)});
    op->set("axis", std::int64_t{axis});
    return op->result();
  }
  std::vector<Value*> program_tile(Value* v, Shape dims) {
    for (std::size_t i = 0; i < dims.size(); ++i)
      grid.push_back({v->index, static_cast<int>(i), dims[i]});
    Op* op = b.create(Opcode::ProgramTile, {v}, std::vector<Type>(dims.size(), Type::scalar(DType::I64)));
    op->set("dims", dims);
    std::vector<Value*> offsets;
    for (const auto& r : op->results)
      offsets.push_back(r.get());
    return offsets;
  }
  static std::vector<std::int64_t> all_axes(std::size_t n) {
    std::vector<std::int64_t> axes(n);
    for (std::size_t i = 0; i < n; ++i)
      axes[i] = static_cast<std::int64_t>(i);
    return axes;
  }
  Value* load(Value* v, std::vector<Value*> offsets, Shape shape, std::vector<std::int64_t> axes = {},
              Value* mask = nullptr, Value* other = nullptr) {
    std::vector<Value*> operands{v};
    operands.insert(operands.end(), offsets.begin(), offsets.end());
    if (mask) operands.push_back(mask);
    if (other) operands.push_back(other);
    Op* op = b.create(Opcode::ViewLoad, operands, {Type::tile(v->type.dtype, shape)});
    op->set("axes", axes.empty() ? all_axes(shape.size()) : axes);
    if (mask) op->set("has_mask", std::int64_t{1});
    if (other) op->set("has_other", std::int64_t{1});
    return op->result();
  }
  void store(Value* v, std::vector<Value*> offsets, Value* x, std::vector<std::int64_t> axes = {}) {
    std::vector<Value*> operands{v, x};
    operands.insert(operands.end(), offsets.begin(), offsets.end());
    Op* op = b.create(Opcode::ViewStore, operands, {});
    op->set("axes", axes.empty() ? all_axes(x->type.shape.size()) : axes);
  }
  // A reduction or scan whose combine is one binary operation.
  Value* collective(Opcode code, Value* x, int axis, Opcode combine, bool reverse = false) {
    Type type = x->type;
    if (code == Opcode::Reduce) type.shape.erase(type.shape.begin() + axis);
    Op* op = b.create(code, {x}, {type});
    op->set("axis", std::int64_t{axis});
    if (reverse) op->set("reverse", std::int64_t{1});
    Region* region = op->add_region();
    Value* left = region->add_arg(Type::scalar(x->type.dtype));
    Value* right = region->add_arg(Type::scalar(x->type.dtype));
    Builder inner(region);
    inner.yield({inner.binary(combine, left, right)});
    return op->result();
  }
};

} // namespace kiln::test
