// Tests that any kernel either compiles to PTX that ptxas accepts, or is rejected with a UserError.
//
// The fuzzer draws KILN_TEST_COUNT cases from seed KILN_TEST_SEED on. In ctest it draws few; for a long run,
// start `unit_tests "[gpu_fuzz]"` with a count of thousands.
#include "fuzz_case.h"
#include "left_out.h"
#include "ptx_batch.h"

#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/dsl/record.h>
#include <kiln/dsl/symbol.h>
#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/gpu/legality.h>
#include <kiln/jit/gpu/ptxas.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <cstdlib>
#include <iostream>
#include <map>
#include <random>

using namespace kiln;
using namespace kiln::ir;

namespace {

KILN_DIM(BN);

constexpr const char* architectures[] = {"sm_80", "sm_90a", "sm_100a"};

// out = op(x, x, ...) over tiles of 64 elements. The first operand of a select is a bool.
void add_elementwise(ir::Kernel& kernel, Opcode code, DType from, DType to) {
  Value* x = kernel.body.add_arg(Type::view(from, 1, true));
  Value* out = kernel.body.add_arg(Type::view(to, 1, false));
  Builder b(&kernel.body);
  auto load = [&](DType t) {
    Op* op = b.create(Opcode::ViewLoad, {x, b.index(0)}, {Type::tile(from, {Dim(64)})});
    op->set("axes", std::vector<std::int64_t>{0});
    return t == from ? op->result() : b.cast(op->result(), t);
  };
  std::vector<Value*> operands(static_cast<std::size_t>(info(code).operands), load(from));
  if (code == Opcode::Select) operands[0] = load(DType::Bool);
  Op* op = b.create(code, operands, {Type::tile(to, {Dim(64)})});
  Op* store = b.create(Opcode::ViewStore, {out, op->result(), b.index(0)}, {});
  store->set("axes", std::vector<std::int64_t>{0});
}

// Compiles a kernel and adds its PTX to the batch. Returns 0 if it is no valid kernel.
int check_kernel(const ir::Kernel& kernel, const char* arch, test::PtxBatch& batch) {
  if (!problems(kernel).empty()) return 0;
  INFO(ir::print(kernel) << arch);
  std::size_t views = 0;
  for (const auto& arg : kernel.body.args)
    views += arg->type.is_view();
  auto lowered = passes::lower_generic(kernel, {{}, std::vector<LayoutClass>(views, LayoutClass::Aligned)});
  REQUIRE_NOTHROW(gpu::check_legal(*lowered, arch));
  std::string ptx = gpu::compile_to_ptx(*lowered, {arch}).text;
  if (batch.add(ptx) || gpu::ptxas_path().empty()) return 1;
  auto alone = gpu::assemble(ptx, arch);
  INFO(alone.log);
  REQUIRE(alone.ok);
  return 1;
}

void assemble_all(test::PtxBatch& batch) {
  if (batch.size() == 0 || gpu::ptxas_path().empty()) return; // no valid kernels, or nothing to assemble them
  auto assembled = batch.assemble();
  INFO(assembled.log);
  REQUIRE(assembled.ok);
  CHECK_FALSE(gpu::has_complaint(assembled.log));
}

} // namespace

TEST_CASE("every elementwise operation of every dtype assembles for every GPU architecture", "[slow][gpu]") {
  for (const char* arch : architectures) {
    int kernels = 0;
    for (int o = 0; o < op_count; ++o) {
      const auto code = static_cast<Opcode>(o);
      if (!is_elementwise(code) || code == Opcode::PtrAdd) continue;
      test::PtxBatch all(arch);
      for (int f = 0; f < dtype_count; ++f)
        for (int t = 0; t < dtype_count; ++t) {
          ir::Kernel kernel("k_" + std::string(name(code)) + "_" + std::to_string(f) + "_" +
                            std::to_string(t));
          add_elementwise(kernel, code, static_cast<DType>(f), static_cast<DType>(t));
          kernels += check_kernel(kernel, arch, all);
        }
      INFO(name(code));
      assemble_all(all);
    }
    CHECK(kernels > 600);
  }
}

TEST_CASE("an operation that a GPU lacks is refused with its line, its dtype and the dtypes that it takes") {
  ir::Kernel kernel("k");
  Builder b(&kernel.body);
  b.set_location(SourceLocation(intern("user.cpp"), 12));
  Value* x = b.splat(b.constant(DType::I32, std::int64_t{1}), {Dim(4), Dim(4)});
  b.create(Opcode::Dot, {x, x}, {x->type});
  REQUIRE_THROWS_WITH(
      gpu::compile_to_ptx(kernel, {"sm_90a"}),
      "user.cpp:12: sm_90a does not lower dot of i32; cast to one of i8, u8, f16, bf16, f32, f64, "
      "f8e4m3, f8e5m2");
}

TEST_CASE("tiles that no thread can hold are refused before LLVM sees them") {
  auto recorded = record("wide", [](View<const float, 1> x, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    Tile t = x.tile(i).load();
    y.tile(i).store(t + 1.f);
  });
  auto lowered =
      passes::lower_generic(*recorded, {Config{BN = 1 << 20}, {LayoutClass::Unit, LayoutClass::Unit}});
  REQUIRE_THROWS_WITH(
      gpu::compile_to_ptx(*lowered, {"sm_80"}, {.warps = 8}),
      Catch::Contains("test_legality.cpp:") &&
          Catch::Contains("kernel wide: each of 256 threads (num_warps = 8) would hold 4096 elements of "
                          "a tile<1048576 x f32>, and the limit is 512; choose smaller tiles or more warps"));
}

TEST_CASE("loops that are nested too deeply are refused") {
  ir::Kernel kernel("deep");
  Builder b(&kernel.body);
  for (int i = 0; i < 40; ++i) {
    Op* op = b.create(Opcode::For, {b.index(0), b.index(4), b.index(1)}, {});
    Region* body = op->add_region();
    body->add_arg(Type::scalar(DType::I64));
    b.set_region(body);
  }
  b.yield({});
  REQUIRE_THROWS_WITH(gpu::compile_to_ptx(kernel, {"sm_80"}), Catch::Contains("nested more than 16 deep"));
}

TEST_CASE("random kernels of any shape assemble or are refused, and LLVM never ends the process",
          "[gpu_fuzz][gpu]") {
  std::uint64_t first = 1, count = test::rounds(60);
  if (const char* text = std::getenv("KILN_TEST_SEED")) first = std::strtoull(text, nullptr, 10);
  if (const char* text = std::getenv("KILN_TEST_COUNT")) count = std::strtoull(text, nullptr, 10);
  int assembled = 0, refused = 0;
  double slowest = 0;
  std::uint64_t slowest_seed = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    CAPTURE(seed);
    const test::FuzzCase c = test::fuzz_case(seed);
    const test::FuzzResult result = test::run(c);
    assembled += result.kind == test::FuzzResult::Kind::Assembled;
    refused += result.kind == test::FuzzResult::Kind::Refused;
    if (result.seconds > slowest) {
      slowest = result.seconds;
      slowest_seed = seed;
    }
    if (result.kind != test::FuzzResult::Kind::Failed) continue;
    if (std::getenv("KILN_TEST_VERBOSE"))
      std::cout << "FAILED seed " << seed << ": " << result.text.substr(0, 300) << std::endl;
    UNSCOPED_INFO(test::to_string(c) << result.text);
    CHECK(false);
  }
  std::cout << "seeds " << first << " to " << first + count - 1 << ": " << assembled << " assembled, "
            << refused << " refused, the slowest (" << slowest_seed << ") in " << slowest << " s\n";
  CHECK(assembled > static_cast<int>(count) / 3);
}
