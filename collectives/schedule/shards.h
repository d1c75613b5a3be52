// Defines how the rows of a tensor are divided among ranks, and the rows of a rank into chunks.
//
//   const Shards shards = Shards::even(100, 3);                // 33, 33 and 34 rows
//   const Shards uneven({40, 0, 60});                          // a rank may have no rows
//   const Shards parts = shards.in_chunks({4, 2, 1});          // each shard in three chunks of falling size
//   parts.rows({.owner = 1, .index = 0});                      // rows 33 to 51 of the tensor, end excluded
//
// A chunk is the unit in which schedules (schedule.h) send and compute. If there are fewer rows than chunks,
// some are empty.
#pragma once

#include <kiln/dsl/api.h>

#include <cstdint>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

// A chunk of the shard of rank `owner`.
struct Chunk {
  int owner = 0, index = 0;
  bool operator==(const Chunk&) const = default;
};

// Rows of the whole tensor, `end` excluded.
struct Rows {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
  bool operator==(const Rows&) const = default;
};

class Shards {
public:
  // Shard r has the rows from rows * r / ranks to rows * (r + 1) / ranks.
  static Shards even(std::int64_t rows, int ranks);
  // Shard r has rows_of[r] rows. There must be at least one shard, and no negative number.
  explicit Shards(std::vector<std::int64_t> rows_of);

  // Returns these shards, each divided into chunks whose sizes are in the ratio of the weights, which must be
  // positive.
  Shards in_chunks(const std::vector<int>& weights) const;
  Shards in_chunks(int count) const; // of one size, as far as possible

  int ranks() const { return static_cast<int>(begins_.size()) - 1; }
  int chunks() const { return static_cast<int>(cuts_.size()) - 1; }
  std::int64_t rows() const { return begins_.back(); }
  const std::vector<std::int64_t>& begins() const {
    return begins_;
  } // of the shards, and the number of all rows
  const std::vector<std::int64_t>& cuts() const {
    return cuts_;
  } // where chunks begin, in parts of the last one
  Rows rows(int owner) const;
  Rows rows(Chunk chunk) const;
  // The first row of a chunk within its shard.
  std::int64_t offset(Chunk chunk) const { return rows(chunk).begin - rows(chunk.owner).begin; }
  bool operator==(const Shards&) const = default;

private:
  std::vector<std::int64_t> begins_;
  std::vector<std::int64_t> cuts_ = {0, 1};
};

} // namespace kiln::collectives
KILN_API_END
