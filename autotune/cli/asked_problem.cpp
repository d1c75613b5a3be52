// Reads shapes with and without names.
#include <kiln/autotune/cli/asked_problem.h>

#include <kiln/autotune/records/why.h>
#include <kiln/autotune/registry.h>

#include <charconv>

#include <fmt/format.h>

namespace kiln::tune {
namespace {

[[noreturn]] void refuse(const std::string& shape, const std::string& what) {
  throw UserError(fmt::format("kiln records why: --shape {}: {}", shape, what));
}

// Nothing where it is not a number alone.
std::optional<std::int64_t> number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

Problem with_names(const Question& q) {
  Problem problem;
  problem.kind = q.kind;
  for (const std::string& item : split(q.shape, ',')) {
    const std::size_t equals = item.find('=');
    const auto size = equals == item.npos ? std::nullopt : number(item.substr(equals + 1));
    if (!size || equals == 0)
      refuse(q.shape, fmt::format("\"{}\" is not NAME=SIZE; write M=512,N=512,K=512", item));
    problem.sizes.emplace_back(item.substr(0, equals), *size);
  }
  return problem;
}

// By the names of a record's sizes, in their order.
Problem without_names(const Question& q, Database& database) {
  const auto newest = newest_key(database, q.kernel, q.kind, q.device);
  if (!newest)
    refuse(q.shape, fmt::format("neither the records nor `kiln tune --list` have a kernel {} whose sizes "
                                "these could be; write NAME=SIZE,...",
                                q.kernel));
  Problem problem = newest->problem;
  problem.kind = q.kind;
  std::string names;
  for (const auto& [name, size] : problem.sizes)
    names += (names.empty() ? "" : ",") + name + "=SIZE";
  const std::vector<std::string> parts = split(q.shape, 'x');
  bool fits = parts.size() == problem.sizes.size();
  for (std::size_t i = 0; fits && i < parts.size(); ++i) {
    const auto size = number(parts[i]);
    fits = size.has_value();
    problem.sizes[i].second = size.value_or(0);
  }
  if (!fits)
    refuse(q.shape, fmt::format("{} has {} sizes in the records; write {}, or all of them separated by x",
                                q.kernel, problem.sizes.size(), names));
  return problem;
}

} // namespace

Problem asked_problem(Database& database, const Question& q) {
  if (!q.dtype.empty() && !q.kind.empty())
    throw UserError("kiln records why: --dtype and --kind both say of which dtypes it is; leave one out");
  const TunableKernel* kernel = find_tunable(q.kernel);
  const bool named = q.shape.find('=') != std::string::npos;
  if (!q.dtype.empty() && !kernel)
    throw UserError("kiln records why: --dtype is for kernels that `kiln tune --list` names, and " +
                    q.kernel + " is none of them; give --kind, as `kiln records list` shows it");
  if (kernel && (!named || !q.dtype.empty()) && q.kind.empty())
    return make_task(*kernel, q.dtype, q.shape, q.device).recorded_problem();
  return named ? with_names(q) : without_names(q, database);
}

} // namespace kiln::tune
