// Emits asserts and prints as calls of the driver's functions.
// A failed assert ends the launch, and the next call to the driver reports it. Printed text appears when the
// stream is synchronised.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <kiln/dsl/ir/semantics.h>

#include <string>

namespace kiln::gpu {

using llvm::Value;

namespace {

// The comparison that a condition consists of, or contains if it has a mask ("a < b | !mask").
const ir::Op* comparison_of(const ir::Value* condition) {
  if (!condition->def) return nullptr;
  const ir::Op& op = *condition->def;
  if (!ir::relation_text(op.code).empty()) return &op;
  if (!op.is(ir::Opcode::Or)) return nullptr;
  const ir::Op* left = comparison_of(op.operand(0));
  return left ? left : comparison_of(op.operand(1));
}

} // namespace

// Converts a value to what printf takes, and appends its conversion specifier to `format`.
Value* KernelEmitter::printable(const ir::Type& type, Value* v, std::string& format) {
  if (type.pointer) {
    format += "%p";
    return v;
  }
  if (is_float(type.dtype)) {
    format += "%.9g";
    return b_.CreateFPExt(v, b_.getDoubleTy());
  }
  const bool sign = is_signed(type.dtype);
  format += sign || type.dtype == DType::Bool ? "%lld" : "%llu";
  return b_.CreateIntCast(v, b_.getInt64Ty(), sign);
}

// The first thread that holds an element for which an assert fails prints the values that were compared, and
// then ends the launch. (The other threads that hold it would print the same.)
void KernelEmitter::emit_assert(const ir::Op& op) {
  if (!debug_) return;
  const ir::Value* condition = op.operand(0);
  const LinearLayout layout = layout_of(condition);
  Values holds = registers(condition, layout), mask, sides[2];
  if (op.mask()) mask = registers(op.mask(), layout);
  const ir::Op* comparison = comparison_of(condition);
  if (comparison)
    for (int i = 0; i < 2; ++i)
      sides[i] = registers(comparison->operand(i), layout);
  Value* failed = b_.getFalse();
  Values wrong;
  for (std::size_t r = 0; r < holds.size(); ++r) {
    wrong.push_back(both(both(b_.CreateNot(holds[r]), mask.empty() ? nullptr : mask[r]),
                         inside_tile(layout, static_cast<int>(r), condition->type)));
    failed = b_.CreateOr(failed, wrong[r]);
  }
  emit::emit_if(b_, both(failed, owner(layout)), [&] {
    const std::string message(op.text("message")), file(op.loc ? op.loc.file : "");
    if (comparison) {
      std::string format = "%s:%d: device_assert failed: %s%s";
      Values arguments = {machine_.text(b_, file), b_.getInt32(static_cast<std::uint32_t>(op.loc.line)),
                          machine_.text(b_, message), machine_.text(b_, message.empty() ? "" : ": ")};
      for (int i = 0; i < 2; ++i) {
        Value* first = sides[i].back();
        for (std::size_t r = wrong.size() - 1; r-- > 0;)
          first = b_.CreateSelect(wrong[r], sides[i][r], first);
        arguments.push_back(printable(comparison->operand(i)->type, first, format));
        if (i == 0) format += ir::relation_text(comparison->code);
      }
      arguments.push_back(machine_.text(b_, kernel_.name));
      arguments.push_back(machine_.program(b_));
      machine_.print(b_, format + " is false; kernel %s, program %lld\n", arguments);
    }
    machine_.assert_failed(b_, message, file, op.loc.line, kernel_.name);
  });
}

// Prints a line for each element, by the first thread that holds it: "label[3, 5] = 1.5".
void KernelEmitter::emit_print(const ir::Op& op) {
  const std::string label(op.text("message"));
  Value* only = b_.CreateICmpEQ(thread_, b_.getInt32(0));
  if (op.num_operands() == 0) {
    emit::emit_if(b_, only, [&] { machine_.print(b_, "%s\n", {machine_.text(b_, label)}); });
    return;
  }
  for (int i = 0; i < op.num_operands(); ++i) {
    const ir::Value* v = op.operand(i);
    const LinearLayout layout = layout_of(v);
    Values values = registers(v, layout);
    const std::uint64_t repeats = layout.redundant(in_register);
    for (std::size_t r = 0; r < values.size(); ++r) {
      if (r & repeats) continue;
      Value* wanted = both(owner(layout), inside_tile(layout, static_cast<int>(r), v->type));
      std::string format = "%s";
      Values arguments = {machine_.text(b_, i == 0 ? label : "")};
      for (std::size_t a = 0; a < v->type.shape.size(); ++a) {
        format += a == 0 ? "[%d" : ", %d";
        arguments.push_back(coordinate(layout, static_cast<int>(r), static_cast<int>(a)));
      }
      format += v->type.shape.empty() ? " " : "] = ";
      arguments.push_back(printable(v->type, values[r], format));
      auto line = [&] { machine_.print(b_, format + "\n", arguments); };
      if (wanted)
        emit::emit_if(b_, wanted, line);
      else
        line();
    }
  }
}

} // namespace kiln::gpu
