// Lists the schedules that are possible for a product with a collective, for the choice among them.
#pragma once

#include <kiln/collectives/schedule/compute_model.h>
#include <kiln/collectives/schedule/forecast.h>
#include <kiln/collectives/schedule/prepared_schedule.h>
#include <kiln/dsl/api.h>
#include <kiln/dsl/dtype.h>

#include <memory>
#include <string>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

enum class ProductKind : std::uint8_t {
  gather_matmul,         // c = gather(a) b
  matmul_reduce_scatter, // c = the own rows of the sum over ranks of a b
  matmul_all_reduce,     // c = the sum over ranks of a b
};
const char* name_of(ProductKind kind); // "gather_matmul"

// A product of all rows with this rank's part of b.
struct ProductShape {
  ProductKind kind = ProductKind::gather_matmul;
  Shards shards{{0}};         // of the rows that are gathered, or added and scattered
  std::int64_t n = 0, k = 0;  // of one rank, of about equal ones
  DType a = DType::F32;       // what is gathered
  DType partial = DType::F32; // in which what ranks contribute is sent
  DType c = DType::F32;       // the result
  bool norm = false;          // the result is normalised, too
  std::string text() const;   // gather_matmul 512+512 x 4096 x 1024 bf16 f32 bf16: the same on all ranks
};

struct Candidate {
  std::string schedule = "serial";      // or "ring", "direct", "two_shot", "one_shot"
  std::vector<int> chunk_weights = {1}; // relative sizes of the chunks of a shard
  std::string text() const;             // "ring, 4 chunks", "direct, 3 chunks 3:2:1"
  bool operator==(const Candidate&) const = default;
};

// The serial schedule comes first, then those that overlap: up to 16 chunks of a shard, equal or tapered, so
// that the exposed part (the last chunk of a gather, the first one of a scatter) is small.
std::vector<Candidate> candidates_of(const ProductShape& shape);
Schedule schedule_of(const ProductShape& shape, const Candidate& candidate);
// Returns that schedule from the cache, or builds it there (schedule_cache.h).
std::shared_ptr<const PreparedSchedule> shared_schedule_of(const ProductShape& shape,
                                                           const Candidate& candidate);
// How long the steps of its schedules last on a machine.
StepCost cost_of(const ProductShape& shape, const ComputeModel& machine, const Schedule& schedule);

} // namespace kiln::collectives
KILN_API_END
