// Decodes the statements of a function: names become registers, opcodes and modifiers become handlers.
//
// Each family of instructions (arithmetic.cpp, memory.cpp, ...) has a table of the opcodes that it knows: the
// word up to the first '.', the class that it is counted in, and a function that takes the modifiers and
// operands and emits instructions. A modifier that is left over is an error, so that none is ignored
// silently.
#pragma once

#include "decode.h"
#include <kiln/jit/emulator/core/alu.h>

#include <optional>
#include <span>
#include <unordered_map>

namespace kiln::emulator {

class Decoder;
struct Opcode {
  std::string_view name;
  InstructionClass kind;
  void (*decode)(Decoder&);
};
std::span<const Opcode> arithmetic_opcodes();
std::span<const Opcode> video_opcodes();
std::span<const Opcode> bit_opcodes();
std::span<const Opcode> comparison_opcodes();
std::span<const Opcode> conversion_opcodes();
std::span<const Opcode> move_opcodes();
std::span<const Opcode> memory_opcodes();
std::span<const Opcode> atomic_opcodes();
std::span<const Opcode> control_opcodes();
std::span<const Opcode> call_opcodes();
std::span<const Opcode> stack_opcodes();
std::span<const Opcode> warp_opcodes();
std::span<const Opcode> mma_opcodes();
std::span<const Opcode> wmma_opcodes();
std::span<const Opcode> matrix_opcodes();
std::span<const Opcode> asynchronous_opcodes();
std::span<const Opcode> mbarrier_opcodes();
std::span<const Opcode> tensor_map_opcodes();
std::span<const Opcode> wgmma_opcodes();
// The handler of add, min and max for .u16x2 or .s16x2; null for others.
Handler packed_halves(std::string_view root, ptx::Type type, bool relu);
void copies_arrive(Decoder& d, bool counted); // cp.async.mbarrier.arrive
void bulk_copies(Decoder& d);                 // cp.async.bulk
void bulk_reductions(Decoder& d);             // cp.reduce.async.bulk
void remote_store(Decoder& d, bool update);   // st.async, red.async
std::uint8_t take_combine(Decoder& d);        // takes .add, .min, ...; returns a Combine

// The state that the functions of a program share while they are decoded.
struct ProgramBuilder {
  const ptx::Module& module;
  Program& program;
  const std::function<const Region*(std::string_view)>& variable;
  std::unordered_map<const ptx::Variable*, std::uint64_t> shared; // offsets of static shared variables
  std::unordered_map<std::string_view, std::uint32_t> functions;
  std::vector<std::string_view> to_decode; // by index in Program::functions
  std::vector<std::string_view> addressed; // functions whose addresses are taken
  bool calls_indirectly = false;
  std::uint64_t shared_bytes = 0;
  std::uint64_t dynamic_align = 16;

  std::uint64_t shared_offset(const ptx::Variable& v);
  std::uint32_t function(std::string_view name); // its index; the function is decoded later
  void functions_by_address(); // adds the functions that a call through a register may reach
};

// Takes .cta, .cluster, .gpu (.gl) or .sys.
Scope take_scope(Decoder& d, Scope otherwise);

using ptx::Operand;
using ptx::Space;
using ptx::Type;

struct Address {
  std::uint32_t reg = 0;
  int width = 64; // of the register
  std::int64_t offset = 0;
  std::optional<Space> space; // of the variable that it names

  void put_into(Instruction& i) const {
    i.a = reg;
    i.mode2 = static_cast<std::uint8_t>(width);
    i.offset = offset;
  }
};

// For error messages.
inline std::string quoted(std::string_view s) { return "'" + std::string(s.substr(0, 80)) + "'"; }

class Decoder {
public:
  Decoder(ProgramBuilder& builder, const ptx::Function& source, Function& to);
  void run();

  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void unknown() const;       // fails: the instruction is not known
  [[noreturn]] void unknown(Type t) const; // fails: the instruction is not known for the type

  // --- The current statement
  const ptx::Statement& statement() const { return *statement_; }
  std::string_view root() const { return root_; }
  bool take(std::string_view modifier); // removes a modifier; false if it is not there
  std::string_view take_one_of(std::initializer_list<std::string_view> names); // "" if there is none
  Type take_type(); // the first type that is left; fails if there is none
  Type maybe_type();
  void take_prefix(std::string_view prefix); // removes modifiers without effect, such as L1::evict_first
  std::optional<std::string_view> next_modifier() const;
  std::size_t operands() const { return statement_->operands.size(); }
  const Operand& operand(std::size_t n) const;
  void expect_operands(std::size_t least, std::size_t most);
  void expect_operands(std::size_t n) { expect_operands(n, n); }
  // The parts of a vector operand, which must have this size; a single operand counts as a vector of one.
  std::vector<const Operand*> vector(const Operand& o, std::size_t size) const;

  // --- Registers
  // The register of an operand, of exactly (or at least) as many bits, or a constant of that type.
  std::uint32_t source(const Operand& o, Type type, bool exact = true);
  std::uint32_t source(std::size_t n, Type type) { return source(operand(n), type); }
  std::uint32_t destination(const Operand& o, int bits, bool exact = true);
  std::uint32_t destination(std::size_t n, Type type) { return destination(operand(n), bits_of(type)); }
  std::uint32_t predicate(const Operand& o); // like source(); a negated predicate gets a register of its own
  std::uint32_t constant(std::uint64_t value, int bits, bool local = false);
  std::uint32_t temporary(int bits);
  int width(const Operand& o) const; // bits of a register; 0 if it is not a register
  bool is_register(const Operand& o) const;
  std::optional<std::int64_t> immediate(const Operand& o) const;
  Address address(const Operand& o);
  // The offset and the size of a .param variable of the body.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> param_place(std::string_view name) const;
  // The list or prototype that a label names, in the innermost scope that has the label; null if none has.
  template <class T>
  const T* find_in_scopes(std::unordered_map<std::string_view, T> ptx::Scope::* all,
                          std::string_view name) const {
    for (int n = statement_->scope; n >= 0; n = source_.scopes[static_cast<std::size_t>(n)].parent) {
      const auto& map = source_.scopes[static_cast<std::size_t>(n)].*all;
      if (auto at = map.find(name); at != map.end()) return &at->second;
    }
    return nullptr;
  }

  // --- Emitting
  Instruction start() const; // with line and class of the statement
  Instruction plain(Handler run) const {
    Instruction i = start();
    i.run = run;
    return i;
  }
  void emit(Instruction i);
  void emit_hidden(Instruction i); // emits without the guard
  std::uint32_t extras(std::span<const std::uint32_t> values);
  void branch_to(std::string_view label, std::size_t instruction); // the target is patched at the end
  void jump_table(const ptx::Scope::Names& labels, Instruction& i);
  ProgramBuilder& builder() { return builder_; }
  std::size_t next() const { return to_.code.size(); }
  void watch_registers(std::span<const std::uint32_t> registers); // registers that a wgmma uses
  void set_class(InstructionClass k) { kind_ = k; }

private:
  struct Found {
    std::uint32_t at = 0;
    Type type = Type::None;
  };
  std::optional<Found> find_register(std::string_view name);
  void keep_watched_touches(); // removes touches of registers that no wgmma uses
  void note_uses();            // records the uses of the current statement at its last instruction
  const ptx::Variable* find_variable(std::string_view name) const;
  std::optional<std::size_t> find_label(std::string_view name, int scope) const;
  std::uint32_t place_register(int bits);
  std::optional<std::uint32_t> special(std::string_view name, int& bits);
  // The address of a variable or function.
  std::optional<Address> symbol(const Operand& o);
  // The address of a parameter of the function, if the operand names one.
  std::optional<Address> parameter_address(const Operand& o);
  void layout_params();

  ProgramBuilder& builder_;
  const ptx::Function& source_;
  Function& to_;
  const ptx::Statement* statement_ = nullptr;
  std::string_view root_;
  std::vector<std::string_view> modifiers_;
  InstructionClass kind_ = InstructionClass::Other;

  std::unordered_map<std::uint64_t, std::uint32_t> range_registers_; // by range << 32 | number
  std::vector<std::uint32_t> registers_;
  std::uint32_t dynamic_ = no_register; // register with the address of dynamic shared memory
  std::unordered_map<std::uint64_t, std::uint32_t> constants_[5]; // by width and kind
  std::unordered_map<const ptx::Variable*, std::uint64_t> local_, params_;
  std::vector<std::uint32_t> first_;   // the first instruction of each statement
  std::vector<RegisterTouch> touched_; // by the current statement, if the function has wgmma
  std::vector<bool> watched_;          // by register / 64
  std::vector<OperandUse> uses_;       // by the current statement
  struct Patch {
    std::size_t instruction;
    std::string_view label;
    int scope, line;
    std::size_t extra; // index in Function::extras; ~0: the target itself
  };
  std::vector<Patch> patches_;
};

} // namespace kiln::emulator
