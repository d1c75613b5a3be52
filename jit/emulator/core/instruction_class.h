// The classes by which instructions are counted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln::emulator {

// clang-format off: it would indent each row further
#define KILN_INSTRUCTION_CLASSES(X)                                                                          \
  X(Integer, "integer") X(Float32, "f32") X(Float64, "f64") X(Half, "f16/bf16")                              \
  X(Special, "special function") X(Conversion, "conversion") X(Comparison, "comparison") X(Move, "move")     \
  X(Load, "load") X(Store, "store") X(Atomic, "atomic") X(Control, "control") X(Barrier, "barrier")          \
  X(WarpWide, "warp-wide") X(Tensor, "tensor core") X(Asynchronous, "asynchronous") X(Fence, "fence")        \
  X(Other, "other")
// clang-format on
enum class InstructionClass : std::uint8_t {
#define X(name, text) name,
  KILN_INSTRUCTION_CLASSES(X)
#undef X
};
inline constexpr int instruction_classes = static_cast<int>(InstructionClass::Other) + 1;
inline const char* name_of(InstructionClass c) {
  static constexpr const char* names[] = {
#define X(name, text) text,
      KILN_INSTRUCTION_CLASSES(X)
#undef X
  };
  return names[static_cast<std::size_t>(c)];
}

} // namespace kiln::emulator
