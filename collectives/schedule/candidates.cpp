// Builds the schedules that are possible for a product with a collective.
#include <kiln/collectives/schedule/candidates.h>

#include <kiln/collectives/schedule/schedule_cache.h>
#include <kiln/dsl/error.h>

#include <algorithm>
#include <numeric>

namespace kiln::collectives {

const char* name_of(ProductKind kind) {
  switch (kind) {
  case ProductKind::gather_matmul: return "gather_matmul";
  case ProductKind::matmul_reduce_scatter: return "matmul_reduce_scatter";
  case ProductKind::matmul_all_reduce: return "matmul_all_reduce";
  }
  return "";
}

std::string ProductShape::text() const {
  std::string rows;
  for (int r = 0; r < shards.ranks(); ++r)
    rows += (r ? "+" : "") + std::to_string(shards.rows(r).count());
  std::string text =
      std::string(name_of(kind)) + " " + rows + " x " + std::to_string(n) + " x " + std::to_string(k);
  for (DType d : {a, partial, c})
    text += " " + std::string(name(d));
  if (norm) text += " norm";
  return text;
}

std::string Candidate::text() const {
  if (schedule == "serial") return schedule;
  std::string text = schedule + ", " + std::to_string(chunk_weights.size()) +
                     (chunk_weights.size() == 1 ? " chunk" : " chunks");
  if (std::adjacent_find(chunk_weights.begin(), chunk_weights.end(), std::not_equal_to<>()) !=
      chunk_weights.end())
    for (std::size_t i = 0; i < chunk_weights.size(); ++i)
      text += (i ? ":" : " ") + std::to_string(chunk_weights[i]);
  return text;
}

std::vector<Candidate> candidates_of(const ProductShape& shape) {
  std::int64_t largest = 0;
  for (int r = 0; r < shape.shards.ranks(); ++r)
    largest = std::max(largest, shape.shards.rows(r).count());
  std::vector<std::vector<int>> chunkings;
  for (int count : {1, 2, 3, 4, 6, 8, 12, 16})
    if (count <= std::max<std::int64_t>(largest, 1))
      chunkings.emplace_back(static_cast<std::size_t>(count), 1);
  for (int count : {2, 3, 4, 6, 8}) {
    if (count > largest) continue;
    std::vector<int> rising(static_cast<std::size_t>(count));
    std::iota(rising.begin(), rising.end(), 1);
    if (shape.kind == ProductKind::gather_matmul) std::reverse(rising.begin(), rising.end());
    chunkings.push_back(rising);
  }
  std::vector<Candidate> list{{}};
  if (shape.shards.ranks() == 1) return list;
  const auto add = [&](const char* schedule, std::size_t most) {
    for (const std::vector<int>& weights : chunkings)
      if (weights.size() <= most) list.push_back({schedule, weights});
  };
  switch (shape.kind) {
  case ProductKind::gather_matmul:
    add("ring", 16);
    add("direct", 16);
    break;
  case ProductKind::matmul_reduce_scatter: add("direct", 16); break;
  case ProductKind::matmul_all_reduce:
    add("two_shot", 16);
    add("one_shot", 4);
    break;
  }
  return list;
}

namespace {

// The arguments with which a candidate's schedule is built.
struct Recipe {
  ScheduleFunction build;
  Shards chunks;
  RowBytes bytes;
  ScheduleOptions options;
};

Recipe recipe_of(const ProductShape& shape, const Candidate& candidate) {
  struct Named {
    ProductKind kind;
    const char* schedule;
    ScheduleFunction build;
  };
  static constexpr Named all[] = {
      {ProductKind::gather_matmul, "serial", serial_gather},
      {ProductKind::gather_matmul, "ring", ring_gather},
      {ProductKind::gather_matmul, "direct", direct_gather},
      {ProductKind::matmul_reduce_scatter, "serial", serial_scatter},
      {ProductKind::matmul_reduce_scatter, "direct", direct_scatter},
      {ProductKind::matmul_all_reduce, "serial", serial_all_reduce},
      {ProductKind::matmul_all_reduce, "two_shot", two_shot_all_reduce},
      {ProductKind::matmul_all_reduce, "one_shot", one_shot_all_reduce},
  };
  for (const Named& named : all)
    if (named.kind == shape.kind && named.schedule == candidate.schedule)
      return {named.build,
              shape.shards.in_chunks(candidate.chunk_weights),
              {.shard = shape.k * size_of(shape.a),
               .partial = shape.n * size_of(shape.partial),
               .sum = shape.n * size_of(shape.c)},
              {.uses_sums = shape.norm && shape.kind == ProductKind::matmul_all_reduce}};
  throw UserError(std::string(name_of(shape.kind)) + " has no schedule \"" + candidate.schedule +
                  "\"; use one that candidates_of lists");
}

} // namespace

Schedule schedule_of(const ProductShape& shape, const Candidate& candidate) {
  const Recipe r = recipe_of(shape, candidate);
  return r.build(r.chunks, r.bytes, r.options);
}

std::shared_ptr<const PreparedSchedule> shared_schedule_of(const ProductShape& shape,
                                                           const Candidate& candidate) {
  const Recipe r = recipe_of(shape, candidate);
  return cached_schedule(r.build, r.chunks, r.bytes, r.options);
}

StepCost cost_of(const ProductShape& shape, const ComputeModel& machine, const Schedule& schedule) {
  return
      [shape, machine, rows_of = Schedule{schedule.name, schedule.exchange, schedule.shards}](const Step& s) {
        const std::int64_t rows = rows_of.rows(s).count();
        if (s.kind == Step::Kind::reduce)
          return machine.pass(
              rows * shape.n *
              (shape.shards.ranks() * size_of(shape.partial) + (shape.norm ? 3 : 1) * size_of(shape.c)));
        if (s.piece.kind == Piece::Kind::sum) return machine.pass(2 * rows * shape.n * size_of(shape.c));
        return machine.product(rows, shape.n, shape.k, size_of(shape.a));
      };
}

} // namespace kiln::collectives
