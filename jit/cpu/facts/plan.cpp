// Numbers the operations of a kernel, then decides about buffers from the last tile to the first.
#include <kiln/jit/cpu/facts/plan.h>

#include <kiln/jit/cpu/facts/column_limit.h>
#include <kiln/jit/cpu/facts/index_maps.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/passes/index_tiles.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace kiln::cpu {

using ir::Op;
using ir::Opcode;
using ir::Region;
using ir::Shape;
using ir::Value;

bool is_root(const Op& op) {
  switch (op.info().cls) {
  case ir::OpClass::Atomic:
  case ir::OpClass::Dot:
  case ir::OpClass::Collective:
  case ir::OpClass::Control:
  case ir::OpClass::Debug: return true;
  case ir::OpClass::Lookup: return !op.is(Opcode::Gather);
  default: return op.info().effect == ir::Effect::Write;
  }
}

bool moves_elements(const Op& op) {
  return op.info().cls == ir::OpClass::Shape || op.info().cls == ir::OpClass::Lookup;
}

namespace {

constexpr int deepest_chain = 256;  // in operations
constexpr int most_evaluations = 8; // of a tile that is computed from others

bool is_gather(const Op& op) { return op.is(Opcode::Load) || op.is(Opcode::ViewGather); }

// Whether a load from computed places reads whole vectors, from one address that is known before the loop.
bool reads_neighbours(const Op& op) {
  return is_gather(op) && passes::step_in_memory(op, op.result()->type.rank() - 1) == 1;
}

int own_cost(const Op& op) {
  if (is_strided_load(op)) return tuning::gather_cost;
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
  case Opcode::Gather:
  case Opcode::ViewGather:
  case Opcode::Load: return tuning::gather_cost;
  default: break;
  }
  if (op.info().cls == ir::OpClass::Shape || op.info().cls == ir::OpClass::Source) return 0;
  // An operation on narrow floats also rounds its result.
  DType t = op.num_results() ? op.result()->type.dtype : DType::F32;
  return is_float(t) && size_of(t) < 4 ? tuning::narrow_float_cost : 1;
}

// The size of an operation's code, in additions. Loads check bounds, and vectors of integers are divided one
// element at a time.
int code_size(const Op& op) {
  constexpr int load = 4, division = 16;
  if (op.is(Opcode::ViewLoad)) return std::max(own_cost(op), load);
  if ((op.is(Opcode::Div) || op.is(Opcode::Rem)) && is_integer(op.result()->type.dtype))
    return division * std::max(1, size_of(op.result()->type.dtype) / 4);
  return std::max(own_cost(op), 1);
}

// Whether `op` is a broadcast that repeats one element along the last axis.
bool along_rows(const Op& op) {
  return op.is(Opcode::Broadcast) && op.operand(0)->type.shape.back().is_one() &&
         !op.result()->type.shape.back().is_one();
}

} // namespace

bool is_strided_load(const Op& op) {
  return op.is(Opcode::ViewLoad) && op.result()->type.rank() > 1 &&
         op.operand(0)->type.layout == LayoutClass::Any && !op.result()->type.shape.back().is_one();
}

bool reads_strided(const Plan& plan, const Op& op) {
  std::unordered_set<const Op*> seen;
  auto reads = [&](auto&& self, const Op& at) -> bool {
    if (is_strided_load(at)) return true;
    if (!ir::is_elementwise(at.code) || !seen.insert(&at).second) return false;
    return std::any_of(at.operands.begin(), at.operands.end(), [&](const Value* v) {
      return v->type.is_tile() && v->def && !plan.has_buffer(v) && self(self, *v->def);
    });
  };
  return reads(reads, op);
}

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
  // The work of a nest that evaluates a tile: how many additions take as long, the number of operations of
  // the longest chain, and the size of the code, in additions.
  struct Work {
    int time = 0, depth = 0, size = 0;
  };
  // A nest that evaluates a tile, and how it indexes the tile's elements.
  struct Evaluation {
    Place nest;
    IndexMap at;
    int lanes; // the expression along which the nest's vectors lie
    bool operator<(const Evaluation& other) const {
      return std::tie(nest.position, at) < std::tie(other.nest.position, other.at);
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
      for (const Value* v : op->operands)
        users_[v].push_back(op.get());
      const Work work = work_without_buffer(*op);
      plan_.sizes_[op.get()] = work.size;
      for (const auto& r : op->results)
        estimate(*op, r.get(), work);
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

  // Estimates the work of a nest that evaluates `v`, a result of `op`, and gives `v` a buffer if `op` has a
  // nest of its own or the nest would become too large.
  void estimate(const Op& op, const Value* v, const Work& lazy) {
    if (!v->type.is_tile()) return; // scalars are computed once, where they are
    const bool cuts = !is_root(op) && (lazy.size > largest_nest || lazy.depth > deepest_chain);
    if (cuts) plan_.cuts_.insert(v);
    if (cuts || is_root(op)) plan_.buffers_.insert(v);
    work_[v] = cuts || is_root(op) ? Work{1, 0, 1} : lazy; // a load from the buffer
  }

  Work work_without_buffer(const Op& op) const {
    // The longest chain counts for time, and not the sum, because what two chains share is evaluated once.
    int time = 0;
    Work work{0, 0, code_size(op)};
    for (const Value* operand : op.operands) {
      const Work below = work_of(operand);
      time = std::max(time, below.time);
      work.depth = std::max(work.depth, below.depth + 1);
      work.size += below.size;
    }
    if (work.size > largest_nest) work.size = size_without_repetition(op);
    // Vector loops end where a comparison with a limit becomes false, and a value that is constant along a
    // row is computed before the loop.
    if (column_limit(op) || along_rows(op))
      work.time = 0;
    else if (reads_neighbours(op))
      work.time = 1 + std::max(work_of(op.mask()).time, work_of(op.other()).time);
    else
      work.time = own_cost(op) + time;
    return work;
  }

  Work work_of(const Value* v) const {
    const auto known = v ? work_.find(v) : work_.end();
    return known != work_.end() ? known->second : Work{};
  }

  // The size of the nest if each operation is evaluated once.
  int size_without_repetition(const Op& op) const {
    std::unordered_set<const Value*> seen;
    std::vector<const Op*> left{&op};
    int size = 0;
    while (!left.empty() && size <= largest_nest) {
      const Op& next = *left.back();
      left.pop_back();
      size += code_size(next);
      for (const Value* v : next.operands)
        if (v->type.is_tile() && v->def && !plan_.has_buffer(v) && seen.insert(v).second)
          left.push_back(v->def);
    }
    return size;
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
      if (user->is(Opcode::Gather) && user->operand(0) == v) return (void)plan_.buffers_.insert(v); // rule 5
      const Place place = places_.at(user);
      const Value* result = user->num_results() == 1 ? user->result() : nullptr;
      if (is_root(*user) || !result || !result->type.is_tile()) {
        evaluations.insert(own_nest(place, v));
      } else if (plan_.has_buffer(result)) {
        evaluations.insert(of_operand(*user, own_nest(place, result), v));
      } else {
        for (const Evaluation& e : evaluations_[result])
          evaluations.insert(of_operand(*user, e, v));
        repeated_by_broadcast |= user->is(Opcode::Broadcast) && v->type.shape.back().value() > 1;
      }
    }
    if (op.is(Opcode::Permute) && better_before(op, evaluations)) return;
    if (joins_odd_rows(op) && !evaluations.empty()) {
      plan_.row_copies_.insert(v);
      return (void)plan_.buffers_.insert(v);
    }
    Place here = places_.at(&op);
    bool reads = reads_memory(op);
    int cost = work_.at(v).time;
    bool expensive = cost >= tuning::buffer_cost;
    bool many = evaluations.size() > 1 || repeated_by_broadcast;
    for (const auto& [nest, at, lanes] : evaluations) {
      many |= is_strided_load(op) && ops_[static_cast<std::size_t>(nest.position)]->is(Opcode::Reduce);
      if (v->type.numel() > tuning::max_repeats * elements_of(nest)) return (void)plan_.buffers_.insert(v);
      many |= nest.loop != here.loop && !encloses(nest.loop, here.loop);
      if (reads && (written_between(here, nest) || is_atomic(nest))) return (void)plan_.buffers_.insert(v);
    }
    if ((expensive && many) || grows(v, evaluations.size())) plan_.buffers_.insert(v);
  }

  // The evaluation of `v` by a nest over its own elements.
  Evaluation own_nest(const Place& place, const Value* v) {
    Evaluation e{place, maps_.identity(v->type.shape.size()), maps_.zero()};
    leave_out_single(e.at, v);
    if (const int axis = last_long_axis(v); axis >= 0) e.lanes = e.at[static_cast<std::size_t>(axis)];
    return e;
  }

  // The evaluation of `v`, an operand of `user`, by a nest that evaluates the result of `user`.
  Evaluation of_operand(const Op& user, const Evaluation& e, const Value* v) {
    Evaluation inner{e.nest, maps_.of_operand(user, e.at), e.lanes};
    leave_out_single(inner.at, v);
    return inner;
  }

  // Axes of one element do not matter.
  void leave_out_single(IndexMap& at, const Value* v) {
    for (std::size_t a = 0; a < at.size(); ++a)
      if (v->type.shape[a].is_one()) at[a] = maps_.zero();
  }

  // The last axis of several elements; -1: there is none.
  static int last_long_axis(const Value* v) {
    int axis = static_cast<int>(v->type.shape.size()) - 1;
    while (axis >= 0 && v->type.shape[static_cast<std::size_t>(axis)].is_one())
      --axis;
    return axis;
  }

  // Whether `op` makes one row of several whose length is no multiple of a vector's.
  static bool joins_odd_rows(const Op& op) {
    constexpr std::int64_t lanes = 16;
    if (!op.is(Opcode::Reshape)) return false;
    const Shape& from = op.operand(0)->type.shape;
    const Shape& to = op.result()->type.shape;
    const std::int64_t row = from.empty() ? 1 : from.back().value();
    return row > lanes && row % lanes != 0 && !to.empty() && to.back().value() > row &&
           to.back().value() == op.result()->type.numel();
  }

  // Whether more nests would read a buffer of the operand of `permute` in whole vectors than a buffer of its
  // result. Then the decision is the operand's.
  bool better_before(const Op& permute, const std::set<Evaluation>& evaluations) {
    const Value *result = permute.result(), *operand = permute.operand(0);
    if (plan_.has_buffer(operand)) return false;
    auto in_vectors = [&](const Value* v, const Evaluation& e) {
      const int axis = last_long_axis(v);
      return axis < 0 || e.at[static_cast<std::size_t>(axis)] == e.lanes;
    };
    std::ptrdiff_t gain = 0;
    for (const Evaluation& e : evaluations)
      gain += in_vectors(operand, of_operand(permute, e, operand)) - in_vectors(result, e);
    return gain > 0;
  }

  // Whether evaluating a tile `times` times costs more than a buffer. Even where the last operations cost
  // nothing in a loop, few evaluations are allowed, because each is code, and twice as many in each stage of
  // an algorithm such as an FFT are too many.
  bool grows(const Value* v, std::size_t times) const {
    const auto again = static_cast<std::int64_t>(times) - 1;
    if (again < 1) return false;
    return again * (work_.at(v).time - 1) >= tuning::buffer_cost ||
           (again >= most_evaluations && work_.at(v).size > code_size(*v->def));
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
  std::unordered_map<const Value*, Work> work_;
  IndexMaps maps_;
  std::unordered_map<const Value*, std::set<Evaluation>> evaluations_;
};

int Plan::nest_size(const ir::Op& root) const {
  const auto found = sizes_.find(&root);
  return found == sizes_.end() ? 1 : found->second;
}

Plan::Plan(const ir::Kernel& kernel) { Planner(*this).run(kernel); }

} // namespace kiln::cpu
