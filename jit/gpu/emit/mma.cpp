// Emits matrix products on tensor cores: mma.sync.m16n8 on fragments in registers.
//
// Factors are converted to the operand layout that goes with the layout of the accumulator (layouts.h) and
// are packed into words. In a layout, the lowest register bits select a register of a fragment, and the
// others select the fragment, that is, a part of the tile. If a factor has to move between threads, it goes
// through shared memory, from which the fragments for one instruction's depth are fetched at a time. So
// registers hold the accumulator and never more of the factors than that.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <kiln/jit/gpu/layout/layouts.h>

#include <algorithm>
#include <bit>
#include <map>

namespace kiln::gpu {

using llvm::Value;

namespace {

using Place = std::vector<std::int64_t>; // a coordinate for each axis

// The part of each coordinate that the bits of `reg` from `first_bit` on decide.
Place place_of(const LinearLayout& layout, int rank, int reg, int first_bit) {
  Place at(static_cast<std::size_t>(rank));
  for (int i = first_bit; i < layout.in_bits(in_register); ++i)
    for (int a = 0; a < rank; ++a)
      if (reg >> i & 1) at[static_cast<std::size_t>(a)] ^= layout.basis(in_register, i, axis_name(a));
  return at;
}

// The first register of each fragment of 2^bits registers, by the place of the fragment in the tile.
std::map<Place, int> fragments(const LinearLayout& layout, int rank, int bits) {
  std::map<Place, int> found;
  for (int r = 0; r < 1 << layout.in_bits(in_register); r += 1 << bits)
    found.emplace(place_of(layout, rank, r, bits), r); // of copies, the first one
  return found;
}

// The most shared memory for both factors together. Larger factors are exchanged in passes, and all of their
// fragments are in registers then.
constexpr std::int64_t most_shared_bytes = 160 << 10;
// The most shared memory for factors that stay there during a loop.
constexpr std::int64_t most_kept_bytes = 64 << 10;
// More shuffles than this keep more registers live than loads do.
constexpr std::size_t most_shuffled = 32;

} // namespace

// The bits of an element as mma.sync takes them. A value of a narrow dtype is held as f32, so narrowing it is
// exact.
Value* KernelEmitter::mma_element(Value* v, DType t) {
  switch (t) {
  case DType::BF16:
    return b_.CreateTrunc(b_.CreateLShr(b_.CreateBitCast(v, b_.getInt32Ty()), 16), b_.getInt16Ty());
  case DType::F16: return b_.CreateBitCast(b_.CreateFPTrunc(v, b_.getHalfTy()), b_.getInt16Ty());
  case DType::F32: return machine_.to_tf32(b_, v);
  default: return v;
  }
}

// Decides how a factor gets into fragments. Operations that may use shared memory themselves are emitted
// before the factor uses it.
KernelEmitter::MmaFactor KernelEmitter::mma_factor(const ir::Op& op, int which, const MmaFactors& kinds) {
  const ir::Value* v = op.operand(which);
  const DType t = which == 0 ? kinds.a : kinds.b;
  MmaFactor factor;
  factor.layout = mma_factor_layout(op, which, plan_.warps);
  for (const KeptFactor& kept : kept_factors_)
    if (kept.value == v && kept.dtype == t && kept.factor.layout == factor.layout) return kept.factor;
  const LinearLayout have = layout_of(v);
  const int bits = kinds.element_bits;
  factor.dtype = t;
  factor.in_word = 32 / bits;
  const std::size_t count = std::size_t{1} << factor.layout.in_bits(in_register);
  factor.words.assign(count, nullptr);
  const Conversion plan = plan_conversion(have, factor.layout, bits / 8);
  Values values;
  auto stream = v->def ? streams_.find(v->def) : streams_.end();
  if (stream != streams_.end() && std::holds_alternative<SharedExchange>(plan)) {
    factor.streamed = stream->second;
  } else {
    if (stream != streams_.end()) touch(*memory_touch(*stream->second));
    values = stream == streams_.end() ? registers(v, have)
                                      : load_part(*stream->second, layout_of(stream->second->result()),
                                                  {0, 1 << have.in_bits(in_register)});
    for (Value*& x : values)
      x = mma_element(x, t);
  }
  const auto* shuffles = std::get_if<WarpShuffles>(&plan);
  if (std::holds_alternative<Nothing>(plan) || std::holds_alternative<RegisterMoves>(plan) ||
      (shuffles && static_cast<std::size_t>(shuffles->shuffles()) <= most_shuffled)) {
    factor.elements = convert(values, have, factor.layout);
    return factor;
  }
  factor.exchange = plan_shared_exchange(have, factor.layout, bits / 8);
  factor.stored = std::move(values);
  factor.elements.assign(count, nullptr);
  factor.found.assign(count, {0, 0});
  for (std::size_t l = 0; l < factor.exchange->loads.size(); ++l) {
    const auto& loaded = factor.exchange->loads[l].registers;
    for (std::size_t p = 0; p < loaded.size(); ++p)
      factor.found[static_cast<std::size_t>(loaded[p])] = {static_cast<int>(l), static_cast<int>(p)};
  }
  // A step is the depth of one instruction in one product of the batch.
  const int rank = static_cast<int>(v->type.shape.size());
  const auto along = static_cast<std::size_t>(rank - 1 - which),
             across = static_cast<std::size_t>(rank - 2 + which);
  std::map<Place, int> steps;
  for (int r = 0; r < static_cast<int>(count); ++r) {
    Place at = place_of(factor.layout, rank, r, 0);
    at[along] /= kinds.depth();
    at[across] = 0;
    factor.step.push_back(steps.emplace(at, static_cast<int>(steps.size())).first->second);
  }
  return factor;
}

void KernelEmitter::write_factor(MmaFactor& factor, std::int64_t shared) {
  factor.shared = shared;
  if (factor.streamed)
    stream_factor(factor);
  else
    store_exchanged(*factor.exchange, shared, factor.stored);
  factor.stored.clear();
  factor.own = thread_number(factor.exchange->load_offset);
}

// Copies a factor from global to shared memory, a few registers at a time.
void KernelEmitter::stream_factor(MmaFactor& factor) {
  constexpr int words_at_once = 16;
  const LinearLayout layout = layout_of(factor.streamed->result());
  const int all = 1 << layout.in_bits(in_register);
  const int at_once = std::min(all, words_at_once * factor.in_word);
  factor.stored.assign(static_cast<std::size_t>(all), nullptr);
  std::vector<bool> written(factor.exchange->stores.size());
  for (int first = 0; first < all; first += at_once) {
    Values part = load_part(*factor.streamed, layout, {first, at_once});
    for (int r = 0; r < at_once; ++r)
      factor.stored[static_cast<std::size_t>(first + r)] =
          mma_element(part[static_cast<std::size_t>(r)], factor.dtype);
    std::vector<SharedExchange::Access> ready;
    for (std::size_t s = 0; s < written.size(); ++s) {
      const auto& access = factor.exchange->stores[s];
      if (written[s] || std::ranges::max(access.registers) >= first + at_once) continue;
      written[s] = true;
      ready.push_back(access);
    }
    store_exchanged(*factor.exchange, factor.shared, factor.stored, ready);
  }
}

// Finds loads that can be delayed until the only product that uses them, because nothing in between writes
// memory. This is for kernels that need many registers, since the parts of such a load wait for each other.
void KernelEmitter::find_streams(const ir::Region& region) {
  for (std::size_t i = 0; i < region.ops.size(); ++i) {
    const ir::Op& load = *region.ops[i];
    for (const auto& inner : load.regions)
      find_streams(*inner);
    if (!load.is(ir::Opcode::ViewLoad) || !load.result()->type.is_tile() || load.mask() || load.other())
      continue;
    std::vector<const ir::Op*> chain = {&load};
    for (std::size_t j = i + 1; j < region.ops.size(); ++j) {
      const ir::Op& op = *region.ops[j];
      const ir::Value* v = chain.back()->result();
      if (uses_[v] != 1 || !op.regions.empty() ||
          (op.info().effect != ir::Effect::Pure && op.info().effect != ir::Effect::Read))
        break;
      if (std::ranges::find(op.operands, v) == op.operands.end()) continue;
      if (op.is(ir::Opcode::Permute)) {
        chain.push_back(&op);
        continue;
      }
      if (op.is(ir::Opcode::Dot) && mma_factors(op) && (op.operand(0) == v || op.operand(1) == v))
        for (const ir::Op* link : chain)
          streams_[link] = &load;
      break;
    }
  }
}

// Writes the factors that have to move between threads to shared memory, with one barrier for all of them.
void KernelEmitter::share_factors(std::vector<MmaFactor>& factors) {
  std::int64_t bytes = 0;
  for (MmaFactor& factor : factors)
    if (factor.kept)
      touch({.kind = Touch::Kind::Shared, .begin = factor.shared, .end = factor.shared + factor.bytes()});
    else if (factor.exchange)
      bytes += factor.bytes();
  if (bytes == 0) return;
  Touches loads;
  for (MmaFactor& factor : factors)
    if (factor.streamed) loads.push_back(*memory_touch(*factor.streamed));
  for (const Touch& load : loads)
    order_before(load);
  if (shared_floor_ + bytes > most_shared_bytes) {
    for (const Touch& load : loads)
      note(load);
    for (MmaFactor& factor : factors)
      if (factor.exchange && !factor.kept) {
        const int size = 4 / factor.in_word;
        if (factor.streamed) {
          const LinearLayout layout = layout_of(factor.streamed->result());
          factor.stored = load_part(*factor.streamed, layout, {0, 1 << layout.in_bits(in_register)});
          for (Value*& x : factor.stored)
            x = mma_element(x, factor.dtype);
        }
        factor.elements = emit_plan(in_passes(*factor.exchange, size, most_shared_bytes / 4), factor.stored);
        factor.exchange.reset();
      }
    return;
  }
  const std::int64_t begin = allocate_shared(bytes);
  touch({.kind = Touch::Kind::Shared, .write = true, .begin = begin, .end = begin + bytes});
  for (const Touch& load : loads) // no barrier follows before the loads are executed
    note(load);
  bool within_warp = true;
  std::int64_t at = begin;
  for (MmaFactor& factor : factors) {
    if (!factor.exchange || factor.kept) continue;
    within_warp = within_warp && factor.exchange->within_warp;
    write_factor(factor, at);
    at += factor.bytes();
  }
  const Touch reading{.kind = Touch::Kind::Shared, .begin = begin, .end = begin + bytes};
  if (within_warp)
    exchange_in_warp(reading);
  else
    touch(reading);
}

// Writes the factors that are the same in every iteration to shared memory before the loop, so that they take
// no registers in it.
void KernelEmitter::keep_factors(const ir::Op& loop) {
  const auto changing = changing_in(loop);
  const std::size_t known = kept_factors_.size();
  for (const auto& region : loop.regions)
    ir::walk(*region, [&](const ir::Op& op) {
      if (!op.is(ir::Opcode::Dot)) return;
      const auto kinds = mma_factors(op);
      for (int which = 0; kinds && which < 2; ++which) {
        const ir::Value* v = op.operand(which);
        if (changing.contains(v) || !plan_.find(v)) continue;
        MmaFactor factor = mma_factor(op, which, *kinds);
        if (factor.kept || !factor.exchange || shared_floor_ + factor.bytes() > most_kept_bytes) continue;
        const std::int64_t begin = shared_floor_, end = begin + factor.bytes();
        shared_bytes_ = std::max(shared_bytes_, end);
        touch({.kind = Touch::Kind::Shared, .write = true, .begin = begin, .end = end});
        write_factor(factor, begin);
        factor.kept = true;
        shared_floor_ = end;
        kept_factors_.push_back({v, which == 0 ? kinds->a : kinds->b, std::move(factor)});
      }
    });
  if (kept_factors_.size() > known) barrier();
}

// The word whose lowest element is in register `first`. It is loaded together with the neighbouring words
// that the same instructions take.
Value* KernelEmitter::mma_word(MmaFactor& factor, int first) {
  const int in_word = factor.in_word;
  auto element = [&](int r) -> Value*& { return factor.elements[static_cast<std::size_t>(r)]; };
  auto word = [&](int r) -> Value*& { return factor.words[static_cast<std::size_t>(r)]; };
  if (word(first)) return word(first);

  auto fetch = [&](int wanted) {
    const SharedExchange& plan = *factor.exchange;
    const auto [number, place] = factor.found[static_cast<std::size_t>(wanted)];
    const SharedExchange::Access& access = plan.loads[static_cast<std::size_t>(number)];
    const int all = static_cast<int>(access.registers.size());
    auto step = [&](int p) {
      return factor.step[static_cast<std::size_t>(access.registers[static_cast<std::size_t>(p)])];
    };
    int count = 1, begin = place;
    while (2 * count <= all) {
      const int wider = place / (2 * count) * (2 * count);
      bool together = true;
      for (int p = wider; p < wider + 2 * count; ++p)
        together = together && step(p) == step(place);
      if (!together) break;
      count *= 2;
      begin = wider;
    }
    auto reg = [&](int p) { return access.registers[static_cast<std::size_t>(begin + p)]; };
    // Load whole words if the elements of each word are next to each other.
    bool words = count >= in_word;
    for (int p = 0; words && p < count; ++p)
      words = reg(p) == reg(p / in_word * in_word) + p % in_word && reg(p) % in_word == p % in_word;
    const int size = 4 / in_word, parts = words ? count / in_word : count;
    llvm::Type* type = words ? b_.getInt32Ty() : b_.getIntNTy(static_cast<unsigned>(8 * size));
    Value* v = b_.CreateAlignedLoad(emit::lanes_type(type, parts),
                                    exchanged_place(plan.load_offset, factor.own, factor.shared,
                                                    access.offset ^ static_cast<std::uint32_t>(begin * size)),
                                    llvm::Align(static_cast<std::uint64_t>(count * size)));
    for (int p = 0; p < parts; ++p) {
      Value* part = parts == 1 ? v : b_.CreateExtractElement(v, static_cast<std::uint64_t>(p));
      (words ? word(reg(p * in_word)) : element(reg(p))) = part;
    }
  };

  // Registers that hold copies are loaded once.
  auto held_by = [&](int r) {
    return factor.exchange ? factor.exchange->copy_of[static_cast<std::size_t>(r)] : r;
  };
  const int held = held_by(first);
  if (factor.exchange && !word(held) && !element(held)) fetch(held);
  if (word(held)) return word(first) = word(held);
  if (in_word == 1) return word(first) = element(held);
  Value* lanes = llvm::PoisonValue::get(emit::lanes_type(element(held)->getType(), in_word));
  for (int i = 0; i < in_word; ++i) {
    const int at = held_by(first + i);
    if (!element(at)) fetch(at);
    lanes = b_.CreateInsertElement(lanes, element(at), static_cast<std::uint64_t>(i));
  }
  return word(first) = b_.CreateBitCast(lanes, b_.getInt32Ty());
}

void KernelEmitter::emit_mma(const ir::Op& op, const MmaFactors& kinds) {
  const LinearLayout sums_layout = layout_of(op.result());
  const int rank = static_cast<int>(op.result()->type.shape.size());
  const std::int64_t depth = op.operand(0)->type.shape.back().value();
  const int in_word_bits = std::countr_zero(static_cast<unsigned>(32 / kinds.element_bits));
  const int a_bits = 2 + in_word_bits, b_bits = 1 + in_word_bits, c_bits = 2;

  std::vector<MmaFactor> factors;
  for (int f = 0; f < 2; ++f)
    factors.push_back(mma_factor(op, f, kinds));
  Values sums(std::size_t{1} << sums_layout.in_bits(in_register),
              llvm::Constant::getNullValue(emit::compute_type(context_, op.result()->type.dtype)));
  if (op.num_operands() == 3) sums = registers(op.operand(2), sums_layout);
  share_factors(factors);

  const auto of_a = fragments(factors[0].layout, rank, a_bits),
             of_b = fragments(factors[1].layout, rank, b_bits);
  const auto of_sums = fragments(sums_layout, rank, c_bits);
  const auto m = static_cast<std::size_t>(rank - 2), n = m + 1;
  auto words_of = [&](MmaFactor& factor, int first, int count) {
    Values words;
    for (int i = 0; i < count; ++i)
      words.push_back(mma_word(factor, first + i * factor.in_word));
    return words;
  };
  // Go through the products of the batch, and in each through the depth.
  std::map<Place, std::vector<std::pair<Place, int>>> batch;
  for (const auto& [place, c] : of_sums)
    batch[Place(place.begin(), place.begin() + rank - 2)].emplace_back(place, c);
  for (const auto& [which, members] : batch)
    for (std::int64_t k = 0; k < depth; k += kinds.depth())
      for (const auto& [place, c] : members) {
        Place in_a = place, in_b = place;
        in_a[n] = in_b[m] = k;
        auto first = sums.begin() + c;
        const Values a = words_of(factors[0], of_a.at(in_a), 4), b = words_of(factors[1], of_b.at(in_b), 2);
        const Values next = machine_.mma(b_, {kinds.a, kinds.b}, a, b, Values(first, first + (1 << c_bits)));
        std::copy(next.begin(), next.end(), first);
      }
  define(op.result(), sums_layout, sums);
}

} // namespace kiln::gpu
