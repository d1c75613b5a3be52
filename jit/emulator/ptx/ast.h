// Defines the syntax tree of a PTX module, in which names are not resolved yet and opcodes are text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kiln::emulator::ptx {

enum class Type : std::uint8_t {
  None,
  Pred,
  B8,
  B16,
  B32,
  B64,
  B128,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  U16x2,
  S16x2,
  F16,
  F16x2,
  BF16,
  BF16x2,
  F32,
  F32x2,
  F64,
  TF32,
  E4M3,
  E5M2,
  E4M3x2,
  E5M2x2,
};
int bits_of(Type type); // 1 for predicates, 0 for None
std::string_view name_of(Type type);
Type type_named(std::string_view name); // `name` is without the dot; None if the type does not exist
inline bool is_signed(Type t) { return t >= Type::S8 && t <= Type::S64; }
inline bool is_unsigned(Type t) { return t >= Type::U8 && t <= Type::U64; }
inline bool is_untyped(Type t) { return t >= Type::B8 && t <= Type::B128; }
inline bool is_float(Type t) { return t >= Type::F16; }

enum class Space : std::uint8_t { Generic, Global, Shared, SharedCluster, Local, Const, Param };

// An operand; brackets and braces nest.
struct Operand {
  enum class Kind : std::uint8_t {
    Name,    // register, special register, variable, function or label; `offset` is added in addresses
    Integer, // `bits`
    Float32,
    Float64,
    Vector,  // {a, b}
    Address, // [a+offset], or [a, {b, c}, d]
    List,    // (a, b)
    Pair,    // a|b
    Sink,    // _
  };
  Kind kind = Kind::Sink;
  bool negated = false; // !p
  std::string_view name;
  std::uint64_t bits = 0;
  std::int64_t offset = 0;
  std::vector<Operand> parts;
};

inline constexpr std::uint32_t all_bytes = ~0u;

struct Statement {
  int line = 0;
  int location = -1;                    // in Module::locations
  int scope = 0;                        // in Function::scopes
  std::uint32_t used_bytes = all_bytes; // of a load, a bit for each byte: .pragma "used_bytes_mask N"
  std::string_view guard;
  bool guard_negated = false;
  std::string_view opcode; // includes modifiers
  std::vector<Operand> operands;
};

struct Relocation { // an address within an initial value
  std::uint64_t offset = 0;
  int bytes = 8;
  std::string_view symbol;
  std::int64_t addend = 0;
  std::uint64_t mask = 0; // 0: the whole address; else selects a byte of it
};

struct Variable {
  std::string_view name;
  int line = 0;
  Space space = Space::Global;
  Type type = Type::B8;
  std::uint64_t align = 1, bytes = 0;
  bool external = false; // .extern, or an array without a size: dynamic shared memory
  std::vector<std::uint8_t> initial;
  std::vector<Relocation> relocations;
  int scope = 0;
};

struct Register {
  std::string_view name;
  Type type = Type::None;
  int scope = 0;
};

struct RegisterRange { // %r<100>
  std::string_view prefix;
  Type type = Type::None;
  std::uint32_t count = 0;
  int scope = 0;
};

struct Prototype { // prototype of a function that is called through a register
  std::vector<Variable> returns, params;
};

struct Scope {
  int parent = -1;
  std::unordered_map<std::string_view, std::size_t> labels; // index of the statement that follows
  std::unordered_map<std::string_view, std::size_t> registers, ranges, variables;
  using Names = std::vector<std::string_view>;
  std::unordered_map<std::string_view, Names> branch_targets, call_targets;
  std::unordered_map<std::string_view, Prototype> prototypes;
};

struct Function {
  std::string_view name;
  int line = 0;
  bool entry = false, defined = false;
  std::vector<Variable> returns, params;
  std::vector<Scope> scopes; // [0] is the body
  std::vector<Register> registers;
  std::vector<RegisterRange> ranges;
  std::vector<Variable> variables; // .local, .shared and .param ones of the body
  std::vector<Statement> body;
  std::uint32_t required_threads[3] = {0, 0, 0}; // 0 if not declared
  std::uint32_t maximum_threads[3] = {0, 0, 0};
  std::uint32_t cluster[3] = {0, 0, 0};
  std::uint32_t registers_per_thread = 0;
};

struct Location {
  int file = 0, line = 0, column = 0;
  int inlined_at = -1; // in Module::locations
};

struct Module {
  std::string name, text; // the views above point into `text`
  std::string target;
  int version = 0; // 83 for 8.3
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::unordered_map<std::string_view, std::size_t> variable_named, function_named;
  std::vector<Location> locations;
  std::map<int, std::string> files;
};

} // namespace kiln::emulator::ptx
