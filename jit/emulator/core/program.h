// Defines a kernel that is decoded for execution: each instruction in a compact form.
//
// A register is an array of 32 lanes in the frame of a function, and an operand is its byte offset there.
// Constants are registers too, filled when a frame is made, so that a handler need not distinguish operands.
#pragma once

#include <kiln/jit/emulator/core/instruction_class.h>
#include <kiln/jit/emulator/ptx/ast.h>

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kiln::emulator {

using Mask = std::uint32_t; // a bit for each lane
inline constexpr Mask all_lanes = ~Mask(0);
constexpr Mask lane_bit(int lane) { return Mask(1) << lane; }
constexpr int first_lane(Mask lanes) { return std::countr_zero(lanes); }
inline constexpr int warp_size = 32;

class Warp;
struct Instruction;
struct Participant;
using Handler = void (*)(Warp& warp, const Instruction& i, Mask lanes);
// Executes a warp-wide operation for all members at once. They may have arrived by different instructions.
using CollectiveHandler = void (*)(Warp& warp, const Participant* participants, int count);

enum class Step : std::uint8_t {
  Plain, // executes `run` and continues with the next instruction
  Branch,
  IndexedBranch,
  Call,
  IndirectCall, // a: the address of the function
  Return,
  Exit,
  Collective,
  Barrier,
};

inline constexpr std::uint32_t no_register = ~0u;

enum class Scope : std::uint8_t { Cta, Cluster, Gpu, System };
// The memory order of an access. Volatile accesses are relaxed, with the scope of the system.
enum class Order : std::uint8_t { Weak, Relaxed, Acquire, Release, AcquireRelease };

struct Instruction {
  Handler run = nullptr;
  union {
    Handler inner = nullptr; // the handler that a wrapper calls
    CollectiveHandler collective;
    Mask (*compare)(const void*, const void*);
  };
  std::uint32_t d = 0, a = 0, b = 0, c = 0; // registers: destination and sources
  std::uint32_t guard = no_register;
  bool guard_negated = false;
  Step step = Step::Plain;
  InstructionClass kind = InstructionClass::Other;
  Order order = Order::Weak; // of accesses
  Scope scope = Scope::Gpu;
  ptx::Type type = ptx::Type::None;
  ptx::Space space = ptx::Space::Generic;
  std::uint8_t mode = 0, mode2 = 0; // their meaning depends on the handler
  bool non_coherent = false;        // a load of memory that must not change while the kernel runs (.nc)
  bool speculative = false; // a plain load that guesses for a compare-and-swap (decided by instructions/)
  bool tracks_unwritten = false; // ld, cp.async: unwritten bytes are not reported at once but tracked
  bool watched = false;          // it uses registers that a wgmma uses: see Function::touches
  std::uint32_t target = 0;      // of a branch; a function; a register with a member mask
  std::uint32_t extra = 0;       // index in Function::extras, of further registers
  std::uint32_t count = 0;       // the number of those
  std::uint32_t used_bytes = ptx::all_bytes; // of a load: a bit for each byte that is used
  std::int64_t offset = 0;                   // added to an address
  std::int32_t line = 0, location = -1;
};

// A constant that a frame of a function holds in a register.
struct Constant {
  std::uint32_t at = 0;
  int bits = 32;
  std::uint64_t value = 0;
  bool local = false;   // an offset in the frame's local memory
  bool dynamic = false; // the address of dynamic shared memory
};

// The use of a register by an instruction, of a register that a wgmma uses too.
struct RegisterTouch {
  std::uint32_t instruction, reg;
  bool writes;
  std::string name;
};

// How bits of an instruction's sources move to its results, for unwritten.h. The sources are a, from Select
// on also b, and from Lop3 on also c.
enum class Copies : std::uint8_t {
  Nothing, // it computes with its sources
  Load,
  Store,
  Shuffle,
  Pack,
  Unpack,
  Move,
  Extend,
  ShiftLeft,
  ShiftRight,
  Extract,
  Select,
  And,
  Or,
  Xor,
  FunnelLeft,
  FunnelRight,
  Permute,
  Insert,
  Lop3
};
struct OperandUse {
  std::uint32_t reg;
  bool writes;
};
struct Copying {
  Copies how = Copies::Nothing;
  std::uint8_t bits = 32;                    // width of the result
  std::uint8_t from_bits = 32, to_bits = 32; // widths of Extend
  bool extends = false;                      // sign extension; for a funnel shift: .clamp
  bool extends_source = false;
  bool read = true;                      // of a load: whether any instruction reads its value
  std::uint8_t before = 0, after = 0;    // number of adjacent bytes that other loads read
  std::uint32_t first_use = 0, uses = 0; // range in Function::uses: its registers, without predicates
};

struct Function {
  std::string name;
  std::size_t first = 0; // index of its first instruction among those of the program
  bool entry = false;
  std::vector<Instruction> code; // ends with an Exit
  std::vector<std::uint32_t> extras;
  std::vector<Constant> constants;
  std::uint32_t register_bytes = 0;
  std::uint64_t local_bytes = 0;
  std::uint64_t param_bytes = 0; // bytes of the .param variables of a frame, per lane
  struct Param {
    std::uint64_t offset = 0, bytes = 0;
  };
  std::vector<Param> returns, params;
  struct StackCopy { // a parameter whose address is taken is copied to local memory
    std::uint64_t from = 0, to = 0, bytes = 0;
  };
  std::vector<StackCopy> stack_copies;
  std::vector<std::string> opcodes;   // text of each opcode, for reports
  std::vector<RegisterTouch> touches; // sorted by instruction
  std::vector<Copying> copying;       // one for each instruction
  std::vector<OperandUse> uses;
  bool uses_wgmma = false;
};

// An entry and all functions that it calls.
struct Program {
  std::string module, kernel;
  std::vector<std::unique_ptr<Function>> functions; // [0] is the entry
  std::uint64_t shared_bytes = 0; // static; dynamic shared memory starts at `dynamic_offset`
  std::uint64_t dynamic_offset = 0;
  // Functions that may be called through a register, by their number in the module.
  std::map<std::uint64_t, std::uint32_t> by_address;
  bool cooperative = false;   // it reads the address of the grid's workspace, as grid.sync() does
  bool uses_reserved = false; // it uses the shared memory that is reserved for the system, after its own
  std::uint64_t kernel_param_bytes = 0;
  std::array<std::uint32_t, 3> required{}, maximum{}, cluster{};
  std::uint32_t registers = 0; // per thread, by .maxnreg; 0 without it
  std::vector<ptx::Location> locations;
  std::map<int, std::string> files;
  std::size_t instructions = 0;
  // Whether blocks cannot communicate: the program has no atomics or fences of global memory, no ordered or
  // volatile accesses, and is not cooperative.
  bool independent_blocks = false;
};

} // namespace kiln::emulator
