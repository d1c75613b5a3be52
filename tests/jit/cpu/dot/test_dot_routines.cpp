// Tests the routines of `dot` in a module: each exists once, and its name encodes what its code depends on.
#include "left_out.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <kiln/jit/cpu/dot/dot.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>
#include <map>
#include <random>
#include <regex>

using namespace kiln;

namespace {

// Creates a function void(ptr, i64) and sets the builder to its beginning.
llvm::Function* begin_caller(llvm::Module& module, llvm::IRBuilder<>& b) {
  auto* f =
      llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getInt64Ty()}, false),
                             llvm::Function::ExternalLinkage, "caller", module);
  b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", f));
  return f;
}

} // namespace

TEST_CASE("dot's routines ignore the fast-math flags of their caller and are created once") {
  llvm::LLVMContext context;
  llvm::Module module("twice", context);
  llvm::IRBuilder<> b(context);
  auto* f = begin_caller(module, b);
  f->addFnAttr("target-cpu", "skylake-avx512");
  b.setFastMathFlags(llvm::FastMathFlags::getFast());
  cpu::DotContext dot{b, {DType::F8E4M3, DType::F32, 32, 64, 64}, {.isa = cpu::DotIsa::Avx512, .x86 = true}};
  std::size_t functions = 0;
  for (int i = 0; i < 2; ++i) {
    llvm::Value *p = f->getArg(0), *s = f->getArg(1);
    cpu::emit_dot_accumulate(dot, {{p, s, s}, {p, s, s}, p, s, s, s, s, b.getTrue(), p});
    if (i == 0) functions = module.size();
  }
  b.CreateRetVoid();
  CHECK(module.size() == functions);
  CHECK(b.getFastMathFlags().isFast());
  CHECK(b.GetInsertBlock()->getParent() == f);
  for (const llvm::Function& made : module) {
    if (made.isDeclaration()) continue;
    CHECK(made.getFnAttribute("target-cpu").getValueAsString() == "skylake-avx512");
    for (const llvm::Instruction& i : llvm::instructions(made))
      if (llvm::isa<llvm::FPMathOperator>(i)) {
        // The lanes of a sum are added in any order, which dot allows; no other instruction has fast-math
        // flags.
        auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
        const bool sums_lanes = call && call->getIntrinsicID() == llvm::Intrinsic::vector_reduce_fadd;
        llvm::FastMathFlags flags = i.getFastMathFlags();
        if (sums_lanes) flags.setAllowReassoc(false);
        CHECK(!flags.any());
      }
  }
}

TEST_CASE("products that share a routine of dot need the same scratch") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  llvm::LLVMContext context;
  llvm::Module module("many", context);
  llvm::IRBuilder<> b(context);
  auto* f = begin_caller(module, b);
  llvm::Value *p = f->getArg(0), *s = f->getArg(1);
  auto up_to = [&](std::uint64_t most) { return static_cast<std::int64_t>(1 + random() % most); };
  std::map<std::string, std::int64_t> scratch_of;
  for (int i = 0; i < 400; ++i) {
    const DType t = random() % 2 ? DType::F32 : DType::F16;
    const cpu::DotShape shape{t, t, up_to(i % 2 ? 50 : 400), up_to(200), up_to(4) * 300};
    const cpu::DotTarget target{.isa = random() % 2 ? cpu::DotIsa::Avx2 : cpu::DotIsa::Avx512, .x86 = true};
    cpu::DotContext dot{b, shape, target};
    cpu::emit_dot_accumulate(dot, {{p, s, s}, {p, s, s}, p, s, s, s, s, b.getTrue(), p});
    const auto* call = llvm::dyn_cast<llvm::CallInst>(&b.GetInsertBlock()->back());
    REQUIRE(call);
    const std::int64_t bytes = cpu::dot_scratch_bytes(shape, target);
    const auto [known, is_new] = scratch_of.emplace(call->getCalledFunction()->getName().str(), bytes);
    INFO(known->first << ": " << shape.m << " x " << shape.n << " x " << shape.k);
    CHECK(known->second == bytes);
  }
  CHECK(scratch_of.size() < 400); // some products share a routine
  b.CreateRetVoid();
}

TEST_CASE("routines of dot with the same name have the same code, for any product") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::pair<DType, DType> types[] = {
      {DType::F32, DType::F32},   {DType::F32, DType::BF16}, {DType::F16, DType::F32},
      {DType::BF16, DType::BF16}, {DType::F64, DType::F32},  {DType::F32, DType::F16},
      {DType::I8, DType::I8},     {DType::U8, DType::I8},    {DType::F8E4M3, DType::F32}};
  const cpu::DotStrides strides[] = {cpu::DotStrides::UnitInner, cpu::DotStrides::UnitOuter,
                                     cpu::DotStrides::Any};
  const cpu::DotTarget targets[] = {
      {.isa = cpu::DotIsa::Avx2, .x86 = true},
      {.isa = cpu::DotIsa::Avx512, .x86 = true, .bf16_dot = true, .vnni = true},
      {.isa = cpu::DotIsa::Avx512, .x86 = true, .bf16_dot = true, .vnni = true, .slow_l2 = true},
      {.isa = cpu::DotIsa::Avx512,
       .x86 = true,
       .bf16_dot = true,
       .vnni = true,
       .amx_bf16 = true,
       .amx_int8 = true,
       .slow_l2 = true,
       .l2_bytes = 2 << 20},
      {.isa = cpu::DotIsa::Neon}};
  auto any_of = [&](const auto& list) { return list[random() % std::size(list)]; };
  auto up_to = [&](std::uint64_t most) { return static_cast<std::int64_t>(1 + random() % most); };
  for (const cpu::DotTarget& target : targets) {
    std::map<std::string, std::string> code_of;
    for (int i = 0; i < test::rounds(150); ++i) {
      llvm::LLVMContext context;
      llvm::Module module("one", context);
      llvm::IRBuilder<> b(context);
      auto* f = begin_caller(module, b);
      llvm::Value *p = f->getArg(0), *s = f->getArg(1);
      const auto [x, y] = any_of(types);
      const cpu::DotShape shape{x,
                                y,
                                up_to(i % 2 ? 40 : 400),
                                up_to(200),
                                up_to(1500),
                                any_of(strides),
                                any_of(strides),
                                random() % 2 == 0};
      cpu::DotContext dot{b, shape, target};
      cpu::emit_dot_accumulate(dot, {{p, s, s}, {p, s, s}, p, s, s, s, s, b.getTrue(), p, p, s});
      b.CreateRetVoid();
      for (const llvm::Function& made : module) {
        if (made.isDeclaration() || &made == f) continue;
        std::string code;
        llvm::raw_string_ostream stream(code);
        made.print(stream);
        code = std::regex_replace(code, std::regex("#[0-9]+"), ""); // numbers of attributes
        const auto [known, is_new] = code_of.emplace(made.getName().str(), code);
        INFO(known->first << " of " << name(x) << " x " << name(y));
        if (known->second != code) FAIL_CHECK("has different code");
      }
    }
  }
}
