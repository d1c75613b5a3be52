// Derives divisibility, contiguity and constancy in one walk in program order, from operands to results.
#include <kiln/jit/passes/axis_info.h>

#include <kiln/jit/passes/rewrite_rules.h>

#include <algorithm>
#include <bit>
#include <numeric>

namespace kiln::passes {

using namespace ir;

namespace {

using Axis = AxisInfo::Axis;

constexpr int max_divisibility_bits = 40;
// The divisibility of zero.
constexpr std::int64_t max_divisibility = std::int64_t{1} << max_divisibility_bits;

std::int64_t power_of_two_in(std::int64_t x) {
  return std::int64_t{1} << std::min(std::countr_zero(static_cast<std::uint64_t>(x)), max_divisibility_bits);
}
std::int64_t product(std::int64_t a, std::int64_t b) {
  return a > max_divisibility / b ? max_divisibility : a * b;
}

// The divisibility of the first element of each run of `length` elements, where the value is contiguous or
// constant over such runs. They may start inside longer runs. `unit` is the difference of neighbours in a
// contiguous run.
std::int64_t divides_runs(const Axis& x, std::int64_t length, std::int64_t unit = 1) {
  return x.contiguity <= 1 || length % x.contiguity == 0
             ? x.divisibility
             : std::gcd(x.divisibility, power_of_two_in(length) * unit);
}
// The divisibility of every element.
std::int64_t divides_all(const Axis& x) { return divides_runs(x, 1); }

class Analysis {
public:
  explicit Analysis(const Kernel& kernel) {
    for (const auto& arg : kernel.body.args)
      set(arg.get(), unknown(arg->type));
    run(kernel.body);
  }
  AxisInfos take() { return std::move(infos_); }

private:
  static std::vector<std::int64_t> extents(const Type& type) {
    std::vector<std::int64_t> list;
    for (const Dim& d : type.shape)
      list.push_back(d.value());
    if (list.empty()) list.push_back(1);
    return list;
  }
  static std::int64_t element_unit(const Type& type) { return type.pointer ? size_of(type.dtype) : 1; }
  static AxisInfo unknown(const Type& type) {
    AxisInfo info;
    if (type.is_view()) return info;
    info.axes.resize(extents(type).size());
    return info;
  }
  // All elements are equal.
  static AxisInfo constant(const Type& type, std::int64_t divisibility) {
    AxisInfo info;
    for (std::int64_t e : extents(type))
      info.axes.push_back({divisibility, 1, e});
    return info;
  }

  void set(const Value* v, AxisInfo info) { infos_[v] = std::move(info); }
  const AxisInfo& get(const Value* v) const { return infos_.at(v); }
  std::int64_t scalar_divisibility(const Value* v) const { return get(v).axes[0].divisibility; }

  void run(const Region& region) {
    for (const auto& op : region.ops) {
      for (const auto& inner : op->regions) {
        for (const auto& arg : inner->args)
          set(arg.get(), unknown(arg->type));
        if (op->is(Opcode::For)) // lower, lower + step, ...
          set(inner->args[0].get(),
              constant(inner->args[0]->type,
                       std::gcd(scalar_divisibility(op->operand(0)), scalar_divisibility(op->operand(2)))));
        run(*inner);
      }
      for (const auto& r : op->results)
        set(r.get(), unknown(r->type));
      if (op->is(Opcode::If)) join_branches(*op);
      if (op->regions.empty() && op->num_results() == 1) set(op->result(), of(*op));
    }
  }

  void join_branches(const Op& op) {
    for (int i = 0; i < op.num_results(); ++i) {
      AxisInfo joined = get(op.region(0)->terminator()->operand(i));
      const AxisInfo& other = get(op.region(1)->terminator()->operand(i));
      std::int64_t unit = element_unit(op.result(i)->type);
      for (std::size_t a = 0; a < joined.axes.size(); ++a)
        joined.axes[a] = join(joined.axes[a], other.axes[a], unit);
      set(op.result(i), joined);
    }
  }
  static Axis join(const Axis& x, const Axis& y, std::int64_t unit) {
    std::int64_t run = std::gcd(x.contiguity, y.contiguity);
    return {std::gcd(divides_runs(x, run, unit), divides_runs(y, run, unit)), run,
            std::gcd(x.constancy, y.constancy)};
  }

  AxisInfo of(const Op& op) const {
    const Type& type = op.result()->type;
    if (auto cell = constant_of(op.result()); cell && !is_float(type.dtype))
      return constant(type, power_of_two_in(static_cast<std::int64_t>(*cell)));
    switch (op.code) {
    case Opcode::Arange: {
      std::int64_t extent = type.shape[0].value();
      return {{{power_of_two_in(op.integer("start")), extent, 1}}};
    }
    case Opcode::ViewData: return constant(type, base_alignment(op.operand(0)->type));
    case Opcode::ViewStride: return constant(type, stride_divisibility(op));
    case Opcode::ViewPtrs: return view_pointers(op);
    case Opcode::Splat: return constant(type, scalar_divisibility(op.operand(0)));
    case Opcode::Broadcast: return broadcast(op);
    case Opcode::ExpandDims: return expand(op);
    case Opcode::Squeeze: return squeeze(op);
    case Opcode::Permute: return permute(op);
    case Opcode::Cast: return cast(op);
    default: return is_elementwise(op.code) ? elementwise(op) : unknown(type);
    }
  }

  static std::int64_t base_alignment(const Type& view) {
    std::int64_t bytes = size_of(view.dtype);
    return view.layout == LayoutClass::Aligned ? 16 : bytes; // a launch rejects misaligned pointers
  }
  static std::int64_t stride_divisibility(const Op& op) {
    const Type& view = op.operand(0)->type;
    bool inner = op.integer("axis") == view.view_rank - 1;
    return view.layout == LayoutClass::Aligned && !inner ? std::max(1, 16 / size_of(view.dtype)) : 1;
  }

  // Pointers are contiguous along the tile axis that corresponds to the view's last axis, if its stride is 1.
  AxisInfo view_pointers(const Op& op) const {
    const Type &view = op.operand(0)->type, &type = op.result()->type;
    AxisInfo info = unknown(type);
    if (view.layout == LayoutClass::Any || view.view_rank == 0) return info;
    const auto& axes = op.integers("axes");
    std::int64_t bytes = size_of(view.dtype), innermost = view.view_rank - 1;
    std::int64_t offset = scalar_divisibility(op.view_offsets()[static_cast<std::size_t>(innermost)]);
    for (std::size_t a = 0; a < axes.size(); ++a)
      if (axes[a] == innermost)
        info.axes[a] = {std::gcd(base_alignment(view), product(offset, bytes)), type.shape[a].value(), 1};
    return info;
  }

  AxisInfo broadcast(const Op& op) const {
    AxisInfo info = get(op.operand(0));
    auto from = extents(op.operand(0)->type), to = extents(op.result()->type);
    for (std::size_t a = 0; a < to.size(); ++a)
      if (from[a] != to[a]) info.axes[a].constancy = to[a]; // the contiguity of a single element is 1
    return info;
  }

  AxisInfo expand(const Op& op) const {
    AxisInfo info = get(op.operand(0));
    Axis fresh;
    for (const Axis& axis : info.axes) // the best of what the axes know about all elements
      fresh.divisibility = std::max(fresh.divisibility, divides_all(axis));
    info.axes.insert(info.axes.begin() + op.integer("axis"), fresh);
    return info;
  }
  AxisInfo squeeze(const Op& op) const {
    AxisInfo info = get(op.operand(0));
    if (op.result()->type.is_tile()) info.axes.erase(info.axes.begin() + op.integer("axis"));
    return info;
  }
  AxisInfo permute(const Op& op) const {
    AxisInfo info;
    for (std::int64_t a : op.integers("order"))
      info.axes.push_back(get(op.operand(0)).axes[static_cast<std::size_t>(a)]);
    return info;
  }

  AxisInfo cast(const Op& op) const {
    const Value* x = op.operand(0);
    DType from = x->type.dtype, to = op.result()->type.dtype;
    AxisInfo info = get(x);
    bool exact_range = x->def && x->def->is(Opcode::Arange) && size_of(to) >= size_of(from) &&
                       (is_signed(to) || x->def->integer("start") >= 0);
    for (Axis& axis : info.axes) {
      if (!is_integer(from) || !is_integer(to)) {
        axis = {1, 1, axis.constancy};
      } else if (!exact_range) {
        // A run that starts at a multiple of its length does not wrap around before its end.
        std::int64_t run = std::gcd(axis.contiguity, axis.divisibility);
        std::int64_t width = std::int64_t{1} << std::min(40, 8 * std::min(size_of(from), size_of(to)) - 1);
        run = std::gcd(run, width);
        axis = {std::min(divides_runs(axis, run), width), run, axis.constancy};
      }
    }
    return info;
  }

  AxisInfo elementwise(const Op& op) const {
    const Type& type = op.result()->type;
    AxisInfo info = unknown(type);
    for (std::size_t a = 0; a < info.axes.size(); ++a) {
      info.axes[a].constancy = extents(type)[a];
      for (const Value* v : op.operands)
        info.axes[a].constancy = std::gcd(info.axes[a].constancy, get(v).axes[a].constancy);
      if (op.num_operands() == 2 && (is_integer(op.operand(0)->type.dtype) || type.pointer))
        combine(op, get(op.operand(0)).axes[a], get(op.operand(1)).axes[a], info.axes[a]);
      if (op.is(Opcode::Select) && !is_float(type.dtype)) {
        const Axis &x = get(op.operand(1)).axes[a], &y = get(op.operand(2)).axes[a];
        info.axes[a].divisibility = std::gcd(divides_all(x), divides_all(y));
      }
    }
    return info;
  }

  static void combine(const Op& op, const Axis& x, const Axis& y, Axis& r) {
    switch (op.code) {
    case Opcode::Add: return sum(x, y, 1, 1, r);
    case Opcode::PtrAdd: {
      std::int64_t bytes = size_of(op.result()->type.dtype);
      return sum(x, y, bytes, bytes, r);
    }
    case Opcode::Sub:
      r.contiguity = std::gcd(x.contiguity, y.constancy);
      r.divisibility = std::gcd(divides_runs(x, r.contiguity), divides_all(y));
      return;
    case Opcode::Mul:
      r.divisibility = std::min(product(divides_all(x), divides_all(y)), width_limit(op));
      return;
    case Opcode::Lt:
    case Opcode::Ge: // a run of x passes a multiple of its length only where it starts
      r.constancy = std::max(r.constancy, boundary(x, y));
      return;
    case Opcode::Gt:
    case Opcode::Le: r.constancy = std::max(r.constancy, boundary(y, x)); return;
    default: return;
    }
  }
  // The largest divisibility of a nonzero number of that width, after wrapping around.
  static std::int64_t width_limit(const Op& op) {
    int bits = 8 * size_of(op.result()->type.dtype);
    return bits > 40 ? max_divisibility : std::int64_t{1} << (bits - 1);
  }
  // x + y * scale, where neighbours in a run of x differ by `unit`.
  static void sum(const Axis& x, const Axis& y, std::int64_t unit, std::int64_t scale, Axis& r) {
    r.contiguity = std::max(std::gcd(x.contiguity, y.constancy), std::gcd(x.constancy, y.contiguity));
    r.divisibility =
        std::gcd(divides_runs(x, r.contiguity, unit), product(divides_runs(y, r.contiguity), scale));
  }
  // The constancy of "contiguous < constant".
  static std::int64_t boundary(const Axis& running, const Axis& fixed) {
    std::int64_t run = std::gcd(running.contiguity, fixed.constancy);
    run = std::gcd(run, std::gcd(running.divisibility, divides_all(fixed)));
    return run;
  }

  AxisInfos infos_;
};

} // namespace

std::string AxisInfo::to_string() const {
  std::string text[3] = {"divisible [", "contiguous [", "constant ["};
  for (std::size_t a = 0; a < axes.size(); ++a) {
    std::int64_t facts[3] = {axes[a].divisibility, axes[a].contiguity, axes[a].constancy};
    for (int i = 0; i < 3; ++i)
      text[i] += (a ? ", " : "") + std::to_string(facts[i]);
  }
  return text[0] + "], " + text[1] + "], " + text[2] + "]";
}

AxisInfos axis_info(const Kernel& kernel) { return Analysis(kernel).take(); }

void annotate_axis_info(Kernel& kernel, const PassOptions&) {
  AxisInfos infos = axis_info(kernel);
  walk(kernel.body, [&](Op& op) {
    if (op.num_results() == 1 && !op.result()->type.is_view())
      op.set("axis.info", infos.at(op.result()).to_string());
  });
}

} // namespace kiln::passes
