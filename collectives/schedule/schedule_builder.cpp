// Lists the steps of schedules.
#include <kiln/collectives/schedule/schedule_builder.h>

#include <utility>

namespace kiln::collectives {

ScheduleBuilder::ScheduleBuilder(const char* name, Exchange exchange, const Shards& shards, RowBytes bytes,
                                 ScheduleOptions options)
    : row_bytes_(bytes) {
  schedule_.name = name;
  schedule_.exchange = exchange;
  schedule_.shards = shards;
  schedule_.computes = options.computes;
  schedule_.uses_sums = options.uses_sums;
}

Chunk Schedule::following(Chunk chunk, int by) const {
  const int at = chunk.owner * shards.chunks() + chunk.index + by;
  return {at / shards.chunks(), at % shards.chunks()};
}

Rows Schedule::rows(const Step& step) const {
  return {shards.rows(step.piece.chunk).begin, shards.rows(following(step.piece.chunk, step.chunks - 1)).end};
}

int ScheduleBuilder::add(Step step) {
  schedule_.steps.push_back(std::move(step));
  return static_cast<int>(schedule_.steps.size()) - 1;
}

std::int64_t ScheduleBuilder::bytes(const Piece& piece) const {
  const std::int64_t row = piece.kind == Piece::Kind::shard     ? row_bytes_.shard
                           : piece.kind == Piece::Kind::partial ? row_bytes_.partial
                                                                : row_bytes_.sum;
  return row * schedule_.shards.rows(piece.chunk).count();
}

int ScheduleBuilder::origin(int rank, const Piece& piece) const {
  const auto at = origins_.find(key(rank, piece));
  return at == origins_.end() ? -1 : at->second;
}

void ScheduleBuilder::put(int from, int to, const Piece& piece, std::vector<int> after) {
  if (const int came = origin(from, piece); came >= 0) after.push_back(came);
  origins_[key(to, piece)] = add({Step::Kind::put, from, to, piece, bytes(piece), 1, std::move(after)});
}

void ScheduleBuilder::compute(int rank, Piece::Kind kind, Chunk first, int chunks) {
  const bool partial = kind == Piece::Kind::partial;
  Step step{Step::Kind::compute, rank, rank, {kind, first, partial ? rank : 0}};
  step.chunks = chunks;
  if (schedule_.rows(step).count() == 0) return;
  std::vector<Piece> pieces;
  for (int i = 0; i < chunks; ++i)
    if (const Chunk chunk = schedule_.following(first, i); schedule_.shards.rows(chunk).count() > 0)
      pieces.push_back({kind, chunk, step.piece.source});
  if (!partial)
    for (const Piece& piece : pieces)
      if (const int came = origin(rank, piece); came >= 0) step.after.push_back(came);
  const int number = add(std::move(step));
  if (partial)
    for (const Piece& piece : pieces)
      origins_[key(rank, piece)] = number;
}

void ScheduleBuilder::compute_with_shard(int rank, Chunk chunk) {
  if (schedule_.computes) compute(rank, Piece::Kind::shard, chunk, 1);
}
void ScheduleBuilder::compute_with_sum(int rank, Chunk chunk) {
  if (schedule_.uses_sums) compute(rank, Piece::Kind::sum, chunk, 1);
}
void ScheduleBuilder::make_partial(int rank, Chunk chunk) {
  if (schedule_.computes) compute(rank, Piece::Kind::partial, chunk, 1);
}
void ScheduleBuilder::compute_own(int rank, Piece::Kind kind) {
  if (schedule_.computes) compute(rank, kind, {rank, 0}, schedule_.shards.chunks());
}
void ScheduleBuilder::compute_all(int rank, Piece::Kind kind) {
  if (schedule_.computes) compute(rank, kind, {0, 0}, ranks() * schedule_.shards.chunks());
}

void ScheduleBuilder::reduce(int rank, Chunk chunk, std::vector<int> after) {
  for (int source = 0; source < ranks(); ++source)
    if (const int came = origin(rank, {Piece::Kind::partial, chunk, source}); came >= 0)
      after.push_back(came);
  const Piece piece{Piece::Kind::sum, chunk};
  origins_[key(rank, piece)] = add({Step::Kind::reduce, rank, rank, piece, 0, 1, std::move(after)});
}

} // namespace kiln::collectives
