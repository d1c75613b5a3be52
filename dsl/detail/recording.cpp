// Implements Recording: checks handles, reuses equal pure operations, and appends operations.
#include <kiln/dsl/detail/recording.h>
#include <kiln/dsl/symbol.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

namespace kiln::detail {

namespace {
thread_local Recording* current_recording = nullptr;
thread_local SourceLocation called_outside; // where the call that is about to fail outside of a recording is
std::atomic<std::uint32_t> recordings{0};
} // namespace

Recording::Recording(const char* kernel_name, const Config& bound, SourceLocation at)
    : name(intern(kernel_name)), config(bound), where(at), loc(at) {
  if (current_recording)
    throw UserError(where, "kernel \"" + std::string(name) + "\" is recorded while kernel \"" +
                               current_recording->name +
                               "\" is being recorded; kernels do not nest, call a C++ function instead");
  kernel = std::make_unique<ir::Kernel>(name);
  kernel->recorded_with = bound;
  id = ++recordings;
  push(&kernel->body, false);
  current_recording = this;
}

Recording::~Recording() { current_recording = nullptr; }

Recording* Recording::current() { return current_recording; }

Recording& Recording::need(std::string_view what) {
  if (current_recording) return *current_recording;
  throw UserError(std::exchange(called_outside, {}),
                  std::string(what) +
                      " is used while no kernel is being recorded; use it inside a kernel's lambda only");
}

void Recording::called_at(SourceLocation place) { called_outside = place; }

void Recording::push(ir::Region* region, bool combine) {
  scopes.emplace_back();
  scopes.back().region = region;
  scopes.back().id = next_scope++;
  scopes.back().combine = combine || (scopes.size() > 1 && scopes[scopes.size() - 2].combine);
}

ir::Value* Recording::use(const Handle& h) const {
  if (!h.value)
    throw UserError(
        loc, "kernel \"" + std::string(name) +
                 "\" uses a tile or view that belongs to no recording; make it inside the kernel's lambda");
  if (h.recording != id)
    throw UserError(loc,
                    "kernel \"" + std::string(name) + "\" uses a tile or view from " +
                        (h.kernel == name ? "an earlier recording of itself"
                                          : "the recording of kernel \"" + std::string(h.kernel) + "\"") +
                        "; pass data between kernels through memory");
  // The search begins with the innermost scope, because most operands are recent.
  bool visible = std::any_of(scopes.rbegin(), scopes.rend(), [&](const Scope& s) { return s.id == h.scope; });
  if (!visible)
    throw UserError(
        loc, "kernel \"" + std::string(name) +
                 "\" uses a tile outside of the loop, branch or combine function that computed it; return "
                 "it from there or keep it in a Var");
  return h.value;
}

namespace {
std::size_t mix(std::size_t seed, std::size_t v) { return (seed ^ v) * 0x9E3779B97F4A7C15ull + (seed >> 29); }

bool same(const ir::Op& a, const ir::Op& b) {
  return a.code == b.code && a.operands == b.operands && a.result()->type == b.result()->type &&
         a.attributes() == b.attributes();
}

std::size_t hash_of(const ir::Op& op) {
  std::size_t h = static_cast<std::size_t>(op.code);
  for (ir::Value* v : op.operands)
    h = mix(h, reinterpret_cast<std::size_t>(v));
  for (const auto& [key, value] : op.attributes()) {
    if (auto* i = std::get_if<std::int64_t>(&value)) h = mix(h, static_cast<std::size_t>(*i));
    if (auto* d = std::get_if<double>(&value)) h = mix(h, std::hash<double>{}(*d));
  }
  return mix(h, static_cast<std::size_t>(op.result()->type.dtype));
}

// Distinguishes the constants +0 and -0, which compare equal. (A NaN is never reused, because it does not equal
// itself.)
bool same_bits(const ir::Op& a, const ir::Op& b) {
  const auto* x = a.find("value");
  const auto* y = b.find("value");
  if (!x || !y || !std::holds_alternative<double>(*x) || !std::holds_alternative<double>(*y)) return true;
  return std::signbit(std::get<double>(*x)) == std::signbit(std::get<double>(*y));
}
} // namespace

Handle Recording::pure(ir::Opcode code, std::vector<ir::Value*> operands, ir::Type result,
                       AttributeList attributes) {
  std::vector<ir::Type> types;
  types.push_back(std::move(result));
  auto op = std::make_unique<ir::Op>(code, std::move(operands), std::move(types), loc);
  set_attributes(*op, attributes);
  std::size_t h = hash_of(*op);
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
    auto [first, last] = scope->numbered.equal_range(h);
    for (; first != last; ++first)
      if (same(*first->second, *op) && same_bits(*first->second, *op))
        return handle(first->second->result(), scope->id);
  }
  ir::Op* made = ir::Builder(scopes.back().region).insert(std::move(op));
  scopes.back().numbered.emplace(h, made);
  return handle(made->result());
}

ir::Op* Recording::effect(ir::Opcode code, std::vector<ir::Value*> operands, std::vector<ir::Type> results,
                          AttributeList attributes) {
  if (in_combine())
    throw UserError(
        loc, "kernel \"" + std::string(name) + "\" uses " + std::string(ir::name(code)) +
                 " inside the combine function of a reduction or scan; combine functions only compute");
  auto op = std::make_unique<ir::Op>(code, std::move(operands), std::move(results), loc);
  set_attributes(*op, attributes);
  return ir::Builder(scopes.back().region).insert(std::move(op));
}

Handle Recording::cast(Handle x, DType to) {
  ir::Value* v = use(x);
  if (v->type.dtype == to && !v->type.pointer) return x;
  return pure(ir::Opcode::Cast, {v}, v->type.with_dtype(to));
}

Handle Recording::broadcast(Handle x, const ir::Shape& shape) {
  ir::Value* v = use(x);
  if (v->type.shape == shape) return x;
  if (v->type.is_scalar()) return pure(ir::Opcode::Splat, {v}, v->type.with_shape(shape));
  while (v->type.rank() < static_cast<int>(shape.size())) {
    ir::Shape wider = v->type.shape;
    wider.insert(wider.begin(), ir::Dim(1));
    x = pure(ir::Opcode::ExpandDims, {v}, v->type.with_shape(wider), {{"axis", 0}});
    v = x.value;
  }
  if (v->type.shape == shape) return x;
  return pure(ir::Opcode::Broadcast, {v}, v->type.with_shape(shape));
}

ir::Dim to_dim(const DimInfo& d) {
  ir::Dim result(d.numerator);
  for (int i = 0; i < d.factors; ++i)
    result = result * ir::Dim::symbol(intern(d.names[i]));
  result = result / ir::Dim(d.denominator);
  for (int i = 0; i < d.divisors; ++i)
    result = result / ir::Dim::symbol(intern(d.names[d.factors + i]));
  return result;
}

ir::Type to_type(const TypeInfo& t) {
  ir::Shape shape;
  for (int i = 0; i < t.rank; ++i)
    shape.push_back(to_dim(*t.dims[i]));
  return t.pointer ? ir::Type::pointer_to(t.dtype, t.readonly, std::move(shape))
                   : ir::Type::tile(t.dtype, std::move(shape));
}

void set_attributes(ir::Op& op, AttributeList attributes) {
  for (const AttributeInfo& a : attributes) {
    if (a.real)
      op.set(a.name, *a.real);
    else if (a.dim)
      op.set(a.name, to_dim(*a.dim));
    else if (a.text)
      op.set(a.name, std::string(a.text));
    else if (a.list)
      op.set(a.name, std::vector<std::int64_t>(a.list, a.list + a.integer));
    else
      op.set(a.name, a.integer);
  }
}

Binding bind_dimension(const char* name, std::int64_t size) { return {intern(name), size}; }

} // namespace kiln::detail
