// Executes calls and returns of functions, with their frames, parameters and local memory.
#include "warp.h"

#include "block.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kiln::emulator {
namespace {

constexpr std::uint64_t most_frame_bytes = std::uint64_t(256) << 20; // per warp
constexpr std::uint64_t most_local_bytes = std::uint64_t(512) << 10; // per thread
constexpr int deepest = 4096;

std::uint64_t whole_chunks(std::uint64_t bytes) { return (bytes + 31) / 32 * 32; }

// The offsets after a frame's variables, and after what any of its lanes took by alloca.
std::uint64_t stack_start(const Frame& f) { return f.local_base + whole_chunks(f.function->local_bytes); }
std::uint64_t local_end(const Frame& f) {
  return f.stack ? whole_chunks(*std::max_element(f.stack->begin(), f.stack->end())) : stack_start(f);
}

} // namespace

Frame* Warp::push(const Function& function, Frame* caller, std::uint32_t return_to, Mask lanes) {
  auto frame = std::make_unique<Frame>();
  frame->function = &function;
  frame->caller = caller;
  frame->return_to = return_to;
  frame->depth = caller ? caller->depth + 1 : 0;
  frame->lanes = lanes;
  frame->local_base = caller ? local_end(*caller) : 0;
  frame->storage.reset(new std::uint8_t[function.register_bytes + 64]);
  frame->registers = reinterpret_cast<std::uint8_t*>(
      (reinterpret_cast<std::uintptr_t>(frame->storage.get()) + 63) / 64 * 64);
  std::memset(frame->registers, 0, function.register_bytes);
  for (const Constant& c : function.constants) {
    const std::uint64_t value = c.value + (c.local ? frame->local_base : 0);
    std::uint8_t* at = frame->registers + c.at;
    if (c.bits == 1)
      *reinterpret_cast<Mask*>(at) = value ? all_lanes : 0;
    else if (c.bits == 16)
      std::fill_n(reinterpret_cast<std::uint16_t*>(at), warp_size, static_cast<std::uint16_t>(value));
    else if (c.bits == 32)
      std::fill_n(reinterpret_cast<std::uint32_t*>(at), warp_size, static_cast<std::uint32_t>(value));
    else
      std::fill_n(reinterpret_cast<std::uint64_t*>(at), warp_size, value);
  }
  frame->params.resize(function.param_bytes * warp_size);
  if (function.uses_wgmma) frame->watches.resize(function.register_bytes / 64 + 1);
  grow_local(stack_start(*frame));
  for (Mask rest = lanes; rest; rest &= rest - 1)
    forget_local(first_lane(rest), frame->local_base, function.local_bytes);
  frames_.push_back(std::move(frame));
  return frames_.back().get();
}

void Warp::collect_frames() {
  std::erase_if(frames_, [](const auto& f) { return f->lanes == 0 && f->caller && !f->in_flight; });
}

void Warp::grow_local(std::uint64_t bytes) {
  if (bytes <= local_bytes()) return;
  local_.resize(whole_chunks(bytes) * warp_size);
  if (execution.options.checks.uninitialised) local_shadow_.resize(local_.size());
}

// Marks these bytes of a lane as unwritten.
void Warp::forget_local(int lane, std::uint64_t offset, std::uint64_t bytes) {
  if (local_shadow_.empty()) return;
  for (const std::uint64_t end = offset + bytes; offset < end;) {
    const std::uint64_t n = std::min(32 - offset % 32, end - offset);
    std::memset(local_shadow_.data() + (local(lane, offset) - local_.data()), 0, n);
    offset += n;
  }
}

// Copies a parameter whose address the function takes to local memory, for one lane.
void Warp::copy_to_stack(const Frame& f, const Function::StackCopy& c, int lane) {
  const std::uint64_t from = static_cast<std::uint64_t>(lane) * f.function->param_bytes + c.from;
  for (std::uint64_t b = 0; b < c.bytes; ++b) {
    std::uint8_t* to = local(lane, f.local_base + c.to + b);
    *to = f.params[from + b];
    if (local_shadow_.empty()) continue;
    const auto at = static_cast<std::uint64_t>(to - local_.data());
    local_shadow_[at] = f.param_shadow.empty() ? 1 : f.param_shadow[from + b];
    if (local_shadow_[at] != copied_unwritten) continue;
    const auto known =
        execution.origins.find(reinterpret_cast<std::uintptr_t>(f.params.data() + from + b) / 4);
    if (known != execution.origins.end()) local_origins[at / 4] = known->second;
  }
}

std::uint64_t Warp::stack(int lane) const {
  return frame_->stack ? (*frame_->stack)[static_cast<std::size_t>(lane)] : stack_start(*frame_);
}

std::optional<std::uint64_t> Warp::take_stack(int lane, std::uint64_t bytes, std::uint64_t align) {
  const std::uint64_t at = (stack(lane) + align - 1) / align * align;
  if (bytes > most_local_bytes || at + bytes > most_local_bytes) return std::nullopt;
  if (!frame_->stack) {
    frame_->stack = std::make_unique<std::array<std::uint64_t, warp_size>>();
    frame_->stack->fill(stack_start(*frame_));
  }
  (*frame_->stack)[static_cast<std::size_t>(lane)] = at + bytes;
  grow_local(at + bytes);
  forget_local(lane, at, bytes);
  return at;
}

bool Warp::restore_stack(int lane, std::uint64_t to) {
  if (to < stack_start(*frame_) || to > stack(lane)) return false;
  if (frame_->stack) (*frame_->stack)[static_cast<std::size_t>(lane)] = to;
  return true;
}

void Warp::call(Fragment& f, const Instruction& i, const Function& callee, Mask m) {
  std::uint64_t bytes = callee.register_bytes;
  for (const auto& frame : frames_)
    bytes += frame->function->register_bytes;
  const std::uint64_t local = local_end(*f.frame) + callee.local_bytes;
  if (f.frame->depth >= deepest || bytes > most_frame_bytes || local > most_local_bytes) {
    execution.add_finding(Fault::StackOverflow, *this, i, first_lane(m),
                          "calls " + callee.name + " at a depth of " + std::to_string(f.frame->depth) +
                              ", with no stack left: probably an endless recursion");
    execution.report.finished = false;
    execution.stopped = true;
    return;
  }
  Frame* caller = f.frame;
  Frame* frame = push(callee, caller, f.at + 1, m);
  // Offsets in the frame of the caller: those of results, then those of parameters.
  const std::uint32_t* arguments = caller->function->extras.data() + i.extra;
  const std::uint64_t from = caller->function->param_bytes, to = callee.param_bytes;
  for (std::size_t k = 0; k < callee.params.size(); ++k)
    for (Mask rest = m; rest; rest &= rest - 1) {
      const auto l = static_cast<std::uint64_t>(first_lane(rest));
      const std::uint64_t there = l * to + callee.params[k].offset,
                          here = l * from + arguments[callee.returns.size() + k];
      std::memcpy(frame->params.data() + there, caller->params.data() + here, callee.params[k].bytes);
      pass_unwritten(execution, *caller, here, *frame, there, callee.params[k].bytes);
    }
  diverge(m, f.lanes & ~m, i);
  for (const Function::StackCopy& c : callee.stack_copies)
    for (Mask rest = m; rest; rest &= rest - 1)
      copy_to_stack(*frame, c, first_lane(rest));
  if (f.lanes & ~m) add_ready({caller, f.at + 1, f.lanes & ~m});
  f.frame = frame;
  f.lanes = m;
  f.at = 0;
}

void Warp::return_lanes(Fragment& f, Mask m) {
  Frame& frame = *f.frame;
  Frame* caller = frame.caller;
  f.lanes &= ~m;
  ++f.at;
  const Instruction& here = frame.function->code[f.at - 1];
  diverge(m, f.lanes, here);
  if (!caller) {
    if (m != alive_) divergence_.note_exit(m, here);
    exit_lanes(m);
    return;
  }
  const Instruction& i = caller->function->code[frame.return_to - 1];
  const std::uint32_t* arguments = caller->function->extras.data() + i.extra;
  const std::uint64_t to = caller->function->param_bytes, from = frame.function->param_bytes;
  for (std::size_t k = 0; k < frame.function->returns.size(); ++k)
    for (Mask rest = m; rest; rest &= rest - 1) {
      const auto l = static_cast<std::uint64_t>(first_lane(rest));
      const std::uint64_t there = l * to + arguments[k], here = l * from + frame.function->returns[k].offset;
      std::memcpy(caller->params.data() + there, frame.params.data() + here,
                  frame.function->returns[k].bytes);
      pass_unwritten(execution, frame, here, *caller, there, frame.function->returns[k].bytes);
    }
  frame.lanes &= ~m;
  add_ready({caller, frame.return_to, m});
}

// Lanes that call the same function stay together.
void Warp::call_indirectly(Fragment& f, const Instruction& i, Mask m) {
  const Fragment caller = f;
  const std::uint64_t* address = reg<std::uint64_t>(i.a);
  // The number of results and their bytes, then the same for parameters.
  const std::uint32_t* taken = extras(i) + i.count;
  const auto same = [](const std::vector<Function::Param>& have, const std::uint32_t*& want) {
    bool equal = have.size() == *want;
    for (std::size_t k = 0; k < *want; ++k)
      equal = equal && have[k].bytes == want[k + 1];
    want += *want + 1;
    return equal;
  };
  f.lanes &= ~m;
  ++f.at;
  while (m && !execution.stopped) {
    const std::uint64_t target = address[first_lane(m)];
    Mask group = 0;
    for (Mask rest = m; rest; rest &= rest - 1)
      if (address[first_lane(rest)] == target) group |= rest & (~rest + 1);
    m &= ~group;
    diverge(group, m | f.lanes, i);
    const auto found = execution.program.by_address.find(target ^ code_window);
    const Function* callee = found == execution.program.by_address.end()
                                 ? nullptr
                                 : execution.program.functions[found->second].get();
    const std::uint32_t* want = taken;
    const bool fits = callee && same(callee->returns, want) && same(callee->params, want);
    if (!fits) {
      execution.add_finding(Fault::IllegalOperand, *this, i, first_lane(group),
                            callee ? "calls " + callee->name +
                                         ", whose parameters differ from those of this call"
                                   : "calls " + std::to_string(target) + ", where there is no function",
                            static_cast<std::uint64_t>(std::popcount(group)));
      exit_lanes(group);
      continue;
    }
    Fragment called = caller;
    called.lanes = group;
    call(called, i, *callee, group);
    add_ready(called);
  }
}

} // namespace kiln::emulator
