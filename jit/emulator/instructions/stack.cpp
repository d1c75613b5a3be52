// Decodes and executes alloca, stacksave and stackrestore, which manage local memory of a function.
#include "decoder.h"
#include <kiln/jit/emulator/core/block.h>

#include <bit>

namespace kiln::emulator {
namespace {

// T: the type of the pointer and of the size. a: the size; count: the alignment
template <class T> void allocate(Warp& w, const Instruction& i, Mask m) {
  for (; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::uint64_t bytes = w.reg<T>(i.a)[l];
    if (auto at = w.take_stack(l, bytes, i.count)) {
      w.reg<T>(i.d)[l] = static_cast<T>(*at);
      continue;
    }
    w.reg<T>(i.d)[l] = 0;
    w.execution.add_finding(Fault::StackOverflow, w, i, l,
                            "requests " + std::to_string(bytes) + " bytes, and a thread has 512 KiB in all");
  }
}
template <class T> void save(Warp& w, const Instruction& i, Mask m) {
  for (; m; m &= m - 1)
    w.reg<T>(i.d)[std::countr_zero(m)] = static_cast<T>(w.stack(std::countr_zero(m)));
}
template <class T> void restore(Warp& w, const Instruction& i, Mask m) {
  for (; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    if (!w.restore_stack(l, w.reg<T>(i.a)[l]))
      w.execution.add_finding(Fault::IllegalOperand, w, i, l,
                              "restores " + std::to_string(w.reg<T>(i.a)[l]) +
                                  ", which no stacksave of this call returned");
  }
}

bool is_wide(Decoder& d) {
  const Type t = d.take_type();
  if (t != Type::U32 && t != Type::U64) d.unknown(t);
  return t == Type::U64;
}

// alloca.type d, bytes{, alignment}
void alloca_(Decoder& d) {
  const bool wide = is_wide(d);
  d.expect_operands(2, 3);
  Instruction i = d.plain(wide ? allocate<std::uint64_t> : allocate<std::uint32_t>);
  i.count = 8;
  if (d.operands() == 3) {
    const auto align = d.immediate(d.operand(2));
    if (!align || *align < 1 || *align > 32 || (*align & (*align - 1)))
      d.fail("the alignment of alloca is a power of two, in the emulator up to 32");
    i.count = static_cast<std::uint32_t>(*align);
  }
  i.a = d.source(1, wide ? Type::U64 : Type::U32);
  i.d = d.destination(0, wide ? Type::U64 : Type::U32);
  d.emit(i);
}
// stacksave.type d; stackrestore.type a
void stack_pointer(Decoder& d) {
  const bool wide = is_wide(d), saves = d.root() == "stacksave";
  const Type t = wide ? Type::U64 : Type::U32;
  d.expect_operands(1);
  Instruction i = d.plain(saves ? (wide ? save<std::uint64_t> : save<std::uint32_t>)
                                : (wide ? restore<std::uint64_t> : restore<std::uint32_t>));
  (saves ? i.d : i.a) = saves ? d.destination(0, t) : d.source(0, t);
  d.emit(i);
}

constexpr Opcode stack_table[] = {{"alloca", InstructionClass::Other, alloca_},
                                  {"stacksave", InstructionClass::Other, stack_pointer},
                                  {"stackrestore", InstructionClass::Other, stack_pointer}};

} // namespace

std::span<const Opcode> stack_opcodes() { return stack_table; }

} // namespace kiln::emulator
