// Creates strategies by name.
#include "baselines.h"

#include <kiln/autotune/search/helion.h>
#include <kiln/autotune/search/learned.h>

#include <algorithm>
#include <iterator>

namespace kiln::tune {

// By default the first proposals that compiled are run.
std::vector<std::size_t> Strategy::choose(std::span<const Proposal> proposals,
                                          std::span<const Measurement> compiled, std::size_t most) {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < proposals.size() && chosen.size() < most; ++i)
    if (compiled[i].ok()) chosen.push_back(i);
  return chosen;
}

namespace {

struct Entry {
  const char* name;
  std::unique_ptr<Strategy> (*make)(SearchContext context);
  bool siblings = false; // uses siblings
};

constexpr Entry entries[] = {
    {"learned", make_learned, true},
    {"random", make_random},
    {"grid", make_grid},
    {"annealing", make_annealing},
    {"annealing1", make_annealing1},
    {"genetic", make_genetic},
    {"autotvm", make_autotvm},
    {"helion", [](SearchContext c) { return make_helion(std::move(c), 0); }},
    {"helion8", [](SearchContext c) { return make_helion(std::move(c), 8); }},
};

} // namespace

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const Entry& e : entries)
    names.emplace_back(e.name);
  return names;
}

bool uses_siblings(const std::string& name) {
  return std::any_of(std::begin(entries), std::end(entries),
                     [&](const Entry& e) { return name == e.name && e.siblings; });
}

std::unique_ptr<Strategy> make_strategy(const std::string& name, SearchContext context) {
  const auto at =
      std::find_if(std::begin(entries), std::end(entries), [&](const Entry& e) { return name == e.name; });
  if (at != std::end(entries)) return at->make(std::move(context));
  std::string list;
  for (const Entry& e : entries)
    list += (list.empty() ? "" : ", ") + std::string(e.name);
  throw UserError("there is no search strategy \"" + name + "\"; choose one of " + list);
}

} // namespace kiln::tune
