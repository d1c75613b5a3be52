// Divides rows into shards and chunks.
#include <kiln/collectives/schedule/shards.h>

#include <kiln/dsl/error.h>

#include <string>

namespace kiln::collectives {

Shards Shards::even(std::int64_t rows, int ranks) {
  if (rows < 0 || ranks < 1)
    throw UserError("Shards::even: " + std::to_string(rows) + " rows cannot be divided among " +
                    std::to_string(ranks) + " ranks; pass at least 0 rows and 1 rank");
  std::vector<std::int64_t> rows_of;
  for (int r = 0; r < ranks; ++r)
    rows_of.push_back(rows * (r + 1) / ranks - rows * r / ranks);
  return Shards(std::move(rows_of));
}

Shards::Shards(std::vector<std::int64_t> rows_of) : begins_{0} {
  if (rows_of.empty()) throw UserError("Shards: there is no shard; give the number of rows of each rank");
  for (std::int64_t rows : rows_of) {
    if (rows < 0)
      throw UserError("Shards: a shard has " + std::to_string(rows) + " rows; pass 0 for an empty shard");
    begins_.push_back(begins_.back() + rows);
  }
}

Shards Shards::in_chunks(const std::vector<int>& weights) const {
  if (weights.empty()) throw UserError("Shards::in_chunks: there is no weight; give one for each chunk");
  Shards result = *this;
  result.cuts_ = {0};
  for (int weight : weights) {
    if (weight < 1)
      throw UserError("Shards::in_chunks: the weight " + std::to_string(weight) + " is not positive");
    result.cuts_.push_back(result.cuts_.back() + weight);
  }
  return result;
}

Shards Shards::in_chunks(int count) const {
  return in_chunks(std::vector<int>(static_cast<std::size_t>(count > 0 ? count : 0), 1));
}

Rows Shards::rows(int owner) const {
  const auto o = static_cast<std::size_t>(owner);
  return {begins_[o], begins_[o + 1]};
}

Rows Shards::rows(Chunk chunk) const {
  const Rows shard = rows(chunk.owner);
  const auto i = static_cast<std::size_t>(chunk.index);
  const auto at = [&](std::int64_t cut) { return shard.begin + shard.count() * cut / cuts_.back(); };
  return {at(cuts_[i]), at(cuts_[i + 1])};
}

} // namespace kiln::collectives
