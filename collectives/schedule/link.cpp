// Computes when transfers pass the ports.
#include <kiln/collectives/schedule/link.h>

#include <algorithm>

namespace kiln::collectives {
namespace {

Nanoseconds occupied(const LinkModel::Edge& edge, std::int64_t bytes) {
  if (edge.bytes_per_second <= 0) return 0;
  return rounded_up(static_cast<double>(bytes) / edge.bytes_per_second * 1e9);
}

std::uint64_t hash(std::uint64_t seed, std::uint64_t x) { // splitmix64 (Steele, Lea and Flood, 2014)
  std::uint64_t z = seed + (x + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

} // namespace

LinkModel::Edge LinkModel::edge(int from, int to) const {
  for (const Edge& e : edges)
    if (e.from == from && e.to == to) return e;
  return {from, to, bytes_per_second, latency};
}

Nanoseconds LinkModel::duration(int from, int to, std::int64_t bytes) const {
  if (from == to) return 0;
  const Edge e = edge(from, to);
  return later(occupied(e, bytes), e.latency);
}

Ports::Ports(LinkModel model, int ranks)
    : model_(std::move(model)), sends_until_(static_cast<std::size_t>(ranks)),
      receives_until_(static_cast<std::size_t>(ranks)) {}

Passage Ports::pass(int from, int to, std::int64_t bytes, Nanoseconds now) {
  if (from == to) return {now, now, now};
  const LinkModel::Edge edge = model_.edge(from, to);
  Nanoseconds &sends = sends_until_[static_cast<std::size_t>(from)],
              &receives = receives_until_[static_cast<std::size_t>(to)];
  Passage p;
  p.begin = std::max({now, sends, receives});
  p.end = later(p.begin, occupied(edge, bytes));
  sends = receives = p.end;
  p.arrival = later(p.end, edge.latency);
  const std::uint64_t number = transfers_++;
  if (model_.jitter > 0)
    p.arrival = later(p.arrival, static_cast<Nanoseconds>(hash(model_.seed, number) %
                                                          (static_cast<std::uint64_t>(model_.jitter) + 1)));
  return p;
}

} // namespace kiln::collectives
