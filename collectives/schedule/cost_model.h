// Estimates how long collectives take, by the alpha-beta model: a transfer of n bytes takes alpha + n beta,
// and each rank sends and receives one message at a time.
//
// The formulas are those of Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication
// Operations in MPICH", 2005. V is the bytes of the whole tensor, P the number
// of ranks:
//
//   ring               all_gather, reduce_scatter   (P - 1) (alpha + V / P beta)
//                      all_reduce                   twice that
//                      broadcast, reduce            twice that: a scatter and a gather
//   recursive_halving  all_gather, reduce_scatter   log2 P alpha + (P - 1) / P V beta
//                      all_reduce, broadcast, reduce   twice that
//   tree               broadcast, reduce            log2 P (alpha + V beta)
//                      all_reduce                   twice that
//   direct             all_gather, reduce_scatter   alpha + (P - 1) / P V beta
//                      all_reduce                   twice that, or alpha + (P - 1) V beta in one shot
//
// log2 P is rounded up.
#pragma once

#include <kiln/collectives/schedule/link.h>
#include <kiln/dsl/api.h>

#include <cstdint>

KILN_API_BEGIN
namespace kiln::collectives {

enum class CollectiveKind : std::uint8_t {
  all_gather,
  reduce_scatter,
  all_reduce,
  broadcast,
  reduce,
  all_to_all
};
// `best` is the fastest of the others that exist for the collective.
enum class Algorithm : std::uint8_t { ring, tree, recursive_halving, direct, best };

// The time in nanoseconds for `ranks` ranks. If edges of the link differ, the slowest one is used. If the
// collective has no such algorithm, the result is that of `best`.
Nanoseconds estimate(const LinkModel& link, int ranks, CollectiveKind kind, std::int64_t bytes,
                     Algorithm algorithm = Algorithm::best);

} // namespace kiln::collectives
KILN_API_END
