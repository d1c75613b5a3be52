// Collects the problems of a kernel. It checks ownership, dominance and structure itself, and calls
// type_rules for the rest.
#include <kiln/dsl/ir/verifier.h>

#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/ir/type_rules.h>

#include <unordered_set>

namespace kiln::ir {

namespace {

class Verifier {
public:
  explicit Verifier(const Kernel& kernel) : kernel_(kernel), names_(kernel) {}

  std::vector<std::string> run() {
    grid();
    region(kernel_.body, nullptr);
    return std::move(problems_);
  }

private:
  void problem(const Op* op, const std::string& what) {
    if (!op) {
      problems_.push_back(what);
      return;
    }
    std::string where = to_string(op->loc);
    problems_.push_back((where.empty() ? "" : where + ": ") + what + ", in: " + names_.line(*op));
  }

  void grid() {
    for (const GridAxis& g : kernel_.grid) {
      std::string who = "the grid axis (" + std::to_string(g.param) + ", " + std::to_string(g.axis) + ", " +
                        g.tile.to_string() + ")";
      if (g.param < 0 || g.param >= static_cast<int>(kernel_.body.args.size())) {
        problem(nullptr, who + " names a parameter that does not exist");
        continue;
      }
      const Type& type = kernel_.body.args[static_cast<std::size_t>(g.param)]->type;
      if (!type.is_view())
        problem(nullptr, who + " names a parameter that is not a view");
      else if (g.axis < 0 || g.axis >= type.view_rank)
        problem(nullptr, who + " names an axis outside the view");
    }
  }

  void value(const Value& v, const Op* op, const Region* region, std::size_t index, const Op* reported) {
    if (v.def != op || v.region != region || v.index != static_cast<int>(index))
      problem(reported, names_(&v) + " has a wrong back reference to its definition");
    if (v.type.rank() > max_rank)
      problem(reported, names_(&v) + " has more than " + std::to_string(max_rank) + " axes");
    const bool makes_views = op && (op->is(Opcode::ViewSlice) || op->is(Opcode::ViewOf));
    if (v.type.is_view() && region != &kernel_.body && !makes_views)
      problem(reported,
              names_(&v) + " is a view; only parameters and results of view_slice and view_of are views");
    visible_.insert(&v);
    defined_.push_back(&v);
  }

  void region(const Region& r, const Op* parent) {
    std::size_t outer = defined_.size();
    if (r.parent != parent) problem(parent, "a region has a wrong back reference to its operation");
    for (std::size_t i = 0; i < r.args.size(); ++i)
      value(*r.args[i], nullptr, &r, i, parent);
    for (const auto& op : r.ops) {
      operation(*op);
      if (op->is(Opcode::Yield) && (!parent || op != r.ops.back()))
        problem(op.get(), "yield can only end a region of an operation");
    }
    for (; defined_.size() > outer; defined_.pop_back())
      visible_.erase(defined_.back());
  }

  void operation(const Op& op) {
    std::vector<std::string> found;
    for (const Value* v : op.operands)
      if (!v)
        found.push_back("an operand is null");
      else if (!visible_.contains(v))
        found.push_back(names_(v) + " is not defined before this use, in this region or around it");
    detail::check_counts(op, found);
    detail::check_attributes(op, found);
    // The rules for types assume that operands, counts and attributes are right.
    if (found.empty()) detail::check_types(op, found);
    for (const std::string& what : found)
      problem(&op, what);
    for (const auto& r : op.regions)
      region(*r, &op);
    for (std::size_t i = 0; i < op.results.size(); ++i)
      value(*op.results[i], &op, nullptr, i, &op);
  }

  const Kernel& kernel_;
  ValueNames names_;
  std::vector<std::string> problems_;
  std::unordered_set<const Value*> visible_;
  std::vector<const Value*> defined_;
};

} // namespace

std::vector<std::string> problems(const Kernel& kernel) { return Verifier(kernel).run(); }

void verify(const Kernel& kernel, Blame blame) {
  std::vector<std::string> found = problems(kernel);
  if (found.empty()) return;
  std::string text;
  for (const std::string& problem : found)
    text += (text.empty() ? "" : "\n") + problem;
  if (blame == Blame::Author) throw UserError(text);
  throw InternalError("kernel " + kernel.name + " is invalid tile IR; please report this with the kernel\n" +
                      text + "\n" + print(kernel));
}

} // namespace kiln::ir
