// Implements the search for the configs of local products, and reads them from a rehearsal.
#include <kiln/collectives/product_configs.h>

#include <kiln/jit/runtime/rehearsal.h>

#include <algorithm>
#include <set>

namespace kiln::collectives {

std::vector<std::int64_t> rows_of_products(const Schedule& schedule) {
  std::set<std::int64_t, std::greater<>> rows;
  for (const Step& step : schedule.steps)
    if (step.kind == Step::Kind::compute && step.piece.kind != Piece::Kind::sum)
      rows.insert(schedule.rows(step).count());
  rows.erase(0);
  return {rows.begin(), rows.end()};
}

void prepare_products(Communicator& comm, const std::vector<std::int64_t>& rows,
                      const ProductFunction& compute) {
  for (const std::int64_t count : rows)
    compute(count);
  // No time passes on the virtual clock while a rank searches, so that no deadline expires there.
  if (!comm.engine().virtual_clock) comm.barrier({.tag = "search for configs", .deadline = never});
}

std::vector<Plan::Product> configs_of_products(const std::vector<std::int64_t>& rows,
                                               const ProductFunction& launch,
                                               const std::function<Config(std::int64_t rows)>& usual) {
  std::vector<Plan::Product> products;
  for (const std::int64_t count : rows) {
    const Rehearsal rehearsal = rehearse([&] { launch(count); });
    if (rehearsal.launches.empty()) continue;                  // this rank has no columns
    const RehearsedLaunch& first = rehearsal.launches.front(); // the second one adds parts of K
    products.push_back({count, first.config, first.kernel == "matmul" && !(first.config == usual(count))});
  }
  return products;
}

} // namespace kiln::collectives
