// Derives recorded computations backwards, with one rule for each elementwise operation.
#include <kiln/dsl/detail/gradient.h>
#include <kiln/dsl/detail/recording.h>

#include <algorithm>
#include <numbers>
#include <unordered_map>

namespace kiln::detail {
namespace {

using ir::Opcode;
using ir::Value;

// A value with operators that record operations on it.
struct Term {
  Recording* recording;
  Value* value;

  Term constant(double x) const {
    const Handle number = emit_float(value->type.dtype, x);
    return {recording, recording->broadcast(number, value->type.shape).value};
  }
  Term apply(Opcode code, std::vector<Value*> operands, ir::Type type) const {
    return {recording, recording->pure(code, std::move(operands), std::move(type)).value};
  }
  Term apply(Opcode code) const { return apply(code, {value}, value->type); }
  Term apply(Opcode code, const Term& b) const { return apply(code, {value, b.value}, value->type); }
  Term compare(Opcode code, const Term& b) const {
    return apply(code, {value, b.value}, value->type.with_dtype(DType::Bool));
  }
  Term where(const Term& a, const Term& b) const { // of a condition
    return apply(Opcode::Select, {value, a.value, b.value}, a.value->type);
  }
  Term cast(DType to) const { return {recording, recording->cast(recording->handle(value), to).value}; }
};
Term operator+(const Term& a, const Term& b) { return a.apply(Opcode::Add, b); }
Term operator-(const Term& a, const Term& b) { return a.apply(Opcode::Sub, b); }
Term operator*(const Term& a, const Term& b) { return a.apply(Opcode::Mul, b); }
Term operator/(const Term& a, const Term& b) { return a.apply(Opcode::Div, b); }
Term operator-(const Term& a) { return a.apply(Opcode::Neg); }
Term operator*(double a, const Term& b) { return b.constant(a) * b; }
Term operator+(double a, const Term& b) { return b.constant(a) + b; }
Term operator-(double a, const Term& b) { return b.constant(a) - b; }

// What a rule computes with: the gradient g of the result y, and the operands a, b and c.
struct Known {
  Term g, y, a, b, c;
};

// The gradients with respect to the operands; null: that operand has none.
using Formula = Term (*)(const Known&);
struct Rule {
  Opcode code;
  Formula operands[3] = {};
};

// The gradient of a minimum or maximum goes to the operand that is chosen, and to b if they are equal.
template <Opcode Chosen> Term to_a_if(const Known& k) {
  return k.a.compare(Chosen, k.b).where(k.g, k.g.constant(0));
}
template <Opcode Chosen> Term to_b_unless(const Known& k) {
  return k.a.compare(Chosen, k.b).where(k.g.constant(0), k.g);
}

#define KILN_D(expression) [](const Known& k) -> Term { return expression; }
const Rule rules[] = {
    {Opcode::Neg, {KILN_D(-k.g)}},
    {Opcode::Abs, {KILN_D(k.a.compare(Opcode::Lt, k.a.constant(0)).where(-k.g, k.g))}},
    {Opcode::Exp, {KILN_D(k.g * k.y)}},
    {Opcode::Exp2, {KILN_D(k.g * (std::numbers::ln2 * k.y))}},
    {Opcode::Expm1, {KILN_D(k.g * (1 + k.y))}},
    {Opcode::Log, {KILN_D(k.g / k.a)}},
    {Opcode::Log2, {KILN_D(k.g / (std::numbers::ln2 * k.a))}},
    {Opcode::Log1p, {KILN_D(k.g / (1 + k.a))}},
    {Opcode::Sin, {KILN_D(k.g * k.a.apply(Opcode::Cos))}},
    {Opcode::Cos, {KILN_D(-(k.g * k.a.apply(Opcode::Sin)))}},
    {Opcode::Tan, {KILN_D(k.g * (1 + k.y * k.y))}},
    {Opcode::Tanh, {KILN_D(k.g * (1 - k.y * k.y))}},
    {Opcode::Erf, {KILN_D(k.g * (2 * std::numbers::inv_sqrtpi * (-(k.a * k.a)).apply(Opcode::Exp)))}},
    {Opcode::Sigmoid, {KILN_D(k.g * (k.y * (1 - k.y)))}},
    // The cumulative normal distribution at a, plus a times its density.
    {Opcode::Gelu,
     {KILN_D(k.g * (0.5 * (1 + (std::numbers::sqrt2 / 2 * k.a).apply(Opcode::Erf)) +
                    k.a * (std::numbers::inv_sqrtpi / std::numbers::sqrt2 *
                           (-0.5 * (k.a * k.a)).apply(Opcode::Exp))))}},
    {Opcode::Sqrt, {KILN_D(0.5 * k.g / k.y)}},
    {Opcode::Rsqrt, {KILN_D(-0.5 * k.g * (k.y / k.a))}},
    {Opcode::Floor, {nullptr}},
    {Opcode::Ceil, {nullptr}},
    {Opcode::Trunc, {nullptr}},
    {Opcode::Round, {nullptr}},
    {Opcode::Add, {KILN_D(k.g), KILN_D(k.g)}},
    {Opcode::Sub, {KILN_D(k.g), KILN_D(-k.g)}},
    {Opcode::Mul, {KILN_D(k.g * k.b), KILN_D(k.g* k.a)}},
    {Opcode::Div, {KILN_D(k.g / k.b), KILN_D(-(k.g*(k.y / k.b)))}},
    {Opcode::Rem, {KILN_D(k.g), KILN_D(-(k.g*(k.a / k.b).apply(Opcode::Trunc)))}},
    {Opcode::Pow,
     {KILN_D(k.g * (k.b * k.a.apply(Opcode::Pow, k.b - k.b.constant(1)))),
      KILN_D(k.g*(k.y* k.a.apply(Opcode::Log)))}},
    {Opcode::Atan2,
     {KILN_D(k.g * (k.b / (k.a * k.a + k.b * k.b))), KILN_D(-(k.g*(k.a / (k.a * k.a + k.b * k.b))))}},
    {Opcode::Min, {to_a_if<Opcode::Lt>, to_b_unless<Opcode::Lt>}},
    {Opcode::Max, {to_a_if<Opcode::Gt>, to_b_unless<Opcode::Gt>}},
    {Opcode::MinNan, {to_a_if<Opcode::Lt>, to_b_unless<Opcode::Lt>}},
    {Opcode::MaxNan, {to_a_if<Opcode::Gt>, to_b_unless<Opcode::Gt>}},
    {Opcode::Fma, {KILN_D(k.g * k.b), KILN_D(k.g* k.a), KILN_D(k.g)}},
    {Opcode::Select,
     {nullptr, KILN_D(k.a.where(k.g, k.g.constant(0))), KILN_D(k.a.where(k.g.constant(0), k.g))}},
    {Opcode::Cast, {KILN_D(k.g.cast(k.a.value->type.dtype))}},
};
#undef KILN_D

bool has_derivative(const Value& v) { return !v.type.pointer && is_float(v.type.dtype); }

// The operations on the ways from one value to another, each before those that use its result.
class Path {
public:
  explicit Path(const Value* input) : input_(input) {}

  // Whether the derivative of v with respect to the input may not be zero.
  bool depends(Value* v) {
    if (v == input_) return true;
    if (!v->def || !has_derivative(*v)) return false;
    const auto [known, fresh] = depends_.try_emplace(v, false);
    if (!fresh) return known->second;
    bool any = false;
    for (Value* operand : v->def->operands)
      any |= depends(operand);
    for (const auto& region : v->def->regions) // loops and branches use values of the regions around them
      ir::walk(*region, [&](const ir::Op& inner) {
        for (Value* operand : inner.operands)
          any |= depends(operand);
      });
    if (any) order.push_back(v);
    return depends_[v] = any;
  }
  std::vector<Value*> order;

private:
  const Value* input_;
  std::unordered_map<const Value*, bool> depends_;
};

} // namespace

Handle emit_gradient(Handle result, Handle input, Handle d, const char* what) {
  Recording& r = Recording::need("a gradient");
  Value *x = r.use(input), *y = r.use(result);
  Path path(x);
  path.depends(y);
  std::unordered_map<const Value*, Term> gradients{{y, Term{&r, r.use(d)}}};
  for (auto at = path.order.rbegin(); at != path.order.rend(); ++at) {
    const ir::Op& op = *(*at)->def;
    const auto known = gradients.find(*at);
    if (known == gradients.end()) continue; // all its uses have a derivative of zero
    const auto* rule = std::find_if(std::begin(rules), std::end(rules),
                                    [&](const Rule& rule) { return rule.code == op.code; });
    if (rule == std::end(rules))
      throw UserError(op.loc,
                      std::string(what) + " has no derivative, because it uses " +
                          std::string(ir::name(op.code)) +
                          "; between the value and the result there may be elementwise operations only");
    const auto operand = [&](int i) {
      return Term{&r, i < op.num_operands() ? op.operand(i) : op.operand(0)};
    };
    const Known terms{known->second, {&r, *at}, operand(0), operand(1), operand(2)};
    for (int i = 0; i < op.num_operands(); ++i) {
      Value* to = op.operand(i);
      if (!rule->operands[i] || !path.depends(to)) continue;
      const Term part = rule->operands[i](terms);
      const auto [sum, first] = gradients.try_emplace(to, part);
      if (!first) sum->second = sum->second + part;
    }
  }
  const auto found = gradients.find(x);
  if (found != gradients.end()) return r.handle(found->second.value);
  return r.broadcast(emit_float(x->type.dtype, 0), x->type.shape);
}

} // namespace kiln::detail
