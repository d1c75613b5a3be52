// Rounds sizes up to those of their buckets, and converts bucketing policies to text and back.
#include <kiln/autotune/records/bucket.h>

#include <algorithm>
#include <bit>
#include <iterator>

namespace kiln::tune {
namespace {

constexpr std::string_view rule_names[] = {"exact", "pow2", "hybrid"};

std::string_view name_of(BucketRule rule) { return rule_names[static_cast<std::size_t>(rule)]; }

std::optional<BucketRule> rule_of(std::string_view name) {
  const auto* at = std::find(std::begin(rule_names), std::end(rule_names), name);
  if (at == std::end(rule_names)) return std::nullopt;
  return static_cast<BucketRule>(at - std::begin(rule_names));
}

std::int64_t next_pow2(std::int64_t size) {
  if (size > std::int64_t{1} << 62) return size;
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(size)));
}

std::int64_t next_multiple(std::int64_t size, std::int64_t step) { return (size + step - 1) / step * step; }

} // namespace

std::int64_t bucket_of(std::int64_t size, BucketRule rule) {
  if (size < 2) return size;
  switch (rule) {
  case BucketRule::exact: return size;
  case BucketRule::pow2: return next_pow2(size);
  case BucketRule::hybrid:
    if (size <= 256 || size > 4096) return next_pow2(size);
    return next_multiple(size, size <= 2048 ? 256 : 512);
  }
  return size;
}

Bucketing::Named& Bucketing::named(std::string name) {
  for (Named& n : named_)
    if (n.name == name) return n = Named{.name = std::move(name), .rule = {}, .label = {}, .function = {}};
  return named_.emplace_back(Named{.name = std::move(name), .rule = {}, .label = {}, .function = {}});
}

Bucketing& Bucketing::size(std::string name, BucketRule rule) {
  named(std::move(name)).rule = rule;
  return *this;
}

Bucketing& Bucketing::size(std::string name, std::string label, Function function) {
  Named& n = named(std::move(name));
  n.label = std::move(label);
  n.function = std::move(function);
  return *this;
}

Problem Bucketing::apply(const Problem& problem) const {
  Problem bucketed = problem;
  for (auto& [name, size] : bucketed.sizes) {
    const auto own =
        std::find_if(named_.begin(), named_.end(), [&](const Named& n) { return n.name == name; });
    if (own == named_.end())
      size = bucket_of(size, others_);
    else
      size = own->function ? own->function(size) : bucket_of(size, own->rule);
  }
  return bucketed;
}

std::string Bucketing::text() const {
  std::string text;
  for (const Named& n : named_) {
    text += n.name;
    text += '=';
    text += n.function ? n.label : std::string(name_of(n.rule));
    text += ',';
  }
  if (!text.empty()) text += "*=";
  return text += name_of(others_);
}

std::optional<Bucketing> Bucketing::parse(std::string_view text) {
  Bucketing bucketing;
  while (true) {
    const std::size_t end = text.find(',');
    const std::string_view item = text.substr(0, end);
    const std::size_t equals = item.find('=');
    const std::string_view name = equals == item.npos ? "*" : item.substr(0, equals);
    const std::optional<BucketRule> rule = rule_of(equals == item.npos ? item : item.substr(equals + 1));
    if (!rule || name.empty()) return std::nullopt;
    if (name == "*")
      bucketing.others_ = *rule;
    else
      bucketing.size(std::string(name), *rule);
    if (end == text.npos) return bucketing;
    text.remove_prefix(end + 1);
  }
}

} // namespace kiln::tune
