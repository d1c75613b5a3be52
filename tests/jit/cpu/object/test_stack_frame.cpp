// Tests the size of the stack frames of compiled code, which grow with spilled registers.
#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/cpu/compiler.h>
#include <kiln/jit/cpu/object/stack_frame.h>
#include <kiln/jit/passes/passes.h>

#include <catch2/catch.hpp>

#include <vector>

using namespace kiln;
using namespace kiln::ir;

namespace {

// The frame of a kernel of `count` values, each computed from the one before, and all used in the opposite
// order.
std::int64_t frame_with(int count) {
  Kernel kernel("live");
  Builder b(&kernel.body);
  Value *x = kernel.body.add_arg(Type::view(DType::F32, 1, true)),
        *y = kernel.body.add_arg(Type::view(DType::F32, 1, false)), *zero = b.index(0);
  Op* load = b.create(Opcode::ViewLoad, {x, zero}, {Type::tile(DType::F32, {Dim(std::int64_t{16})})});
  load->set("axes", std::vector<std::int64_t>{0});
  std::vector<Value*> live{load->result()};
  for (int i = 1; i < count; ++i)
    live.push_back(b.binary(Opcode::Mul, live.back(), live.back()));
  Value* sum = live.back();
  for (int i = count; i-- > 0;)
    sum =
        b.binary(Opcode::Mul, b.binary(Opcode::Add, sum, live[static_cast<std::size_t>(i)]), load->result());
  Op* store = b.create(Opcode::ViewStore, {y, sum, zero}, {});
  store->set("axes", std::vector<std::int64_t>{0});
  passes::PassOptions options;
  options.layouts = {LayoutClass::Unit, LayoutClass::Unit};
  const auto lowered = passes::lower_generic(kernel, options);
  return cpu::largest_stack_frame(cpu::compile(*lowered, cpu::host_target(), {}).object);
}

} // namespace

TEST_CASE("values that do not fit the registers enlarge the frame") {
  const std::int64_t few = frame_with(4), many = frame_with(80);
  CHECK(many >= few + 40 * 16); // a vector has at least 16 bytes, and there are at most 32 registers
}

TEST_CASE("data that is not an object has no frame") {
  CHECK(cpu::largest_stack_frame({}) == 0);
  const std::vector<char> text(100, 'x');
  CHECK(cpu::largest_stack_frame(text) == 0);
}
