// Defines the emulated link between in-process ranks: how long a transfer takes, and when it begins.
//
// Each rank has a port for what it sends and one for what it receives. A transfer starts when both ports are
// free, occupies them for its bytes divided by the bandwidth, and arrives one latency after its last byte;
// the ports are free during the latency. Each port serves transfers in the order in which they are requested.
#pragma once

#include <kiln/collectives/schedule/nanoseconds.h>
#include <kiln/dsl/api.h>

#include <cstdint>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

struct LinkModel {
  // Of the link from one rank to another.
  struct Edge {
    int from = 0, to = 0;
    double bytes_per_second = 0; // 0: unlimited
    Nanoseconds latency = 0;
  };
  double bytes_per_second = 0; // of one direction; 0: unlimited
  Nanoseconds latency = 0;
  std::vector<Edge> edges = {}; // the edges that differ from the above
  Nanoseconds jitter = 0;       // each latency grows by up to this, pseudo-randomly, as the seed determines
  std::uint64_t seed = 0;

  bool is_free() const { return bytes_per_second == 0 && latency == 0 && jitter == 0 && edges.empty(); }
  Edge edge(int from, int to) const;
  // The time from the first byte to the arrival, without jitter, if the ports are free.
  Nanoseconds duration(int from, int to, std::int64_t bytes) const;
};

struct Passage {
  Nanoseconds begin = 0, end = 0; // of the time in which it occupies the ports
  Nanoseconds arrival = 0;
};

// The ports of all ranks. Not thread-safe.
class Ports {
public:
  Ports(LinkModel model, int ranks);
  // Requests a transfer, at this time. A transfer of a rank to itself takes no time.
  Passage pass(int from, int to, std::int64_t bytes, Nanoseconds now);

private:
  LinkModel model_;
  std::vector<Nanoseconds> sends_until_, receives_until_; // by rank
  std::uint64_t transfers_ = 0;
};

} // namespace kiln::collectives
KILN_API_END
