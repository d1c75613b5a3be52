// Declares plan_model, which forecasts a transformer on several ranks of a machine that need not be present.
//
//   const ModelPlan plan = plan_model(*known_model("llama3-70b"), *known_machine("h100"),
//                                     *known_link("nvlink4"), {.ranks = 8, .tokens = 4096});
//   plan.layer_time();              // of one transformer layer, in nanoseconds
//
// The products of a layer are planned as TensorParallel plans them on the virtual clock (plan.h). The time of
// attention is that of its arithmetic (for the scores inside the causal mask), or of reading its keys and
// values, whichever is longer. Norms and the activation are passes over memory. All tensors are of bf16. The
// embedding and the output layer count towards weight_bytes, but not towards the times.
#pragma once

#include <kiln/collectives/plan.h>
#include <kiln/dsl/api.h>

#include <optional>
#include <string>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

// The sizes of a transformer with gated MLPs, as its model card gives them.
struct ModelShape {
  std::string name;
  int layers = 0;
  std::int64_t width = 0, hidden = 0, heads = 0, kv_heads = 0, head_size = 0, vocabulary = 0;
};

struct Machine {
  std::string name;
  ComputeModel model;    // the rates that products and passes over memory achieve
  double peak_flops = 0; // operations per second of dense 16-bit products, for the MFU
  std::int64_t memory_bytes = 0;
};

struct NamedLink {
  std::string name;
  LinkModel link;
};

// The models, machines and links that Kiln knows; by name, nullopt if it is unknown.
const std::vector<ModelShape>& known_models();
const std::vector<Machine>& known_machines();
const std::vector<NamedLink>& known_links();
std::optional<ModelShape> known_model(const std::string& name);
std::optional<Machine> known_machine(const std::string& name);
std::optional<LinkModel> known_link(const std::string& name);
// Parses the name of a known link, or BYTES_PER_SECOND[,LATENCY], such as "50e9,10us". Throws UserError for
// other text, for less than 1e6 or more than 1e18 bytes per second, and for more than 1000 s.
LinkModel parse_link(const std::string& text);

struct ModelPlanOptions {
  int ranks = 1;
  std::int64_t tokens = 4096;    // computed at once, all of one sequence; 1: one step of decoding
  std::int64_t context = 0;      // tokens that are already in the KV cache
  bool sequence_parallel = true; // takes effect only if there are at least as many tokens as ranks
};

struct ModelPlan {
  struct Part {
    std::string name;                 // "qkv", "attention", "out", "up", "down", "norms"
    Nanoseconds time = 0, serial = 0; // of the chosen schedule, and of the serial one
    Nanoseconds computation = 0, communication = 0;
    double hidden = 0;           // as Plan::hidden
    std::string schedule;        // empty: nothing is sent
    std::int64_t sent_bytes = 0; // by each rank
  };
  ModelShape model;
  ModelPlanOptions options;
  std::vector<Part> parts;           // of one layer
  std::int64_t weight_bytes = 0;     // of one rank: all layers, the embedding and the output layer
  std::int64_t cache_bytes = 0;      // of one rank: keys and values of all layers, context and tokens
  std::int64_t activation_bytes = 0; // of one rank: the buffers of one layer, which all layers use
  double mfu = 0; // model FLOPs utilization: useful operations per second, as a share of peak_flops

  Nanoseconds layer_time() const;
  Nanoseconds serial_layer_time() const;
};

// Makes the forecast. Throws UserError unless the number of ranks is between 1 and model.heads, and divides
// kv_heads or is a multiple of it.
ModelPlan plan_model(const ModelShape& model, const Machine& machine, const LinkModel& link,
                     const ModelPlanOptions& options);

} // namespace kiln::collectives
KILN_API_END
