// Evaluates the formulas of the alpha-beta model.
#include <kiln/collectives/schedule/cost_model.h>

#include <algorithm>
#include <bit>
#include <optional>

namespace kiln::collectives {
namespace {

struct Terms {
  double alpha = 0, beta = 0; // nanoseconds, and nanoseconds a byte
};

Terms slowest(const LinkModel& link) {
  const auto of = [](double bytes_per_second, Nanoseconds latency) {
    return Terms{static_cast<double>(latency), bytes_per_second > 0 ? 1e9 / bytes_per_second : 0};
  };
  Terms t = of(link.bytes_per_second, link.latency);
  for (const LinkModel::Edge& e : link.edges) {
    const Terms other = of(e.bytes_per_second, e.latency);
    t.alpha = std::max(t.alpha, other.alpha), t.beta = std::max(t.beta, other.beta);
  }
  return t;
}

std::optional<double> time(Terms t, int ranks, CollectiveKind kind, double bytes, Algorithm algorithm) {
  const double p = ranks, part = (p - 1) / p * bytes * t.beta,
               rounds = std::bit_width(static_cast<unsigned>(ranks - 1)); // log2 P, rounded up
  const bool one_way = kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter;
  const bool both_ways = kind == CollectiveKind::all_reduce || kind == CollectiveKind::broadcast ||
                         kind == CollectiveKind::reduce;
  switch (algorithm) {
  case Algorithm::ring:
    if (one_way) return (p - 1) * t.alpha + part;
    if (both_ways) return 2 * ((p - 1) * t.alpha + part);
    break;
  case Algorithm::recursive_halving:
    if (one_way) return rounds * t.alpha + part;
    if (both_ways) return 2 * (rounds * t.alpha + part);
    break;
  case Algorithm::tree:
    if (kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce)
      return rounds * (t.alpha + bytes * t.beta);
    if (kind == CollectiveKind::all_reduce) return 2 * rounds * (t.alpha + bytes * t.beta);
    break;
  case Algorithm::direct:
    if (one_way || kind == CollectiveKind::all_to_all) return t.alpha + part;
    if (kind == CollectiveKind::all_reduce)
      return std::min(2 * (t.alpha + part), t.alpha + (p - 1) * bytes * t.beta);
    return t.alpha + (p - 1) * bytes * t.beta; // the root's port
  case Algorithm::best: break;
  }
  return std::nullopt;
}

} // namespace

Nanoseconds estimate(const LinkModel& link, int ranks, CollectiveKind kind, std::int64_t bytes,
                     Algorithm algorithm) {
  if (ranks < 2) return 0;
  const Terms terms = slowest(link);
  const double size = static_cast<double>(bytes);
  if (const auto t = time(terms, ranks, kind, size, algorithm)) return rounded_up(*t);
  std::optional<double> best;
  for (Algorithm a : {Algorithm::ring, Algorithm::tree, Algorithm::recursive_halving, Algorithm::direct})
    if (const auto t = time(terms, ranks, kind, size, a); t && (!best || *t < *best)) best = t;
  return rounded_up(*best);
}

} // namespace kiln::collectives
