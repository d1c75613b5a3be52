// Implements the fibers, their scheduler, and the functions that code for the simulated machine calls.
#include "simulated_device.h"

#include <kiln/dsl/error.h>
#include <kiln/dsl/float_bits.h>
#include <kiln/dsl/ir/arguments.h>
#include <kiln/jit/gpu/emit/machine.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <random>
#include <ucontext.h>

namespace kiln::test {
namespace {

using gpu::IRBuilder;
using gpu::Values;
using llvm::Value;

enum class Wait { Nothing, Barrier, WarpBarrier, Shuffle, Mma, Done };

struct Fiber {
  ucontext_t context{};
  std::vector<char> stack = std::vector<char>(256 << 10);
  Wait wait = Wait::Nothing;
  std::uint32_t sent = 0, received = 0;
  std::int32_t source = 0;                // the lane from which it shuffles
  const std::uint32_t* factors = nullptr; // 4 words of a, 2 of b
  void* sums = nullptr;                   // 4 of f32 or i32
  gpu::Machine::Mma mma{};
};

struct Block {
  std::vector<Fiber> fibers;
  ucontext_t scheduler{};
  int current = 0;
  std::int64_t program = 0, barriers = 0, failed = 0, printed = 0;
  void (*entry)(const std::uint64_t*) = nullptr;
  const std::uint64_t* words = nullptr;
};

thread_local Block* block = nullptr;

void wait_for(Wait what) {
  Fiber& self = block->fibers[static_cast<std::size_t>(block->current)];
  self.wait = what;
  swapcontext(&self.context, &block->scheduler);
}

// --- Functions that compiled code calls

std::int32_t hook_thread() { return block->current; }
std::int64_t hook_program() { return block->program; }
void hook_barrier() { wait_for(Wait::Barrier); }
void hook_warp_barrier() { wait_for(Wait::WarpBarrier); }
std::uint32_t shuffle(std::uint32_t v, std::int32_t source) {
  Fiber& self = block->fibers[static_cast<std::size_t>(block->current)];
  self.sent = v;
  self.source = source;
  wait_for(Wait::Shuffle);
  return self.received;
}
std::uint32_t hook_shuffle_xor(std::uint32_t v, std::int32_t mask) {
  return shuffle(v, (block->current & 31) ^ mask);
}
std::uint32_t hook_shuffle_from(std::uint32_t v, std::int32_t lane) { return shuffle(v, lane & 31); }

float hook_fma_saturated(float x, float y, float z) {
  const float sum = std::fma(x, y, z);
  return sum > 0 ? std::min(sum, 1.0f) : 0.0f;
}
float hook_fma_down(float x, float y, float z) {
  const double sum = static_cast<double>(x) * y + z; // exact for products of few bits near 2^23
  const auto nearest = static_cast<float>(sum);
  return nearest > sum ? std::nextafter(nearest, -INFINITY) : nearest;
}
// An approximation with up to half an ulp more error than rounding has, as bits of the argument decide.
float approximate(double exact, float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x) * 2654435761u >> 30;
  return static_cast<float>(exact * (bits == 0 ? 1 - 0x1p-25 : bits == 1 ? 1 + 0x1p-25 : 1));
}
float hook_exp2(float x) { return approximate(std::exp2(static_cast<double>(x)), x); }
float hook_exp2_flushed(float x) {
  const float result = hook_exp2(std::fpclassify(x) == FP_SUBNORMAL ? 0.0f : x);
  return std::fpclassify(result) == FP_SUBNORMAL ? 0.0f : result;
}
float hook_rsqrt(float x) { return approximate(1 / std::sqrt(static_cast<double>(x)), x); }

void hook_assert_failed() { ++block->failed; }
void hook_print() { ++block->printed; }

void hook_mma(const std::uint32_t* factors, void* sums, std::int32_t a, std::int32_t b) {
  Fiber& self = block->fibers[static_cast<std::size_t>(block->current)];
  self.factors = factors;
  self.sums = sums;
  self.mma = {static_cast<DType>(a), static_cast<DType>(b)};
  wait_for(Wait::Mma);
}

std::uint32_t hook_to_tf32(float x) { // to nearest, ties away from zero
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::isfinite(x) ? (bits + 0x1000) & ~0x1fffu : bits;
}

double factor_of(std::uint32_t word, int which, DType t) {
  switch (t) {
  case DType::F32: return std::bit_cast<float>(word);
  case DType::I8: return static_cast<std::int8_t>(word >> (8 * which));
  case DType::U8: return static_cast<std::uint8_t>(word >> (8 * which));
  default: return decode_float(t, word >> (16 * which) & 0xffff);
  }
}

// Executes one mma.sync.m16n8 of a warp, 32 bytes deep, with the fragments of the PTX ISA. With g = lane / 4
// and t = lane % 4, word a[2j + i] is in row g + 8i and is word t + 4j of that row; word b[j] is word t + 4j
// of column g; and c[2i + j] is in row g + 8i and column 2t + j.
void multiply(Fiber* warp) {
  double a[16][32], b[32][8];
  const gpu::Machine::Mma what = warp->mma;
  const int in_word = 4 / size_of(what.a), depth = 8 * in_word;
  for (int lane = 0; lane < 32; ++lane) {
    const Fiber& f = warp[lane];
    const int g = lane / 4, t = lane % 4;
    for (int e = 0; e < in_word; ++e)
      for (int j = 0; j < 2; ++j) {
        const int k = in_word * (t + 4 * j) + e;
        for (int i = 0; i < 2; ++i)
          a[g + 8 * i][k] = factor_of(f.factors[2 * j + i], e, what.a);
        b[k][g] = factor_of(f.factors[4 + j], e, what.b);
      }
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j) {
        double sum = 0;
        for (int k = 0; k < depth; ++k)
          sum += a[lane / 4 + 8 * i][k] * b[k][2 * (lane % 4) + j];
        if (is_float(what.a)) {
          float& c = static_cast<float*>(warp[lane].sums)[2 * i + j];
          c = static_cast<float>(c + sum);
        } else {
          auto& c = static_cast<std::uint32_t*>(warp[lane].sums)[2 * i + j];
          c += static_cast<std::uint32_t>(static_cast<std::int64_t>(sum));
        }
      }
}

void fiber_main() {
  block->entry(block->words);
  wait_for(Wait::Done);
}

void start(Fiber& f) {
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = f.stack.data();
  f.context.uc_stack.ss_size = f.stack.size();
  f.context.uc_link = nullptr;
  makecontext(&f.context, fiber_main, 0);
  f.wait = Wait::Nothing;
}

// --- The machine

class SimulatedMachine final : public gpu::Machine {
public:
  Value* thread(IRBuilder& b) override { return hook(b, "sim_thread", b.getInt32Ty(), {}); }
  Value* program(IRBuilder& b) override { return hook(b, "sim_program", b.getInt64Ty(), {}); }
  void barrier(IRBuilder& b) override { hook(b, "sim_barrier", b.getVoidTy(), {}); }
  void warp_barrier(IRBuilder& b) override { hook(b, "sim_warp_barrier", b.getVoidTy(), {}); }
  void barrier_if(IRBuilder& b, Value* needed) override {
    emit::emit_if(b, needed, [&] { barrier(b); });
  }
  Value* shuffle_xor(IRBuilder& b, Value* v, int mask) override {
    return hook(b, "sim_shuffle_xor", b.getInt32Ty(), {v, b.getInt32(static_cast<std::uint32_t>(mask))});
  }
  Value* shuffle_from(IRBuilder& b, Value* v, Value* lane) override {
    return hook(b, "sim_shuffle_from", b.getInt32Ty(), {v, lane});
  }
  Value* fma_saturated(llvm::IRBuilderBase& b, Value* x, Value* y, Value* z) override {
    return hook(b, "sim_fma_saturated", b.getFloatTy(), {x, y, z});
  }
  Value* fma_down(llvm::IRBuilderBase& b, Value* x, Value* y, Value* z) override {
    return hook(b, "sim_fma_down", b.getFloatTy(), {x, y, z});
  }
  Value* exp2(llvm::IRBuilderBase& b, Value* x, Denormals denormals) override {
    return hook(b, denormals == Denormals::Flushed ? "sim_exp2_flushed" : "sim_exp2", b.getFloatTy(), {x});
  }
  Value* rsqrt(llvm::IRBuilderBase& b, Value* x) override {
    return hook(b, "sim_rsqrt", b.getFloatTy(), {x});
  }
  Value* load_if(IRBuilder& b, llvm::Type* type, Value* pointer, Value* wanted, Value* otherwise,
                 std::string_view) override {
    llvm::BasicBlock* before = b.GetInsertBlock();
    Value* loaded = nullptr;
    llvm::BasicBlock* inside = nullptr;
    emit::emit_if(b, wanted, [&] {
      loaded = b.CreateAlignedLoad(type, pointer, llvm::Align(type->getPrimitiveSizeInBits() / 8));
      inside = b.GetInsertBlock();
    });
    llvm::PHINode* phi = b.CreatePHI(type, 2);
    phi->addIncoming(otherwise, before);
    phi->addIncoming(loaded, inside);
    return phi;
  }
  void store_if(IRBuilder& b, Value* v, Value* pointer, Value* wanted, std::string_view) override {
    emit::emit_if(b, wanted, [&] {
      b.CreateAlignedStore(v, pointer, llvm::Align(v->getType()->getPrimitiveSizeInBits() / 8));
    });
  }
  bool has_atomic(const Atomic&) const override { return false; }
  Value* atomic(IRBuilder&, const Atomic&, Value*, Value*) override { return nullptr; }
  Value* swap_16_bits(IRBuilder& b, std::string_view, std::string_view, Value* pointer, Value* wanted,
                      Value* desired) override {
    constexpr auto order = llvm::AtomicOrdering::SequentiallyConsistent;
    return b.CreateExtractValue(b.CreateAtomicCmpXchg(pointer, wanted, desired, llvm::Align(2), order, order),
                                0);
  }
  Values mma(IRBuilder& b, const Mma& what, const Values& a, const Values& b_words,
             const Values& c) override {
    IRBuilder entry(&b.GetInsertBlock()->getParent()->getEntryBlock(),
                    b.GetInsertBlock()->getParent()->getEntryBlock().begin());
    llvm::Type* sum = c[0]->getType();
    Value* factors = entry.CreateAlloca(llvm::ArrayType::get(b.getInt32Ty(), 6));
    Value* sums = entry.CreateAlloca(llvm::ArrayType::get(sum, 4));
    for (unsigned i = 0; i < 4; ++i) {
      b.CreateStore(a[i], b.CreateConstGEP1_32(b.getInt32Ty(), factors, i));
      b.CreateStore(c[i], b.CreateConstGEP1_32(sum, sums, i));
    }
    for (unsigned i = 0; i < 2; ++i)
      b.CreateStore(b_words[i], b.CreateConstGEP1_32(b.getInt32Ty(), factors, 4 + i));
    hook(b, "sim_mma", b.getVoidTy(),
         {factors, sums, b.getInt32(static_cast<std::uint32_t>(what.a)),
          b.getInt32(static_cast<std::uint32_t>(what.b))});
    Values result;
    for (unsigned i = 0; i < 4; ++i)
      result.push_back(b.CreateLoad(sum, b.CreateConstGEP1_32(sum, sums, i)));
    return result;
  }
  Value* to_tf32(IRBuilder& b, Value* x) override { return hook(b, "sim_to_tf32", b.getInt32Ty(), {x}); }
  void assert_failed(IRBuilder& b, const std::string&, const std::string&, int, const std::string&) override {
    hook(b, "sim_assert_failed", b.getVoidTy(), {});
  }
  void print(IRBuilder& b, const std::string&, const Values&) override {
    hook(b, "sim_print", b.getVoidTy(), {});
  }
  const char* scope_name(std::string_view) const override { return ""; }
  unsigned global_space() const override { return 0; }
  unsigned shared_space() const override { return 0; }

private:
  Value* hook(llvm::IRBuilderBase& b, const char* name, llvm::Type* result, const Values& arguments) {
    std::vector<llvm::Type*> types;
    for (Value* v : arguments)
      types.push_back(v->getType());
    llvm::Module* module = b.GetInsertBlock()->getModule();
    return b.CreateCall(module->getOrInsertFunction(name, llvm::FunctionType::get(result, types, false)),
                        arguments);
  }
};

} // namespace

struct SimulatedKernel::State {
  std::unique_ptr<llvm::orc::LLJIT> jit;
  void (*entry)(const std::uint64_t*) = nullptr;
  std::vector<char> shared;
  int threads = 0, words = 0, parameters = 0;
  std::int64_t barriers = 0, failed = 0, printed = 0;
};

SimulatedKernel::SimulatedKernel(const ir::Kernel& lowered, int warps, bool debug) : state_(new State) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = std::make_unique<llvm::Module>(lowered.name, *context);
  state_->jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
  module->setDataLayout(state_->jit->getDataLayout());
  module->setTargetTriple(state_->jit->getTargetTriple());

  const gpu::LayoutPlan plan = gpu::plan_layouts(lowered, warps);
  SimulatedMachine machine;
  { // the emitter refers to the module, which the JIT destroys
    gpu::KernelEmitter emitter(*module, lowered, plan, {}, machine, debug);
    emitter.run();
    state_->shared.resize(static_cast<std::size_t>(emitter.shape().shared_bytes) + 2048);
  }
  state_->threads = warps * 32;
  state_->words = ir::ArgumentLayout::of(lowered).words;

  // The entry loads the parameters of the kernel from 64-bit words.
  llvm::Function* kernel = module->getFunction(lowered.name);
  state_->parameters = static_cast<int>(kernel->arg_size());
  IRBuilder b(*context);
  auto* entry = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false),
                                       llvm::Function::ExternalLinkage, "sim_entry", *module);
  b.SetInsertPoint(llvm::BasicBlock::Create(*context, "entry", entry));
  Values arguments;
  for (unsigned i = 0; i < kernel->arg_size(); ++i)
    arguments.push_back(b.CreateLoad(kernel->getArg(i)->getType(),
                                     b.CreateConstGEP1_64(b.getInt64Ty(), entry->getArg(0), i)));
  b.CreateCall(kernel, arguments);
  b.CreateRetVoid();
  llvm::raw_string_ostream text(llvm_);
  module->print(text, nullptr);
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  internal_check(!llvm::verifyModule(*module, &stream), "invalid LLVM IR: " + problems + llvm_);

  llvm::orc::SymbolMap symbols;
  auto add = [&](const char* name, auto* address) {
    symbols[state_->jit->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(address),
                                                   llvm::JITSymbolFlags::Exported};
  };
  add("sim_thread", &hook_thread);
  add("sim_program", &hook_program);
  add("sim_barrier", &hook_barrier);
  add("sim_warp_barrier", &hook_warp_barrier);
  add("sim_shuffle_xor", &hook_shuffle_xor);
  add("sim_shuffle_from", &hook_shuffle_from);
  add("sim_fma_saturated", &hook_fma_saturated);
  add("sim_fma_down", &hook_fma_down);
  add("sim_exp2", &hook_exp2);
  add("sim_exp2_flushed", &hook_exp2_flushed);
  add("sim_rsqrt", &hook_rsqrt);
  add("sim_mma", &hook_mma);
  add("sim_to_tf32", &hook_to_tf32);
  add("sim_assert_failed", &hook_assert_failed);
  add("sim_print", &hook_print);
  auto start = (reinterpret_cast<std::uintptr_t>(state_->shared.data()) + 1023) / 1024 * 1024;
  add("kiln_shared", reinterpret_cast<char*>(start));
  llvm::cantFail(state_->jit->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))));
  llvm::cantFail(
      state_->jit->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context))));
  state_->entry = llvm::cantFail(state_->jit->lookup("sim_entry")).toPtr<void (*)(const std::uint64_t*)>();
}

SimulatedKernel::~SimulatedKernel() = default;

std::int64_t SimulatedKernel::barriers() const { return state_->barriers; }
std::int64_t SimulatedKernel::failed() const { return state_->failed; }
std::int64_t SimulatedKernel::printed() const { return state_->printed; }

void SimulatedKernel::run(const std::uint64_t* words, const std::vector<std::int64_t>& grid, bool overlap,
                          std::uint64_t seed) const {
  // The grid and the overlap flag follow the launch words.
  std::vector<std::uint64_t> all(words, words + state_->words);
  std::vector<std::int64_t> axes = grid;
  axes.resize(static_cast<std::size_t>(state_->parameters) - static_cast<std::size_t>(state_->words) - 1, 1);
  for (std::int64_t g : axes)
    all.push_back(static_cast<std::uint64_t>(g));
  all.push_back(overlap);
  Block here;
  here.fibers.resize(static_cast<std::size_t>(state_->threads));
  here.entry = state_->entry;
  here.words = all.data();
  std::int64_t programs = 1;
  for (std::int64_t g : grid)
    programs *= g;
  std::mt19937_64 random(seed);
  std::vector<int> order(here.fibers.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = static_cast<int>(i);
  block = &here;
  for (here.program = 0; here.program < programs; ++here.program) {
    std::fill(state_->shared.begin(), state_->shared.end(), static_cast<char>(0xCD));
    here.barriers = 0;
    for (Fiber& f : here.fibers)
      start(f);
    for (;;) {
      std::shuffle(order.begin(), order.end(), random);
      for (int i : order) {
        Fiber& f = here.fibers[static_cast<std::size_t>(i)];
        if (f.wait != Wait::Nothing) continue;
        here.current = i;
        swapcontext(&here.scheduler, &f.context);
      }
      auto all_wait = [&](std::size_t first, std::size_t count, Wait what) {
        return std::all_of(here.fibers.begin() + static_cast<std::ptrdiff_t>(first),
                           here.fibers.begin() + static_cast<std::ptrdiff_t>(first + count),
                           [&](const Fiber& f) { return f.wait == what; });
      };
      if (all_wait(0, here.fibers.size(), Wait::Done)) break;
      bool progress = false;
      for (std::size_t w = 0; w < here.fibers.size(); w += 32) {
        if (all_wait(w, 32, Wait::Shuffle)) {
          for (std::size_t l = w; l < w + 32; ++l)
            here.fibers[l].received = here.fibers[w + static_cast<std::size_t>(here.fibers[l].source)].sent;
        } else if (all_wait(w, 32, Wait::Mma)) {
          multiply(&here.fibers[w]);
        } else if (!all_wait(w, 32, Wait::WarpBarrier)) {
          continue;
        }
        progress = true;
        for (std::size_t l = w; l < w + 32; ++l)
          here.fibers[l].wait = Wait::Nothing;
      }
      if (all_wait(0, here.fibers.size(), Wait::Barrier)) {
        ++here.barriers;
        progress = true;
        for (Fiber& f : here.fibers)
          f.wait = Wait::Nothing;
      }
      if (!progress) {
        block = nullptr;
        internal_error("threads of a block wait for each other forever");
      }
    }
    if (here.program == 0) state_->barriers = here.barriers;
    state_->failed = here.failed;
    state_->printed = here.printed;
  }
  block = nullptr;
}

} // namespace kiln::test
