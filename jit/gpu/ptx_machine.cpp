// Emits NVVM intrinsics, and inline PTX for what LLVM has no good form of.
// Accesses under a predicate are inline PTX because LLVM would branch around them, and so each load would
// wait for the one before it.
#include <kiln/jit/gpu/ptx_machine.h>

#include <kiln/dsl/error.h>

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>
#include <string>

namespace kiln::gpu {

using llvm::Value;

namespace {

Value* call(IRBuilder& b, llvm::Intrinsic::ID id, const Values& arguments) {
  llvm::CallInst* made = b.CreateIntrinsic(id, llvm::ArrayRef<Value*>(arguments));
  made->setConvergent();
  return made;
}

// Emits inline PTX that may access memory.
Value* inline_ptx(IRBuilder& b, const std::string& text, const std::string& constraints, llvm::Type* result,
                  const Values& arguments, bool convergent = false) {
  std::vector<llvm::Type*> types;
  for (Value* v : arguments)
    types.push_back(v->getType());
  auto* code = llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), text,
                                    constraints + "~{memory}", true);
  llvm::CallInst* made = b.CreateCall(code, arguments);
  if (convergent) made->setConvergent();
  made->addFnAttr(llvm::Attribute::NoUnwind);
  return made;
}

// How PTX writes an access of a type.
struct Form {
  std::string suffix; // such as ".v4.b32"
  llvm::Type* part;   // of one register
  int parts;
  const char* constraint;
};

Form form_of(IRBuilder& b, llvm::Type* type) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  llvm::Type* element = type->getScalarType();
  const int parts = vector ? static_cast<int>(vector->getNumElements()) : 1;
  const unsigned bits = element->getIntegerBitWidth();
  Form form{parts == 1 ? "" : ".v" + std::to_string(parts), element, parts,
            bits == 64   ? "l"
            : bits == 32 ? "r"
                         : "h"};
  form.suffix += ".b" + std::to_string(bits);
  if (bits == 8) form.part = b.getInt16Ty(); // PTX has no narrower registers
  return form;
}

// The suffix of a cache operator, such as ".cg" for "cg", if it is one of `known`; otherwise empty.
std::string cache_operator(std::string_view cache, std::initializer_list<std::string_view> known) {
  return std::find(known.begin(), known.end(), cache) == known.end() ? "" : "." + std::string(cache);
}

} // namespace

Value* PtxMachine::thread(IRBuilder& b) {
  llvm::CallInst* made =
      b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, llvm::ArrayRef<Value*>());
  const auto threads = static_cast<std::uint64_t>(32 * warps_);
  made->addRangeRetAttr(llvm::ConstantRange(llvm::APInt(32, 0), llvm::APInt(32, threads)));
  return made;
}

Value* PtxMachine::program(IRBuilder& b) {
  return b.CreateZExt(
      b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, llvm::ArrayRef<Value*>()),
      b.getInt64Ty());
}

void PtxMachine::barrier(IRBuilder& b) {
  call(b, llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, {b.getInt32(0)});
}

void PtxMachine::warp_barrier(IRBuilder& b) {
  call(b, llvm::Intrinsic::nvvm_bar_warp_sync, {b.getInt32(0xffffffff)});
}

void PtxMachine::barrier_if(IRBuilder& b, Value* needed) {
  inline_ptx(b, "@$0 bar.sync 0;", "b,", b.getVoidTy(), {needed}, true);
}

Value* PtxMachine::shuffle_xor(IRBuilder& b, Value* v, int mask) {
  return call(b, llvm::Intrinsic::nvvm_shfl_sync_bfly_i32,
              {b.getInt32(0xffffffff), v, b.getInt32(static_cast<std::uint32_t>(mask)), b.getInt32(31)});
}

Value* PtxMachine::shuffle_from(IRBuilder& b, Value* v, Value* lane) {
  return call(b, llvm::Intrinsic::nvvm_shfl_sync_idx_i32, {b.getInt32(0xffffffff), v, lane, b.getInt32(31)});
}

Value* PtxMachine::fma_saturated(llvm::IRBuilderBase& b, Value* x, Value* y, Value* z) {
  return b.CreateIntrinsic(llvm::Intrinsic::nvvm_fma_rn_sat_f, llvm::ArrayRef<Value*>{x, y, z});
}

Value* PtxMachine::fma_down(llvm::IRBuilderBase& b, Value* x, Value* y, Value* z) {
  return b.CreateIntrinsic(llvm::Intrinsic::nvvm_fma_rm_f, llvm::ArrayRef<Value*>{x, y, z});
}

Value* PtxMachine::exp2(llvm::IRBuilderBase& b, Value* x, Denormals denormals) {
  return b.CreateIntrinsic(denormals == Denormals::Flushed ? llvm::Intrinsic::nvvm_ex2_approx_ftz
                                                           : llvm::Intrinsic::nvvm_ex2_approx,
                           {b.getFloatTy()}, {x});
}

Value* PtxMachine::rsqrt(llvm::IRBuilderBase& b, Value* x) {
  return b.CreateIntrinsic(llvm::Intrinsic::nvvm_rsqrt_approx_f, llvm::ArrayRef<Value*>{x});
}

Value* PtxMachine::load_if(IRBuilder& b, llvm::Type* type, Value* pointer, Value* wanted, Value* otherwise,
                           std::string_view cache) {
  const Form form = form_of(b, type);
  // Outputs are tied to inputs that hold `otherwise`, so that they have this value if nothing is loaded.
  std::string names, outputs, ties;
  Values arguments = {pointer, wanted};
  std::vector<llvm::Type*> results;
  for (int i = 0; i < form.parts; ++i) {
    names += (i ? ", $" : "$") + std::to_string(i);
    outputs += std::string("=") + form.constraint + ",";
    ties += std::to_string(i) + ",";
    Value* part =
        form.parts == 1 ? otherwise : b.CreateExtractElement(otherwise, static_cast<std::uint64_t>(i));
    arguments.push_back(b.CreateZExt(part, form.part));
    results.push_back(form.part);
  }
  const std::string at = std::to_string(form.parts), when = std::to_string(form.parts + 1);
  const std::string destination = form.parts == 1 ? names : "{" + names + "}";
  llvm::Type* result = form.parts == 1 ? form.part : llvm::StructType::get(b.getContext(), results);
  Value* loaded =
      inline_ptx(b,
                 "@$" + when + " ld.global" + cache_operator(cache, {"ca", "cg", "cs", "lu", "cv"}) +
                     form.suffix + " " + destination + ", [$" + at + "];",
                 outputs + "l,b," + ties, result, arguments);
  if (form.parts == 1) return b.CreateTrunc(loaded, type);
  Value* all = llvm::PoisonValue::get(type);
  for (int i = 0; i < form.parts; ++i)
    all = b.CreateInsertElement(all, b.CreateExtractValue(loaded, static_cast<unsigned>(i)),
                                static_cast<std::uint64_t>(i));
  return all;
}

void PtxMachine::store_if(IRBuilder& b, Value* v, Value* pointer, Value* wanted, std::string_view cache) {
  const Form form = form_of(b, v->getType());
  std::string names, inputs;
  Values arguments = {pointer, wanted};
  for (int i = 0; i < form.parts; ++i) {
    names += (i ? ", $" : "$") + std::to_string(i + 2);
    inputs += std::string(form.constraint) + ",";
    Value* part = form.parts == 1 ? v : b.CreateExtractElement(v, static_cast<std::uint64_t>(i));
    arguments.push_back(b.CreateZExt(part, form.part));
  }
  inline_ptx(b,
             "@$1 st.global" + cache_operator(cache, {"wb", "cg", "cs", "wt"}) + form.suffix + " [$0], " +
                 (form.parts == 1 ? names : "{" + names + "}") + ";",
             "l,b," + inputs, b.getVoidTy(), arguments);
}

namespace {

// The part of the PTX instruction that names an atomic operation and its type, such as ".add.u32". Empty if
// there is no such instruction; elements of 8 bits have none.
std::string atomic_name(const Machine::Atomic& what, int sm) {
  const bool is_half = what.dtype == DType::F16 || (what.dtype == DType::BF16 && sm >= 90);
  if (what.kind == "add" && is_half) // .noftz: denormals are not flushed
    return std::string(".add.noftz") + (what.dtype == DType::F16 ? ".f16" : ".bf16") +
           (what.elements == 2 ? "x2" : "");
  const int bits = 8 * size_of(what.dtype);
  if (bits < 32 || what.elements != 1) return "";
  const std::string width = std::to_string(bits);
  if (what.kind == "add") return is_float(what.dtype) ? ".add.f" + width : ".add.u" + width;
  if (what.kind == "xchg") return ".exch.b" + width;
  if (is_float(what.dtype)) return "";
  if (what.kind == "min" || what.kind == "max")
    return "." + std::string(what.kind) + (is_signed(what.dtype) ? ".s" : ".u") + width;
  if (what.kind == "and" || what.kind == "or" || what.kind == "xor")
    return "." + std::string(what.kind) + ".b" + width;
  return "";
}

} // namespace

bool PtxMachine::has_atomic(const Atomic& what) const { return !atomic_name(what, sm_).empty(); }

namespace {

std::string atomic_prefix(std::string_view order, std::string_view scope) {
  return "atom." +
         std::string(order == "relaxed" || order == "acquire" || order == "release" ? order : "acq_rel") +
         "." + std::string(scope == "cta" || scope == "sys" ? scope : "gpu") + ".global";
}

} // namespace

// Atomics are inline PTX because LLVM 22 ignores the order and the scope of an atomicrmw.
Value* PtxMachine::atomic(IRBuilder& b, const Atomic& what, Value* pointer, Value* v) {
  const std::string kind = form_of(b, v->getType()).constraint;
  return inline_ptx(b, atomic_prefix(what.order, what.scope) + atomic_name(what, sm_) + " $0, [$1], $2;",
                    "=" + kind + ",l," + kind + ",", v->getType(), {pointer, v});
}

// LLVM 22 would swap the 32-bit word around the element, after a plain load of it.
Value* PtxMachine::swap_16_bits(IRBuilder& b, std::string_view order, std::string_view scope, Value* pointer,
                                Value* wanted, Value* desired) {
  return inline_ptx(b, atomic_prefix(order, scope) + ".cas.b16 $0, [$1], $2, $3;", "=h,l,h,h,",
                    b.getInt16Ty(), {pointer, wanted, desired});
}

namespace {

llvm::Intrinsic::ID mma_intrinsic(const Machine::Mma& what) {
  switch (what.a) {
  case DType::F16: return llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32;
  case DType::BF16: return llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16;
  case DType::F32: return llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_tf32;
  case DType::I8:
    return what.b == DType::I8 ? llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_s8
                               : llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_s8_u8;
  case DType::U8:
    return what.b == DType::U8 ? llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_u8
                               : llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_u8_s8;
  default: internal_error("there is no mma.sync of " + std::string(name(what.a)));
  }
}

} // namespace

Values PtxMachine::mma(IRBuilder& b, const Mma& what, const Values& a, const Values& b_words,
                       const Values& c) {
  Values arguments;
  for (const Values* words : {&a, &b_words})
    for (Value* word : *words)
      arguments.push_back(
          what.a == DType::F16 ? b.CreateBitCast(word, llvm::FixedVectorType::get(b.getHalfTy(), 2)) : word);
  arguments.insert(arguments.end(), c.begin(), c.end());
  Value* sums = call(b, mma_intrinsic(what), arguments);
  Values result;
  for (unsigned i = 0; i < 4; ++i)
    result.push_back(b.CreateExtractValue(sums, i));
  return result;
}

Value* PtxMachine::to_tf32(IRBuilder& b, Value* x) {
  return b.CreateIntrinsic(llvm::Intrinsic::nvvm_f2tf32_rna, llvm::ArrayRef<Value*>{x});
}

void PtxMachine::assert_failed(IRBuilder& b, const std::string& message, const std::string& file, int line,
                               const std::string& kernel) {
  llvm::Type *ptr = b.getPtrTy(), *i64 = b.getInt64Ty();
  llvm::Module* module = b.GetInsertBlock()->getModule();
  auto function = module->getOrInsertFunction(
      "__assertfail", llvm::FunctionType::get(b.getVoidTy(), {ptr, ptr, b.getInt32Ty(), ptr, i64}, false));
  b.CreateCall(function, {text(b, message), text(b, file), b.getInt32(static_cast<std::uint32_t>(line)),
                          text(b, kernel), b.getInt64(1)});
}

void PtxMachine::print(IRBuilder& b, const std::string& format, const Values& arguments) {
  // The driver's vprintf reads its arguments from memory, in which each is aligned to its size.
  std::vector<llvm::Type*> types;
  for (Value* v : arguments)
    types.push_back(v->getType());
  auto* record = llvm::StructType::get(b.getContext(), types);
  llvm::BasicBlock& entry = b.GetInsertBlock()->getParent()->getEntryBlock();
  IRBuilder first(&entry, entry.begin());
  Value* memory = first.CreateAlloca(record);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    b.CreateStore(arguments[i], b.CreateStructGEP(record, memory, static_cast<unsigned>(i)));
  llvm::Module* module = b.GetInsertBlock()->getModule();
  auto function = module->getOrInsertFunction(
      "vprintf", llvm::FunctionType::get(b.getInt32Ty(), {b.getPtrTy(), b.getPtrTy()}, false));
  b.CreateCall(function, {text(b, format), memory});
}

const char* PtxMachine::scope_name(std::string_view scope) const {
  return scope == "cta" ? "block" : scope == "sys" ? "" : "device";
}

} // namespace kiln::gpu
