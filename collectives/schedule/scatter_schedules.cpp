// Builds the schedules of scatters, all-reduces and all-to-alls.
#include <kiln/collectives/schedule/schedule_builder.h>

#include <kiln/dsl/error.h>

namespace kiln::collectives {
namespace {

Piece partial(Chunk chunk, int source) { return {Piece::Kind::partial, chunk, source}; }
Piece sum(Chunk chunk) { return {Piece::Kind::sum, chunk}; }

// Each rank computes what it contributes to all chunks.
void make_all_partials(ScheduleBuilder& b) {
  for (int rank = 0; rank < b.ranks(); ++rank)
    b.compute_all(rank, Piece::Kind::partial);
}

void put_all_partials(ScheduleBuilder& b) {
  each_distance(b, [&](int distance) {
    for (int rank = 0; rank < b.ranks(); ++rank) {
      const int to = b.wrapped(rank + distance);
      b.each_chunk(to, [&](Chunk chunk) { b.put(rank, to, partial(chunk, rank)); });
    }
  });
}

// What is computed is sent at once; the own shard comes last.
void scatter_as_computed(ScheduleBuilder& b) {
  each_distance(b, [&](int distance) {
    for (int rank = 0; rank < b.ranks(); ++rank) {
      const int to = b.wrapped(rank + distance);
      b.each_chunk(to, [&](Chunk chunk) {
        b.make_partial(rank, chunk);
        b.put(rank, to, partial(chunk, rank));
      });
    }
  });
  for (int rank = 0; rank < b.ranks(); ++rank)
    b.compute_own(rank, Piece::Kind::partial);
}

// The owners add what they got.
void reduce_own_chunks(ScheduleBuilder& b) {
  for (int rank = 0; rank < b.ranks(); ++rank)
    b.each_chunk(rank, [&](Chunk chunk) { b.reduce(rank, chunk); });
}

void put_sums(ScheduleBuilder& b) {
  each_distance(b, [&](int distance) {
    for (int owner = 0; owner < b.ranks(); ++owner)
      b.each_chunk(owner, [&](Chunk chunk) { b.put(owner, b.wrapped(owner + distance), sum(chunk)); });
  });
  // The chunks of one's own are used where they are made.
  each_distance(b, [&](int distance) {
    for (int owner = 0; owner < b.ranks(); ++owner)
      b.each_chunk(owner, [&](Chunk chunk) { b.compute_with_sum(b.wrapped(owner + distance), chunk); });
  });
}

} // namespace

Schedule serial_scatter(const Shards& shards, RowBytes bytes, ScheduleOptions options) {
  ScheduleBuilder b("serial", Exchange::scatter, shards.in_chunks(1), bytes, options);
  make_all_partials(b);
  put_all_partials(b);
  reduce_own_chunks(b);
  return b.take();
}

Schedule direct_scatter(const Shards& shards, RowBytes bytes, ScheduleOptions options) {
  ScheduleBuilder b("direct", Exchange::scatter, shards, bytes, options);
  scatter_as_computed(b);
  reduce_own_chunks(b);
  return b.take();
}

Schedule serial_all_reduce(const Shards& shards, RowBytes bytes, ScheduleOptions options) {
  ScheduleBuilder b("serial", Exchange::all_reduce, shards.in_chunks(1), bytes, options);
  make_all_partials(b);
  put_all_partials(b);
  reduce_own_chunks(b);
  put_sums(b);
  return b.take();
}

Schedule two_shot_all_reduce(const Shards& shards, RowBytes bytes, ScheduleOptions options) {
  ScheduleBuilder b("two_shot", Exchange::all_reduce, shards, bytes, options);
  scatter_as_computed(b);
  reduce_own_chunks(b);
  put_sums(b);
  return b.take();
}

Schedule one_shot_all_reduce(const Shards& shards, RowBytes bytes, ScheduleOptions options) {
  ScheduleBuilder b("one_shot", Exchange::all_reduce, shards, bytes, options);
  b.each_chunk([&](Chunk chunk) {
    for (int rank = 0; rank < b.ranks(); ++rank)
      b.make_partial(rank, chunk);
    each_distance(b, [&](int distance) {
      for (int rank = 0; rank < b.ranks(); ++rank)
        b.put(rank, b.wrapped(rank + distance), partial(chunk, rank));
    });
  });
  // The sum may overwrite what the rank sends, so it waits for that, too.
  for (int rank = 0; rank < b.ranks(); ++rank)
    b.each_chunk([&](Chunk chunk) {
      std::vector<int> sent;
      each_distance(b, [&](int distance) {
        sent.push_back(b.origin(b.wrapped(rank + distance), partial(chunk, rank)));
      });
      b.reduce(rank, chunk, std::move(sent));
    });
  return b.take();
}

Schedule direct_all_to_all(int ranks, const std::vector<std::int64_t>& bytes_of) {
  const auto n = static_cast<std::size_t>(ranks);
  internal_check(bytes_of.size() == n * n, "all_to_all: one number of bytes for each pair of ranks");
  Schedule s{"direct", Exchange::all_to_all, Shards(std::vector<std::int64_t>(n, 1)), false};
  for (int distance = 1; distance < ranks; ++distance)
    for (int from = 0; from < ranks; ++from) {
      const int to = (from + distance) % ranks;
      const std::int64_t bytes = bytes_of[static_cast<std::size_t>(from) * n + static_cast<std::size_t>(to)];
      if (bytes > 0) s.steps.push_back({Step::Kind::put, from, to, partial({to, 0}, from), bytes});
    }
  return s;
}

} // namespace kiln::collectives
