// Tests the checks of the interpreter and the host: device_assert and expects.
#include "kernel_arguments.h"
#include "make_kernel.h"

#include <catch2/catch.hpp>
#include <kiln/dsl/ir/expectations.h>

using namespace kiln;
using namespace kiln::ir;
using kiln::test::Arguments;
using kiln::test::Make;

TEST_CASE("device_assert names line, program and element; device_print gives whole lines") {
  Make k;
  Value* a = k.view(DType::F32, 1);
  auto at = k.program_tile(a, {2});
  Value* x = k.load(a, at, {2});
  Op* print = k.b.create(Opcode::DevicePrint, {at[0], x}, {});
  print->set("message", std::string("x ="));
  Op* check = k.b.create(Opcode::DeviceAssert,
                         {k.b.binary(Opcode::Lt, x, k.b.splat(k.b.constant(DType::F32, 3.0), {2}))}, {});
  check->set("message", std::string("x is small"));
  std::vector<float> in{0, 0.5, 1, 8};
  std::string lines;
  InterpreterOptions options{.print = [&](const std::string& line) { lines += line + "\n"; }};
  REQUIRE_THROWS_WITH(
      Arguments().view(in.data(), {4}).run(k, options),
      "kernel.cpp:7: device_assert failed in program (1) at element (1): x is small: 8 < 3 is false");
  CHECK(lines == "x = 0 [0, 0.5]\nx = 2 [1, 8]\n");
  options.device_asserts = false;
  CHECK_NOTHROW(Arguments().view(in.data(), {4}).run(k, options));
}

TEST_CASE("expectations are checked on the host, with the compared values") {
  Make k("matmul");
  Value *a = k.view(DType::F32, 2), *b = k.view(DType::F32, 2), *s = k.scalar(DType::I32);
  Value *columns = k.extent(a, 1), *rows = k.extent(b, 0);
  Op* op = k.b.create(Opcode::Expects, {k.b.binary(Opcode::Eq, columns, rows), columns, rows}, {});
  op->set("message", std::string("a's columns and b's rows"));
  Value* wide = k.b.binary(Opcode::Mul, k.b.cast(s, DType::I64), k.b.index(4));
  Op* second = k.b.create(Opcode::Expects, {k.b.binary(Opcode::Le, wide, columns), wide, columns}, {});
  second->set("message", std::string("groups fit"));
  Expectations expectations = Expectations::compile(k);
  float data = 0;
  auto check = [&](std::int64_t c, std::int64_t r, int scale) {
    expectations.check(Arguments().view(&data, {3, c}).view(&data, {r, 3}).scalar(scale).words());
  };
  CHECK_NOTHROW(check(512, 512, 128));
  CHECK_NOTHROW(check(512, 512, -1));
  REQUIRE_THROWS_WITH(check(512, 513, 1),
                      "kernel.cpp:7: expects failed: a's columns and b's rows: 512 != 513");
  REQUIRE_THROWS_WITH(check(512, 512, 129), "kernel.cpp:7: expects failed: groups fit: 516 > 512");
  CHECK_THROWS_AS(Arguments().view(&data, {0, 2}).view(&data, {1, 0}).scalar(0).run_on(k, {1}), UserError);
}

TEST_CASE("an expectation that the host cannot know is refused when it is compiled") {
  Make k;
  Value* a = k.view(DType::I64, 1);
  SECTION("a program's index") {
    Op* id = k.b.create(Opcode::ProgramId, {}, {Type::scalar(DType::I64)});
    id->set("axis", std::int64_t{0});
    k.b.create(Opcode::Expects, {k.b.binary(Opcode::Lt, id->result(), k.extent(a, 0))}, {});
  }
  SECTION("memory") {
    Value* x = k.load(a, {k.b.index(0)}, {1});
    Op* first = k.b.create(Opcode::Reshape, {x}, {Type::scalar(DType::I64)});
    k.b.create(Opcode::Expects, {k.b.binary(Opcode::Lt, first->result(), k.extent(a, 0))}, {});
  }
  SECTION("inside a branch") {
    Value* yes = k.b.constant(DType::Bool, std::int64_t{1});
    Op* branch = k.b.create(Opcode::If, {yes}, {});
    for (int i = 0; i < 2; ++i) {
      k.b.set_region(branch->add_region());
      k.b.create(Opcode::Expects, {yes}, {});
      k.b.yield({});
    }
  }
  CHECK_THROWS_AS(Expectations::compile(k), UserError);
}
