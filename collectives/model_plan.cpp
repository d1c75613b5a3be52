// Adds up the forecasts of a transformer layer's parts.
#include <kiln/collectives/model_plan.h>

#include <kiln/dsl/error.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace kiln::collectives {
namespace {

constexpr std::int64_t element = 2; // bytes of bf16
constexpr std::int64_t most_tokens = 100'000'000;

template <class T> std::optional<T> find_by_name(const std::vector<T>& list, const std::string& name) {
  for (const T& entry : list)
    if (entry.name == name) return entry;
  return std::nullopt;
}

std::int64_t up_to_multiple(std::int64_t x, std::int64_t of) { return (x + of - 1) / of * of; }

std::int64_t sent_by_rank_0(const Schedule& s) {
  std::int64_t bytes = 0;
  for (const Step& step : s.steps)
    if (step.kind == Step::Kind::put && step.rank == 0) bytes += step.bytes;
  return bytes;
}

class Planner {
public:
  Planner(const ModelShape& m, const Machine& machine, const LinkModel& link, const ModelPlanOptions& o)
      : machine_(machine), link_(link) {
    plan_.model = m, plan_.options = o;
    divided_ = o.sequence_parallel && o.tokens >= o.ranks && o.ranks > 1;
    // The largest share of a rank; key heads are repeated where ranks exceed them.
    own_heads_ = (m.heads + o.ranks - 1) / o.ranks;
    own_kv_heads_ = std::max<std::int64_t>(1, m.kv_heads / o.ranks);
    own_hidden_ = (m.hidden + o.ranks - 1) / o.ranks;
  }

  ModelPlan run() {
    const ModelShape& m = plan_.model;
    const std::int64_t tokens = plan_.options.tokens, heads = own_heads_ * m.head_size,
                       qkv = heads + 2 * own_kv_heads_ * m.head_size,
                       own_tokens =
                           divided_ ? (tokens + plan_.options.ranks - 1) / plan_.options.ranks : tokens;
    pass("norms", 2 * 2 * own_tokens * m.width * element);
    to_columns("qkv", qkv, m.width);
    attention();
    to_rows("out", m.width, heads);
    to_columns("up", 2 * own_hidden_, m.width);
    pass("activation", 3 * tokens * own_hidden_ * element);
    to_rows("down", m.width, own_hidden_);
    memory(qkv, heads);
    // Operations of the products and of attention on all ranks.
    const double context = static_cast<double>(plan_.options.context) + static_cast<double>(tokens) / 2,
                 all =
                     2.0 * static_cast<double>(tokens) *
                         static_cast<double>(m.width * (m.heads + 2 * m.kv_heads) * m.head_size +
                                             m.heads * m.head_size * m.width + 3 * m.width * m.hidden) +
                     4.0 * static_cast<double>(tokens) * context * static_cast<double>(m.heads * m.head_size);
    const double seconds = static_cast<double>(plan_.layer_time()) * 1e-9;
    if (machine_.peak_flops > 0 && seconds > 0)
      plan_.mfu = all / seconds / plan_.options.ranks / machine_.peak_flops;
    return plan_;
  }

private:
  void add(const std::string& name, ProductKind kind, std::int64_t n, std::int64_t k) {
    const int ranks = plan_.options.ranks;
    const ProductShape shape{
        kind, Shards::even(plan_.options.tokens, ranks), n, k, DType::BF16, DType::BF16, DType::BF16};
    const Plan p = plan_by_forecast(shape, link_, machine_.model);
    plan_.parts.push_back({name, p.choice().forecast, p.options[0].forecast, p.computation, p.communication,
                           p.hidden, ranks > 1 ? p.choice().candidate.text() : "",
                           sent_by_rank_0(*p.schedule)});
  }
  void computation(const std::string& name, Nanoseconds time) {
    plan_.parts.push_back({name, time, time, time, 0, 0, "", 0});
  }
  void pass(const std::string& name, std::int64_t bytes) { computation(name, machine_.model.pass(bytes)); }

  void to_columns(const std::string& name, std::int64_t n, std::int64_t k) {
    if (divided_) return add(name, ProductKind::gather_matmul, n, k);
    computation(name, machine_.model.product(plan_.options.tokens, n, k, element));
  }
  void to_rows(const std::string& name, std::int64_t n, std::int64_t k) {
    if (plan_.options.ranks == 1)
      return computation(name, machine_.model.product(plan_.options.tokens, n, k, element));
    add(name, divided_ ? ProductKind::matmul_reduce_scatter : ProductKind::matmul_all_reduce, n, k);
  }

  void attention() {
    const ModelShape& m = plan_.model;
    const double tokens = static_cast<double>(plan_.options.tokens),
                 before = static_cast<double>(plan_.options.context),
                 flops =
                     4 * tokens * (before + (tokens + 1) / 2) * static_cast<double>(own_heads_ * m.head_size),
                 bytes = 2 * (before + tokens) * static_cast<double>(own_kv_heads_ * m.head_size * element);
    const ComputeModel& c = machine_.model;
    const double by_flops = c.flops_per_second > 0 ? flops / c.flops_per_second : 0,
                 by_bytes = c.bytes_per_second > 0 ? bytes / c.bytes_per_second : 0;
    computation("attention", c.launch + static_cast<Nanoseconds>(std::max(by_flops, by_bytes) * 1e9));
  }

  void memory(std::int64_t qkv, std::int64_t heads) {
    const ModelShape& m = plan_.model;
    const std::int64_t layer = (qkv + heads) * m.width + 3 * own_hidden_ * m.width + 2 * m.width,
                       embeddings = 2 * up_to_multiple(m.vocabulary, plan_.options.ranks) /
                                    plan_.options.ranks * m.width;
    plan_.weight_bytes = (layer * m.layers + embeddings) * element;
    plan_.cache_bytes =
        2 * m.layers * own_kv_heads_ * m.head_size * (plan_.options.context + plan_.options.tokens) * element;
    plan_.activation_bytes = plan_.options.tokens * (2 * m.width + qkv + heads + 3 * own_hidden_) * element;
  }

  const Machine& machine_;
  const LinkModel& link_;
  ModelPlan plan_;
  bool divided_;
  std::int64_t own_heads_, own_kv_heads_, own_hidden_;
};

} // namespace

const std::vector<ModelShape>& known_models() {
  static const std::vector<ModelShape> models = {
      {"llama3-8b", 32, 4096, 14336, 32, 8, 128, 128256},
      {"llama3-70b", 80, 8192, 28672, 64, 8, 128, 128256},
      {"llama3-405b", 126, 16384, 53248, 128, 8, 128, 128256},
      {"qwen3-8b", 36, 4096, 12288, 32, 8, 128, 151936},
      {"qwen3-32b", 64, 5120, 25600, 64, 8, 128, 151936},
  };
  return models;
}

// Peaks of dense bf16 products and memory bandwidths are those of the data sheets; products are assumed to
// reach 0.7 of the peak, and passes 0.85 of the bandwidth.
const std::vector<Machine>& known_machines() {
  const auto gpu = [](const char* name, double peak, double bandwidth, std::int64_t gigabytes) {
    return Machine{name,
                   {.flops_per_second = 0.7 * peak,
                    .bytes_per_second = 0.85 * bandwidth,
                    .row_tile = 128,
                    .launch = 3000},
                   peak,
                   gigabytes * 1'000'000'000};
  };
  static const std::vector<Machine> machines = {
      gpu("a100", 312e12, 2.04e12, 80), gpu("h100", 989e12, 3.35e12, 80), gpu("h200", 989e12, 4.8e12, 141),
      gpu("b200", 2250e12, 8e12, 180)};
  return machines;
}

// One direction between two devices: data sheets, of which transfers are assumed to reach 0.8.
const std::vector<NamedLink>& known_links() {
  const auto of = [](const char* name, double bandwidth, Nanoseconds latency) {
    return NamedLink{name, {.bytes_per_second = 0.8 * bandwidth, .latency = latency}};
  };
  static const std::vector<NamedLink> links = {
      of("nvlink3", 300e9, 4000), of("nvlink4", 450e9, 4000), of("nvlink5", 900e9, 4000),
      of("pcie4", 32e9, 6000),    of("pcie5", 64e9, 6000),    of("infiniband-400g", 50e9, 10000)};
  return links;
}

std::optional<ModelShape> known_model(const std::string& name) { return find_by_name(known_models(), name); }
std::optional<Machine> known_machine(const std::string& name) { return find_by_name(known_machines(), name); }
std::optional<LinkModel> known_link(const std::string& name) {
  const auto found = find_by_name(known_links(), name);
  return found ? std::optional(found->link) : std::nullopt;
}

LinkModel parse_link(const std::string& text) {
  if (const auto link = known_link(text)) return *link;
  const auto wrong = [&] {
    std::string names;
    for (const NamedLink& link : known_links())
      names += (names.empty() ? "" : ", ") + link.name;
    return UserError("the link \"" + text + "\" is neither one of " + names +
                     " nor of the form BYTES_PER_SECOND[,LATENCY], such as 50e9,10us, from 1e6 to 1e18 bytes "
                     "per second and up to 1000 s");
  };
  char* end = nullptr;
  LinkModel link;
  link.bytes_per_second = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !(link.bytes_per_second >= 1e6) || link.bytes_per_second > 1e18) throw wrong();
  if (*end == '\0') return link;
  if (*end != ',') throw wrong();
  const char* begin = end + 1;
  const double latency = std::strtod(begin, &end);
  const std::string unit = end;
  const double scale = unit == "ns" ? 1 : unit == "us" ? 1e3 : unit == "ms" ? 1e6 : 0;
  if (end == begin || scale == 0 || !(latency >= 0) || latency * scale > 1e12) throw wrong();
  link.latency = static_cast<Nanoseconds>(latency * scale);
  return link;
}

Nanoseconds ModelPlan::layer_time() const {
  return std::accumulate(parts.begin(), parts.end(), Nanoseconds{0},
                         [](Nanoseconds sum, const Part& p) { return later(sum, p.time); });
}
Nanoseconds ModelPlan::serial_layer_time() const {
  return std::accumulate(parts.begin(), parts.end(), Nanoseconds{0},
                         [](Nanoseconds sum, const Part& p) { return later(sum, p.serial); });
}

ModelPlan plan_model(const ModelShape& model, const Machine& machine, const LinkModel& link,
                     const ModelPlanOptions& options) {
  const auto refuse = [&](const std::string& what) { throw UserError("plan_model: " + what); };
  if (options.ranks < 1 || options.ranks > model.heads)
    refuse(std::to_string(options.ranks) + " ranks cannot share the " + std::to_string(model.heads) +
           " heads of " + model.name + "; use 1 to " + std::to_string(model.heads));
  if (model.kv_heads % options.ranks != 0 && options.ranks % model.kv_heads != 0)
    refuse("the " + std::to_string(model.kv_heads) + " key heads of " + model.name +
           " can neither be divided among nor repeated on " + std::to_string(options.ranks) +
           " ranks; use a number that divides them or a multiple of them");
  if (model.heads % options.ranks != 0)
    refuse("the " + std::to_string(model.heads) + " heads of " + model.name +
           " cannot be divided evenly among " + std::to_string(options.ranks) +
           " ranks; use a number that divides them");
  if (options.tokens < 1 || options.context < 0)
    refuse("there must be at least one token, and no negative context");
  if (options.tokens > most_tokens || options.context > most_tokens)
    refuse("there can be at most " + std::to_string(most_tokens) + " tokens, and as many in the context");
  return Planner(model, machine, link, options).run();
}

} // namespace kiln::collectives
