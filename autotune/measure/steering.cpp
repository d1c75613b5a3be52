// Computes, as a fixed point, which parameters' contents influence each value, and where these values are
// used.
#include <kiln/autotune/measure/steering.h>

#include <kiln/jit/passes/control_flow_values.h>

#include <unordered_map>

namespace kiln::tune {

namespace {

using ir::Op;
using ir::Opcode;
using ir::Value;

bool refers_to_memory(const Value& v) { return v.type.is_view() || v.type.pointer; }

// Whether both regions of a branch can run whatever its condition is: neither has a loop that might not end,
// nor an access that is not checked against the extents of a view.
bool can_take_either(const Op& branch) {
  bool can = true;
  for (const auto& region : branch.regions)
    ir::walk(*region, [&](const Op& op) {
      switch (op.code) {
      case Opcode::While:
      case Opcode::Load:
      case Opcode::Store:
      case Opcode::AtomicRmw:
      case Opcode::AtomicCas: can = false; break;
      default: break;
      }
    });
  return can;
}

class Analysis {
public:
  Analysis(const ir::Kernel& kernel, bool scalars)
      : kernel_(kernel), scalars_(scalars), count_(kernel.body.args.size()),
        contents_(count_, Parameters(count_)) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (!refers_to_memory(*kernel.body.args[i])) {
        if (scalars) facts(kernel.body.args[i].get()).influenced_by[i] = true;
        continue;
      }
      contents_[i][i] = true;
      Parameters alone(count_);
      alone[i] = true;
      facts(kernel.body.args[i].get()).points_to = alone;
    }
  }

  std::vector<Steering> run() {
    do {
      changed_ = false;
      ir::walk(kernel_.body, [this](const Op& op) { follow(op); });
    } while (changed_);
    std::vector<Steering> steering(count_);
    const auto note = [&](const Value* value, bool Steering::* what) {
      const Parameters& from = facts(value).influenced_by;
      for (std::size_t i = 0; i < count_; ++i)
        if (from[i]) steering[i].*what = true;
    };
    ir::walk(kernel_.body, [&](const Op& op) {
      for_each_address(op, [&](const Value* value) { note(value, &Steering::addresses); });
      for_each_control(op, [&](const Value* value) {
        if (scalars_ && op.is(Opcode::If) && can_take_either(op)) return;
        note(value, &Steering::control);
        if (!op.is(Opcode::If)) note(value, &Steering::loops);
      });
    });
    return steering;
  }

private:
  using Parameters = std::vector<bool>;
  struct Facts {
    Parameters influenced_by; // by the contents of these parameters
    Parameters points_to;     // the parameters whose memory it may point to
  };

  Facts& facts(const Value* value) {
    Facts& known = facts_[value];
    if (known.influenced_by.empty()) known.influenced_by.resize(count_), known.points_to.resize(count_);
    return known;
  }
  void add(Parameters& to, const Parameters& more) {
    for (std::size_t i = 0; i < count_; ++i)
      if (more[i] && !to[i]) to[i] = changed_ = true;
  }
  void flow(const Value* from, const Value* to) {
    const Facts source = facts(from);
    Facts& target = facts(to);
    add(target.influenced_by, source.influenced_by);
    if (refers_to_memory(*to)) add(target.points_to, source.points_to);
  }
  // How often a loop runs, and which region is taken, influences the results.
  void flow_control(const Op& op) {
    for_each_control(op, [&](const Value* value) {
      for (const auto& result : op.results)
        flow(value, result.get());
    });
  }

  template <class F> static void for_each_control(const Op& op, F f) {
    if (op.is(Opcode::If)) f(op.operand(0));
    if (op.is(Opcode::While))
      if (const Op* yield = op.region(0)->terminator()) f(yield->operand(0));
    for (std::size_t i = 0; op.is(Opcode::For) && i < passes::for_bounds; ++i)
      f(op.operands[i]);
  }
  template <class F> static void for_each_address(const Op& op, F f) {
    const bool pointers =
        op.is(Opcode::Load) || op.is(Opcode::Store) || op.is(Opcode::AtomicRmw) || op.is(Opcode::AtomicCas);
    if (pointers) return f(op.operand(0));
    const bool loads = op.is(Opcode::ViewLoad) || op.is(Opcode::ViewGather);
    if (!loads && !op.is(Opcode::ViewStore) && !op.is(Opcode::ViewScatter)) return;
    const std::size_t first = loads ? 1 : 2;
    const auto rank = static_cast<std::size_t>(op.operand(0)->type.view_rank);
    for (std::size_t i = first; i < first + rank && i < op.operands.size(); ++i)
      f(op.operands[i]);
  }

  void follow(const Op& op) {
    flow_control(op);
    for (std::size_t i = 0; op.is(Opcode::For) && i < passes::for_bounds; ++i)
      flow(op.operands[i], op.region()->args[0].get());
    const auto flows = [this](const Value* from, const Value* to) { flow(from, to); };
    if (!passes::each_control_flow(op, flows)) follow_simple(op);
  }

  void follow_simple(const Op& op) {
    const bool reads = ir::may_read(op), writes = ir::may_write(op);
    for (const auto& result : op.results) {
      for (const Value* operand : op.operands)
        flow(operand, result.get());
      if (!reads || op.operands.empty()) continue;
      const Parameters from = facts(op.operand(0)).points_to;
      for (std::size_t p = 0; p < count_; ++p)
        if (from[p]) add(facts(result.get()).influenced_by, contents_[p]);
    }
    if (!writes || op.operands.size() < 2) return;
    const Parameters to = facts(op.operand(0)).points_to;
    for (const Value* operand : op.operands)
      for (std::size_t p = 0; p < count_; ++p)
        if (to[p]) add(contents_[p], facts(operand).influenced_by);
  }

  const ir::Kernel& kernel_;
  bool scalars_;
  std::size_t count_;
  std::vector<Parameters> contents_; // for each parameter, what influences the contents of its memory
  std::unordered_map<const Value*, Facts> facts_;
  bool changed_ = false;
};

} // namespace

std::vector<Steering> steering_of(const ir::Kernel& kernel) { return Analysis(kernel, false).run(); }

std::vector<bool> steering_scalars(const ir::Kernel& kernel) {
  const std::vector<Steering> all = Analysis(kernel, true).run();
  std::vector<bool> steering;
  for (std::size_t i = 0; i < all.size(); ++i)
    steering.push_back(!refers_to_memory(*kernel.body.args[i]) && all[i].any());
  return steering;
}

} // namespace kiln::tune
