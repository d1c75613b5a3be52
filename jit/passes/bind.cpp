// bind: replaces dimension names by the config's sizes, and gives views their layout classes.
//
//  1. Every dimension name of the kernel has a positive size in the config. One error lists all names that
//     have none.
//  2. Every name of the config is a dimension of the kernel, an option, or was read while recording. Options
//     are positive, too.
//  3. Extents that are quotients are integers, tiles have at most 2**28 elements, a reshape keeps the number
//     of elements, and a topk gives at most as many elements as there are.
//  4. `layouts`, if given, has one class for each parameter that is a view. A class that the view's type
//     names stays if it is the stronger one.
// Afterwards no type, attribute or grid axis holds a name.
#include <kiln/jit/passes/passes.h>

#include <algorithm>

namespace kiln::passes {

namespace {

using namespace ir;

constexpr std::int64_t largest_tile = std::int64_t{1} << 28;

std::string joined(const std::vector<std::string>& names, std::string_view between) {
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "" : std::string(between)) + name;
  return text;
}

void check_config(const Kernel& kernel, const Config& config) {
  std::vector<const char*> wanted = kernel.dimensions();
  std::vector<std::string> missing, examples, unused;
  for (const char* name : wanted) {
    auto value = config.get(name);
    if (!value) {
      missing.push_back(name);
      examples.push_back(std::string(name) + " = SIZE");
    } else if (*value <= 0) {
      throw UserError("kernel " + kernel.name + ": dimension " + name + " has size " +
                      std::to_string(*value) + " in the config {" + config.to_string() +
                      "}; a size must be positive");
    }
  }
  if (!missing.empty())
    throw UserError("kernel " + kernel.name + ": dimension" + (missing.size() > 1 ? "s " : " ") +
                    joined(missing, ", ") + (missing.size() > 1 ? " have" : " has") +
                    " no size in the config {" + config.to_string() + "}; add " + joined(examples, ", "));
  for (const Binding& b : config)
    if (std::find(wanted.begin(), wanted.end(), b.name) == wanted.end() && !is_option(b.name) &&
        !(kernel.config_specific && kernel.recorded_with.get(b.name)))
      unused.push_back(b.name);
  if (unused.empty()) return;
  std::vector<std::string> known(wanted.begin(), wanted.end());
  throw UserError("kernel " + kernel.name + ": the config {" + config.to_string() + "} names " +
                  joined(unused, ", ") + ", which the kernel does not use; " +
                  (known.empty() ? "it has no dimensions" : "its dimensions are " + joined(known, ", ")));
}

class Binder {
public:
  explicit Binder(const Config& config) : config_(config) {}

  void bind(Dim& d) const {
    if (!d.is_constant()) d = Dim(d.bind(config_));
  }
  void bind(Shape& shape) const {
    for (Dim& d : shape)
      bind(d);
  }
  void bind(Type& type, const SourceLocation& loc) const {
    bind(type.shape);
    std::int64_t numel = 1;
    for (const Dim& d : type.shape)
      if (__builtin_mul_overflow(numel, d.value(), &numel) || numel > largest_tile)
        throw UserError(loc, "a " + type.to_string() + " has more than " + std::to_string(largest_tile) +
                                 " elements with the config {" + config_.to_string() +
                                 "}; choose smaller sizes");
  }
  void bind(Region& region, const SourceLocation& loc) const {
    for (auto& arg : region.args)
      bind(arg->type, loc);
    for (auto& op : region.ops)
      bind(*op);
  }

private:
  void bind(Op& op) const {
    for (auto& result : op.results)
      bind(result->type, op.loc);
    std::vector<std::pair<std::string, Attribute>> changed;
    for (const auto& [key, value] : op.attributes())
      if (std::holds_alternative<Dim>(value) || std::holds_alternative<Shape>(value))
        changed.emplace_back(key, value);
    for (auto& [key, value] : changed) {
      if (auto* dim = std::get_if<Dim>(&value)) bind(*dim);
      if (auto* shape = std::get_if<Shape>(&value)) bind(*shape);
      op.set(key, std::move(value));
    }
    if (op.is(Opcode::Reshape) && op.operand(0)->type.numel() != op.result()->type.numel())
      throw UserError(op.loc, "a reshape from " + op.operand(0)->type.to_string() + " to " +
                                  op.result()->type.to_string() +
                                  " changes the number of elements with the config {" + config_.to_string() +
                                  "}; choose sizes with equal products");
    if (op.is(Opcode::Extract)) {
      const Dim& extent = op.operand(0)->type.shape[static_cast<std::size_t>(op.integer("axis"))];
      if (op.integer("index") >= extent.value())
        throw UserError(op.loc, "position " + std::to_string(op.integer("index")) +
                                    " is outside an axis whose extent is " + extent.to_string() +
                                    " with the config {" + config_.to_string() +
                                    "}; choose a larger size or a smaller position");
    }
    if (op.is(Opcode::Sort)) {
      const auto axis = static_cast<std::size_t>(op.integer("axis"));
      const Dim &all = op.operand(0)->type.shape[axis], &kept = op.result()->type.shape[axis];
      if (kept.value() > all.value())
        throw UserError(op.loc, "a topk of " + kept.to_string() + " elements of an axis whose extent is " +
                                    all.to_string() + " with the config {" + config_.to_string() +
                                    "}; choose at most as many");
    }
    for (auto& region : op.regions)
      bind(*region, op.loc);
  }

  const Config& config_;
};

void set_layouts(Kernel& kernel, const std::vector<LayoutClass>& layouts) {
  if (layouts.empty()) return;
  std::size_t next = 0;
  for (auto& arg : kernel.body.args) {
    if (!arg->type.is_view()) continue;
    internal_check(next < layouts.size(),
                   [&] { return "fewer layout classes than views of kernel " + kernel.name; });
    arg->type.layout = std::max(arg->type.layout, layouts[next++]);
  }
  internal_check(next == layouts.size(),
                 [&] { return "more layout classes than views of kernel " + kernel.name; });
}

} // namespace

void check_options(const SourceLocation& where, const std::string& kernel, const Config& config) {
  for (const Binding& b : config)
    if (is_option(b.name) && b.value <= 0)
      throw UserError(where, "kernel " + kernel + ": option " + b.name + " is " + std::to_string(b.value) +
                                 " in the config {" + config.to_string() + "}; an option must be positive");
}

void bind(Kernel& kernel, const PassOptions& options) {
  check_options({}, kernel.name, options.config);
  check_config(kernel, options.config);
  Binder binder(options.config);
  binder.bind(kernel.body, {});
  for (GridAxis& axis : kernel.grid)
    binder.bind(axis.tile);
  set_layouts(kernel, options.layouts);
}

} // namespace kiln::passes
