// Computes the prefill of the decoder block of llama_block.cpp on several ranks, and compares it with one.
//
// Ranks are threads with CPUs of their own. Heads and the columns of the hidden layer are divided among them,
// and between the layers each rank has some of the tokens. On one rank, the same layers send nothing.
#pragma once

#include "support.h"

#include <kiln/collectives/attention.h>
#include <kiln/collectives/mlp.h>
#include <kiln/collectives/ranks.h>

#include <functional>

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

struct BlockRun {
  double seconds = 0;
  std::string summary;                                               // of rank 0: the schedules
  kiln::collectives::Nanoseconds communication = 0, computation = 0; // of the products, as planned
  double saved = 0;                                                  // of the communication, in nanoseconds
};

// y = block(x) on some ranks. With a path, writes a trace of one run.
inline BlockRun run_on_ranks(int ranks, const BlockShape& shape, const BlockWeights& w,
                             const kiln::Tensor<float, 2>& x, kiln::Tensor<float, 2>& y,
                             const std::string& trace_path) {
  using namespace kiln;
  using namespace kiln::collectives;
  BlockRun result;
  Trace trace;
  RanksOptions options{.ranks = ranks};
  if (!trace_path.empty()) options.trace = &trace;
  run_ranks(options, [&](Communicator& comm) {
    Stream stream(comm.device());
    TensorParallel tp(comm);
    ParallelAttention attention(tp, {.width = shape.hidden(),
                                     .heads = shape.heads,
                                     .kv_heads = shape.key_heads,
                                     .head_size = shape.head_size,
                                     .rotary = ops::RotaryOptions{.theta = shape.theta}});
    ParallelMlp mlp(tp, {.width = shape.hidden(), .hidden = shape.intermediate});
    attention.load_full(stream, w.qkv, w.out);
    mlp.load_full(stream, w.up, w.down);

    const std::int64_t tokens = x.extent(0);
    const Rows own = Shards::even(tokens, ranks).rows(comm.rank());
    const auto my_x = x.view().slice(0, own.begin, own.end);
    const auto my_y = y.view().slice(0, own.begin, own.end);
    auto normed = poisoned({own.count(), shape.hidden()}), sum = poisoned({own.count(), shape.hidden()});
    const auto block = [&] {
      ops::rmsnorm(stream, my_x, w.norm, normed, {.eps = shape.eps});
      attention.forward(stream, {.sequences = 1, .length = tokens}, normed, sum,
                        {.residual = my_x, .norm = {w.mlp_norm, normed, shape.eps}});
      mlp.forward(stream, tokens, normed, my_y, {.residual = sum});
      stream.synchronize();
    };
    block(); // plans and compiles
    std::vector<Nanoseconds> times;
    for (int i = 0; i < 5; ++i) {
      trace.clear(); // only the last run counts
      comm.barrier();
      const Nanoseconds began = comm.now();
      block();
      comm.barrier();
      times.push_back(comm.now() - began);
    }
    if (comm.rank() != 0) return;
    std::sort(times.begin(), times.end());
    result.seconds = static_cast<double>(times[times.size() / 2]) * 1e-9;
    result.summary = tp.summary();
    for (const auto& entry : tp.plans()) {
      const Plan& plan = entry.second;
      result.communication += plan.communication, result.computation += plan.computation;
      result.saved += plan.hidden * static_cast<double>(std::min(plan.communication, plan.computation));
    }
  });
  if (!trace_path.empty()) trace.write(trace_path);
  return result;
}

// Prints a line for each number of ranks, 1 and `ranks`. Returns the exit code of the sample.
inline int compare_ranks(int ranks, const BlockShape& shape, const BlockWeights& w,
                         const kiln::Tensor<float, 2>& x, const std::string& trace_path) {
  const std::int64_t tokens = x.extent(0);
  auto one = poisoned({tokens, shape.hidden()}), several = poisoned({tokens, shape.hidden()});
  const double alone = run_on_ranks(1, shape, w, x, one, {}).seconds;
  const BlockRun run = run_on_ranks(ranks, shape, w, x, several, trace_path);
  Error error;
  for (std::int64_t i = 0; i < one.size(); ++i)
    error.add(several.data()[i], one.data()[i]);
  const double n = static_cast<double>(tokens), hidden = static_cast<double>(shape.hidden()),
               keys = static_cast<double>(shape.key_heads * shape.head_size),
               flops =
                   2 * n * hidden * (2 * hidden + 2 * keys + 3 * static_cast<double>(shape.intermediate)) +
                   2 * n * n * hidden;
  const std::string what = "Llama-3-8B block, prefill of " + std::to_string(tokens);
  int failures = report(what + ", 1 rank", alone, {.flops = flops}, 0);
  failures += report(what + ", " + std::to_string(ranks) + " ranks", run.seconds, {.flops = flops},
                     error.relative(), 1e-5);
  if (ranks > 1)
    std::printf("  communication %.2f ms, computation of the products %.2f ms, %.0f %% of the communication "
                "hidden\n  %s",
                static_cast<double>(run.communication) * 1e-6, static_cast<double>(run.computation) * 1e-6,
                run.communication > 0 ? 100 * run.saved / static_cast<double>(run.communication) : 0.0,
                run.summary.c_str());
  return failures;
}

} // namespace samples
