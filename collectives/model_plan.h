// Forecasts a transformer on several ranks of a machine that one does not have.
//
//   const ModelPlan plan = plan_model(*known_model("llama3-70b"), *known_machine("h100"), *known_link("nvlink4"),
//                                     {.ranks = 8, .tokens = 4096});
//   plan.layer_time();              // of one transformer layer, in nanoseconds
//
// The products of a layer are planned as TensorParallel plans them on the virtual clock (plan.h). Attention is
// compute-bound, with the scores that a causal mask leaves. Norms, rotary embeddings and the like are passes
// over memory.
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
  ComputeModel model;    // what products and passes reach
  double peak_flops = 0; // of the dense 16-bit products, for the MFU
  std::int64_t memory_bytes = 0;
};

struct NamedLink {
  std::string name;
  LinkModel link;
};

// By name; the lists are for help texts.
const std::vector<ModelShape>& known_models();
const std::vector<Machine>& known_machines();
const std::vector<NamedLink>& known_links();
std::optional<ModelShape> known_model(const std::string& name);
std::optional<Machine> known_machine(const std::string& name);
std::optional<LinkModel> known_link(const std::string& name);

struct ModelPlanOptions {
  int ranks = 1;
  std::int64_t tokens = 4096;    // of one sequence that is computed at once; 1: one step of decoding
  std::int64_t context = 0;      // tokens that are in the cache of keys and values before
  bool sequence_parallel = true; // if there are at least as many tokens as ranks
};

struct ModelPlan {
  struct Part {
    std::string name;                 // "qkv", "attention", "out", "up", "down", "norms"
    Nanoseconds time = 0, serial = 0; // of the chosen schedule, and of the serial one
    Nanoseconds computation = 0, communication = 0;
    double hidden = 0;           // share of the shorter of these two
    std::string schedule;        // empty: nothing is sent
    std::int64_t sent_bytes = 0; // by each rank
  };
  ModelShape model;
  ModelPlanOptions options;
  std::vector<Part> parts;                                              // of one layer
  std::int64_t weight_bytes = 0, cache_bytes = 0, activation_bytes = 0; // of one rank, for all layers
  double mfu = 0; // useful operations per second, of the peak

  Nanoseconds layer_time() const;
  Nanoseconds serial_layer_time() const;
};

// Throws UserError if the heads cannot be divided among the ranks: there must be at most as many ranks as
// heads, and key heads must divide the ranks or the other way round.
ModelPlan plan_model(const ModelShape& model, const Machine& machine, const LinkModel& link,
                     const ModelPlanOptions& options);

} // namespace kiln::collectives
KILN_API_END
