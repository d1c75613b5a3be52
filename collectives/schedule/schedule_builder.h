// Defines ScheduleBuilder, which lists steps and finds out which earlier steps each of them waits for.
#pragma once

#include <kiln/collectives/schedule/schedule.h>

#include <map>
#include <tuple>

namespace kiln::collectives {

class ScheduleBuilder {
public:
  ScheduleBuilder(const char* name, Exchange exchange, const Shards& shards, RowBytes bytes,
                  ScheduleOptions options);

  int ranks() const { return schedule_.ranks(); }
  int wrapped(int rank) const { return ((rank % ranks()) + ranks()) % ranks(); }
  bool computes() const { return schedule_.computes; }
  // Calls body for the chunks of a shard that have rows.
  template <class F> void each_chunk(int owner, const F& body) const {
    for (int i = 0; i < schedule_.shards.chunks(); ++i)
      if (schedule_.shards.rows(Chunk{owner, i}).count() > 0) body(Chunk{owner, i});
  }
  template <class F> void each_chunk(const F& body) const {
    for (int owner = 0; owner < ranks(); ++owner)
      each_chunk(owner, body);
  }

  void put(int from, int to, const Piece& piece, std::vector<int> after = {});
  // Nothing is listed if the schedule computes nothing.
  void compute_with_shard(int rank, Chunk chunk);
  void make_partial(int rank, Chunk chunk);
  void compute_with_sum(int rank, Chunk chunk); // nothing is listed unless the schedule uses sums
  // The same for all chunks of the rank's own shard, or of all shards, at once.
  void compute_own(int rank, Piece::Kind kind);
  void compute_all(int rank, Piece::Kind kind);
  void reduce(int rank, Chunk chunk, std::vector<int> after = {});

  // The step with which a piece came to a rank or was made there; -1 if it was there from the beginning.
  int origin(int rank, const Piece& piece) const;
  Schedule take() { return std::move(schedule_); }

private:
  using Key = std::tuple<int, Piece::Kind, int, int, int>; // rank, kind, owner, index, source
  static Key key(int rank, const Piece& p) { return {rank, p.kind, p.chunk.owner, p.chunk.index, p.source}; }
  int add(Step step);
  void compute(int rank, Piece::Kind kind, Chunk first, int chunks);
  std::int64_t bytes(const Piece& piece) const;

  Schedule schedule_;
  RowBytes row_bytes_;
  std::map<Key, int> origins_;
};

// The distance from a rank to those it sends to, one after the other, such that at each distance each rank
// receives from one other.
template <class F> void each_distance(const ScheduleBuilder& b, const F& body) {
  for (int distance = 1; distance < b.ranks(); ++distance)
    body(distance);
}

} // namespace kiln::collectives
