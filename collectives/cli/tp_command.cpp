// Implements `kiln tp plan`, which forecasts a model on several ranks of a machine.
#include <kiln/collectives/model_plan.h>
#include <kiln/dsl/error.h>
#include <kiln/jit/cli/support/parse.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/jit/cli/support/text.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdlib>

namespace kiln::cli {
namespace {

using namespace collectives;

template <class T> std::string names(const std::vector<T>& list) {
  std::string text;
  for (const T& entry : list)
    text += (text.empty() ? "" : ", ") + entry.name;
  return text;
}

template <class T>
T known(const char* option, const std::optional<T>& found, const std::string& given, const std::string& all) {
  if (!found)
    throw UserError(std::string("kiln tp plan: ") + option + " \"" + given + "\" is not known; use one of " +
                    all);
  return *found;
}

std::string time_of(Nanoseconds t) { return fmt::format("{:.3f} ms", static_cast<double>(t) / 1e6); }

void print_text(const ModelPlan& p, const std::string& device, const std::string& link) {
  fmt::print("{} on {} x {}, {}, {} tokens{}\n\n", p.model.name, p.options.ranks, device, link,
             p.options.tokens, p.options.context ? fmt::format(" after {}", p.options.context) : "");
  fmt::print("{:<12} {:>11} {:>13} {:>14} {:>7}  {}\n", "per layer", "time", "computation", "communication",
             "hidden", "schedule");
  for (const ModelPlan::Part& part : p.parts)
    fmt::print("{:<12} {:>11} {:>13} {:>14} {:>7}  {}\n", part.name, time_of(part.time),
               time_of(part.computation), part.communication ? time_of(part.communication) : "",
               part.communication ? fmt::format("{:.0f} %", 100 * part.hidden) : "", part.schedule);
  fmt::print("{:<12} {:>11}, {:.2f} x the time without overlap\n\n", "sum", time_of(p.layer_time()),
             static_cast<double>(p.layer_time()) /
                 static_cast<double>(std::max<Nanoseconds>(p.serial_layer_time(), 1)));
  fmt::print("all {} layers  {}, MFU {:.0f} %\n", p.model.layers, time_of(p.layer_time() * p.model.layers),
             100 * p.mfu);
  const auto size = [](std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  fmt::print("memory of a device  weights {}, keys and values {}, activations of a layer {}\n",
             size(p.weight_bytes), size(p.cache_bytes), size(p.activation_bytes));
}

void print_json(const ModelPlan& p, const std::string& device, const std::string& link) {
  nlohmann::ordered_json parts = nlohmann::ordered_json::array();
  for (const ModelPlan::Part& part : p.parts)
    parts.push_back({{"name", part.name},
                     {"time_ns", part.time},
                     {"serial_ns", part.serial},
                     {"computation_ns", part.computation},
                     {"communication_ns", part.communication},
                     {"hidden", part.hidden},
                     {"schedule", part.schedule},
                     {"sent_bytes", part.sent_bytes}});
  const nlohmann::ordered_json json = {{"model", p.model.name},
                                       {"device", device},
                                       {"link", link},
                                       {"ranks", p.options.ranks},
                                       {"tokens", p.options.tokens},
                                       {"context", p.options.context},
                                       {"layer", parts},
                                       {"layer_ns", p.layer_time()},
                                       {"serial_layer_ns", p.serial_layer_time()},
                                       {"layers", p.model.layers},
                                       {"mfu", p.mfu},
                                       {"weight_bytes", p.weight_bytes},
                                       {"cache_bytes", p.cache_bytes},
                                       {"activation_bytes", p.activation_bytes}};
  fmt::print("{}\n", json.dump(2));
}

int run_tp(int argc, char** argv) {
  CLI::App app("Tensor parallelism: divides the layers of a model among devices.", "kiln tp");
  app.require_subcommand(1);
  CLI::App& plan = *app.add_subcommand(
      "plan", "forecast a transformer on several devices, with the best schedule of each product");
  std::string model = "llama3-8b", device = "h100", link = "nvlink4";
  ModelPlanOptions options{.ranks = 8};
  bool json = false, whole = false;
  plan.add_option("--model", model, "one of " + names(known_models()))->capture_default_str();
  plan.add_option("--tp", options.ranks,
                  "tensor-parallel size: number of devices among which each layer is divided")
      ->capture_default_str();
  plan.add_option("--tokens", options.tokens,
                  "tokens computed at once, of one sequence; 1 is a step of decoding")
      ->capture_default_str();
  plan.add_option("--context", options.context, "tokens already in the cache of keys and values")
      ->capture_default_str();
  plan.add_option("--device", device, "one of " + names(known_machines()))->capture_default_str();
  plan.add_option("--link", link,
                  "one of " + names(known_links()) +
                      ", or BYTES_PER_SECOND[,LATENCY] of one direction, such as 50e9,10us")
      ->capture_default_str();
  plan.add_flag("--no-sequence-parallel", whole, "replicate activations on every device, and use all-reduce");
  plan.add_flag("--json", json, "print JSON; times are in nanoseconds");
  if (auto code = parse(app, argc, argv)) return *code;
  options.sequence_parallel = !whole;
  const ModelPlan result = plan_model(
      known("--model", known_model(model), model, names(known_models())),
      known("--device", known_machine(device), device, names(known_machines())), parse_link(link), options);
  json ? print_json(result, device, link) : print_text(result, device, link);
  return 0;
}

const CommandRegistration tp_command({"tp", "forecasts tensor-parallel models", run_tp});

} // namespace
} // namespace kiln::cli
