// Generates random spaces together with the list of their members, found by trying every combination.
#pragma once

#include <kiln/autotune/space/space.h>

#include <string>
#include <vector>

namespace kiln::test {

struct RandomSpace {
  tune::Space space;
  std::vector<tune::Point> members; // in the order of the knobs' values
};

// Has up to seven knobs and six rules. Some rules read a knob only if another knob has certain values.
inline RandomSpace random_space(tune::Random& random) {
  struct Rule {
    std::size_t kind, a, b, c;
    std::int64_t limit;
  };
  RandomSpace result;
  const std::size_t count = 1 + random.below(7);
  std::vector<std::string> names;
  for (std::size_t k = 0; k < count; ++k) {
    names.push_back("k" + std::to_string(k));
    const auto least = static_cast<std::int64_t>(random.below(4));
    result.space.range(names.back(), least, least + static_cast<std::int64_t>(random.below(5)));
  }
  std::vector<Rule> rules(random.below(7));
  for (Rule& r : rules) {
    r.kind = random.below(5);
    r.a = random.below(count);
    r.b = random.below(count);
    r.c = random.below(count);
    r.limit = static_cast<std::int64_t>(random.below(24));
  }
  auto holds = [](const Rule& r, auto&& value) {
    switch (r.kind) {
    case 0: return value(r.a) * value(r.b) <= 4 + r.limit;
    case 1: return (value(r.a) + value(r.b) + value(r.c)) % 3 != r.limit % 3;
    case 2: return value(r.a) > 2 ? value(r.b) > 0 : value(r.c) < 6; // reads two of the three
    case 3: return value(r.a) != r.limit % 5;
    default: return value(r.a) == value(r.b) || value(r.c) % 2 == 0;
    }
  };
  for (std::size_t i = 0; i < rules.size(); ++i)
    result.space.require("rule " + std::to_string(i), [holds, names, r = rules[i]](const tune::Choice& c) {
      return holds(r, [&](std::size_t k) { return c[names[k]]; });
    });

  const auto& knobs = result.space.knobs();
  tune::Point point(count, 0);
  for (bool more = true; more;) {
    bool ok = true;
    for (const Rule& r : rules)
      ok = ok && holds(r, [&](std::size_t k) { return knobs[k].values[point[k]]; });
    if (ok) result.members.push_back(point);
    more = false;
    for (std::size_t k = count; k-- > 0 && !more;) {
      more = ++point[k] < knobs[k].values.size();
      if (!more) point[k] = 0;
    }
  }
  return result;
}

} // namespace kiln::test
