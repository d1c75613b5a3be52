// Computes the decoder block of llama_block.cpp on several ranks, and compares the results with those of one.
//
// Ranks are threads with CPUs of their own. Heads, the cache of their keys and values, and the columns of the
// hidden layer are divided among them. On one rank, the same layers send nothing.
#pragma once

#include "support.h"

#include <kiln/collectives/attention.h>
#include <kiln/collectives/mlp.h>
#include <kiln/collectives/model_plan.h>
#include <kiln/collectives/ranks.h>

#include <map>
#include <optional>
#include <set>

namespace samples {

struct BlockShape {
  std::int64_t heads, key_heads, head_size, intermediate;
  double theta, eps;
  std::int64_t hidden() const { return heads * head_size; }
};

struct BlockWeights {
  kiln::Tensor<float, 1> norm, mlp_norm;
  kiln::Tensor<float, 2> qkv, out, up, down; // the columns of the gate are the first ones of `up`
};

// What one of the two computations takes.
struct PhaseRun {
  double seconds = 0;
  std::string summary; // of rank 0: the schedules
  // Of rank 0's products, as planned: what it sends, how long transfers and computations take alone, and the
  // part of the transfers that overlaps.
  std::int64_t sent = 0;
  kiln::collectives::Nanoseconds communication = 0, computation = 0;
  double hidden = 0;

  void add(const kiln::collectives::Plan& plan) {
    for (const kiln::collectives::Step& step : plan.schedule->steps)
      if (step.rank == 0) sent += step.bytes; // of puts
    communication += plan.communication, computation += plan.computation;
    hidden += plan.hidden * static_cast<double>(std::min(plan.communication, plan.computation));
    summary += "  " + plan.shape.text() + ": " + plan.choice().candidate.text() + "\n";
  }
};

// The results of a prefill, and of the token after it.
struct BlockRun {
  BlockRun(std::int64_t tokens, std::int64_t hidden)
      : prefilled(poisoned({tokens, hidden})), decoded(poisoned({1, hidden})) {}
  PhaseRun prefill, decode;
  kiln::Tensor<float, 2> prefilled, decoded;
};

// The block of one rank. Between its layers, the tokens of a prefill are divided among the ranks; a single
// token is on all of them.
class BlockOfRank {
public:
  BlockOfRank(kiln::Stream& stream, kiln::collectives::Communicator& comm, const BlockShape& shape,
              const BlockWeights& w, std::int64_t capacity)
      : stream_(stream), shape_(shape), w_(w), tp_(comm),
        attention_(tp_, {.width = shape.hidden(),
                         .heads = shape.heads,
                         .kv_heads = shape.key_heads,
                         .head_size = shape.head_size,
                         .rotary = kiln::ops::RotaryOptions{.theta = shape.theta}}),
        mlp_(tp_, {.width = shape.hidden(), .hidden = shape.intermediate}),
        keys_(poisoned({1, attention_.own_kv_heads(), capacity, shape.head_size})),
        values_(poisoned({1, attention_.own_kv_heads(), capacity, shape.head_size})),
        lengths_(kiln::Tensor<std::int32_t, 1>::zeros({1})) {
    attention_.load_full(stream, w.qkv, w.out);
    mlp_.load_full(stream, w.up, w.down);
  }

  // y = block(x), after `cached` tokens; x and y are this rank's rows of a prefill, or the single token.
  void run(std::int64_t tokens, std::int64_t cached, const kiln::TensorView<const float, 2>& x,
           const kiln::TensorView<float, 2>& y) {
    const bool divided = cached == 0; // also a prefill of one token
    const std::int64_t rows = x.extent(0);
    if (!sum_ || sum_->extent(0) != rows)
      sum_.emplace(poisoned({rows, shape_.hidden()})), normed_.emplace(poisoned({rows, shape_.hidden()}));
    lengths_.fill(static_cast<std::int32_t>(cached));
    kiln::ops::rmsnorm(stream_, x, w_.norm, *normed_, {.eps = shape_.eps});
    attention_.forward_cached(
        stream_, {.sequences = 1, .length = tokens}, *normed_, *sum_,
        {.cache = {.keys = keys_, .values = values_}, .lengths = lengths_, .empty = cached == 0},
        {.residual = x, .norm = {w_.mlp_norm, *normed_, shape_.eps}, .sequence_parallel = divided});
    mlp_.forward(stream_, tokens, *normed_, y, {.residual = *sum_, .sequence_parallel = divided});
    stream_.synchronize();
  }
  const std::map<std::string, kiln::collectives::Plan>& plans() const { return tp_.plans(); }

private:
  kiln::Stream& stream_;
  const BlockShape shape_;
  const BlockWeights& w_;
  kiln::collectives::TensorParallel tp_;
  kiln::collectives::ParallelAttention attention_;
  kiln::collectives::ParallelMlp mlp_;
  kiln::Tensor<float, 4> keys_, values_;
  kiln::Tensor<std::int32_t, 1> lengths_;
  std::optional<kiln::Tensor<float, 2>> sum_, normed_;
};

// Computes the tokens x, and then the token `next`. With a path, writes a trace of one prefill.
inline BlockRun run_on_ranks(int ranks, const BlockShape& shape, const BlockWeights& w,
                             const kiln::Tensor<float, 2>& x, const kiln::Tensor<float, 2>& next,
                             const std::string& trace_path) {
  using namespace kiln::collectives;
  const std::int64_t tokens = x.extent(0);
  BlockRun result(tokens, shape.hidden());
  Trace trace;
  RanksOptions options{.ranks = ranks};
  if (const char* link = std::getenv("KILN_SAMPLES_LINK"); link && *link && ranks > 1)
    options.link = parse_link(link);
  if (!trace_path.empty()) options.trace = &trace;
  run_ranks(options, [&](Communicator& comm) {
    kiln::Stream stream(comm.device());
    BlockOfRank block(stream, comm, shape, w, tokens + 1);
    const auto time = [&](PhaseRun& phase, const auto& body) {
      body(); // plans and compiles
      std::vector<Nanoseconds> times;
      for (int i = 0; i < 5; ++i) {
        if (comm.rank() == 0 && &phase == &result.prefill) trace.clear(); // only the last run counts
        comm.barrier();
        const Nanoseconds began = comm.now();
        body();
        comm.barrier();
        times.push_back(comm.now() - began);
      }
      std::sort(times.begin(), times.end());
      if (comm.rank() == 0) phase.seconds = static_cast<double>(times[times.size() / 2]) * 1e-9;
    };
    const Rows own = Shards::even(tokens, ranks).rows(comm.rank());
    const auto mine = x.view().slice(0, own.begin, own.end);
    const auto my_y = result.prefilled.view().slice(0, own.begin, own.end);
    time(result.prefill, [&] { block.run(tokens, 0, mine, my_y); });
    if (comm.rank() == 0 && !trace_path.empty()) trace.write(trace_path);
    comm.barrier(); // the decoding is not in the trace
    std::set<std::string> of_prefill;
    for (const auto& [key, plan] : block.plans()) {
      of_prefill.insert(key);
      if (comm.rank() == 0) result.prefill.add(plan);
    }
    auto y = poisoned({1, shape.hidden()}); // all ranks have it
    time(result.decode, [&] { block.run(1, tokens, next.view(), y.view()); });
    if (comm.rank() != 0) return;
    std::copy(y.begin(), y.end(), result.decoded.begin());
    for (const auto& [key, plan] : block.plans())
      if (!of_prefill.count(key)) result.decode.add(plan);
  });
  return result;
}

inline void print_communication(const PhaseRun& phase) {
  std::printf(
      "  rank 0 sends %.2f MB in %.2f ms; its products take %.2f ms; %.0f %% of the transfers are hidden\n%s",
      static_cast<double>(phase.sent) * 1e-6, static_cast<double>(phase.communication) * 1e-6,
      static_cast<double>(phase.computation) * 1e-6,
      phase.communication > 0 ? 100 * phase.hidden / static_cast<double>(phase.communication) : 0.0,
      phase.summary.c_str());
}

// Prints lines for each number of ranks, 1 and `ranks`. Returns the exit code of the sample.
inline int compare_ranks(int ranks, const BlockShape& shape, const BlockWeights& w,
                         const kiln::Tensor<float, 2>& x, const kiln::Tensor<float, 2>& next,
                         const std::string& trace_path) {
  const std::int64_t tokens = x.extent(0);
  const BlockRun one = run_on_ranks(1, shape, w, x, next, {}),
                 several = run_on_ranks(ranks, shape, w, x, next, trace_path);
  Error prefill, decode;
  for (std::int64_t i = 0; i < x.size(); ++i)
    prefill.add(several.prefilled.data()[i], one.prefilled.data()[i]);
  for (std::int64_t i = 0; i < next.size(); ++i)
    decode.add(several.decoded.data()[i], one.decoded.data()[i]);
  const double n = static_cast<double>(tokens), hidden = static_cast<double>(shape.hidden()),
               keys = static_cast<double>(shape.key_heads * shape.head_size),
               parameters = hidden * (2 * hidden + 2 * keys + 3 * static_cast<double>(shape.intermediate));
  const Work of_prefill{.flops = 2 * n * parameters + 2 * n * n * hidden},
      of_decode{.bytes = 4 * (parameters + 2 * keys * (n + 1))};
  const std::string name = "Llama-3-8B block, ", cached = ", " + std::to_string(tokens) + " cached";
  const std::string on_several = ", " + std::to_string(ranks) + " ranks";
  int failures =
      report(name + "prefill of " + std::to_string(tokens) + ", 1 rank", one.prefill.seconds, of_prefill, 0);
  failures += report(name + "prefill of " + std::to_string(tokens) + on_several, several.prefill.seconds,
                     of_prefill, prefill.relative(), 1e-5);
  if (ranks > 1) print_communication(several.prefill);
  failures += report(name + "decode" + cached + ", 1 rank", one.decode.seconds, of_decode, 0);
  failures += report(name + "decode" + cached + on_several, several.decode.seconds, of_decode,
                     decode.relative(), 1e-5);
  if (ranks > 1) print_communication(several.decode);
  return failures != 0;
}

} // namespace samples
