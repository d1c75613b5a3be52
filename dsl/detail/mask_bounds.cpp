// Interprets masks abstractly and records the bounds as scalar operations.
#include <kiln/dsl/detail/mask_bounds.h>
#include <kiln/dsl/detail/recording.h>

#include <unordered_map>
#include <utility>

namespace kiln::detail {
namespace {

using ir::Opcode;
using ir::Type;
using ir::Value;

// The least and the largest element of a tile of integers, as i64, which hold where `sure` is true.
struct Interval {
  Value *low, *high, *sure;
};
// Whether any element of a tile of bools may be true, and whether all are.
struct Truth {
  Value *any, *all;
};

// Results beyond this are not trusted, so that sums and products of i64 cannot wrap around.
constexpr std::int64_t most = std::int64_t{1} << 62, most_factor = std::int64_t{1} << 31;

// Whether the elements of the result are those of the operand, at other places.
bool keeps_elements(Opcode code) {
  return code == Opcode::Splat || code == Opcode::Broadcast || code == Opcode::ExpandDims ||
         code == Opcode::Squeeze || code == Opcode::Permute || code == Opcode::Reshape;
}

class Interpreter {
public:
  explicit Interpreter(Recording& r) : r_(r) {}

  Truth truth(Value* v) {
    if (const auto known = truths_.find(v); known != truths_.end()) return known->second;
    const Truth t = find_truth(v);
    truths_.emplace(v, t);
    return t;
  }
  std::string gave_up;

private:
  // --- Scalar code ---

  Value* number(std::int64_t x) { return r_.use(emit_integer(DType::I64, x)); }
  Value* flag(bool x) { return r_.use(emit_integer(DType::Bool, x)); }
  Value* op(Opcode code, Value* a, Value* b) { return r_.pure(code, {a, b}, a->type).value; }
  Value* compare(Opcode code, Value* a, Value* b) {
    return r_.pure(code, {a, b}, Type::scalar(DType::Bool)).value;
  }
  Value* invert(Value* a) { return r_.pure(Opcode::Not, {a}, a->type).value; }
  Value* select(Value* c, Value* a, Value* b) { return r_.pure(Opcode::Select, {c, a, b}, a->type).value; }
  Value* to_i64(Value* v) { return r_.cast(r_.handle(v), DType::I64).value; }
  Value* both(Value* a, Value* b) { return op(Opcode::And, a, b); }
  Value* least(Value* a, Value* b) { return op(Opcode::Min, a, b); }
  Value* largest(Value* a, Value* b) { return op(Opcode::Max, a, b); }
  Value* size_of_axis(const ir::Dim& d) {
    auto made = std::make_unique<ir::Op>(Opcode::DimSize, std::vector<Value*>{},
                                         std::vector<Type>{Type::scalar(DType::I64)}, r_.loc);
    made->set("dim", d);
    return ir::Builder(r_.scopes.back().region).insert(std::move(made))->result();
  }
  // Whether -limit <= low and high <= limit.
  Value* within(const Interval& x, std::int64_t limit) {
    return both(compare(Opcode::Ge, x.low, number(-limit)), compare(Opcode::Le, x.high, number(limit)));
  }

  void give_up(const Value* v, const char* why) {
    if (!gave_up.empty()) return;
    const std::string where = v->def ? to_string(v->def->loc) : std::string();
    gave_up = why + (where.empty() ? "" : " (" + where + ")");
  }
  Truth unknown_truth(const Value* v, const char* why) {
    give_up(v, why);
    return {flag(true), flag(false)};
  }
  Interval unknown(const Value* v, const char* why) {
    give_up(v, why);
    return {number(0), number(0), flag(false)};
  }

  // --- Tiles with one axis ---

  static bool is_one(const ir::Dim& d) { return d.is_constant() && d.value() == 1; }
  // The reduction of a tile that has at most one axis of more than one element; null for other tiles.
  Value* reduced(Value* v, Opcode combine) {
    Handle x = r_.handle(v);
    int axis = v->type.rank() - 1;
    for (; axis >= 0 && x.value->type.rank() > 1; --axis) {
      if (!is_one(x.value->type.shape[static_cast<std::size_t>(axis)])) continue;
      ir::Shape shape = x.value->type.shape;
      shape.erase(shape.begin() + axis);
      x = r_.pure(Opcode::Squeeze, {x.value}, x.value->type.with_shape(shape), {{"axis", axis}});
    }
    if (x.value->type.rank() != 1) return nullptr;
    const TypeInfo scalar{v->type.dtype, false, false, 0, nullptr};
    return r_.use(emit_reduce(combine, x, 0, scalar));
  }

  // --- Integers ---

  Interval interval(Value* v) {
    if (const auto known = intervals_.find(v); known != intervals_.end()) return known->second;
    Interval found = find_interval(v);
    found = checked(found, v->type.dtype);
    intervals_.emplace(v, found);
    return found;
  }

  // A result beyond the range of its dtype would wrap around.
  Interval checked(const Interval& x, DType t) {
    std::int64_t low = -most, high = most;
    if (const int bits = 8 * size_of(t); bits < 64) {
      high = is_signed(t) ? (std::int64_t{1} << (bits - 1)) - 1 : (std::int64_t{1} << bits) - 1;
      low = is_signed(t) ? -high - 1 : 0;
    } else if (is_unsigned(t)) {
      low = 0;
    }
    Value* fits = both(compare(Opcode::Ge, x.low, number(low)), compare(Opcode::Le, x.high, number(high)));
    return {x.low, x.high, both(x.sure, fits)};
  }

  Interval find_interval(Value* v) {
    if (v->type.is_scalar()) {
      Value* x = to_i64(v);
      Value* sure = v->type.dtype == DType::U64 ? compare(Opcode::Ge, x, number(0)) : flag(true);
      return {x, x, sure};
    }
    if (!v->def) return by_reduction(v);
    const ir::Op& o = *v->def;
    if (keeps_elements(o.code)) return interval(o.operand(0));
    const auto operand = [&](int i) { return interval(o.operand(i)); };
    switch (o.code) {
    case Opcode::Arange: {
      Value* start = number(o.integer("start"));
      return {start, op(Opcode::Sub, op(Opcode::Add, start, size_of_axis(v->type.shape[0])), number(1)),
              flag(true)};
    }
    case Opcode::Cast: {
      const Type& from = o.operand(0)->type;
      if (from.dtype == DType::Bool) {
        const Truth t = truth(o.operand(0));
        return {to_i64(t.all), to_i64(t.any), flag(true)};
      }
      if (is_integer(from.dtype)) return operand(0);
      break;
    }
    case Opcode::Add: return add(operand(0), operand(1));
    case Opcode::Sub: return add(operand(0), negated(operand(1)));
    case Opcode::Neg: return negated(operand(0));
    case Opcode::Mul: return product(operand(0), operand(1));
    case Opcode::Div:
    case Opcode::Rem: {
      const Interval a = operand(0), b = operand(1);
      Value* sure = both(both(a.sure, b.sure),
                         both(compare(Opcode::Eq, b.low, b.high), compare(Opcode::Gt, b.low, number(0))));
      Value* divisor = largest(b.low, number(1));
      Value *low = op(Opcode::Div, a.low, divisor), *high = op(Opcode::Div, a.high, divisor);
      if (o.is(Opcode::Div)) return {low, high, sure};
      // Within one period of the divisor, the remainder grows with the number.
      Value* one_period = both(compare(Opcode::Eq, low, high), compare(Opcode::Ge, a.low, number(0)));
      Value* last = op(Opcode::Sub, divisor, number(1));
      Value* below =
          select(compare(Opcode::Ge, a.low, number(0)), number(0), op(Opcode::Sub, number(0), last));
      return {select(one_period, op(Opcode::Rem, a.low, divisor), below),
              select(one_period, op(Opcode::Rem, a.high, divisor), last), sure};
    }
    case Opcode::Min: {
      const Interval a = operand(0), b = operand(1);
      return {least(a.low, b.low), least(a.high, b.high), both(a.sure, b.sure)};
    }
    case Opcode::Max: {
      const Interval a = operand(0), b = operand(1);
      return {largest(a.low, b.low), largest(a.high, b.high), both(a.sure, b.sure)};
    }
    case Opcode::Abs: {
      const Interval a = operand(0), n = negated(a);
      return {largest(largest(a.low, n.low), number(0)), largest(a.high, n.high), a.sure};
    }
    case Opcode::Shr: {
      const Interval a = operand(0), b = operand(1);
      Value* sure = both(compare(Opcode::Eq, b.low, b.high), within(b, 63));
      return {op(Opcode::Shr, a.low, b.low), op(Opcode::Shr, a.high, b.low),
              both(both(a.sure, b.sure), sure)};
    }
    case Opcode::Select: {
      const Truth c = truth(o.operand(0));
      const Interval a = operand(1), b = operand(2);
      return {select(c.all, a.low, select(c.any, least(a.low, b.low), b.low)),
              select(c.all, a.high, select(c.any, largest(a.high, b.high), b.high)), both(a.sure, b.sure)};
    }
    default: break;
    }
    return by_reduction(v);
  }

  Interval by_reduction(Value* v) {
    if (Value* low = reduced(v, Opcode::Min))
      return {to_i64(low), to_i64(reduced(v, Opcode::Max)), flag(true)};
    return unknown(v, "it computes a whole tile of integers without a rule for its bounds");
  }

  Interval add(const Interval& a, const Interval& b) {
    return {op(Opcode::Add, a.low, b.low), op(Opcode::Add, a.high, b.high),
            both(both(a.sure, b.sure), both(within(a, most / 2), within(b, most / 2)))};
  }
  Interval negated(const Interval& a) {
    return {op(Opcode::Sub, number(0), a.high), op(Opcode::Sub, number(0), a.low), a.sure};
  }
  Interval product(const Interval& a, const Interval& b) {
    Value *w = op(Opcode::Mul, a.low, b.low), *x = op(Opcode::Mul, a.low, b.high),
          *y = op(Opcode::Mul, a.high, b.low), *z = op(Opcode::Mul, a.high, b.high);
    return {least(least(w, x), least(y, z)), largest(largest(w, x), largest(y, z)),
            both(both(a.sure, b.sure), both(within(a, most_factor), within(b, most_factor)))};
  }

  // --- Bools ---

  Truth find_truth(Value* v) {
    if (v->type.is_scalar()) return {v, v};
    if (!v->def) return truth_by_reduction(v);
    const ir::Op& o = *v->def;
    if (keeps_elements(o.code)) return truth(o.operand(0));
    switch (o.code) {
    case Opcode::Not: {
      const Truth a = truth(o.operand(0));
      return {invert(a.all), invert(a.any)};
    }
    case Opcode::And: {
      const Truth a = truth(o.operand(0)), b = truth(o.operand(1));
      return {both(a.any, b.any), both(a.all, b.all)};
    }
    case Opcode::Or: {
      const Truth a = truth(o.operand(0)), b = truth(o.operand(1));
      return {op(Opcode::Or, a.any, b.any), op(Opcode::Or, a.all, b.all)};
    }
    case Opcode::Xor:
    case Opcode::Eq:
    case Opcode::Ne:
      if (o.operand(0)->type.dtype == DType::Bool) {
        const Truth a = truth(o.operand(0)), b = truth(o.operand(1));
        Value *same = op(Opcode::Or, both(a.all, b.all), invert(op(Opcode::Or, a.any, b.any))),
              *differ = op(Opcode::Or, both(a.all, invert(b.any)), both(b.all, invert(a.any)));
        return o.is(Opcode::Eq) ? Truth{invert(differ), same} : Truth{invert(same), differ};
      }
      [[fallthrough]];
    case Opcode::Lt:
    case Opcode::Le:
    case Opcode::Gt:
    case Opcode::Ge:
      if (is_integer(o.operand(0)->type.dtype) && o.operand(0)->type.dtype != DType::U64)
        return comparison(o);
      break;
    case Opcode::Select: {
      const Truth c = truth(o.operand(0)), a = truth(o.operand(1)), b = truth(o.operand(2));
      return {op(Opcode::Or, both(c.any, a.any), both(invert(c.all), b.any)),
              both(op(Opcode::Or, invert(c.any), a.all), op(Opcode::Or, c.all, b.all))};
    }
    default: break;
    }
    return truth_by_reduction(v);
  }

  Truth truth_by_reduction(Value* v) {
    if (Value* any = reduced(v, Opcode::Or)) return {any, reduced(v, Opcode::And)};
    return unknown_truth(v, "it computes a whole tile of bools without a rule for its bounds");
  }

  Truth comparison(const ir::Op& o) {
    Interval a = interval(o.operand(0)), b = interval(o.operand(1));
    Value* sure = both(a.sure, b.sure);
    Opcode code = o.code;
    if (code == Opcode::Gt || code == Opcode::Ge) {
      std::swap(a, b);
      code = code == Opcode::Gt ? Opcode::Lt : Opcode::Le;
    }
    Value *any = nullptr, *all = nullptr;
    if (code == Opcode::Lt || code == Opcode::Le) {
      any = compare(code, a.low, b.high);
      all = compare(code, a.high, b.low);
    } else { // == and !=
      any = both(compare(Opcode::Le, a.low, b.high), compare(Opcode::Le, b.low, a.high));
      all = both(both(compare(Opcode::Eq, a.low, a.high), compare(Opcode::Eq, b.low, b.high)),
                 compare(Opcode::Eq, a.low, b.low));
      if (code == Opcode::Ne) {
        Value* none = all;
        all = invert(any);
        any = invert(none);
      }
    }
    return {op(Opcode::Or, any, invert(sure)), both(all, sure)};
  }

  Recording& r_;
  std::unordered_map<const Value*, Interval> intervals_;
  std::unordered_map<const Value*, Truth> truths_;
};

} // namespace

MaskBounds emit_mask_bounds(Handle mask) {
  Recording& r = Recording::need("a mask");
  Interpreter interpreter(r);
  const Truth t = interpreter.truth(r.use(mask));
  return {r.handle(t.any), r.handle(t.all), interpreter.gave_up};
}

} // namespace kiln::detail
