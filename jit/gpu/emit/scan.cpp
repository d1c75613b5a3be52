// Scans as plan_scan says: stage by stage, each element learns what lies before its block.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <kiln/jit/emit/combine.h>
#include <kiln/jit/gpu/scan.h>

#include <bit>
#include <map>
#include <tuple>

namespace kiln::gpu {

using llvm::Value;

namespace {

// Registers of one block have one total, which is computed and moved once.
template <class Key, class Result> class Once {
public:
  template <class Compute> Result operator()(const Key& key, Compute&& compute) {
    auto at = known_.find(key);
    if (at == known_.end()) at = known_.emplace(key, compute()).first;
    return at->second;
  }

private:
  std::map<Key, Result> known_;
};

} // namespace

void KernelEmitter::emit_scan(const ir::Op& op) {
  const int axis = static_cast<int>(op.integer("axis"));
  const bool reverse = op.integer("reverse") != 0;
  const ir::Type& type = op.operand(0)->type;
  const LinearLayout layout = layout_of(op.result());
  const Scan plan = plan_scan(layout, axis, type.element_bytes());

  std::vector<Values> elements;
  for (const ir::Value* v : op.operands)
    elements.push_back(registers(v, layout));
  std::vector<Partial> prefix;
  for (std::size_t r = 0; r < elements[0].size(); ++r) {
    Partial one;
    for (const Values& tile : elements)
      one.values.push_back(tile[r]);
    // Padding comes after all elements, or before them where the scan runs backwards.
    if (reverse) one.has = inside_tile(layout, static_cast<int>(r), type);
    prefix.push_back(std::move(one));
  }
  std::vector<Partial> total = prefix;
  const std::size_t count = prefix.size();
  auto key_of = [](const Partial& p) {
    Values key = p.values;
    key.push_back(p.has);
    return key;
  };
  Once<std::pair<Values, Values>, Partial> merged;
  // Of a part that lies at lower coordinates and one that lies at higher ones.
  auto along = [&](const Partial& lower, const Partial& upper) {
    return merged({key_of(lower), key_of(upper)},
                  [&] { return reverse ? merge(op, upper, lower) : merge(op, lower, upper); });
  };
  Once<std::tuple<Value*, Values, Values>, Partial> chosen;
  auto choose = [&](Value* condition, const Partial& yes, const Partial& no) {
    return chosen({condition, key_of(yes), key_of(no)}, [&] {
      Partial result = yes;
      for (std::size_t k = 0; k < result.values.size(); ++k)
        result.values[k] = b_.CreateSelect(condition, yes.values[k], no.values[k]);
      if (yes.has || no.has)
        result.has =
            b_.CreateSelect(condition, yes.has ? yes.has : b_.getTrue(), no.has ? no.has : b_.getTrue());
      return result;
    });
  };
  Value* of_thread = thread_number(plan.coordinate);

  for (const Scan::Stage& stage : plan.stages) {
    const std::uint32_t mask = (1u << stage.bits) - 1;
    // A block's number among those that meet here: what the register has of it, with what the thread has.
    auto of_register = [&](std::size_t r) { return plan.register_coordinate[r] >> stage.bit & mask; };
    const bool fixed = (plan.coordinate.bits() >> stage.bit & mask) == 0;
    Once<std::uint32_t, Value*> numbers;
    auto number = [&](std::size_t r) {
      return numbers(of_register(r), [&] {
        Value* own = b_.CreateAnd(b_.CreateLShr(of_thread, static_cast<std::uint64_t>(stage.bit)), mask);
        return b_.CreateXor(own, of_register(r));
      });
    };
    Once<std::uint32_t, Value*> uppers;
    auto is_upper = [&](std::size_t r) {
      return uppers(of_register(r), [&] { return b_.CreateICmpNE(number(r), b_.getInt32(0)); });
    };
    std::vector<Partial> next(count);
    if (const auto* flip = std::get_if<Scan::Flip>(&stage.how)) {
      Once<Values, Partial> moved;
      for (std::size_t r = 0; r < count; ++r) {
        const Partial& partner = total[r ^ static_cast<std::size_t>(flip->register_flip)];
        const Partial other = flip->lane_mask == 0 ? partner : moved(key_of(partner), [&] {
          return shuffled(partner,
                          [&](Value* word) { return machine_.shuffle_xor(b_, word, flip->lane_mask); });
        });
        if (fixed) {
          const bool upper = of_register(r) != 0;
          next[r] = upper ? along(other, total[r]) : along(total[r], other);
          if (upper != reverse) prefix[r] = upper ? along(other, prefix[r]) : along(prefix[r], other);
          continue;
        }
        Value* upper = is_upper(r);
        next[r] = along(choose(upper, other, total[r]), choose(upper, total[r], other));
        prefix[r] = reverse ? choose(upper, prefix[r], along(prefix[r], other))
                            : choose(upper, along(other, prefix[r]), prefix[r]);
      }
      total = std::move(next);
      continue;
    }
    // All blocks' totals by number, in each register; those before its own are put in front one by one.
    const auto& gather = std::get<Scan::Gather>(stage.how);
    const std::vector<Partial> parts = convert(total, gather.partial, gather.gathered);
    for (std::size_t r = 0; r < count; ++r) {
      auto part = [&](std::uint32_t i) { return parts[r + (std::size_t{i} * count)]; };
      next[r] = part(0);
      for (std::uint32_t i = 1; i <= mask; ++i)
        next[r] = along(next[r], part(i));
      Value* own = number(r);
      for (std::uint32_t step = 0; step < mask; ++step) { // the nearest block first
        const std::uint32_t i = reverse ? step + 1 : mask - 1 - step;
        Value* before =
            reverse ? b_.CreateICmpUGT(b_.getInt32(i), own) : b_.CreateICmpULT(b_.getInt32(i), own);
        prefix[r] =
            choose(before, reverse ? along(prefix[r], part(i)) : along(part(i), prefix[r]), prefix[r]);
      }
    }
    total = std::move(next);
  }

  for (std::size_t k = 0; k < op.results.size(); ++k) {
    const ir::Value* result = op.result(static_cast<int>(k));
    Values values;
    for (const Partial& p : prefix)
      values.push_back(emit::keeps_wide(op) ? emit::round_to(b_, numbers_, p.values[k], result->type.dtype)
                                            : p.values[k]);
    define(result, layout, values);
  }
}

} // namespace kiln::gpu
