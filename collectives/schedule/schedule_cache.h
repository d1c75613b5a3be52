// Keeps the schedules that have been built, so that a repeated call finds its schedule.
//
//   const auto s = cached_schedule(direct_gather, shards, {.shard = row_bytes}, {.computes = false});
//   const auto t = cached_all_to_all(ranks, bytes_of);
//
// To build a schedule for P ranks takes time in proportion to P^2, and all ranks of a process need the same
// one. So the first rank builds it, and the others share it. To find a schedule in the cache takes time in
// proportion to P (P^2 for an all_to_all, whose bytes it compares), and allocates nothing. The cache has up
// to 2^18 steps in all, which is some 25 MB, where a schedule without steps counts as several. It drops the
// schedules that have not been used for the longest time. Thread-safe.
#pragma once

#include <kiln/collectives/schedule/prepared_schedule.h>
#include <kiln/dsl/api.h>

#include <cstdint>
#include <memory>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

using ScheduleFunction = Schedule (*)(const Shards& shards, RowBytes bytes, ScheduleOptions options);

// What `build` returns for these arguments, prepared.
std::shared_ptr<const PreparedSchedule> cached_schedule(ScheduleFunction build, const Shards& shards,
                                                        RowBytes bytes, ScheduleOptions options = {});
// direct_all_to_all(ranks, bytes_of), prepared.
std::shared_ptr<const PreparedSchedule> cached_all_to_all(int ranks,
                                                          const std::vector<std::int64_t>& bytes_of);

// The number of steps of all schedules in the cache.
std::size_t cached_steps();

} // namespace kiln::collectives
KILN_API_END
