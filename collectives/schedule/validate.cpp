// Checks schedules: it follows which pieces each rank has after each step.
#include <kiln/collectives/schedule/schedule.h>

#include <kiln/dsl/error.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace kiln::collectives {
namespace {

using Key = std::tuple<int, Piece::Kind, int, int, int>; // rank, kind, owner, index, source
Key key(int rank, const Piece& p) { return {rank, p.kind, p.chunk.owner, p.chunk.index, p.source}; }

class Validator {
public:
  explicit Validator(const Schedule& schedule) : s_(schedule) {}

  void run() {
    for (at_ = 0; at_ < s_.steps.size(); ++at_)
      check(s_.steps[at_]);
    check_end();
  }

private:
  void require(bool right, const char* what) const {
    internal_check(right, "schedule " + s_.name + ", step " + std::to_string(at_) + ": " + what);
  }
  void require_at_end(bool right, int rank, const char* what) const {
    internal_check(right, "schedule " + s_.name + ": in the end, rank " + std::to_string(rank) + " " + what);
  }
  bool exists(int rank) const { return rank >= 0 && rank < s_.ranks(); }
  bool exists(const Piece& p) const {
    return exists(p.chunk.owner) && p.chunk.index >= 0 && p.chunk.index < s_.shards.chunks() &&
           exists(p.source);
  }

  // Requires that the rank has the piece, and that the step waits until it does.
  void require_piece(const Step& step, int rank, const Piece& piece) const {
    const bool from_the_beginning = piece.kind == Piece::Kind::shard ? rank == piece.chunk.owner
                                    : piece.kind == Piece::Kind::partial
                                        ? !s_.computes && rank == piece.source
                                        : false;
    if (from_the_beginning) return;
    const auto origin = origins_.find(key(rank, piece));
    require(origin != origins_.end(), "the piece is not there");
    // A rank's own computations come one after the other.
    const Step& made = s_.steps[static_cast<std::size_t>(origin->second)];
    if (step.kind != Step::Kind::put && made.kind != Step::Kind::put) return;
    require(std::find(step.after.begin(), step.after.end(), origin->second) != step.after.end(),
            "it does not wait for the piece");
  }

  void check(const Step& step) {
    require(exists(step.rank) && exists(step.to) && exists(step.piece), "there is no such rank or chunk");
    for (int before : step.after)
      require(before >= 0 && static_cast<std::size_t>(before) < at_, "it waits for a later step");
    switch (step.kind) {
    case Step::Kind::put:
      require(step.rank != step.to, "a rank sends to itself");
      require_piece(step, step.rank, step.piece);
      require(step.piece.kind != Piece::Kind::shard || step.to != step.piece.chunk.owner,
              "the rank has the piece already");
      get(step.to, step.piece);
      break;
    case Step::Kind::compute:
      require(step.piece.kind == Piece::Kind::sum ? s_.uses_sums : s_.computes,
              "the schedule does not compute this");
      require(step.chunks >= 1 &&
                  step.piece.chunk.owner * s_.shards.chunks() + step.piece.chunk.index + step.chunks <=
                      s_.ranks() * s_.shards.chunks(),
              "it has too many chunks");
      for (int i = 0; i < step.chunks; ++i)
        if (const Chunk chunk = s_.following(step.piece.chunk, i); s_.shards.rows(chunk).count() > 0)
          compute(step, {step.piece.kind, chunk, step.piece.source});
      break;
    case Step::Kind::reduce:
      require(step.piece.kind == Piece::Kind::sum, "it does not make a sum");
      for (int source = 0; source < s_.ranks(); ++source)
        require_piece(step, step.rank, {Piece::Kind::partial, step.piece.chunk, source});
      get(step.rank, step.piece);
      break;
    }
  }

  void compute(const Step& step, const Piece& piece) {
    if (piece.kind != Piece::Kind::partial) {
      require_piece(step, step.rank, piece);
      require(computed_.insert(key(step.rank, piece)).second, "the chunk is computed twice");
    } else {
      require(piece.source == step.rank, "it makes what another rank makes");
      get(step.rank, piece);
    }
  }

  bool made_sum(int rank, const Piece& piece) const {
    const Step& made = s_.steps[static_cast<std::size_t>(origins_.at(key(rank, piece)))];
    return made.kind == Step::Kind::reduce;
  }

  void get(int rank, const Piece& piece) {
    require(origins_.emplace(key(rank, piece), static_cast<int>(at_)).second,
            "the rank has the piece already");
  }

  void check_end() const {
    if (s_.exchange == Exchange::all_to_all) return; // which pairs exchange something is up to the caller
    for (int rank = 0; rank < s_.ranks(); ++rank)
      for (int owner = 0; owner < s_.ranks(); ++owner)
        for (int i = 0; i < s_.shards.chunks(); ++i) {
          const Chunk chunk{owner, i};
          if (s_.shards.rows(chunk).count() == 0) continue;
          const Piece shard{Piece::Kind::shard, chunk}, sum{Piece::Kind::sum, chunk};
          if (s_.exchange == Exchange::gather) {
            require_at_end(rank == owner || origins_.count(key(rank, shard)), rank, "lacks a shard");
            require_at_end(!s_.computes || computed_.count(key(rank, shard)), rank,
                           "has not computed a chunk");
          } else if (rank == owner || s_.exchange == Exchange::all_reduce) {
            require_at_end(origins_.count(key(rank, sum)), rank, "lacks a sum");
            require_at_end(!s_.uses_sums || made_sum(rank, sum) || computed_.count(key(rank, sum)), rank,
                           "has not computed with a sum");
          }
        }
  }

  const Schedule& s_;
  std::size_t at_ = 0;
  std::map<Key, int> origins_; // the step with which a piece came to a rank
  std::set<Key> computed_;     // shards and sums with which ranks have computed
};

} // namespace

const char* name_of(Exchange exchange) {
  switch (exchange) {
  case Exchange::gather: return "gather";
  case Exchange::scatter: return "scatter";
  case Exchange::all_reduce: return "all_reduce";
  case Exchange::all_to_all: return "all_to_all";
  }
  return "";
}

void validate(const Schedule& schedule) { Validator(schedule).run(); }

} // namespace kiln::collectives
