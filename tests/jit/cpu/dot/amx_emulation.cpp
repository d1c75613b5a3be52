// Executes the AMX instructions of generated code in software, so that their products are tested on any CPU.
#include "amx_emulation.h"

#include <cstdint>
#include <cstring>
#include <llvm/ExecutionEngine/Orc/AbsoluteSymbols.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace kiln::test {

namespace {

struct Tile {
  std::uint8_t rows = 0;
  std::uint16_t row_bytes = 0;
  char bytes[16][64] = {};
};
thread_local Tile tiles[8];
thread_local bool configured = false;
thread_local std::int64_t products = 0;

Tile& tile(std::uint8_t index) {
  if (!configured || index >= 8) throw std::runtime_error("a tile instruction without a configuration");
  return tiles[index];
}

void configure(const unsigned char* config) {
  if (config[0] != 1) throw std::runtime_error("tiles have one palette");
  for (int i = 0; i < 8; ++i) {
    tiles[i] = {};
    std::memcpy(&tiles[i].row_bytes, config + 16 + 2 * i, 2);
    tiles[i].rows = config[48 + i];
    if (tiles[i].rows > 16 || tiles[i].row_bytes > 64) throw std::runtime_error("a tile that is too large");
  }
  configured = true;
}
void release() { configured = false; }
void zero(std::uint8_t t) { std::memset(tile(t).bytes, 0, sizeof tile(t).bytes); }
void load(std::uint8_t t, const char* from, std::int64_t stride) {
  for (int r = 0; r < tile(t).rows; ++r)
    std::memcpy(tile(t).bytes[r], from + r * stride, tile(t).row_bytes);
}
void store(std::uint8_t t, char* to, std::int64_t stride) {
  for (int r = 0; r < tile(t).rows; ++r)
    std::memcpy(to + r * stride, tile(t).bytes[r], tile(t).row_bytes);
}

template <class T> T at(const Tile& t, int row, int index) {
  T x;
  std::memcpy(&x, t.bytes[row] + index * static_cast<int>(sizeof(T)), sizeof x);
  return x;
}

struct Bf16 {
  std::uint16_t bits;
  float value() const {
    const std::uint32_t wide = std::uint32_t{bits} << 16;
    float x;
    std::memcpy(&x, &wide, sizeof x);
    return x;
  }
};
float value_of(Bf16 x) { return x.value(); }
template <class T> std::int32_t value_of(T x) { return x; }

// Sums of bytes wrap around, as they do in the instructions.
float add(float sum, float product) { return sum + product; }
std::int32_t add(std::int32_t sum, std::int32_t product) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(sum) + static_cast<std::uint32_t>(product));
}

template <class A, class B, class Sum> void multiply(std::uint8_t to, std::uint8_t a, std::uint8_t b) {
  ++products;
  Tile& c = tile(to);
  constexpr int group = 4 / static_cast<int>(sizeof(A));
  for (int m = 0; m < c.rows; ++m)
    for (int n = 0; n < c.row_bytes / 4; ++n) {
      Sum sum = at<Sum>(c, m, n);
      for (int k = 0; k < tile(a).row_bytes / 4; ++k)
        for (int g = 0; g < group; ++g)
          sum = add(sum,
                    value_of(at<A>(tile(a), m, k * group + g)) * value_of(at<B>(tile(b), k, n * group + g)));
      std::memcpy(c.bytes[m] + n * 4, &sum, 4);
    }
}

struct Function {
  const char* name;
  void* address;
};
template <class F> Function function(const char* name, F* f) { return {name, reinterpret_cast<void*>(f)}; }

const std::map<unsigned, Function>& functions() {
  using S = std::int8_t;
  using U = std::uint8_t;
  static const std::map<unsigned, Function> all{
      {llvm::Intrinsic::x86_ldtilecfg, function("tiles.configure", &configure)},
      {llvm::Intrinsic::x86_tilerelease, function("tiles.release", &release)},
      {llvm::Intrinsic::x86_tilezero, function("tiles.zero", &zero)},
      {llvm::Intrinsic::x86_tileloadd64, function("tiles.load", &load)},
      {llvm::Intrinsic::x86_tilestored64, function("tiles.store", &store)},
      {llvm::Intrinsic::x86_tdpbf16ps, function("tiles.bf16", &multiply<Bf16, Bf16, float>)},
      {llvm::Intrinsic::x86_tdpbssd, function("tiles.ss", &multiply<S, S, std::int32_t>)},
      {llvm::Intrinsic::x86_tdpbsud, function("tiles.su", &multiply<S, U, std::int32_t>)},
      {llvm::Intrinsic::x86_tdpbusd, function("tiles.us", &multiply<U, S, std::int32_t>)},
      {llvm::Intrinsic::x86_tdpbuud, function("tiles.uu", &multiply<U, U, std::int32_t>)},
  };
  return all;
}

} // namespace

void emulate_amx(llvm::Module& module) {
  std::vector<llvm::IntrinsicInst*> calls;
  for (llvm::Function& f : module)
    for (llvm::Instruction& i : llvm::instructions(f))
      if (auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
          call && functions().count(call->getIntrinsicID()))
        calls.push_back(call);
  for (llvm::IntrinsicInst* call : calls) {
    const char* name = functions().at(call->getIntrinsicID()).name;
    auto callee = module.getOrInsertFunction(name, call->getFunctionType());
    llvm::SmallVector<llvm::Value*, 3> arguments(call->args());
    llvm::IRBuilder<> b(call);
    auto* made = b.CreateCall(callee, arguments);
    for (unsigned i = 0; i < arguments.size(); ++i) // bytes are passed in the way of C++
      if (arguments[i]->getType()->isIntegerTy(8)) made->addParamAttr(i, llvm::Attribute::ZExt);
    call->eraseFromParent();
  }
}

std::int64_t emulated_tile_products() { return products; }

void define_amx_functions(llvm::orc::LLJIT& jit) {
  llvm::orc::SymbolMap symbols;
  for (const auto& [id, f] : functions())
    symbols[jit.mangleAndIntern(f.name)] = {llvm::orc::ExecutorAddr::fromPtr(f.address),
                                            llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  llvm::cantFail(jit.getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))));
}

} // namespace kiln::test
