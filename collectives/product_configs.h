// Finds the configs of the local products of a plan before they are called, so that no call searches for one.
#pragma once

#include <kiln/collectives/plan.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace kiln::collectives {

// Does something with the local product of this number of rows.
using ProductFunction = std::function<void(std::int64_t rows)>;

// The numbers of rows of the products that the ranks compute in a schedule; the largest first.
std::vector<std::int64_t> rows_of_products(const Schedule& schedule);

// Computes a product of each of these numbers of rows, and so compiles it and, with KILN_TUNE=tune, searches
// for its config. All ranks must call it with the same numbers. Of ranks with equal products, one searches.
// That takes seconds to minutes, for which the others wait without a deadline.
void prepare_products(Communicator& comm, const std::vector<std::int64_t>& rows,
                      const ProductFunction& compute);

// The configs with which `launch` launches products of these numbers of rows, on this rank. It is rehearsed,
// so that nothing runs. `usual` is the config if the tuner has found none.
std::vector<Plan::Product> configs_of_products(const std::vector<std::int64_t>& rows,
                                               const ProductFunction& launch,
                                               const std::function<Config(std::int64_t rows)>& usual);

} // namespace kiln::collectives
