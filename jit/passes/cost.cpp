// Walks a kernel once for each sampled program, evaluates scalars, and adds up the cost of tile operations.
#include <kiln/jit/passes/cost.h>

#include <kiln/jit/passes/in_bounds.h>
#include <kiln/jit/passes/known_scalars.h>
#include <kiln/jit/passes/sample_indices.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace kiln::passes {

using namespace ir;

namespace {

// A cost that grows by a constant from one program or iteration to the next is exact with any sample.
constexpr std::int64_t program_samples = 64, loop_samples = 16, inner_loop_samples = 6;
// After this many operations, two iterations of each loop are evaluated. A result takes well under a second,
// even for deeply nested loops.
constexpr std::int64_t operation_budget = 2'000'000;

// The iterations of a loop with an unknown trip count, as far as sums are concerned.
constexpr double unknown_trips = 1024;

// The costs that are added up. The last traffic is that of accesses whose parameter is unknown.
struct Sums {
  std::vector<Traffic> traffic;
  double flops = 0, in_bounds_flops = 0, integer_ops = 0, reductions = 0;

  explicit Sums(std::size_t parameters) : traffic(parameters + 1) {}
  void add(const Sums& other) {
    for (std::size_t i = 0; i < traffic.size(); ++i) {
      traffic[i].read += other.traffic[i].read;
      traffic[i].written += other.traffic[i].written;
    }
    flops += other.flops;
    in_bounds_flops += other.in_bounds_flops;
    integer_ops += other.integer_ops;
    reductions += other.reductions;
  }
  double weight() const {
    double total = flops + integer_ops;
    for (const Traffic& t : traffic)
      total += t.read + t.written;
    return total;
  }
};

class Walker {
public:
  Walker(const Kernel& kernel, const KnownArguments& arguments)
      : kernel_(kernel), scalars_(kernel, arguments), sums_(kernel.body.args.size()) {}

  Cost run() {
    const auto axes = static_cast<double>(scalars_.grid().size());
    samples_per_axis_ =
        axes == 0
            ? 1
            : std::max<std::int64_t>(2, static_cast<std::int64_t>(std::pow(program_samples, 1.0 / axes)));
    Cost cost;
    if (scalars_.grid_known()) {
      cost.programs = 1;
      for (std::int64_t g : scalars_.grid())
        *cost.programs *= static_cast<double>(g);
    }
    sample_programs(0, 1);
    cost.sampled_programs = sampled_programs_;
    cost.flops = sums_.flops;
    cost.in_bounds_flops = sums_.in_bounds_flops;
    cost.integer_ops = sums_.integer_ops;
    cost.reductions = sums_.reductions;
    cost.longest_sum = longest_sum_;
    cost.elsewhere = sums_.traffic.back();
    sums_.traffic.pop_back();
    cost.parameters = sums_.traffic;
    for (std::size_t p = 0; p < cost.parameters.size(); ++p)
      cost.parameters[p].whole = size_of_view(p);
    cost.assumptions = std::move(assumptions_);
    return cost;
  }

private:
  using Known = KnownScalars::Known;

  // --- The grid ---

  void sample_programs(std::size_t axis, double weight) {
    if (!scalars_.grid_known() || axis == scalars_.grid().size()) {
      scalars_.clear();
      in_bounds_.clear();
      ++sampled_programs_;
      Sums program = collect(kernel_.body, weight);
      sums_.add(program);
      return;
    }
    for (const SampleIndex& s : sample_indices(scalars_.grid()[axis], samples_per_axis_)) {
      scalars_.set_coordinate(axis, s.index);
      sample_programs(axis + 1, weight * s.weight);
    }
  }

  // --- Operations ---

  void assume(const Op& op, const char* what) {
    if (!assumed_.insert(&op).second) return;
    std::string where = to_string(op.loc);
    assumptions_.push_back((where.empty() ? "" : where + ": ") + what);
  }

  // The costs of a region, which the caller adds to the current ones or compares with those of another
  // region.
  Sums collect(const Region& region, double weight) {
    Sums before(kernel_.body.args.size());
    std::swap(before, current_);
    walk_region(region, weight);
    std::swap(before, current_);
    return before;
  }

  void walk_region(const Region& region, double weight) {
    for (const auto& op : region.ops)
      walk_op(*op, weight);
  }

  void walk_op(const Op& op, double weight) {
    ++operations_;
    in_bounds_.follow(op);
    switch (op.code) {
    case Opcode::For: return walk_for(op, weight);
    case Opcode::While: return walk_while(op, weight);
    case Opcode::If: return walk_if(op, weight);
    case Opcode::Reduce:
    case Opcode::Scan: return add_collective(op, weight);
    case Opcode::Dot: return add_dot(op, weight);
    case Opcode::Yield:
    case Opcode::Expects:
    case Opcode::DeviceAssert:
    case Opcode::DevicePrint: return;
    default: break;
    }
    OpClass cls = op.info().cls;
    if (cls == OpClass::Memory || cls == OpClass::Atomic) return add_memory(op, weight);
    if (cls == OpClass::Lookup) return add_lookup(op, weight);
    if (op.num_results() == 1 && op.result()->type.is_scalar()) scalars_.follow(op);
    if (cls == OpClass::Unary || cls == OpClass::Predicate || cls == OpClass::Binary ||
        cls == OpClass::Compare || cls == OpClass::Ternary || cls == OpClass::Select)
      add_arithmetic(op, weight);
  }

  // Counts `terms` that a sum in the innermost loop has in each iteration.
  void add_terms(std::int64_t terms) {
    longest_sum_ = std::max(longest_sum_, accumulating_trips_ * static_cast<double>(terms));
  }

  // The extent of the axis that a reduction, a scan or a dot combines.
  static std::int64_t combined_extent(const Op& op) {
    const Shape& shape = op.operand(0)->type.shape;
    return op.is(Opcode::Dot) ? shape.back().value()
                              : shape[static_cast<std::size_t>(op.integer("axis"))].value();
  }

  void add_flops(double whole, double in_bounds) {
    current_.flops += whole;
    current_.in_bounds_flops += in_bounds;
  }

  void add_arithmetic(const Op& op, double weight) {
    const Type& type = op.operand(op.num_operands() - 1)->type;
    if (type.pointer) return;
    const double elements = weight * static_cast<double>(op.result()->type.numel());
    if (is_float(type.dtype))
      add_flops(elements * flops_of(op.code), weight * in_bounds_.elements(op.result()) * flops_of(op.code));
    else if (!op.result()->type.is_scalar())
      current_.integer_ops += elements;
  }

  // A sort of n elements compares each of them about log(n)^2 / 2 times.
  void add_lookup(const Op& op, double weight) {
    double elements =
        static_cast<double>((op.is(Opcode::Gather) ? op.result() : op.operand(0))->type.numel());
    if (op.is(Opcode::Sort)) {
      const Dim& length = op.operand(0)->type.shape[static_cast<std::size_t>(op.integer("axis"))];
      const double rounds = std::ceil(std::log2(static_cast<double>(length.value())));
      elements *= rounds * (rounds + 1) / 2;
    }
    current_.integer_ops += weight * elements;
  }

  void add_dot(const Op& op, double weight) {
    double work = 2 * weight * static_cast<double>(op.result()->type.numel()) *
                  static_cast<double>(combined_extent(op));
    if (is_float(op.result()->type.dtype)) {
      add_flops(work, weight * in_bounds_.flops_of_dot(op));
      add_terms(combined_extent(op));
    } else
      current_.integer_ops += work;
  }

  // The combine counts once for each element, although it runs once less in each reduction.
  void add_collective(const Op& op, double weight) {
    double elements = weight * static_cast<double>(op.operand(0)->type.numel());
    if (op.is(Opcode::Reduce)) {
      const Type& type = op.results.front()->type;
      current_.reductions += weight * (type.is_scalar() ? 1 : static_cast<double>(type.numel()));
    }
    for (const auto& inner : op.region()->ops) {
      OpClass cls = inner->info().cls;
      if (inner->num_results() != 1 || inner->num_operands() == 0 || cls == OpClass::Convert ||
          cls == OpClass::Shape)
        continue;
      if (is_float(inner->result()->type.dtype) && (cls == OpClass::Binary || cls == OpClass::Ternary))
        add_terms(combined_extent(op));
      if (is_float(inner->operand(inner->num_operands() - 1)->type.dtype))
        add_flops(elements * flops_of(inner->code),
                  weight * in_bounds_.elements(op.operand(0)) * flops_of(inner->code));
      else
        current_.integer_ops += elements;
    }
  }

  // The number of elements of a view's tile that are in bounds. Of a load it also remembers the extents in
  // bounds.
  double elements_in_bounds(const Op& op, const Type& tile) {
    const Value* view = op.operand(0);
    auto offsets = op.view_offsets();
    const auto& axes = op.integers("axes");
    double elements = 1;
    InBoundsExtents::Extents extents{};
    for (int axis = 0; axis < view->type.view_rank; ++axis) {
      auto found = std::find(axes.begin(), axes.end(), axis);
      std::int64_t size =
          found == axes.end() ? 1 : tile.shape[static_cast<std::size_t>(found - axes.begin())].value();
      auto whole = scalars_.extent(view, axis);
      auto offset = scalars_.integer(offsets[static_cast<std::size_t>(axis)]);
      if (whole && offset) {
        __int128 begin = std::max<__int128>(0, *offset);
        __int128 end = std::min<__int128>(*whole, static_cast<__int128>(*offset) + size);
        size = static_cast<std::int64_t>(std::max<__int128>(0, end - begin));
      } else if (whole) {
        size = std::min(size, *whole);
      }
      elements *= static_cast<double>(size);
      if (found != axes.end())
        extents[static_cast<std::size_t>(found - axes.begin())] = static_cast<double>(size);
    }
    if (op.num_results()) in_bounds_.set(op.result(), extents);
    return elements;
  }

  // The index of the parameter that a view or pointer comes from, or that of the last traffic.
  std::size_t origin(const Value* v) const {
    while (v->def) {
      switch (v->def->code) {
      case Opcode::Bitcast: // of an address, or of a pointer to another dtype
        if (!v->def->operand(0)->type.pointer) return kernel_.body.args.size();
        v = v->def->operand(0);
        break;
      case Opcode::PtrAdd:
      case Opcode::ViewData:
      case Opcode::ViewPtrs:
      case Opcode::Splat:
      case Opcode::Broadcast:
      case Opcode::ExpandDims:
      case Opcode::Squeeze:
      case Opcode::Extract:
      case Opcode::Permute:
      case Opcode::Reshape: v = v->def->operand(0); break;
      default: return kernel_.body.args.size();
      }
    }
    return v->region == &kernel_.body ? static_cast<std::size_t>(v->index) : kernel_.body.args.size();
  }

  void add_memory(const Op& op, double weight) {
    if (op.is(Opcode::ViewPtrs) || op.is(Opcode::ViewMask)) return;
    const Type& tile = op.num_results() ? op.result()->type : op.stored_value()->type;
    bool tiled = op.is(Opcode::ViewLoad) || op.is(Opcode::ViewStore);
    double elements = tiled ? elements_in_bounds(op, tile) : static_cast<double>(tile.numel());
    double bytes = weight * elements * tile.element_bytes();
    Traffic& traffic = current_.traffic[origin(op.operand(0))];
    Effect effect = op.info().effect;
    if (effect != Effect::Write) traffic.read += bytes;
    if (effect != Effect::Read) traffic.written += bytes;
    if (op.info().cls != OpClass::Atomic) return;
    if (is_float(tile.dtype))
      add_flops(weight * elements, weight * elements);
    else
      current_.integer_ops += weight * elements;
  }

  // --- Control flow ---

  // The known values of carried scalars. Loops pass them to the arguments of the body, and take the next ones
  // from its yield.
  std::vector<Known> scalars(const std::vector<Value*>& from, std::size_t first) const {
    std::vector<Known> known;
    for (std::size_t i = first; i < from.size(); ++i)
      known.push_back(from[i]->type.is_scalar() ? scalars_.value(from[i]) : std::nullopt);
    return known;
  }
  void enter(const Region& region, std::size_t first_arg, const std::vector<Known>& known) {
    for (std::size_t i = first_arg; i < region.args.size(); ++i)
      scalars_.set(region.args[i].get(), i - first_arg < known.size() ? known[i - first_arg] : std::nullopt);
  }
  void leave(const Op& op, const std::vector<Known>& known) {
    for (std::size_t i = 0; i < op.results.size(); ++i)
      scalars_.set(op.results[i].get(), i < known.size() ? known[i] : std::nullopt);
  }

  // Passes on the extents in bounds of carried tiles.
  template <class From, class To>
  void carry_tiles(const From& from, std::size_t first, const To& to, std::size_t first_to) {
    std::vector<InBoundsExtents::Extents> extents;
    for (std::size_t i = first; i < from.size(); ++i)
      extents.push_back(in_bounds_.of(from[i]));
    for (std::size_t i = 0; i < extents.size() && first_to + i < to.size(); ++i)
      in_bounds_.set(to[first_to + i].get(), extents[i]);
  }

  // A loop that carries floats may add to them in each iteration.
  void enter_accumulation(const Op& op, double trips) {
    if (std::none_of(op.results.begin(), op.results.end(),
                     [](const auto& r) { return !r->type.pointer && is_float(r->type.dtype); }))
      return;
    accumulating_trips_ *= std::max(1.0, trips);
    add_terms(1);
  }

  void walk_for(const Op& op, double weight) {
    auto lower = scalars_.integer(op.operand(0)), upper = scalars_.integer(op.operand(1)),
         step = scalars_.integer(op.operand(2));
    std::vector<Known> carried = scalars(op.operands, 3);
    const Region& body = *op.region();
    ++depth_;
    const double trips_outside = accumulating_trips_;
    if (!lower || !upper || !step || *step <= 0) {
      assume(op, "the trip count of this loop is not known, so one iteration is counted");
      std::fill(carried.begin(), carried.end(), std::nullopt);
      enter_accumulation(op, unknown_trips);
      enter(body, 0, {});
      walk_region(body, weight);
    } else {
      std::int64_t trips =
          *upper > *lower
              ? static_cast<std::int64_t>((static_cast<__int128>(*upper) - *lower + *step - 1) / *step)
              : 0;
      std::int64_t next = 0;
      enter_accumulation(op, static_cast<double>(trips));
      carry_tiles(op.operands, 3, trips > 0 ? body.args : op.results, trips > 0 ? 1 : 0);
      std::int64_t limit = operations_ > operation_budget ? 2
                           : depth_ == 1                  ? loop_samples
                                                          : inner_loop_samples;
      for (const SampleIndex& s : sample_indices(trips, limit)) {
        // The carried values are unknown after iterations that were not sampled.
        if (s.index != next) std::fill(carried.begin(), carried.end(), std::nullopt);
        enter(body, 1, carried);
        scalars_.set(body.args[0].get(), static_cast<Cell>(*lower + s.index * *step));
        walk_region(body, weight * s.weight);
        carried = scalars(body.terminator()->operands, 0);
        carry_tiles(body.terminator()->operands, 0, body.args, 1);
        carry_tiles(body.terminator()->operands, 0, op.results, 0);
        next = s.index + 1;
      }
    }
    --depth_;
    accumulating_trips_ = trips_outside;
    leave(op, carried);
  }

  void walk_while(const Op& op, double weight) {
    assume(op, "the trip count of this loop is not known, so one iteration is counted");
    const double trips_outside = accumulating_trips_;
    enter_accumulation(op, unknown_trips);
    for (const auto& region : op.regions) {
      enter(*region, 0, {});
      walk_region(*region, weight);
    }
    accumulating_trips_ = trips_outside;
    leave(op, {});
  }

  void walk_if(const Op& op, double weight) {
    if (auto taken = scalars_.integer(op.operand(0))) {
      const Region& region = *op.region(*taken ? 0 : 1);
      walk_region(region, weight);
      if (Op* yield = region.terminator()) {
        leave(op, scalars(yield->operands, 0));
        carry_tiles(yield->operands, 0, op.results, 0);
      }
      return;
    }
    Sums first = collect(*op.region(0), weight), second = collect(*op.region(1), weight);
    if (first.weight() > 0 || second.weight() > 0)
      assume(op, "which branch is taken is not known, so the more expensive one is counted");
    current_.add(first.weight() >= second.weight() ? first : second);
    leave(op, {});
  }

  std::optional<double> size_of_view(std::size_t parameter) const {
    const Value* arg = kernel_.body.args[parameter].get();
    if (!arg->type.is_view()) return std::nullopt;
    double bytes = arg->type.element_bytes();
    for (int axis = 0; axis < arg->type.view_rank; ++axis) {
      auto e = scalars_.extent(arg, axis);
      if (!e) return std::nullopt;
      bytes *= static_cast<double>(*e);
    }
    return bytes;
  }

  const Kernel& kernel_;
  KnownScalars scalars_;
  std::int64_t samples_per_axis_ = 1; // the largest number of programs evaluated along one axis
  InBoundsExtents in_bounds_;
  Sums sums_, current_{0};
  int depth_ = 0;
  double accumulating_trips_ = 1; // of the loops around an operation that carry floats
  double longest_sum_ = 1;
  double sampled_programs_ = 0;
  std::int64_t operations_ = 0;
  std::unordered_set<const Op*> assumed_;
  std::vector<std::string> assumptions_;
};

} // namespace

double Cost::read() const {
  double bytes = elsewhere.read;
  for (const Traffic& t : parameters)
    bytes += t.read;
  return bytes;
}

double Cost::written() const {
  double bytes = elsewhere.written;
  for (const Traffic& t : parameters)
    bytes += t.written;
  return bytes;
}

double Cost::unique_bytes() const {
  auto once = [](const Traffic& t) {
    return t.whole ? std::min(t.read, *t.whole) + std::min(t.written, *t.whole) : t.read + t.written;
  };
  double bytes = once(elsewhere);
  for (const Traffic& t : parameters)
    bytes += once(t);
  return bytes;
}

Cost cost_of(const Kernel& lowered, const KnownArguments& arguments) {
  return Walker(lowered, arguments).run();
}

} // namespace kiln::passes
