// Builds the schedules of gathers.
#include <kiln/collectives/schedule/schedule_builder.h>

namespace kiln::collectives {
namespace {

Piece shard(Chunk chunk) { return {Piece::Kind::shard, chunk}; }

// The own shard comes first, then those of the ranks before, which arrive in this order.
void compute_in_order_of_arrival(ScheduleBuilder& b) {
  for (int rank = 0; rank < b.ranks(); ++rank)
    b.compute_own(rank, Piece::Kind::shard);
  for (int back = 1; back < b.ranks(); ++back)
    for (int rank = 0; rank < b.ranks(); ++rank)
      b.each_chunk(b.wrapped(rank - back), [&](Chunk chunk) { b.compute_with_shard(rank, chunk); });
}

void put_around_the_ring(ScheduleBuilder& b) {
  for (int hop = 0; hop + 1 < b.ranks(); ++hop)
    for (int rank = 0; rank < b.ranks(); ++rank)
      b.each_chunk(b.wrapped(rank - hop),
                   [&](Chunk chunk) { b.put(rank, b.wrapped(rank + 1), shard(chunk)); });
}

} // namespace

Schedule serial_gather(const Shards& shards, RowBytes bytes, ScheduleOptions options) {
  ScheduleBuilder b("serial", Exchange::gather, shards.in_chunks(1), bytes, options);
  put_around_the_ring(b);
  for (int rank = 0; rank < b.ranks(); ++rank)
    b.compute_all(rank, Piece::Kind::shard);
  return b.take();
}

Schedule ring_gather(const Shards& shards, RowBytes bytes, ScheduleOptions options) {
  ScheduleBuilder b("ring", Exchange::gather, shards, bytes, options);
  put_around_the_ring(b);
  compute_in_order_of_arrival(b);
  return b.take();
}

Schedule direct_gather(const Shards& shards, RowBytes bytes, ScheduleOptions options) {
  ScheduleBuilder b("direct", Exchange::gather, shards, bytes, options);
  each_distance(b, [&](int distance) {
    for (int owner = 0; owner < b.ranks(); ++owner)
      b.each_chunk(owner, [&](Chunk chunk) { b.put(owner, b.wrapped(owner + distance), shard(chunk)); });
  });
  compute_in_order_of_arrival(b);
  return b.take();
}

} // namespace kiln::collectives
