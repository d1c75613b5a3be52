// Implements the numbering of values and the printing of kernels, operations and attributes.
#include <kiln/dsl/ir/printer.h>

#include <kiln/dsl/ir/attributes.h>
#include <kiln/dsl/ir/text.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

namespace kiln::ir {

namespace {

std::string quoted(std::string_view text) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (byte < 0x20 || byte == 0x7f)
      ((out += "\\x") += digits[byte >> 4]) += digits[byte & 15];
    else
      out += c;
  }
  return out + '"';
}

template <class List, class F> std::string joined(const List& list, F&& text) {
  std::string out;
  for (const auto& item : list)
    out += (out.empty() ? "" : ", ") + text(item);
  return out;
}

using Names = std::unordered_map<const Value*, std::string>;

std::string name_in(const Names& names, const Value* value) {
  if (!value) return "%null";
  auto at = names.find(value);
  return at == names.end() ? "%undefined" : at->second;
}

void number(Names& names, const Value* value, int& next) {
  if (value && names.emplace(value, "").second) names[value] = "%" + std::to_string(next++);
}

void number(Names& names, const Op& op, int& next) {
  for (const auto& result : op.results)
    number(names, result.get(), next);
  for (const auto& region : op.regions) {
    for (const auto& arg : region->args)
      number(names, arg.get(), next);
    for (const auto& inner : region->ops)
      number(names, *inner, next);
  }
}

// The name of each parameter, without the %.
std::vector<std::string> parameter_names(const Kernel& kernel) {
  const auto& args = kernel.body.args;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < args.size(); ++i) {
    std::string_view own = args[i]->name ? args[i]->name : "";
    bool unique = std::count_if(args.begin(), args.end(), [&](const auto& other) {
                    return other->name && std::string_view(other->name) == own;
                  }) == 1;
    names.push_back(unique && is_value_name(own) ? std::string(own) : "arg" + std::to_string(i));
  }
  return names;
}

class Printer {
public:
  Printer(const Names& names, PrintOptions options) : names_(names), options_(options) {}

  // The text of the operation without its regions.
  std::string head(const Op& op) const {
    auto value_name = [&](const auto& v) { return name_in(names_, &*v); };
    std::string text;
    if (!op.results.empty()) text += joined(op.results, value_name) + " = ";
    text += name(op.code);
    if (!op.operands.empty())
      text += " " + joined(op.operands, [&](const Value* v) { return name_in(names_, v); });
    if (!op.attributes().empty()) {
      auto item = [&](const auto& a) {
        return a.first + " = " + print_attribute(a.first, a.second, op.code);
      };
      text += " {" + joined(op.attributes(), item) + "}";
    }
    if (!op.results.empty())
      text += " : " + joined(op.results, [](const auto& v) { return v->type.to_string(); });
    return text;
  }

  std::string location(const Op& op) const {
    if (!options_.locations || !op.loc) return {};
    return " @ " + quoted(op.loc.file) + ":" + std::to_string(op.loc.line);
  }

  void print(const Op& op, int depth, std::string& out) const {
    std::string indent(static_cast<std::size_t>(2 * depth), ' ');
    out += indent + head(op);
    for (const auto& region : op.regions) {
      out += " {\n";
      if (!region->args.empty()) {
        auto arg = [&](const auto& a) { return name_in(names_, a.get()) + ": " + a->type.to_string(); };
        out += indent + "  (" + joined(region->args, arg) + ")\n";
      }
      for (const auto& inner : region->ops)
        print(*inner, depth + 1, out);
      out += indent + "}";
    }
    out += location(op) + "\n";
  }

private:
  const Names& names_;
  PrintOptions options_;
};

Names names_of(const Kernel& kernel) {
  Names names;
  std::vector<std::string> parameters = parameter_names(kernel);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    names[kernel.body.args[i].get()] = "%" + parameters[i];
  int next = 0;
  for (const auto& op : kernel.body.ops)
    number(names, *op, next);
  return names;
}

} // namespace

std::string print_float(double value) {
  if (std::isnan(value)) {
    auto bits = std::bit_cast<std::uint64_t>(value);
    if (bits == 0x7ff8000000000000u) return "nan";
    char hex[17];
    char* end = std::to_chars(hex, hex + 16, bits, 16).ptr;
    return "nan(0x" + std::string(hex, end) + ")";
  }
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[40];
  std::string text(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string print_attribute(std::string_view name, const Attribute& value, Opcode code) {
  // Whether the table of attributes says that this attribute is of that kind. If so, the parser reads [4, 8]
  // and 4 as dimensions; otherwise the text needs a prefix.
  auto known = [&](AttributeKind kind) {
    for (const AttributeRule& rule : attributes_of(code))
      if (rule.name == name) return rule.kind == kind;
    return false;
  };
  auto number = [](std::int64_t i) { return std::to_string(i); };
  auto dim_text = [](const Dim& d) { return d.to_string(); };
  switch (kind_of(value)) {
  case AttributeKind::Integer: return number(std::get<std::int64_t>(value));
  case AttributeKind::Float: return print_float(std::get<double>(value));
  case AttributeKind::Text: return quoted(std::get<std::string>(value));
  case AttributeKind::Integers: {
    std::string list = "[" + joined(std::get<std::vector<std::int64_t>>(value), number) + "]";
    return known(AttributeKind::Shape) ? "integers" + list : list;
  }
  case AttributeKind::Dimension: {
    std::string dim = std::get<Dim>(value).to_string();
    return known(AttributeKind::Dimension) ? dim : "dim(" + dim + ")";
  }
  case AttributeKind::Shape: {
    std::string list = "[" + joined(std::get<Shape>(value), dim_text) + "]";
    return known(AttributeKind::Shape) ? list : "dims" + list;
  }
  }
  internal_error("an attribute has an unknown kind");
}

std::string print(const Kernel& kernel, PrintOptions options) {
  std::vector<std::string> parameters = parameter_names(kernel);
  std::string out = "kernel @" + (is_identifier(kernel.name) ? kernel.name : quoted(kernel.name)) + "(";
  for (std::size_t i = 0; i < parameters.size(); ++i)
    out += (i ? ", %" : "%") + parameters[i] + ": " + kernel.body.args[i]->type.to_string();
  out += ")";
  if (!kernel.grid.empty()) {
    auto axis = [&](const GridAxis& g) {
      bool exists = g.param >= 0 && g.param < static_cast<int>(parameters.size());
      std::string param = exists ? parameters[static_cast<std::size_t>(g.param)] : std::to_string(g.param);
      return "(" + param + ", " + std::to_string(g.axis) + ", " + g.tile.to_string() + ")";
    };
    out += " grid [" + joined(kernel.grid, axis) + "]";
  }
  if (kernel.config_specific) out += " only_for " + quoted(kernel.recorded_with.to_string());
  out += " {\n";
  Names names = names_of(kernel);
  Printer printer(names, options);
  for (const auto& op : kernel.body.ops)
    printer.print(*op, 1, out);
  return out + "}\n";
}

std::string print(const Op& op, PrintOptions options) {
  Names names;
  int next = 0;
  for (const Value* operand : op.operands)
    number(names, operand, next);
  number(names, op, next);
  for (const auto& region : op.regions)
    walk(*region, [&](const Op& inner) {
      for (const Value* operand : inner.operands)
        number(names, operand, next);
    });
  std::string out;
  Printer(names, options).print(op, 0, out);
  return out;
}

ValueNames::ValueNames(const Kernel& kernel) : names_(names_of(kernel)) {}
std::string ValueNames::operator()(const Value* value) const { return name_in(names_, value); }
std::string ValueNames::line(const Op& op) const { return Printer(names_, {}).head(op); }

} // namespace kiln::ir
