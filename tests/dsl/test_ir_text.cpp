// Tests the printer, the parser and the parser's errors.
#include <catch2/catch.hpp>

#include <kiln/dsl/ir/parser.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/dsl/symbol.h>

#include <bit>
#include <cmath>
#include <limits>

using namespace kiln;
using namespace kiln::ir;

namespace {
const char* const matmul =
    R"(kernel @matmul(%a: view<const bf16, 2>, %b: view<const bf16, 2, unit>, %c: view<f32, 2, aligned>) grid [(c, 0, BM), (c, 1, BN)] {
  %0, %1 = program_tile %c {dims = [BM, BN]} : i64, i64
  %2 = view_extent %a {axis = 1} : i64
  %3 = constant {value = 0.0} : f32
  %4 = splat %3 : tile<BM x BN x f32>
  %5 = constant {value = 0} : i64
  %6 = dim_size {dim = BK} : i64
  %7 = for %5, %2, %6, %4 {stages = 3} : tile<BM x BN x f32> {
    (%8: i64, %9: tile<BM x BN x f32>)
    %10 = view_load %a, %0, %8 {axes = [0, 1]} : tile<BM x BK x bf16>
    %11 = view_load %b, %8, %1 {axes = [0, 1]} : tile<BK x BN x bf16>
    %12 = dot %10, %11, %9 : tile<BM x BN x f32>
    yield %12
  }
  %13 = constant {value = 1} : bool
  if %13 {
    view_store %c, %7, %0, %1 {axes = [0, 1]}
    yield
  } {
    device_print %2 {message = "a \"quoted\"\n\x01 line"}
    yield
  }
}
)";

std::string error_of(const std::string& text) {
  try {
    parse_all(text, "in.kir");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}
} // namespace

TEST_CASE("tile IR prints as it was parsed") {
  auto kernel = parse(matmul, "matmul.kir");
  CHECK(print(*kernel) == matmul);
  CHECK(problems(*kernel) == std::vector<std::string>{});
  CHECK(print(*kernel->clone()) == matmul);
}

TEST_CASE("names of values and locations are not part of the canonical text") {
  auto a = parse("kernel @k(%x: i64) {\n  %sum = add %x, %x : i64 @ \"there.cpp\":7\n}\n", "a.kir");
  auto b = parse("// a comment\nkernel @k(%x: i64) {\n\n  %0 = add %x, %x : i64 // another\n}\n", "b.kir");
  CHECK(print(*a) == print(*b));
  CHECK(print(*a, {.locations = true}) ==
        "kernel @k(%x: i64) {\n  %0 = add %x, %x : i64 @ \"there.cpp\":7\n}\n");
  CHECK(print(*b, {.locations = true}) == "kernel @k(%x: i64) {\n  %0 = add %x, %x : i64 @ \"b.kir\":4\n}\n");
  CHECK(print(*a->body.ops[0]) == "%1 = add %0, %0 : i64\n");
}

TEST_CASE("parameters without a unique name are numbered") {
  Kernel kernel("two words");
  kernel.body.add_arg(Type::scalar(DType::I64), intern("n"));
  kernel.body.add_arg(Type::scalar(DType::I64), intern("n"));
  kernel.body.add_arg(Type::scalar(DType::I64), intern("arg0"));
  kernel.body.add_arg(Type::scalar(DType::I64), intern("not a name"));
  kernel.body.add_arg(Type::scalar(DType::I64));
  std::string text =
      "kernel @\"two words\"(%arg0: i64, %arg1: i64, %arg2: i64, %arg3: i64, %arg4: i64) {\n}\n";
  CHECK(print(kernel) == text);
  CHECK(print(*parse(text)) == text);
}

TEST_CASE("floats read back as the same bits") {
  using limits = std::numeric_limits<double>;
  std::vector<double> values = {0.0,
                                -0.0,
                                1.0,
                                -1.5,
                                0.1,
                                1e300,
                                5e-324,
                                limits::max(),
                                limits::infinity(),
                                -limits::infinity(),
                                limits::quiet_NaN(),
                                -limits::quiet_NaN(),
                                std::bit_cast<double>(0x7ff0000000000001u)};
  for (double value : values) {
    Kernel kernel("k");
    Builder(&kernel.body).constant(DType::F64, value);
    auto again = parse(print(kernel));
    CAPTURE(print(kernel));
    double read = std::get<double>(*again->body.ops[0]->find("value"));
    CHECK(std::bit_cast<std::uint64_t>(read) == std::bit_cast<std::uint64_t>(value));
  }
}

TEST_CASE("attributes of every kind read back, also where the table does not know them") {
  Kernel kernel("k");
  Op* op = Builder(&kernel.body).create(Opcode::DevicePrint, {}, {});
  op->set("x.shape", Shape{Dim(4), Dim(8)});
  op->set("x.dim", Dim(4));
  op->set("x.list", std::vector<std::int64_t>{4, -8});
  op->set("x.none", std::vector<std::int64_t>{});
  op->set("x.int", std::numeric_limits<std::int64_t>::min());
  op->set("x.float", 3.0);
  op->set("message", std::string("\0\\\"\xff\x7f\n", 6));
  auto again = parse(print(kernel));
  CHECK(again->body.ops[0]->attributes() == op->attributes());
  CHECK(print(*again) == print(kernel));
}

TEST_CASE("types read back") {
  for (const char* text :
       {"f32", "bool", "ptr<const f8e4m3>", "ptr<i8>", "tile<BM x 128 x f32>", "tile<BK/4 x ptr<f32>>",
        "tile<BM*BN*2 x u8>", "tile<BM*3/BK/5 x i16>", "tile<1/BM x f64>", "tile<x x f32 x ptr x x x i32>",
        "view<const bf16, 2, unit>", "view<u64, 0>", "view<f16, 8, aligned>"})
    CHECK(parse_type(text).to_string() == text);
}

TEST_CASE("config-specific kernels say for which config they hold") {
  std::string text = "kernel @k() only_for \"BM=128,num_warps=4\" {\n}\n";
  auto kernel = parse(text);
  CHECK(kernel->config_specific);
  CHECK(kernel->recorded_with.get("BM") == 128);
  CHECK(print(*kernel) == text);
}

TEST_CASE("the parser says where and what it expected") {
  CHECK(error_of("kernal @k() {}") == "in.kir:1:1: expected \"kernel\", found \"kernal\"");
  CHECK(error_of("kernel k() {}") == "in.kir:1:8: expected \"@\" before the kernel's name, found \"k\"");
  CHECK(error_of("kernel @k(%a: view<f32>) {\n}") ==
        "in.kir:1:23: expected \",\" between the view's dtype and its rank, found \">\"");
  CHECK(error_of("kernel @k() {\n  %0 = ad %1\n}") == "in.kir:2:8: expected an operation, found \"ad\"");
  CHECK(error_of("kernel @k(%a: i64) {\n  %0 = add %a, %b : i64\n}") ==
        "in.kir:2:16: \"%b\" is used, but no value of that name is defined before, in this region or around "
        "it");
  CHECK(error_of("kernel @k(%a: i64) {\n  %a = neg %a : i64\n}") ==
        "in.kir:2:3: %a is defined a second time; choose another name");
  CHECK(error_of("kernel @k(%a: i64) {\n  %0 = neg %a\n}") ==
        "in.kir:2:8: neg names 1 results and gives 0 types; write one type for each result after \":\"");
  CHECK(error_of("kernel @k() {\n  %0 = constant {value = 99999999999999999999} : i64\n}") ==
        "in.kir:2:26: the number \"99999999999999999999\" does not fit i64");
  CHECK(error_of("kernel @k() {\n  device_print {message = \"open}\n}") ==
        "in.kir:2:27: this text has no closing quote on its line; end it with \"");
  CHECK(error_of("kernel @k() {\n") ==
        "in.kir:2:1: expected an operation or \"}\", found the end of the text");
  CHECK(error_of("kernel @k() {\n  %0 = constant {value = 1, value = 2} : i64\n}") ==
        "in.kir:2:29: the attribute value is given twice");
  CHECK(error_of("kernel @k(%a: tile<0 x f32>) {\n}") ==
        "in.kir:1:20: expected extents from 1 to 2^40 in all, found \"0\"");
  CHECK(error_of("kernel @k() grid [(c, 0, BM)] {\n}") ==
        "in.kir:1:20: expected the name of a parameter, found \"c\"");
  CHECK(error_of("kernel @k() {}\nkernel @l() {} }") == "in.kir:2:16: expected \"kernel\", found \"}\"");
  CHECK(error_of("kernel @k(%a: ptr<ptr<f32>>) {\n}") ==
        "in.kir:1:19: expected a pointer to a dtype, found a pointer to a pointer");
}

TEST_CASE("nesting that is too deep is a user error") {
  std::string text = "kernel @k(%c: bool) {\n";
  for (int i = 0; i < 100000; ++i)
    text += "if %c {\n";
  CHECK(error_of(text) == "in.kir:130:7: regions are nested more than 128 deep");
}
