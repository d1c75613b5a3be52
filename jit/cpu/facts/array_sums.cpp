// Follows the pointers that are derived from each view.
#include <kiln/jit/cpu/facts/array_sums.h>

#include <algorithm>
#include <set>
#include <utility>

namespace kiln::cpu {

using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

class Finder {
public:
  explicit Finder(const ir::Kernel& kernel) : kernel_(kernel) {
    ir::walk(kernel.body, [this](const Op& op) {
      for (const Value* v : op.operands)
        users_[v].push_back(&op);
    });
  }

  ArraySums run() {
    if (!programs_are_independent()) return {};
    for (const auto& arg : kernel_.body.args)
      if (arg->type.is_view()) add(arg.get());
    return std::move(sums_);
  }

private:
  bool programs_are_independent() {
    bool independent = std::none_of(kernel_.body.args.begin(), kernel_.body.args.end(),
                                    [](const auto& arg) { return arg->type.pointer; });
    ir::walk(kernel_.body, [&](const Op& op) {
      if (op.is(Opcode::While) || op.is(Opcode::AtomicCas)) independent = false;
      if (op.is(Opcode::AtomicRmw) && users_.count(op.result())) independent = false;
      // A pointer that is made from no other pointer may point anywhere.
      for (const auto& result : op.results)
        if (result->type.pointer && std::none_of(op.operands.begin(), op.operands.end(), [](const Value* v) {
              return v->type.pointer || v->type.is_view();
            }))
          independent = false;
    });
    return independent;
  }

  void add(const Value* view) {
    std::vector<const Op*> atomics;
    if (!is_only_added_to(view, view->type.dtype, atomics) || atomics.empty()) return;
    std::int64_t elements = 0;
    for (const Op* op : atomics) {
      sums_.array_of[op] = view;
      if (always_executed(*op)) elements += op->result()->type.is_tile() ? op->result()->type.numel() : 1;
    }
    sums_.arrays.emplace_back(view, elements);
  }

  // Whether nothing but sums accesses memory through `v`, a view or pointers that are derived from one.
  bool is_only_added_to(const Value* v, DType dtype, std::vector<const Op*>& atomics) const {
    const auto found = users_.find(v);
    if (found == users_.end()) return true;
    return std::all_of(found->second.begin(), found->second.end(), [&](const Op* op) {
      switch (op->code) {
      case Opcode::ViewExtent:
      case Opcode::ViewStride:
      case Opcode::ViewMask: return true;
      case Opcode::ViewData:
      case Opcode::ViewPtrs:
      case Opcode::PtrAdd:
      case Opcode::Splat:
      case Opcode::Broadcast:
      case Opcode::ExpandDims:
      case Opcode::Squeeze:
      case Opcode::Reshape:
      case Opcode::Permute: return is_only_added_to(op->result(), dtype, atomics);
      case Opcode::AtomicRmw:
        if (op->operand(0) != v || op->operand(1) == v || op->text("kind") != "add" ||
            op->text("scope", "gpu") == "sys" || op->result()->type.dtype != dtype || !has_exact_zero(dtype))
          return false;
        atomics.push_back(op);
        return true;
      default: return false;
      }
    });
  }

  // Whether sums of a few parts are as exact as those in any other order: narrow floats would be rounded
  // to different sums.
  static bool has_exact_zero(DType t) {
    return t != DType::Bool && (is_integer(t) || t == DType::F32 || t == DType::F64);
  }

  bool always_executed(const Op& op) const {
    return std::any_of(kernel_.body.ops.begin(), kernel_.body.ops.end(),
                       [&](const auto& top) { return top.get() == &op; });
  }

  const ir::Kernel& kernel_;
  std::unordered_map<const Value*, std::vector<const Op*>> users_;
  ArraySums sums_;
};

} // namespace

ArraySums array_sums(const ir::Kernel& kernel) { return Finder(kernel).run(); }

} // namespace kiln::cpu
