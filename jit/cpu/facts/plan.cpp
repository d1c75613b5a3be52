// Numbers the operations of a kernel, then decides about buffers from the last tile to the first.
#include <kiln/jit/cpu/facts/plan.h>

#include <kiln/jit/cpu/facts/column_limit.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/passes/index_tiles.h>

#include <algorithm>
#include <set>
#include <unordered_map>

namespace kiln::cpu {

using ir::Op;
using ir::Opcode;
using ir::Region;
using ir::Value;

bool is_root(const Op& op) {
  switch (op.info().cls) {
  case ir::OpClass::Atomic:
  case ir::OpClass::Dot:
  case ir::OpClass::Collective:
  case ir::OpClass::Control:
  case ir::OpClass::Debug: return true;
  default: return op.info().effect == ir::Effect::Write;
  }
}

namespace {

constexpr int longest_chain = 2000; // in additions; longer chains are cut, which limits the size of a nest
constexpr int deepest_chain = 256;  // in operations

bool is_gather(const Op& op) { return op.is(Opcode::Load) || op.is(Opcode::ViewGather); }

// Whether a load from computed places reads whole vectors, from one address that is known before the loop.
bool reads_neighbours(const Op& op) {
  return is_gather(op) && passes::step_in_memory(op, op.result()->type.rank() - 1) == 1;
}

int own_cost(const Op& op) {
  switch (op.code) {
  case Opcode::Exp:
  case Opcode::Exp2:
  case Opcode::Sigmoid: return tuning::function_cost;
  case Opcode::Log:
  case Opcode::Log2:
  case Opcode::Log1p:
  case Opcode::Expm1:
  case Opcode::Tanh:
  case Opcode::Erf:
  case Opcode::Gelu:
  case Opcode::Sin:
  case Opcode::Cos:
  case Opcode::Tan:
  case Opcode::Pow:
  case Opcode::Atan2: return tuning::long_function_cost;
  case Opcode::Div:
  case Opcode::Rem:
  case Opcode::Sqrt:
  case Opcode::Rsqrt: return tuning::division_cost;
  case Opcode::ViewGather:
  case Opcode::Load: return tuning::gather_cost;
  default: break;
  }
  if (op.info().cls == ir::OpClass::Shape || op.info().cls == ir::OpClass::Source) return 0;
  // An operation on narrow floats also rounds its result.
  DType t = op.num_results() ? op.result()->type.dtype : DType::F32;
  return is_float(t) && size_of(t) < 4 ? tuning::narrow_float_cost : 1;
}

// Whether `op` is a broadcast that repeats one element along the last axis.
bool along_rows(const Op& op) {
  return op.is(Opcode::Broadcast) && op.operand(0)->type.shape.back().is_one() &&
         !op.result()->type.shape.back().is_one();
}

} // namespace

bool has_long_latency(const Op& op) { return own_cost(op) >= tuning::function_cost; }

class Planner {
public:
  explicit Planner(Plan& plan) : plan_(plan) {}

  void run(const ir::Kernel& kernel) {
    number(kernel.body, -1);
    for (auto op = ops_.rbegin(); op != ops_.rend(); ++op)
      decide(**op);
  }

private:
  // Where an operation is: its position in the program, and the innermost loop around it.
  struct Place {
    int position;
    int loop; // an index into loops_; -1: none
  };
  struct LoopSpan {
    int begin, end, parent;
  };
  // A nest that evaluates a tile, and how it numbers the tile's elements: each reshape between the tile and
  // the nest gives another numbering. (Elements that are extracted from one reshape are evaluated together.)
  struct Evaluation {
    Place nest;
    std::size_t numbering;
    bool operator<(const Evaluation& other) const {
      return std::pair(nest.position, numbering) < std::pair(other.nest.position, other.numbering);
    }
  };

  void number(const Region& region, int loop) {
    for (const auto& arg : region.args)
      if (arg->type.is_tile() && region.parent && region.parent->info().cls == ir::OpClass::Control)
        plan_.buffers_.insert(arg.get());
    for (const auto& op : region.ops) {
      int position = static_cast<int>(ops_.size());
      ops_.push_back(op.get());
      places_[op.get()] = {position, loop};
      if (op->info().effect == ir::Effect::Write || op->info().effect == ir::Effect::ReadWrite)
        writes_.push_back(position);
      // The longest chain counts, and not the sum, because what two chains share is evaluated once.
      int operand_cost = 0, depth = 0;
      for (const Value* v : op->operands) {
        users_[v].push_back(op.get());
        operand_cost = std::max(operand_cost, cost_of(v));
        if (auto below = depths_.find(v); below != depths_.end()) depth = std::max(depth, below->second + 1);
      }
      for (const auto& r : op->results) {
        int cost = is_root(*op) ? 1 : own_cost(*op) + operand_cost;
        if (reads_neighbours(*op)) cost = 1 + std::max(cost_of(op->mask()), cost_of(op->other()));
        // Vector loops end where the comparison becomes false, and a value that is constant along a row is
        // computed before the loop.
        if (column_limit(*op) || along_rows(*op)) cost = 0;
        const bool cuts = cost > longest_chain || depth > deepest_chain;
        if (r->type.is_tile() && (is_root(*op) || cuts)) {
          plan_.buffers_.insert(r.get());
          if (cuts) plan_.cuts_.insert(r.get());
          cost = 1;
        } else if (r->type.is_tile()) {
          depths_[r.get()] = depth;
        }
        costs_[r.get()] = cost;
      }
      if (op->info().cls != ir::OpClass::Control) continue;
      int inner = loop;
      if (op->is(Opcode::For) || op->is(Opcode::While)) {
        inner = static_cast<int>(loops_.size());
        loops_.push_back({position, position, loop});
      }
      for (const auto& r : op->regions)
        number(*r, inner);
      if (inner != loop) loops_[static_cast<std::size_t>(inner)].end = static_cast<int>(ops_.size());
    }
  }

  int cost_of(const Value* v) const {
    const auto known = v ? costs_.find(v) : costs_.end();
    return known != costs_.end() ? known->second : 0;
  }

  // Decides about the result of `op`, after all its users. A user that is a root or has a buffer evaluates it
  // in its own nest; other users evaluate it in all nests that evaluate them.
  void decide(const Op& op) {
    if (is_root(op) || op.num_results() != 1) return;
    const Value* v = op.result();
    if (!v->type.is_tile()) {
      return; // scalars are computed once, where they are
    }
    std::set<Evaluation>& evaluations = evaluations_[v];
    bool repeated_by_broadcast = false;
    for (const Op* user : users_[v]) {
      const Place place = places_.at(user);
      auto add = [&](Evaluation e) {
        if (user->is(Opcode::Reshape))
          e.numbering = e.numbering * 31 + static_cast<std::size_t>(place.position) + 1;
        evaluations.insert(e);
      };
      if (is_root(*user) || plan_.has_buffer(user->result()) || !user->result()->type.is_tile()) {
        add({place, 0});
        continue;
      }
      for (const Evaluation& e : evaluations_[user->result()])
        add(e);
      repeated_by_broadcast |= user->is(Opcode::Broadcast) && v->type.shape.back().value() > 1;
    }
    Place here = places_.at(&op);
    bool reads = reads_memory(op);
    int cost = costs_.at(v);
    bool expensive = cost >= tuning::buffer_cost;
    bool many = evaluations.size() > 1 || repeated_by_broadcast;
    for (const auto& [nest, numbering] : evaluations) {
      if (v->type.numel() > tuning::max_repeats * elements_of(nest)) return (void)plan_.buffers_.insert(v);
      many |= nest.loop != here.loop && !encloses(nest.loop, here.loop);
      if (reads && (written_between(here, nest) || is_atomic(nest))) return (void)plan_.buffers_.insert(v);
    }
    if (expensive && many) plan_.buffers_.insert(v);
  }

  // The number of elements over which a nest iterates.
  std::int64_t elements_of(const Place& nest) const {
    const Op& op = *ops_[static_cast<std::size_t>(nest.position)];
    std::int64_t most = 1;
    for (const Value* operand : op.operands)
      if (operand->type.is_tile()) most = std::max(most, operand->type.numel());
    for (const auto& result : op.results)
      if (result->type.is_tile()) most = std::max(most, result->type.numel());
    return most;
  }

  // An atomic writes element by element, so that its operands have to be read before its first element.
  bool is_atomic(const Place& nest) const {
    return ops_[static_cast<std::size_t>(nest.position)]->info().cls == ir::OpClass::Atomic;
  }

  bool reads_memory(const Op& op) const { return op.info().effect == ir::Effect::Read; }

  // Whether loop `outer` is `inner` or encloses it; -1 encloses everything.
  bool encloses(int outer, int inner) const {
    for (;; inner = loops_[static_cast<std::size_t>(inner)].parent) {
      if (inner == outer) return true;
      if (inner < 0) return false;
    }
  }

  bool any_write(int begin, int end) const {
    auto at = std::lower_bound(writes_.begin(), writes_.end(), begin);
    return at != writes_.end() && *at < end;
  }

  bool written_between(Place load, Place nest) const {
    if (any_write(load.position + 1, nest.position)) return true;
    // If the nest is in a loop and the load is outside, the nest also runs after everything else in that
    // loop.
    for (int loop = nest.loop; loop >= 0 && !encloses(loop, load.loop);
         loop = loops_[static_cast<std::size_t>(loop)].parent)
      if (any_write(loops_[static_cast<std::size_t>(loop)].begin, loops_[static_cast<std::size_t>(loop)].end))
        return true;
    return false;
  }

  Plan& plan_;
  std::vector<const Op*> ops_;
  std::vector<int> writes_;
  std::vector<LoopSpan> loops_;
  std::unordered_map<const Op*, Place> places_;
  std::unordered_map<const Value*, std::vector<const Op*>> users_;
  std::unordered_map<const Value*, int> costs_, depths_;
  std::unordered_map<const Value*, std::set<Evaluation>> evaluations_;
};

Plan::Plan(const ir::Kernel& kernel) { Planner(*this).run(kernel); }

} // namespace kiln::cpu
