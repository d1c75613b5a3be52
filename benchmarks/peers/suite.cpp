// Loads the peers, pins their threads, and measures rows.
#include "suite.h"

#include "benchmarks/numbers.h"
#include "tile_peak.h"

#include <chrono>
#include <cmath>
#include <csignal>

namespace benchmarks {

Suite::Suite(const SuiteOptions& options)
    : options_(options), threads_(kiln::Device::cpu().properties().num_threads) {
  limits_ = samples::measure_limits(copied_bytes()); // starts Kiln's workers, which pin themselves
  tile_gflops_ = measure_tile_gflops(threads_);
  stream.host_function([](void*) {}, nullptr); // starts the stream's thread
  stream.synchronize();
  auto wanted_peer = [&](const char* name) { return options.peers.count(name) != 0; };
  if (wanted_peer("pytorch")) {
    std::signal(SIGPIPE, SIG_IGN); // if Python dies, the comparison continues without it
    python_ = std::make_unique<PythonPeers>(KILN_BENCHMARKS_DIR "/peers/cpu_peers.py");
  }

  // The threads of a peer start with its first product and are pinned after it.
  constexpr std::int64_t n = 256;
  std::vector<float> a(n * n), b(n * n), c(n * n);
  auto place = [&](const std::function<void()>& multiply) {
    if (multiply) multiply();
    placement_.pin_new_threads();
  };
  placement_.leave_present_threads();
  if (wanted_peer("openblas")) open_blas = Blas::open_blas(threads_);
  if (open_blas) place([&] { open_blas.multiply({n, n, n}, a.data(), b.data(), c.data()); });
  if (wanted_peer("blis")) blis = Blas::blis(threads_);
  if (blis) place([&] { blis.multiply({n, n, n}, a.data(), b.data(), c.data()); });
  onednn = wanted_peer("onednn") && !onednn_description().empty();
  if (onednn)
    place(onednn_matmul({kiln::DType::F32, n, n, n, false, false, a.data(), b.data(), c.data()},
                        Weights::as_they_are));
  Placement::pin_caller();
  if (threads_ > 1) sharing_ = std::make_unique<CoreSharing>();
}

std::int64_t Suite::copied_bytes() const { return std::int64_t{tiny() ? 1 : 192} << 20; }

void Suite::measure_limits_again() {
  constexpr int most_tries = 8;
  auto share_a_core = [&] { return sharing_ && sharing_->now(); };
  for (int tries = 0; tries < most_tries; ++tries) {
    const bool shared = share_a_core();
    Placement::unpin_caller(); // the measuring threads inherit the caller's CPU mask
    auto now = samples::measure_limits(copied_bytes());
    tile_gflops_ = std::max(tile_gflops_, measure_tile_gflops(threads_));
    Placement::pin_caller();
    limits_.copy_gbs = std::max(limits_.copy_gbs, now.copy_gbs);
    limits_.fma_gflops = std::max(limits_.fma_gflops, now.fma_gflops);
    if (!shared && !share_a_core()) break;
  }
  for (const auto& [row, least] : least_seconds_)
    rows_[row].limit_share = least() / rows_[row].seconds;
}

// Vector units compute twice as many bf16 products as f32 products, and four times as many i8 products. Tile
// registers do not support f32.
double Suite::peak_gflops(std::size_t bytes, double of_vectors, double of_tiles) {
  const double vectors = of_vectors * 4 / static_cast<double>(bytes);
  return bytes < 4 ? std::max(vectors, of_tiles * 2 / static_cast<double>(bytes)) : vectors;
}

std::vector<std::pair<std::string, std::string>> Suite::peer_descriptions() const {
  auto torch = python_ ? python_->versions() : std::map<std::string, std::string>{};
  auto describe = [&](const std::string& name, const std::string& found) {
    return std::pair{name, !found.empty()                    ? found
                           : options_.peers.count(name) == 0 ? std::string("not requested")
                                                             : std::string("not found")};
  };
  return {describe("openblas", open_blas ? open_blas.description() : ""),
          describe("blis", blis ? blis.description() : ""),
          describe("onednn", onednn ? onednn_description() : ""),
          describe("pytorch", torch.count("torch")
                                  ? fmt::format("PyTorch {}, threads: {}", torch["torch"], threads_)
                                  : "")};
}

void Suite::add_fma(std::vector<Contender>& contenders, double operations, std::size_t bytes) {
  // It is warmed up for as long as the other contenders.
  auto seconds = [this, operations, bytes] {
    const bool by_tiles = bytes < 4 && tile_gflops_ > 0;
    auto measured = [&] {
      return by_tiles ? peak_gflops(bytes, 0, measure_tile_gflops(threads_))
                      : peak_gflops(bytes, samples::limits::measure_fma_gflops(threads_), 0);
    };
    Placement::unpin_caller(); // the measuring threads inherit the caller's CPU mask
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::duration<double>(options_.race.warm))
      measured();
    const double peak = measured();
    Placement::pin_caller();
    return operations / (peak * 1e9);
  };
  contenders.push_back({.name = "FMA", .run = {}, .role = Role::limit, .timed = seconds});
}

void Suite::add_pytorch(std::vector<Contender>& contenders, const std::string& request) {
  if (!python_ || python_->versions().count("torch") == 0) return;
  contenders.push_back({.name = "PyTorch", .run = {}, .timed = [this, line = "torch " + request] {
                          return python_->seconds(line);
                        }});
}

void Suite::run(Row row, std::vector<Contender> contenders, const Work& work) {
  const std::string kind = row.group + " " + row.dtype;
  std::erase_if(contenders, [&](const Contender& c) { return too_slow_.count({kind, c.name}) != 0; });
  auto seconds = race(contenders, options_.race, sharing_.get());
  row.seconds = seconds[0];
  row.rate = work.amount / seconds[0] * 1e-9, row.unit = work.unit;
  if (work.elements > 0) row.element_ns = seconds[0] * threads_ / work.elements * 1e9;
  row.limit = work.limit;
  if (work.least_seconds) least_seconds_[rows_.size()] = work.least_seconds;
  for (std::size_t i = 1; i < contenders.size(); ++i) {
    if (seconds[i] <= 0) continue;
    if (contenders[i].role == Role::peer && seconds[i] > too_slow_seconds &&
        seconds[i] > too_slow_ratio * seconds[0])
      too_slow_.insert({kind, contenders[i].name});
    row.others.push_back({contenders[i].name, contenders[i].role, seconds[i]});
    if (contenders[i].role == Role::limit && contenders[i].name == work.limit)
      row.limit_share = seconds[i] / seconds[0];
  }
  keep(std::move(row));
}

void Suite::keep(Row row) {
  row.threads = threads_;
  fmt::print(stderr, "  {} {} on {}: {}{}\n", row.name, row.dtype, row.threads, time_text(row.seconds),
             row.ratio() > 0 ? fmt::format(", {:.2f} of {}", row.ratio(), row.best_peer()->name) : "");
  rows_.push_back(std::move(row));
}

void Suite::check(const Row& row, const std::string& who, double error, double bound) {
  if (error <= bound) return; // false for NaN
  fmt::print(stderr, "{} {}: the result of {} is wrong: its relative error is {:.2g}, the bound is {:.2g}\n",
             row.name, row.dtype, who, error, bound);
  ++wrong_;
}

} // namespace benchmarks
