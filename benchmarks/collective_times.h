// Measures the time and the bandwidth of collectives between ranks that are threads of this machine.
#pragma once

#include "numbers.h"

#include <fmt/format.h>
#include <kiln/collectives/layers.h>
#include <kiln/collectives/ranks.h>
#include <kiln/kiln.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

namespace benchmarks {

// The median over the rounds of a time on the rank that is the slowest, per call. All ranks call it.
inline double slowest_seconds(kiln::collectives::Communicator& comm, int rounds, int calls,
                              const std::function<void()>& body) {
  using kiln::collectives::Nanoseconds;
  std::vector<double> times;
  for (int round = 0; round <= rounds; ++round) {
    comm.barrier();
    const Nanoseconds began = comm.now();
    for (int i = 0; i < calls; ++i)
      body();
    const Nanoseconds own = comm.now() - began;
    std::vector<Nanoseconds> all(static_cast<std::size_t>(comm.size()));
    kiln::Stream stream;
    comm.all_gather(stream, kiln::TensorView<const Nanoseconds, 1>(&own, {1}),
                    kiln::TensorView<Nanoseconds, 1>(all.data(), {comm.size()}));
    if (round > 0)
      times.push_back(static_cast<double>(*std::max_element(all.begin(), all.end())) * 1e-9 / calls);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// The bus bandwidth is the one of nccl-tests: the bytes that must cross a link of each rank, per second.
inline nlohmann::ordered_json collective_times(bool quick) {
  using namespace kiln;
  using namespace kiln::collectives;
  fmt::print("\nCollectives between threads of this machine, without an emulated link (f32)\n");
  fmt::print("{:<24} {:>6} {:>10} {:>12} {:>14} {:>14}\n", "", "ranks", "bytes", "time", "bus GB/s",
             "memcpy GB/s");
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (int ranks : {2, 4})
    for (std::int64_t bytes :
         {std::int64_t{4} << 10, std::int64_t{64} << 10, std::int64_t{1} << 20, std::int64_t{64} << 20}) {
      if (quick && bytes > 1 << 20) continue;
      run_ranks({.ranks = ranks}, [&](Communicator& comm) {
        Stream stream(comm.device());
        const std::int64_t count = bytes / 4, own = Shards::even(count, ranks).rows(comm.rank()).count();
        auto whole = Tensor<float, 1>::zeros({count}), result = Tensor<float, 1>::zeros({count}),
             part = Tensor<float, 1>::zeros({own});
        const int calls = bytes >= 64 << 20 ? 1 : bytes >= 1 << 20 ? 10 : 100, rounds = quick ? 3 : 11;
        const double copy = slowest_seconds(comm, rounds, calls, [&] {
          std::memcpy(result.data(), whole.data(), static_cast<std::size_t>(bytes));
        });
        const double p = ranks, share = (p - 1) / p;
        const auto row = [&](const char* name, double factor, const std::function<void()>& body) {
          const double t = slowest_seconds(comm, rounds, calls, body);
          if (comm.rank() != 0) return;
          const double bus = factor * static_cast<double>(bytes) / t;
          fmt::print("{:<24} {:>6} {:>10} {:>12} {:>14.2f} {:>14.2f}\n", name, ranks, bytes, time_text(t),
                     bus * 1e-9, static_cast<double>(bytes) / copy * 1e-9);
          rows.push_back({{"collective", name},
                          {"ranks", ranks},
                          {"bytes", bytes},
                          {"seconds", t},
                          {"bus_bytes_per_second", bus},
                          {"copy_bytes_per_second", static_cast<double>(bytes) / copy}});
        };
        row("all_reduce", 2 * share, [&] { comm.all_reduce(stream, whole, result); });
        row("all_gather", share, [&] { comm.all_gather(stream, part, result); });
        row("reduce_scatter", share, [&] { comm.reduce_scatter(stream, whole, part); });
      });
    }
  return rows;
}

// What layers cost on one rank besides the ops that they call, for a product that takes next to nothing.
inline nlohmann::ordered_json overhead_on_one_rank() {
  using namespace kiln;
  using namespace kiln::collectives;
  nlohmann::ordered_json json;
  run_ranks({.ranks = 1}, [&](Communicator& comm) {
    Stream stream(comm.device());
    TensorParallel tp(comm);
    ColumnParallelLinear column(tp, {.in = 16, .out = 16});
    RowParallelLinear row(tp, {.in = 16, .out = 16});
    auto w = Tensor<float, 2>::zeros({16, 16}), x = Tensor<float, 2>::zeros({16, 16}),
         y = Tensor<float, 2>::zeros({16, 16});
    column.load_full(stream, w, {}), row.load_full(stream, w, {});
    const std::vector<std::function<void()>> contenders = {
        [&] { ops::matmul(stream, x, w, y, {.batch_invariant = true}); },
        [&] { column.forward(stream, x, y); }, [&] { row.forward(stream, x, y); }};
    std::vector<std::vector<double>> times(contenders.size());
    for (int round = 0; round < 101; ++round) // interleaved
      for (std::size_t i = 0; i < contenders.size(); ++i) {
        const Nanoseconds began = comm.now();
        for (int n = 0; n < 100; ++n)
          contenders[i](), stream.synchronize();
        times[i].push_back(static_cast<double>(comm.now() - began) * 1e-11);
      }
    for (auto& list : times)
      std::sort(list.begin(), list.end());
    const auto median = [&](std::size_t i) { return times[i][times[i].size() / 2]; };
    json = {{"matmul", median(0)}, {"column_parallel", median(1)}, {"row_parallel", median(2)}};
  });
  fmt::print("\nOn one rank, a product of 16 x 16 x 16 takes {}, in a column-parallel layer {}, in a "
             "row-parallel one {}\n",
             time_text(json["matmul"]), time_text(json["column_parallel"]), time_text(json["row_parallel"]));
  return json;
}

} // namespace benchmarks
