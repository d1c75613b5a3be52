// Asserts and prints, through what the driver offers: a failed assert ends the launch and is reported by the
// next call of the driver; printed text appears when the stream is synchronised.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <string>

namespace kiln::gpu {

using llvm::Value;

void KernelEmitter::emit_assert(const ir::Op& op) {
  if (!debug_) return;
  const ir::Value* condition = op.operand(0);
  const LinearLayout layout = layout_of(condition);
  Values holds = registers(condition, layout), mask;
  if (op.mask()) mask = registers(op.mask(), layout);
  Value* failed = b_.getFalse();
  for (std::size_t r = 0; r < holds.size(); ++r) {
    Value* wrong = b_.CreateNot(holds[r]);
    wrong = both(wrong, mask.empty() ? nullptr : mask[r]);
    wrong = both(wrong, inside_tile(layout, static_cast<int>(r), condition->type));
    failed = b_.CreateOr(failed, wrong);
  }
  cpu::emit_if(b_, failed, [&] {
    machine_.assert_failed(b_, std::string(op.text("message")), op.loc ? op.loc.file : "", op.loc.line,
                           kernel_.name);
  });
}

// A line for each element, by the first thread that holds it: "label[3, 5] = 1.5".
void KernelEmitter::emit_print(const ir::Op& op) {
  const std::string label(op.text("message"));
  Value* only = b_.CreateICmpEQ(thread_, b_.getInt32(0));
  if (op.num_operands() == 0) {
    cpu::emit_if(b_, only, [&] { machine_.print(b_, "%s\n", {machine_.text(b_, label)}); });
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
      Value* x = values[r];
      const DType t = v->type.dtype;
      if (v->type.pointer) {
        format += "%p";
      } else if (is_float(t)) {
        format += "%.9g";
        x = b_.CreateFPExt(x, b_.getDoubleTy());
      } else {
        format += t == DType::Bool || is_signed(t) ? "%lld" : "%llu";
        x = b_.CreateIntCast(x, b_.getInt64Ty(), is_signed(t));
      }
      arguments.push_back(x);
      auto line = [&] { machine_.print(b_, format + "\n", arguments); };
      if (wanted)
        cpu::emit_if(b_, wanted, line);
      else
        line();
    }
  }
}

} // namespace kiln::gpu
