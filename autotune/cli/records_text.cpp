// Implements the text and JSON forms of records.
#include <kiln/autotune/cli/records_text.h>

#include <kiln/autotune/records/plan_record.h>

#include <ctime>

#include <fmt/format.h>

namespace kiln::cli {

using namespace kiln::tune;

std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

std::string printable_lines(std::string text) {
  for (char& c : text)
    if (c != '\n') c = printable(std::string(1, c))[0];
  return text;
}

void print_json(const Json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

std::string when(std::int64_t milliseconds) {
  const std::time_t time = static_cast<std::time_t>(milliseconds / 1000);
  std::tm parts;
  char text[64];
  if (!localtime_r(&time, &parts) || std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts) == 0)
    return "?";
  return text;
}

std::string plural(std::uint64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string skipped_text(const LoadCounts& counts) {
  std::string text;
  const auto add = [&](std::uint64_t count, const char* what) {
    if (count) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", plural(count, "line"), what);
  };
  add(counts.bad, "damaged");
  add(counts.torn, "incomplete");
  add(counts.future, "from a later version of Kiln");
  return text;
}

Json to_json_object(const RecordKey& key) {
  Json sizes = Json::object();
  for (const auto& [name, size] : key.problem.sizes)
    sizes[name] = size;
  return {{"id", to_string(key.id())},   {"kernel", key.kernel},
          {"sizes", std::move(sizes)},   {"kind", key.problem.kind},
          {"key", key.problem.key},      {"silicon", key.silicon},
          {"backend", key.backend},      {"code_generation", key.code_generation},
          {"product", key.tools.product}};
}

Json to_json_object(const Record& record) {
  Json json = {{"config", record.config}, {"status", name(record.result.status)}};
  if (record.result.ok())
    json.update(
        {{"seconds", record.result.seconds}, {"low", record.result.low}, {"high", record.result.high}});
  else
    json["error"] = record.result.error;
  json.update({{"confirmed", record.confirmed}, {"source", record.source}, {"time", record.time}});
  if (const auto plan = plan_of(record)) {
    json.update({{"computation", plan->computation}, {"communication", plan->communication}});
    for (const StoredPlan::Option& o : plan->options)
      json["options"].push_back({{"name", o.name}, {"forecast", o.forecast}, {"measured", o.measured}});
  }
  return json;
}

} // namespace kiln::cli
