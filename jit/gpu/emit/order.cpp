// Keeps memory in program order among the threads of a block, with barriers only where two accesses may meet.
//
// Every access to views, pointers and shared memory is noted. A new one that could touch what an access since
// the last barrier touched (and one of both writes) needs a barrier before it:
//   - shared memory: if the bytes overlap;
//   - one view: unless both are the same elements in one layout that makes them the same thread's;
//   - two views: if they share memory, which the host knows at launch: the barrier is conditional on its
//   word;
//   - pointers: always.
// A loop's body may meet its own accesses of the iteration before, so they count as made when it starts.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <algorithm>

namespace kiln::gpu {

using ir::Opcode;
using llvm::Value;

void KernelEmitter::barrier() {
  machine_.barrier(b_);
  touched_.clear();
}

// A warp reads from shared memory what it has just written itself: a barrier of the warp is enough.
void KernelEmitter::exchange_in_warp(const Touch& reading) {
  machine_.warp_barrier(b_);
  touched_.push_back(reading);
}

bool KernelEmitter::same_elements(const ir::Op& a, const ir::Op& b) const {
  auto is_tile_access = [](const ir::Op& op) { return op.is(Opcode::ViewLoad) || op.is(Opcode::ViewStore); };
  if (!is_tile_access(a) || !is_tile_access(b)) return false;
  if (a.integers("axes") != b.integers("axes") || !std::ranges::equal(a.view_offsets(), b.view_offsets()))
    return false;
  auto value = [](const ir::Op& op) -> const ir::Value* {
    return op.is(Opcode::ViewLoad) ? op.result() : op.stored_value();
  };
  const ir::Value *x = value(a), *y = value(b);
  if (!x->type.is_tile() || !y->type.is_tile() || x->type.shape != y->type.shape) return false;
  auto layout = [&](const ir::Value* v) {
    const LinearLayout* planned = plan_.find(v);
    return planned ? *planned : default_layout(v->type, plan_.warps);
  };
  // Threads that hold copies read what the first of them writes.
  const LinearLayout places = layout(x);
  return places == layout(y) && places.redundant(in_lane) == 0 && places.redundant(in_warp) == 0;
}

void KernelEmitter::touch(Touch next) {
  bool always = false, sometimes = false;
  for (const Touch& before : touched_) {
    if (!before.write && !next.write) continue;
    if ((before.kind == Touch::Kind::Shared) != (next.kind == Touch::Kind::Shared)) continue;
    if (next.kind == Touch::Kind::Shared)
      always |= before.begin < next.end && next.begin < before.end;
    else if (before.kind == Touch::Kind::Pointer || next.kind == Touch::Kind::Pointer)
      always = true;
    else if (before.view != next.view)
      sometimes |= !before.checked;
    else
      always |= !same_elements(*before.op, *next.op);
  }
  if (always) {
    barrier();
  } else if (sometimes) {
    machine_.barrier_if(b_, overlap_);
    for (Touch& t : touched_)
      t.checked = true;
  }
  touched_.push_back(next);
}

void KernelEmitter::collect_touches(const ir::Region& region, std::vector<Touch>& into) const {
  ir::walk(region, [&](const ir::Op& op) {
    switch (op.code) {
    case Opcode::ViewLoad:
    case Opcode::ViewGather:
      into.push_back({.kind = Touch::Kind::View, .op = &op, .view = op.operand(0)});
      break;
    case Opcode::ViewStore:
    case Opcode::ViewScatter:
      into.push_back({.kind = Touch::Kind::View, .write = true, .op = &op, .view = op.operand(0)});
      break;
    case Opcode::Load: into.push_back({.kind = Touch::Kind::Pointer, .op = &op}); break;
    case Opcode::Store:
    case Opcode::AtomicRmw:
    case Opcode::AtomicCas: into.push_back({.kind = Touch::Kind::Pointer, .write = true, .op = &op}); break;
    case Opcode::Reduce:
    case Opcode::Scan:
    case Opcode::Dot: // whatever of shared memory it takes
      into.push_back({.kind = Touch::Kind::Shared, .write = true, .op = &op, .end = std::int64_t{1} << 40});
      break;
    default: break;
    }
  });
}

// Short exchanges get bytes of their own as long as there are some, which saves the barrier before the next
// one's writes.
std::int64_t KernelEmitter::allocate_shared(std::int64_t bytes) {
  constexpr std::int64_t apart = 8 << 10, alignment = 16;
  bytes = (bytes + alignment - 1) / alignment * alignment;
  if (next_shared_ + bytes > std::max(apart, bytes)) next_shared_ = 0;
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
