// Makes up a tuning run for tests.
//
// It has the knobs of a matrix product with a plausible time for each config, a search that improves, and the
// usual failures.
#pragma once

#include <kiln/autotune/random.h>
#include <kiln/autotune/report/report_data.h>

#include <algorithm>
#include <cmath>

namespace kiln::test {

inline tune::Knob knob(std::string name, std::vector<std::int64_t> values) {
  tune::Knob k;
  k.name = std::move(name), k.values = std::move(values);
  return k;
}
inline tune::Trial trial(tune::Point point, double seconds = 0, tune::Status status = tune::Status::ok,
                         std::string error = "") {
  tune::Trial t;
  t.point = std::move(point);
  t.result.seconds = seconds, t.result.status = status, t.result.error = std::move(error);
  return t;
}

inline tune::ReportData synthetic_run(std::uint64_t seed, int trials) {
  using namespace tune;
  Random random(seed);
  ReportData data;
  data.kernel = "matmul";
  data.problem = "M=1024,N=1024,K=1024 f32.row.row.row";
  data.device = "cpu: a CPU of sixteen cores";
  data.strategy = "learned, seed 0";
  data.knobs = {knob("BM", {16, 32, 64, 128, 256}),
                knob("BN", {16, 32, 64, 128, 256}),
                knob("BK", {16, 32, 64, 128, 256, 512}),
                knob("group", {1, 2, 4, 8}),
                knob("order", {0, 1, 2}),
                knob("num_stages", {1, 2, 3, 4}),
                knob("atomic", {0})};
  data.knobs[4].labels = {"rows", "columns", "hilbert"}, data.knobs[4].ordered = false;
  const auto time = [&](const Point& p) {
    const auto off = [&](std::size_t k, double best) { return (p[k] - best) * (p[k] - best); };
    return 412e-6 * (1 + 0.12 * off(0, 2.6) + 0.07 * off(1, 3.2) + 0.05 * off(2, 3) + 0.02 * off(3, 2) +
                     (p[4] == 2 ? 0 : 0.06) + 0.015 * off(5, 2));
  };
  const auto any = [&] {
    Point p;
    for (const Knob& knob : data.knobs)
      p.push_back(static_cast<std::uint16_t>(random.below(knob.values.size())));
    return p;
  };
  const auto normal = [&] {
    return random.uniform() + random.uniform() + random.uniform() + random.uniform() - 2;
  };

  SearchResult& s = data.search;
  data.fallback = Point{1, 1, 1, 0, 0, 1, 0};
  data.analytic = Point{2, 4, 3, 2, 2, 1, 0};
  double now = 0.4;
  for (int i = 0; i < trials; ++i) {
    Trial t = trial(any());
    t.batch = i / 8;
    t.source = i < 8 ? "random" : i % 16 == 0 ? "random" : i > trials * 3 / 4 ? "descent" : "model";
    if (i == 0) t.point = *data.fallback, t.source = "seed";
    if (i == 1) t.point = *data.analytic, t.source = "analytic";
    // The later the trial, the more random configs it takes the best of.
    if (t.source == "model" || t.source == "descent")
      for (int tries = 2 + i / 6; tries > 0; --tries)
        if (Point other = any(); time(other) < time(t.point)) t.point = std::move(other);
    Measurement& m = t.result;
    now += 0.11 + 0.1 * random.uniform();
    t.at_seconds = now;
    m.compile_seconds = 0.3 + 0.4 * random.uniform();
    m.run_seconds = 0.03 + 0.05 * random.uniform();
    t.predicted = i < 16 ? 0 : time(t.point) * std::exp(0.1 * normal());
    data.expected.push_back(time(t.point) * std::exp(0.35 * normal()) * 0.8);
    const double fate = i < 2 ? 1 : random.uniform();
    if (t.point[0] == 4 && t.point[1] == 4 && i > 1) {
      m.status = Status::refused;
      m.error = "the accumulator of BM = 256 x BN = 256 needs 256 KiB; at most 128 KiB fit";
    } else if (fate < 0.03) {
      m.status = Status::timeout, m.error = "no end after 2 s";
    } else if (fate < 0.045) {
      m.status = Status::wrong_result, m.error = "c[17, 3] is 4.25, the reference has 3.5";
    } else if (fate < 0.05) {
      m.status = Status::crash, m.error = "the worker ended with SIGSEGV";
    } else {
      m.seconds = time(t.point) * std::exp(0.01 * normal());
      m.low = m.seconds * 0.994, m.high = m.seconds * 1.007;
      m.launches = 12 + static_cast<int>(random.below(60));
      m.relative = 1 + 0.02 * normal();
      m.facts = {{"code_bytes", 2000.0 + 800.0 * t.point[0] * t.point[1]},
                 {"registers", 18.0 + static_cast<double>(random.below(14))},
                 {"spill_bytes", t.point[0] * t.point[1] > 11 ? 192.0 : 0.0}};
    }
    s.trials.push_back(std::move(t));
  }
  std::vector<const Trial*> order;
  for (const Trial& t : s.trials)
    if (t.result.ok()) order.push_back(&t);
  std::sort(order.begin(), order.end(),
            [](const Trial* a, const Trial* b) { return a->result.seconds < b->result.seconds; });
  for (const Trial* t : order) {
    if (s.finalists.size() == 8) break;
    if (std::find(s.finalists.begin(), s.finalists.end(), t->point) != s.finalists.end()) continue;
    s.finalists.push_back(t->point);
    Measurement m = t->result;
    m.seconds *= 1 + 0.004 * normal();
    m.low = m.seconds * 0.998, m.high = m.seconds * 1.002, m.launches = 400, m.run_seconds = 0.2;
    m.compile_seconds = 0;
    s.confirmed.push_back(m);
  }
  for (std::size_t i = 0; i < s.confirmed.size(); ++i)
    if (!s.best || s.confirmed[i].seconds < s.best_result.seconds)
      s.best = s.finalists[i], s.best_result = s.confirmed[i];
  s.stopped_by = "trials";
  s.seconds = now + 2.1, s.measure_seconds = now * 0.9 + 1.6, s.model_seconds = now * 0.04;

  data.bound = 355e-6;
  data.flops = 2.0 * 1024 * 1024 * 1024, data.bytes = 12.0 * 1024 * 1024;
  data.space_size = 6912, data.space_size_exact = true, data.points_tried = 2000;
  data.removed = {{"a tile fits a core's cache", 611}, {"groups divide the grid", 148}, {"the compiler", 37}};
  data.estimates = {{"best",
                     {.seconds = 380e-6,
                      .compute = 352e-6,
                      .memory = 90e-6,
                      .cache = 140e-6,
                      .programs = 12e-6,
                      .launch = 2e-6,
                      .waste = 1.06,
                      .bound = 355e-6,
                      .limit = "arithmetic"}},
                    {"default",
                     {.seconds = 910e-6,
                      .compute = 640e-6,
                      .memory = 210e-6,
                      .cache = 560e-6,
                      .programs = 95e-6,
                      .launch = 2e-6,
                      .waste = 1.0,
                      .bound = 355e-6,
                      .limit = "arithmetic"}}};
  data.contributions = {{"BK", 0.86}, {"order", 0.94}, {"log programs", 1.05}, {"spill_bytes", 1.02}};
  data.machine = {{"name", "a CPU of sixteen cores"},
                  {"instructions", "avx2 fma avx512f"},
                  {"threads", "16"},
                  {"f32 products", "2.3 Tflop/s"},
                  {"copy from memory", "48 GB/s"}};
  data.jobs = 4;
  data.sibling_records = 312;
  return data;
}

} // namespace kiln::test
