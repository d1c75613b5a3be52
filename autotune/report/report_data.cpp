// Collects what a report shows of a tuning run on a device.
#include <kiln/autotune/records/key.h>
#include <kiln/autotune/report/explain.h>
#include <kiln/autotune/report/report_data.h>
#include <kiln/autotune/run/task.h>

#include <kiln/autotune/run/tuner.h>
#include <kiln/jit/base/version.h>
#include <kiln/jit/cli/support/text.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <limits>
#include <map>

namespace kiln::tune {

namespace {

using Lines = std::vector<std::pair<std::string, std::string>>;

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm parts{};
  char text[64];
  return gmtime_r(&time, &parts) && std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts) ? text
                                                                                                   : "";
}

Lines device_lines(Device device) {
  const DeviceProperties& p = device.properties();
  Lines lines{{"device", to_string(device)}, {"name", p.name}};
  const auto bytes = [&](const char* what, std::int64_t size) {
    if (size > 0) lines.emplace_back(what, cli::bytes_text(static_cast<double>(size)));
  };
  if (!p.cpu.empty()) lines.emplace_back("target", p.cpu);
  lines.emplace_back("instructions", p.isa);
  if (device.is_cpu()) {
    lines.emplace_back("threads", std::to_string(p.num_threads));
    bytes("L1 data cache", p.l1d_bytes);
    bytes("L2 cache", p.l2_bytes);
    bytes("L3 cache", p.l3_bytes);
  } else {
    lines.emplace_back("multiprocessors", std::to_string(p.multiprocessors));
    bytes("shared memory of a block", p.shared_bytes);
    bytes("L2 cache", p.l2_bytes);
    if (p.cuda_version > 0)
      lines.emplace_back("driver",
                         fmt::format("CUDA {}.{}", p.cuda_version / 1000, p.cuda_version % 1000 / 10));
  }
  bytes("memory", p.memory_bytes);
  return lines;
}

void add_machine(Lines& lines, const Machine& m) {
  const auto rate = [&](const char* what, double rate, const char* unit) {
    lines.emplace_back(what, cli::count_text(rate, unit) + "/s");
  };
  lines.emplace_back("its limits", m.measured ? "measured" : "assumed from its attributes");
  rate("f32 products", m.f32, "flop");
  rate("bf16 products", m.bf16, "flop");
  rate("elementwise", m.elementwise, "flop");
  rate("copy from memory", m.memory, "B");
  rate("copy from the last-level cache", m.last_cache, "B");
  lines.emplace_back("empty launch", cli::time_text(m.launch));
}

// Tries random combinations of knob values and counts for each rule how many it was the first to reject.
void add_removed(ReportData& data, const BoundSpace& space) {
  constexpr int most = 2000;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  Random random(most);
  std::map<std::string, int> removed;
  for (const Knob& knob : data.knobs)
    if (knob.values.empty()) return;
  while (data.points_tried < most && std::chrono::steady_clock::now() < deadline) {
    Point point;
    for (const Knob& knob : data.knobs)
      point.push_back(static_cast<std::uint16_t>(random.below(knob.values.size())));
    ++data.points_tried;
    if (std::string rule = space.refused_by(point); !rule.empty()) ++removed[rule];
  }
  for (const auto& [rule, points] : removed)
    data.removed.push_back({rule, points});
  std::stable_sort(data.removed.begin(), data.removed.end(),
                   [](const RemovedPoints& a, const RemovedPoints& b) { return a.points > b.points; });
}

void add_analytic(ReportData& data, Prior& prior) {
  for (const char* name : Terms::column_names())
    data.columns.push_back({name, "", {}});
  for (const Trial& trial : data.search.trials) {
    data.expected.push_back(prior(trial.point));
    const Terms* terms = prior.terms(trial.point);
    const auto values = terms ? terms->columns_of() : std::array<float, Terms::column_count>{};
    for (std::size_t i = 0; i < values.size(); ++i)
      data.columns[i].values.push_back(terms ? static_cast<double>(values[i])
                                             : std::numeric_limits<double>::quiet_NaN());
  }
  const auto estimate = [&](const char* name, const std::optional<Point>& point) {
    if (point && prior.terms(*point)) data.estimates.push_back({name, prior.estimate(*point)});
  };
  estimate("best", data.search.best);
  if (data.fallback != data.search.best) estimate("default", data.fallback);
  if (data.analytic != data.search.best && data.analytic != data.fallback)
    estimate("analytic", data.analytic);
  const std::optional<Point>& shown = data.search.best ? data.search.best : data.fallback;
  if (const Terms* terms = shown ? prior.terms(*shown) : nullptr) {
    data.flops = terms->useful_flops > 0 ? terms->useful_flops : terms->flops;
    data.bytes = terms->unique;
  }
}

} // namespace

ReportData report_data(const Tuning& tuning) {
  ReportData data;
  data.strategy = tuning.strategy;
  data.search = tuning.search;
  data.fallback = tuning.fallback;
  data.analytic = tuning.analytic;
  data.bound = tuning.bound;
  data.sibling_records = tuning.sibling_records;
  data.bad_records = tuning.bad_records;
  data.jobs = tuning.jobs;
  if (tuning.space) {
    data.knobs = tuning.space->knobs();
    data.space_size = tuning.space->size(&data.space_size_exact);
    add_removed(data, *tuning.space);
  }
  if (tuning.prior) add_analytic(data, *tuning.prior);
  if (data.search.best) data.contributions = knob_factors(data.search, data.knobs, *data.search.best);
  if (tuning.task) {
    const Device device = tuning.task->device;
    data.kernel = tuning.task->kernel;
    data.problem = tuning.task->problem.to_string();
    data.device = to_string(device) + ": " + device.properties().name;
    data.machine = device_lines(device);
    if (tuning.machine) add_machine(data.machine, *tuning.machine);
    data.machine.emplace_back("key", silicon_of(device.properties()));
  }
  if (!tuning.checked.empty()) data.machine.emplace_back("compared with the interpreter", tuning.checked);
  data.machine.emplace_back("Kiln", fmt::format("{}, LLVM {}", version(), llvm_version()));
  data.machine.emplace_back("reported", now());
  return data;
}

} // namespace kiln::tune
