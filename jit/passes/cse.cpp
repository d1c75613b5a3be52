// cse: replaces an operation that repeats an earlier one by the earlier one.
//
//  1. The earlier one is in the same region or in one around it, so that it has always run.
//  2. Both are pure, or both are loads and nothing between them may write. A loop that may write invalidates
//     loads before it and inside it.
//  3. Two operations are equal if they have the same opcode, operands, attributes and result types, and
//     reductions and scans also the same combine. Float attributes are compared by their bits: 0.0 is not
//     -0.0.
//  4. Operands of commutative operations may be swapped. min and max of floats do not count as commutative,
//     because results may differ in the sign of zero.
//  5. A combine region does not use any outer value that it did not use before.
#include <kiln/jit/passes/commutative.h>
#include <kiln/jit/passes/passes.h>

#include <algorithm>
#include <bit>

namespace kiln::passes {

namespace {

using namespace ir;

bool is_collective(const Op& op) { return op.info().cls == OpClass::Collective; }

bool same_attribute(const Attribute& a, const Attribute& b) {
  const double *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  if (x && y) return std::bit_cast<std::uint64_t>(*x) == std::bit_cast<std::uint64_t>(*y);
  return a == b;
}

bool same_heads(const Op& a, const Op& b) {
  if (a.code != b.code || a.results.size() != b.results.size() || a.operands.size() != b.operands.size())
    return false;
  for (int i = 0; i < a.num_results(); ++i)
    if (a.result(i)->type != b.result(i)->type) return false;
  return std::equal(
      a.attributes().begin(), a.attributes().end(), b.attributes().begin(), b.attributes().end(),
      [](const auto& x, const auto& y) { return x.first == y.first && same_attribute(x.second, y.second); });
}

bool same_combine(const Region& a, const Region& b) {
  if (a.ops.size() != b.ops.size() || a.args.size() != b.args.size()) return false;
  std::unordered_map<const Value*, const Value*> twin;
  for (std::size_t i = 0; i < a.args.size(); ++i)
    twin[b.args[i].get()] = a.args[i].get();
  for (std::size_t i = 0; i < a.ops.size(); ++i) {
    const Op &x = *a.ops[i], &y = *b.ops[i];
    if (!same_heads(x, y) || !y.regions.empty()) return false;
    for (int j = 0; j < y.num_operands(); ++j) {
      auto at = twin.find(y.operand(j));
      if ((at == twin.end() ? y.operand(j) : at->second) != x.operand(j)) return false;
    }
    for (int j = 0; j < y.num_results(); ++j)
      twin[y.result(j)] = x.result(j);
  }
  return true;
}

bool same(const Op& a, const Op& b) {
  if (!same_heads(a, b)) return false;
  bool swapped = is_commutative(a) && a.operand(0) == b.operand(1) && a.operand(1) == b.operand(0);
  if (a.operands != b.operands && !swapped) return false;
  return !is_collective(a) || same_combine(*a.region(), *b.region());
}

class Eliminator {
public:
  void run(Region& region) {
    std::size_t scope = log_.size();
    std::vector<std::unique_ptr<Op>> kept;
    for (auto& op : region.ops) {
      for (Value*& v : op->operands)
        if (auto at = replacements_.find(v); at != replacements_.end()) v = at->second;
      run_regions(*op);
      if (Op* earlier = find_or_add(*op)) {
        for (int i = 0; i < op->num_results(); ++i)
          replacements_[op->result(i)] = earlier->result(i);
        removed_.push_back(std::move(op));
      } else {
        kept.push_back(std::move(op));
      }
    }
    region.ops = std::move(kept);
    while (log_.size() > scope) {
      table_[log_.back()].pop_back();
      log_.pop_back();
    }
  }

private:
  struct Entry {
    Op* op;
    int memory; // how many writes came before
  };

  void run_regions(Op& op) {
    if (op.regions.empty()) {
      if (may_write(op)) ++memory_;
      return;
    }
    if (is_collective(op)) {
      Eliminator closed;
      closed.replacements_ = replacements_;
      closed.run(*op.region());
      std::move(closed.removed_.begin(), closed.removed_.end(), std::back_inserter(removed_));
      return;
    }
    bool writes = may_write(op);
    for (auto& region : op.regions) {
      if (writes) ++memory_;
      run(*region);
    }
    if (writes) ++memory_;
  }

  static std::size_t hash(const Op& op) {
    std::size_t h = static_cast<std::size_t>(op.code);
    std::size_t operands = 0; // a sum, so that the order does not matter
    for (const Value* v : op.operands)
      operands += std::hash<const Value*>()(v) * 0x9e3779b97f4a7c15;
    h = h * 31 + operands;
    if (!op.results.empty()) h = h * 31 + static_cast<std::size_t>(op.result()->type.dtype);
    for (const auto& [key, value] : op.attributes())
      if (auto* number = std::get_if<std::int64_t>(&value)) h = h * 31 + static_cast<std::size_t>(*number);
    return h;
  }

  // Returns the earlier operation that `op` repeats. If there is none, it remembers `op` and returns null.
  Op* find_or_add(Op& op) {
    Effect effect = op.info().effect;
    bool eligible = (op.regions.empty() || is_collective(op)) && !op.is(Opcode::Yield) &&
                    (effect == Effect::Pure || effect == Effect::Read);
    if (!eligible) return nullptr;
    std::size_t key = hash(op);
    std::vector<Entry>& entries = table_[key];
    for (const Entry& entry : entries)
      if ((effect == Effect::Pure || entry.memory == memory_) && same(*entry.op, op)) return entry.op;
    entries.push_back({&op, memory_});
    log_.push_back(key);
    return nullptr;
  }

  std::unordered_map<std::size_t, std::vector<Entry>> table_;
  std::vector<std::size_t> log_; // the keys of entries in order, which are removed at the end of their region
  ValueMap replacements_;
  std::vector<std::unique_ptr<Op>> removed_; // kept until the end, because their values are keys of the map
  int memory_ = 0;
};

} // namespace

void cse(Kernel& kernel, const PassOptions&) { Eliminator().run(kernel.body); }

} // namespace kiln::passes
