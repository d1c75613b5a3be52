// Generates random tables: a smooth function of the knobs with some structure, noise and failures.
#pragma once

#include "autotune/space/random_space.h"

#include <kiln/autotune/search/table.h>

#include <cmath>

namespace kiln::test {

inline tune::Table random_table(tune::Random& random, std::size_t least = 1, double failures = 0.1) {
  RandomSpace made = random_space(random);
  while (made.members.size() < least)
    made = random_space(random);
  tune::Table table;
  table.name = "random";
  table.family = "family";
  table.device = "device";
  table.problem = {{{"M", 64}, {"N", 32}}, "f32"};
  for (const tune::Knob& k : made.space.knobs())
    table.space.knob(k);
  table.points = made.members;
  std::vector<double> weight, middle;
  for (const tune::Knob& k : table.space.knobs()) {
    weight.push_back(random.uniform());
    middle.push_back(random.uniform() * static_cast<double>(k.values.size()));
  }
  for (const tune::Point& p : table.points) {
    tune::Measurement m;
    double cost = 1;
    for (std::size_t k = 0; k < p.size(); ++k)
      cost += weight[k] * (p[k] - middle[k]) * (p[k] - middle[k]);
    m.seconds = m.low = m.high = 1e-3 * cost * (1 + 0.02 * random.uniform());
    m.launches = 1;
    if (random.uniform() < failures && &p != &table.points.front()) {
      m = {};
      m.status = random.below(2) ? tune::Status::crash : tune::Status::compile_error;
    }
    table.results.push_back(m);
  }
  table.space.only(table.points);
  return table;
}

// The context of a search that knows only the space.
inline tune::SearchContext plain_context(tune::BoundSpace& space, std::uint64_t seed) {
  return {space, seed, {}, {}, {}, {}, {}};
}

} // namespace kiln::test
