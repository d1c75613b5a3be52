// Places barriers that keep memory accesses in program order among the threads of a block.
//
// There is a barrier only where two accesses may conflict.
//
// Every access to a view, through a pointer or to shared memory is recorded. If a new access may conflict
// with one since the last barrier, it gets a barrier before it. Two accesses, of which at least one writes,
// conflict in these cases:
//   - Both access shared memory, and the bytes overlap.
//   - Both access the same view, unless (a) they have the same indices in one layout that gives each element
//     to the same thread, or (b) they are in different iterations of a loop that steps over the tile.
//   - Both access the same view in case (a) or (b), and the view has two indices for one element.
//   - They access two views that share memory.
//   - At least one goes through a pointer, and neither is to shared memory.
// The host knows at launch whether a view has two indices for one element and whether two views share memory,
// so in these cases the barrier depends on a flag that the host passes.
//
// In a loop, an access may also conflict with one of the iteration before. The accesses before the first
// barrier of the body are compared with those since its last one, and if two of them conflict, the body ends
// with a barrier.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <algorithm>
#include <unordered_set>

namespace kiln::gpu {

using ir::Opcode;
using llvm::Value;

void KernelEmitter::barrier() {
  machine_.barrier(b_);
  touched_.clear();
  for (LoopStart& start : loop_starts_)
    start.closed = true;
}

void KernelEmitter::barrier_if_views_overlap() {
  machine_.barrier_if(b_, overlap_);
  for (Touch& t : touched_)
    t.checked = true;
  for (LoopStart& start : loop_starts_)
    start.checked = true;
}

void KernelEmitter::note(Touch next) {
  touched_.push_back(next);
  for (LoopStart& start : loop_starts_) {
    next.checked = start.checked;
    if (!start.closed) start.touches.push_back(next);
  }
}

// Each warp reads from shared memory only what it has just written itself, so a barrier of the warp is
// enough.
void KernelEmitter::exchange_in_warp(const Touch& reading) {
  machine_.warp_barrier(b_);
  note(reading);
}

namespace {

bool is_tile_access(const ir::Op& op) { return op.is(Opcode::ViewLoad) || op.is(Opcode::ViewStore); }

const ir::Value* tile_of(const ir::Op& access) {
  return access.is(Opcode::ViewLoad) ? access.result() : access.stored_value();
}

} // namespace

// Whether two accesses of the same threads to the same indices conflict: only in a view whose strides give
// one element two indices, since the other index may be another thread's.
KernelEmitter::Conflict KernelEmitter::same_indices(const ir::Type& view) {
  const bool apart = view.view_rank == 0 || (view.view_rank == 1 && view.layout != LayoutClass::Any);
  return apart ? Conflict::Never : Conflict::IfViewsOverlap;
}

bool KernelEmitter::same_elements(const ir::Op& a, const ir::Op& b) const {
  if (!is_tile_access(a) || !is_tile_access(b)) return false;
  if (a.integers("axes") != b.integers("axes") || !std::ranges::equal(a.view_offsets(), b.view_offsets()))
    return false;
  const ir::Value *x = tile_of(a), *y = tile_of(b);
  if (!x->type.is_tile() || !y->type.is_tile() || x->type.shape != y->type.shape) return false;
  auto layout = [&](const ir::Value* v) {
    const LinearLayout* planned = plan_.find(v);
    return planned ? *planned : default_layout(v->type, plan_.warps);
  };
  // Of threads that hold copies only the first writes, and the others would read what it wrote.
  const LinearLayout places = layout(x);
  return places == layout(y) && places.redundant(in_lane) == 0 && places.redundant(in_warp) == 0;
}

// `of_elements` says whether two accesses to the same view conflict.
template <class OfElements>
KernelEmitter::Conflict KernelEmitter::conflict(const Touch& before, const Touch& next,
                                                OfElements&& of_elements) {
  using Kind = Touch::Kind;
  if (!before.write && !next.write) return Conflict::Never;
  if ((before.kind == Kind::Shared) != (next.kind == Kind::Shared)) return Conflict::Never;
  if (next.kind == Kind::Shared)
    return before.begin < next.end && next.begin < before.end ? Conflict::Always : Conflict::Never;
  if (before.kind == Kind::Pointer || next.kind == Kind::Pointer) return Conflict::Always;
  const Conflict found =
      before.view != next.view ? Conflict::IfViewsOverlap : of_elements(*before.op, *next.op);
  return found == Conflict::IfViewsOverlap && (before.checked || next.checked) ? Conflict::Never : found;
}

void KernelEmitter::order_before(const Touch& next) {
  Conflict worst = Conflict::Never;
  for (const Touch& before : touched_)
    worst = std::max(worst, conflict(before, next, [&](const ir::Op& a, const ir::Op& b) {
                       return same_elements(a, b) ? same_indices(a.operand(0)->type) : Conflict::Always;
                     }));
  if (worst == Conflict::Always) barrier();
  if (worst == Conflict::IfViewsOverlap) barrier_if_views_overlap();
}

void KernelEmitter::touch(Touch next) {
  order_before(next);
  note(next);
}

// Whether two tiles of one view cannot overlap in two different iterations: the loop's counter is an offset
// of both, and its step is at least their extent.
bool KernelEmitter::steps_apart(const ir::Op& loop, const ir::Op& a, const ir::Op& b) {
  if (!loop.is(Opcode::For) || !is_tile_access(a) || !is_tile_access(b)) return false;
  const ir::Op* step = loop.operand(2)->def;
  if (!step || !step->is(Opcode::Constant)) return false;
  const ir::Value* counter = loop.region()->args[0].get();
  const int rank = a.operand(0)->type.view_rank;
  for (int d = 0; d < rank; ++d) {
    auto covered = [&](const ir::Op& op) {
      if (op.view_offsets()[static_cast<std::size_t>(d)] != counter) return false;
      const auto& axes = op.integers("axes");
      const auto at = std::ranges::find(axes, d);
      const ir::Type& tile = tile_of(op)->type;
      const std::int64_t extent =
          at == axes.end() ? 1 : tile.shape[static_cast<std::size_t>(at - axes.begin())].value();
      return step->integer("value") >= extent;
    };
    if (covered(a) && covered(b)) return true;
  }
  return false;
}

// The access of an operation to views or through pointers.
std::optional<KernelEmitter::Touch> KernelEmitter::memory_touch(const ir::Op& op) {
  switch (op.code) {
  case Opcode::ViewLoad:
  case Opcode::ViewStore:
  case Opcode::ViewGather:
  case Opcode::ViewScatter:
    return Touch{.kind = Touch::Kind::View,
                 .write = op.info().effect == ir::Effect::Write,
                 .op = &op,
                 .view = op.operand(0)};
  case Opcode::Load: return Touch{.kind = Touch::Kind::Pointer, .op = &op};
  case Opcode::Store:
  case Opcode::AtomicRmw:
  case Opcode::AtomicCas: return Touch{.kind = Touch::Kind::Pointer, .write = true, .op = &op};
  default: return std::nullopt;
  }
}

void KernelEmitter::merge(Touches& into, const Touches& more) {
  for (const Touch& t : more)
    if (std::ranges::find(into, t) == into.end()) into.push_back(t);
}

// An access in the loop that conflicts with one before the loop gets its barrier before the loop, not in each
// iteration.
KernelEmitter::OpenLoop KernelEmitter::enter_loop(const ir::Op& op) {
  settle();
  const std::int64_t floor = shared_floor_;
  const std::size_t kept = kept_factors_.size();
  keep_factors(op);
  for (const auto& region : op.regions)
    ir::walk(*region, [&](const ir::Op& inner) {
      if (auto next = memory_touch(inner)) order_before(*next);
    });
  OpenLoop loop{touched_, loop_starts_, floor, kept};
  loop_starts_.emplace_back();
  return loop;
}

// The values that may differ from iteration to iteration.
std::unordered_set<const ir::Value*> KernelEmitter::changing_in(const ir::Op& loop) {
  std::unordered_set<const ir::Value*> changing;
  auto add_arguments = [&](const ir::Op& op) {
    for (const auto& region : op.regions)
      for (const auto& arg : region->args)
        changing.insert(arg.get());
  };
  add_arguments(loop);
  for (const auto& region : loop.regions)
    ir::walk(*region, [&](const ir::Op& op) {
      for (const auto& result : op.results)
        changing.insert(result.get());
      add_arguments(op);
    });
  return changing;
}

void KernelEmitter::close_loop(const ir::Op& loop) {
  const auto changing = changing_in(loop);
  auto of_elements = [&](const ir::Op& a, const ir::Op& b) {
    if (steps_apart(loop, a, b)) return Conflict::IfViewsOverlap;
    const bool stays = std::ranges::none_of(
        a.view_offsets(), [&](const ir::Value* offset) { return changing.contains(offset); });
    return stays && same_elements(a, b) ? same_indices(a.operand(0)->type) : Conflict::Always;
  };
  const LoopStart start = std::move(loop_starts_.back());
  loop_starts_.pop_back();
  Conflict worst = Conflict::Never;
  for (const Touch& before : touched_)
    for (const Touch& next : start.touches)
      worst = std::max(worst, conflict(before, next, of_elements));
  if (worst == Conflict::Always) barrier();
  if (worst == Conflict::IfViewsOverlap) barrier_if_views_overlap();
}

// After the loop, its barriers do not count, because its body may not have run.
void KernelEmitter::leave_loop(const OpenLoop& loop) {
  loaded_.clear();
  shared_floor_ = loop.shared_floor;
  kept_factors_.resize(loop.kept_factors);
  merge(touched_, loop.before);
  for (std::size_t i = 0; i < loop_starts_.size(); ++i) {
    loop_starts_[i].closed = loop.outer[i].closed;
    loop_starts_[i].checked = loop.outer[i].checked;
  }
}

// Exchanges get different bytes until `apart` bytes are used, which saves the barrier before the writes of
// the next one.
std::int64_t KernelEmitter::allocate_shared(std::int64_t bytes) {
  constexpr std::int64_t apart = 8 << 10, alignment = 16;
  bytes = (bytes + alignment - 1) / alignment * alignment;
  next_shared_ = std::max(next_shared_, shared_floor_);
  if (next_shared_ + bytes > shared_floor_ + std::max(apart, bytes)) next_shared_ = shared_floor_;
  const std::int64_t at = next_shared_;
  next_shared_ += bytes;
  shared_bytes_ = std::max(shared_bytes_, next_shared_);
  return at;
}

Value* KernelEmitter::shared_pointer(std::int64_t offset) {
  if (!shared_) {
    auto* bytes = llvm::ArrayType::get(b_.getInt8Ty(), 0);
    shared_ = new llvm::GlobalVariable(module_, bytes, false, llvm::GlobalValue::ExternalLinkage, nullptr,
                                       "kiln_shared", nullptr, llvm::GlobalValue::NotThreadLocal,
                                       machine_.shared_space());
    shared_->setAlignment(llvm::Align(1024));
  }
  return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), shared_, static_cast<std::uint64_t>(offset));
}

} // namespace kiln::gpu
