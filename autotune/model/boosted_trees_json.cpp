// Converts boosted trees to JSON and back.
#include <kiln/autotune/model/boosted_trees.h>

#include <kiln/autotune/json_reason.h>
#include <kiln/dsl/error.h>

#include <fmt/format.h>

#include <limits>

namespace kiln::tune {

std::string BoostedTrees::to_json() const {
  nlohmann::json nodes = nlohmann::json::array();
  for (const Node& n : nodes_) {
    if (n.column < 0)
      nodes.push_back({n.value});
    else
      nodes.push_back({n.value, n.column, n.threshold, n.left, n.right, n.missing_left}); // -infinity: null
  }
  return nlohmann::json{
      {"version", 1}, {"columns", columns_}, {"roots", roots_}, {"gains", gains_}, {"nodes", nodes}}
      .dump();
}

BoostedTrees BoostedTrees::from_json(std::string_view text) {
  auto refuse = [](const std::string& what) {
    throw UserError("boosted trees: " + what + "; train them again");
  };
  BoostedTrees model;
  try {
    nlohmann::json json = nlohmann::json::parse(text);
    if (json.at("version") != 1) refuse("they have another version: " + json.at("version").dump());
    auto number = [&](const nlohmann::json& value, double least, double most) {
      if (!value.is_number()) refuse("a value is not a number");
      double v = value.get<double>();
      if (!(v >= least && v <= most)) refuse(fmt::format("the number {} is out of range", v));
      return v;
    };
    constexpr double largest = std::numeric_limits<float>::max();
    model.columns_ = static_cast<std::size_t>(number(json.at("columns"), 0, 1 << 20));
    for (const nlohmann::json& gain : json.at("gains"))
      model.gains_.push_back(number(gain, 0, std::numeric_limits<double>::max()));
    if (model.gains_.size() != model.columns_) refuse("the numbers of gains and columns differ");
    const nlohmann::json& nodes = json.at("nodes");
    double count = static_cast<double>(nodes.size());
    if (count > 1 << 24) refuse("too many nodes");
    for (const nlohmann::json& node : nodes) {
      double at = static_cast<double>(model.nodes_.size());
      Node n;
      n.value = static_cast<float>(number(node.at(0), -largest, largest));
      if (node.size() != 1) {
        if (node.size() != 6) refuse("a node is neither a leaf nor a split");
        n.column = static_cast<int>(number(node.at(1), 0, static_cast<double>(model.columns_) - 1));
        n.threshold = node.at(2).is_null() ? -std::numeric_limits<float>::infinity()
                                           : static_cast<float>(number(node.at(2), -largest, largest));
        n.left = static_cast<int>(number(node.at(3), at + 1, count - 1)); // later ones: no cycles
        n.right = static_cast<int>(number(node.at(4), at + 1, count - 1));
        n.missing_left = node.at(5).get<bool>();
      }
      model.nodes_.push_back(n);
    }
    for (const nlohmann::json& root : json.at("roots"))
      model.roots_.push_back(static_cast<int>(number(root, 0, count - 1)));
  } catch (const nlohmann::json::exception& e) {
    refuse(json_reason(e));
  }
  return model;
}

} // namespace kiln::tune
