// Tests that every operation on every dtype either compiles for the CPU or is rejected by the table.
#include "cpu_runner.h"

#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/cpu/legality.h>

#include <catch2/catch.hpp>

using namespace kiln;
using namespace kiln::ir;

namespace {

// A kernel that computes x op y on tiles of rank 1, if tile IR has the operation for this dtype.
std::unique_ptr<ir::Kernel> elementwise_kernel(Opcode code, DType from, DType to) {
  auto kernel = std::make_unique<ir::Kernel>("probe");
  Value* x = kernel->body.add_arg(Type::view(from, 1, true));
  Value* out = kernel->body.add_arg(Type::view(to, 1, false));
  Builder b(&kernel->body);
  auto load = [&](Value* view) {
    Op* op = b.create(Opcode::ViewLoad, {view, b.index(0)}, {Type::tile(view->type.dtype, {Dim(8)})});
    op->set("axes", std::vector<std::int64_t>{0});
    return op->result();
  };
  Value* v = load(x);
  std::vector<Value*> operands(static_cast<std::size_t>(info(code).operands), v);
  Op* op = b.create(code, operands, {Type::tile(to, {Dim(8)})});
  Op* store = b.create(Opcode::ViewStore, {out, op->result(), b.index(0)}, {});
  store->set("axes", std::vector<std::int64_t>{0});
  if (!problems(*kernel).empty()) return nullptr;
  return kernel;
}

} // namespace

TEST_CASE("listed operations compile, and all operations of tile IR are listed", "[slow]") {
  for (int o = 0; o < op_count; ++o)
    for (int f = 0; f < dtype_count; ++f)
      for (int t = 0; t < dtype_count; ++t) {
        auto code = static_cast<Opcode>(o);
        auto from = static_cast<DType>(f), to = static_cast<DType>(t);
        if (!is_elementwise(code) || code == Opcode::PtrAdd) continue;
        auto kernel = elementwise_kernel(code, from, to);
        if (!kernel) continue;
        INFO(name(code) << " from " << name(from) << " to " << name(to));
        REQUIRE_NOTHROW(cpu::check_legal(*kernel));
        REQUIRE_FALSE(cpu::compile(*kernel, cpu::host_target()).object.empty());
      }
}

TEST_CASE("an operation that the CPU lacks is an error that names its line") {
  ir::Kernel kernel("k");
  Builder b(&kernel.body);
  b.set_location(SourceLocation(intern("user.cpp"), 12));
  Value* x = b.splat(b.constant(DType::I32, std::int64_t{1}), {Dim(4), Dim(4)});
  b.create(Opcode::Dot, {x, x}, {x->type});
  REQUIRE_THROWS_WITH(cpu::check_legal(kernel), "user.cpp:12: the CPU does not lower dot of i32; cast to one "
                                                "of i8, u8, f16, bf16, f32, f64, f8e4m3, f8e5m2");
}
