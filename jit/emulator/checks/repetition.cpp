// Finds launches that wait for ever: every cluster repeats a state in which it was before.
//
// A cluster depends on the rest of the launch through global memory only. While nothing changes there, and
// the cluster is again in exactly the state of some time before (registers, shared and local memory,
// barriers, and the places where its lanes are), it will repeat what it did in between for ever. If that
// holds for every cluster, nothing will ever change. A loop that counts its iterations, or reads a clock, is
// never in the same state again, and is ended by the budget.
#include <kiln/jit/emulator/core/block.h>

#include <algorithm>

namespace kiln::emulator {
namespace {

constexpr std::uint64_t check_interval =
    20'000; // instructions per warp without a lasting event before a check
constexpr std::uint64_t most_rounds = 1 << 16, most_instructions = 1 << 19; // in a check of a cluster

void append(std::vector<std::uint8_t>& to, const void* p, std::size_t n) {
  const auto* bytes = static_cast<const std::uint8_t*>(p);
  to.insert(to.end(), bytes, bytes + n);
}
template <class T> void append(std::vector<std::uint8_t>& to, const T& value) {
  append(to, &value, sizeof value);
}

// Where the lanes of the cluster are, which is compared before the whole states are.
std::vector<std::uint8_t> places_of(const std::vector<Block*>& cluster) {
  std::vector<std::uint8_t> places;
  for (Block* b : cluster)
    for (auto& w : b->warps)
      for (const Fragment& f : w->fragments()) {
        append(places, f.at);
        append(places, f.lanes);
        append(places, f.state);
      }
  return places;
}

// The fragments of warps that could run at some time and have not run since then. A warp runs one of its
// fragments at a time, and the others may be about to change what it waits for.
class Unmoved {
public:
  explicit Unmoved(const std::vector<Block*>& cluster) {
    for (Block* b : cluster)
      for (auto& w : b->warps)
        for (const Fragment& f : w->fragments())
          if (f.state == Fragment::State::Ready) at_.push_back({w.get(), f.at, f.lanes});
  }
  void update() {
    std::erase_if(at_, [](const Place& place) {
      const auto& fragments = place.warp->fragments();
      return std::none_of(fragments.begin(), fragments.end(), [&](const Fragment& f) {
        return f.at == place.at && f.lanes == place.lanes && f.state == Fragment::State::Ready;
      });
    });
  }
  bool empty() const { return at_.empty(); }

private:
  struct Place {
    Warp* warp;
    std::uint32_t at;
    Mask lanes;
  };
  std::vector<Place> at_;
};

std::vector<std::uint8_t> state_of(const std::vector<Block*>& cluster) {
  std::vector<std::uint8_t> state;
  for (Block* b : cluster) {
    for (auto& w : b->warps)
      w->append_state(state);
    append(state, b->shared.data, b->shared.bytes);
    append(state, b->cluster_arrived);
    append(state, b->cluster_phase);
    append(state, b->free_registers);
    for (const BarrierState& barrier : b->barriers) {
      append(state, barrier.arrived);
      append(state, barrier.expected);
      append(state, barrier.red_count);
      append(state, barrier.red_true);
      for (const auto& [warp, lanes] : barrier.coming) {
        append(state, warp);
        append(state, lanes);
      }
    }
  }
  return state;
}

} // namespace

void Warp::append_state(std::vector<std::uint8_t>& to) const {
  for (const Fragment& f : fragments_) {
    append(to, f.frame);
    append(to, f.at);
    append(to, f.lanes);
    append(to, f.state);
    append(to, f.active);
    append(to, f.members);
    append(to, f.barrier);
  }
  for (const auto& f : frames_) {
    append(to, f->registers, f->function->register_bytes);
    append(to, f->params.data(), f->params.size());
  }
  append(to, local_.data(), local_.size());
}

// Whether the cluster returns to a state without changing anything that lasts, after all that could run has
// run. It runs the warps in turn, and looks for the cycle as Brent does ("An improved Monte Carlo
// factorization algorithm", 1980).
bool Execution::repeats(const std::vector<Block*>& cluster) {
  std::uint64_t warps = 0;
  for (const Block* b : cluster) {
    if (!b->async_operations.empty()) return false;
    warps += b->warps.size();
  }
  const std::uint64_t before = lasting_events, rounds = std::min(most_rounds, most_instructions / warps);
  std::vector<std::uint8_t> places = places_of(cluster), state = state_of(cluster);
  Unmoved unmoved(cluster);
  for (std::uint64_t round = 1, next = 2; round <= rounds; ++round) {
    bool ran = false;
    for (const Block* b : cluster)
      for (auto& w : b->warps) {
        if (w->done() || !w->ready()) continue;
        ran = true;
        w->run(1);
        if (lasting_events != before || stopped) return false;
      }
    if (!ran) return true; // its warps wait for each other
    unmoved.update();
    std::vector<std::uint8_t> here = places_of(cluster);
    if (unmoved.empty() && here == places && state_of(cluster) == state) return true;
    if (round < next) continue;
    next *= 2;
    places = std::move(here);
    state = state_of(cluster);
    unmoved = Unmoved(cluster);
  }
  return false;
}

// Whether all clusters repeat themselves, after `instructions` more of them, and read memory while they do so
// or wait. (Other endless loops are those of one warp, which the budget ends.)
bool Execution::all_wait(const std::vector<std::unique_ptr<Block>>& blocks, std::size_t ready,
                         std::uint64_t instructions) {
  if (lasting_events != last_events_) {
    last_events_ = lasting_events;
    instructions_without_event_ = 0;
    return false;
  }
  instructions_without_event_ += instructions;
  if (instructions_without_event_ < check_interval * (ready + 1) * check_factor_) return false;
  instructions_without_event_ = 0;
  const std::uint64_t observations_before = observations;
  for (const auto& b : blocks)
    if (b->cluster.front() == b.get() && !repeats(b->cluster)) {
      check_factor_ *= 4; // it computes for long: check less often
      return false;
    }
  const bool others = std::any_of(blocks.begin(), blocks.end(), [](const auto& b) {
    return std::any_of(b->warps.begin(), b->warps.end(),
                       [](const auto& w) { return !w->done() && !w->ready(); });
  });
  return observations != observations_before || others;
}

} // namespace kiln::emulator
