// Checks the `expects` of a kernel on the host, at every launch before anything runs.
#pragma once

#include <kiln/dsl/ir/semantics.h>

#include <string>
#include <vector>

namespace kiln::ir {

// The scalar computations that the `expects` operations of a bound kernel depend on, as a list of steps. A
// check evaluates the list once. It does not allocate if there are at most 128 steps, and is thread-safe.
class Expectations {
public:
  // UserError if a condition depends on anything but extents, strides, scalar arguments and constants, or if
  // an `expects` is inside a loop or branch.
  static Expectations compile(const Kernel& bound);

  // Throws a UserError for the first expectation that is not fulfilled, with the compared values:
  // "matmul.cpp:12: expects failed: a's columns and b's rows: 512 != 513".
  void check(const std::uint64_t* arguments) const;
  bool empty() const { return checks_.empty(); }

private:
  // Step i computes slot i: it reads a word of the arguments, is a constant, or operates on earlier slots.
  struct Step {
    enum class Kind : std::uint8_t { Word, Constant, Cast, Bitcast, Elementwise } kind;
    Opcode code = Opcode::Constant;
    DType type = DType::I64; // of the operands
    DType to = DType::I64;   // of the result
    int operands[3] = {0, 0, 0};
    Cell cell = 0; // the constant, or the index of the word
  };
  struct Check {
    int condition;
    int left, right; // the slots of the compared values, or -1
    DType left_type, right_type;
    std::string_view relation; // what holds between the values if the condition is false, such as " != "
    std::string message;
    SourceLocation loc;
  };
  class Compiler;

  Cell evaluate_step(const Step& step, const Cell* slots, const std::uint64_t* arguments) const;
  void run(Cell* slots, const std::uint64_t* arguments) const;
  [[noreturn]] void fail(const Check& check, const Cell* slots) const;

  std::vector<Step> steps_;
  std::vector<Check> checks_;
};

} // namespace kiln::ir
