// Computes the live ranges of tiles in program order.
// A value from outside a loop that the loop uses is live until the loop ends, and so are the values that the
// loop carries.
#include <kiln/jit/gpu/register_need.h>

#include <kiln/jit/gpu/layout/layouts.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

namespace kiln::gpu {
namespace {

class Walk {
public:
  explicit Walk(const LayoutPlan& plan) : plan_(plan) {}

  RegisterNeed run(const ir::Kernel& kernel) {
    ir::walk(kernel.body, [&](const ir::Op& op) {
      if (op.is(ir::Opcode::Dot)) factors_.insert({op.operand(0), op.operand(1)});
    });
    number(kernel.body);
    std::vector<std::int64_t> change(static_cast<std::size_t>(next_) + 2);
    auto add = [&](const Life& life) {
      change[static_cast<std::size_t>(life.begin)] += life.words;
      change[static_cast<std::size_t>(life.end) + 1] -= life.words;
    };
    for (const auto& [value, life] : lives_) {
      add(life);
      if (life.words > need_.largest) {
        need_.largest = life.words;
        need_.largest_tile = value;
      }
    }
    for (const Life& life : copies_)
      add(life);
    for (const auto& [key, life] : masks_)
      if (life.begin != life.end) add(life);
    std::int64_t now = 0;
    for (std::int64_t c : change)
      need_.at_once = std::max(need_.at_once, now += c);
    return need_;
  }

private:
  struct Life {
    int begin, end;
    std::int64_t words;
  };

  std::int64_t words_of(const ir::Value* v) const {
    const LinearLayout* layout = plan_.find(v);
    if (!layout) return 0;
    const std::int64_t registers = std::int64_t{1} << layout->in_bits(in_register);
    if (v->type.pointer || size_of(v->type.dtype) == 8) return 2 * registers;
    // Narrow elements that are next to each other in memory stay in the words in which they were loaded;
    // others are loaded one by one. Of bytes, arithmetic keeps at most two in a word.
    const bool packed = v->def && v->def->is(ir::Opcode::ViewLoad) && registers > 8 &&
                        v->def->operand(0)->type.layout != LayoutClass::Any;
    const int bytes = std::max(factors_.contains(v) ? 1 : 2, size_of(v->type.dtype));
    return packed ? registers * bytes / 4 : registers;
  }

  // Tensor cores read factors from shared memory, and registers hold the fragments for one instruction's
  // depth at a time.
  std::int64_t words_of_slices(const ir::Op& dot, const MmaFactors& factors) const {
    std::int64_t words = 0;
    for (int f = 0; f < 2; ++f) {
      const LinearLayout layout = mma_factor_layout(dot, f, plan_.warps);
      const std::int64_t bytes = (std::int64_t{factors.element_bits} / 8) << layout.in_bits(in_register);
      words += bytes * factors.depth() / dot.operand(0)->type.shape.back().value() / 4;
    }
    return words;
  }

  // A factor from outside a loop is written to shared memory before the loop, which is its last use.
  void use_factor(const ir::Value* v, int at) {
    if (auto life = lives_.find(v); life != lives_.end())
      for (int begin : loops_)
        if (begin > life->second.begin) return use(v, begin);
    use(v, at);
  }

  // Predicates say along each axis which elements of an access lie in the view. Accesses that have the same
  // offset share them. A predicate takes four words: both comparisons, and what LLVM derives from them if
  // they have several uses.
  void use_masks(const ir::Op& op, int at) {
    const bool store = op.is(ir::Opcode::ViewStore);
    if (!store && !op.is(ir::Opcode::ViewLoad) && !op.is(ir::Opcode::ViewMask)) return;
    const ir::Value* tile = store ? op.stored_value() : op.result();
    const LinearLayout* layout = plan_.find(tile);
    if (!layout) return;
    const auto& axes = op.integers("axes");
    for (std::size_t t = 0; t < axes.size(); ++t) {
      std::int64_t places = 1;
      for (int i = 0; i < layout->in_bits(in_register); ++i)
        if (layout->basis(in_register, i, axis_name(static_cast<int>(t))) != 0) places *= 2;
      const auto axis = static_cast<std::size_t>(axes[t]);
      auto [life, fresh] =
          masks_.try_emplace({op.operand(0), axis, op.view_offsets()[axis]}, Life{at, at, 4 * places});
      if (!fresh) life->second.end = at;
    }
  }

  // A free tile is computed where it is used, and so that is a use of its operands too.
  void use(const ir::Value* v, int at) {
    if (auto life = lives_.find(v); life != lives_.end()) life->second.end = std::max(life->second.end, at);
    if (v->type.is_tile() && !plan_.find(v) && v->def)
      for (const ir::Value* operand : v->def->operands)
        use(operand, at);
  }

  void number(const ir::Region& region) {
    for (const auto& op : region.ops) {
      const int at = next_++;
      const auto factors = op->is(ir::Opcode::Dot) ? mma_factors(*op) : std::nullopt;
      for (int i = 0; i < op->num_operands(); ++i)
        factors&& i < 2 ? use_factor(op->operand(i), at) : use(op->operand(i), at);
      if (factors) copies_.push_back({at, at, words_of_slices(*op, *factors)});
      use_masks(*op, at);
      const bool loops = op->is(ir::Opcode::For) || op->is(ir::Opcode::While);
      if (loops) loops_.push_back(at);
      for (const auto& inner : op->regions) {
        for (const auto& arg : inner->args)
          lives_[arg.get()] = {next_, next_, words_of(arg.get())};
        number(*inner);
      }
      if (loops) loops_.pop_back();
      // The next iteration of the loop reads again the values that a region reads from outside.
      const int end = next_;
      auto stretch = [&](auto& lives) {
        for (auto& [key, life] : lives)
          if (life.end > at && life.begin <= at) life.end = end;
      };
      if (!op->regions.empty()) {
        stretch(lives_);
        stretch(masks_);
      }
      for (const auto& inner : op->regions)
        for (const auto& arg : inner->args)
          lives_[arg.get()].end = end;
      for (const auto& r : op->results)
        lives_[r.get()] = {end, end, words_of(r.get())};
    }
  }

  const LayoutPlan& plan_;
  std::unordered_set<const ir::Value*> factors_; // of all dots
  std::unordered_map<const ir::Value*, Life> lives_;
  std::map<std::tuple<const ir::Value*, std::size_t, const ir::Value*>, Life> masks_;
  std::vector<Life> copies_;
  std::vector<int> loops_; // where the loops around the current operation begin, the outermost first
  int next_ = 0;
  RegisterNeed need_;
};

} // namespace

RegisterNeed register_need(const ir::Kernel& lowered, const LayoutPlan& plan) {
  return Walk(plan).run(lowered);
}

} // namespace kiln::gpu
