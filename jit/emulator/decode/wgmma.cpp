#include "decoder.h"
namespace kiln::emulator {
std::span<const Opcode> wgmma_opcodes() { return {}; }
}
