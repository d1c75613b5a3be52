// Builds the common columns of a family of tables, and draws records of its other tables.
#include <kiln/autotune/search/replay.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace kiln::tune {

namespace {
constexpr float missing = std::numeric_limits<float>::quiet_NaN();
} // namespace

FamilyColumns::FamilyColumns(const std::vector<Table>& tables, std::size_t table)
    : tables_(tables), sources_(tables.size()) {
  std::vector<std::size_t> family{table};
  for (std::size_t t = 0; t < tables.size(); ++t)
    if (t != table && tables[t].family == tables[table].family) others_.push_back(t), family.push_back(t);
  // Columns are identified by name; words get numbers that all tables share.
  std::map<std::string, std::map<std::string, float>> columns;
  for (const std::size_t t : family) {
    for (const Knob& k : tables[t].space.knobs())
      for (const std::string& label : k.labels)
        columns[k.name].emplace(label, 0.0f);
    for (const Knob& k : tables[t].space.knobs())
      columns[k.name];
    for (const auto& [name, size] : tables[t].problem.sizes)
      columns[name];
  }
  for (auto& [name, words] : columns) {
    names.push_back(name);
    float number = 0;
    for (auto& [word, id] : words)
      id = number++;
  }
  for (const std::size_t t : family)
    for (const auto& [name, words] : columns) {
      Source source;
      source.fixed = missing;
      if (const auto size = tables[t].problem.find(name)) source.fixed = static_cast<float>(*size);
      const std::vector<Knob>& knobs = tables[t].space.knobs();
      for (std::size_t k = 0; k < knobs.size(); ++k) {
        if (knobs[k].name != name) continue;
        source.knob = static_cast<int>(k);
        for (std::size_t v = 0; v < knobs[k].values.size(); ++v)
          source.ids.push_back(knobs[k].labels.empty() ? static_cast<float>(knobs[k].values[v])
                                                       : words.at(knobs[k].labels[v]));
      }
      sources_[t].push_back(std::move(source));
    }
}

void FamilyColumns::columns(std::size_t table, const Point& point, std::span<float> row) const {
  for (std::size_t c = 0; c < sources_[table].size(); ++c) {
    const Source& s = sources_[table][c];
    row[c] = s.knob < 0 ? s.fixed : s.ids[point[static_cast<std::size_t>(s.knob)]];
  }
}

std::size_t FamilyColumns::records() const {
  std::size_t count = 0;
  for (const std::size_t t : others_)
    count += tables_[t].points.size();
  return count;
}

std::vector<Sibling> FamilyColumns::draw(std::size_t count, Random& random) const {
  std::vector<Sibling> records;
  for (std::size_t i = 0; i < others_.size(); ++i) {
    const Table& table = tables_[others_[i]];
    std::vector<std::uint32_t> order(table.points.size());
    for (std::size_t p = 0; p < order.size(); ++p)
      order[p] = static_cast<std::uint32_t>(p);
    random.shuffle(order);
    const std::size_t share = (count - records.size()) / (others_.size() - i);
    order.resize(std::min(order.size(), share));
    // Times are relative to the best of the drawn records, as for trials that were recorded.
    double best = std::numeric_limits<double>::infinity();
    for (const std::uint32_t p : order)
      if (table.results[p].ok()) best = std::min(best, table.results[p].seconds);
    for (const std::uint32_t p : order) {
      Sibling s;
      s.columns.resize(names.size());
      columns(others_[i], table.points[p], s.columns);
      s.log_seconds = table.results[p].ok() ? std::log(table.results[p].seconds / best)
                                            : std::numeric_limits<double>::infinity();
      s.group = static_cast<int>(i);
      records.push_back(std::move(s));
    }
  }
  return records;
}

} // namespace kiln::tune
