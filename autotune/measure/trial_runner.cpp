// Loads candidates, checks them against the reference, and times them.
#include <kiln/autotune/measure/trial_runner.h>

#include <kiln/dsl/ir/parser.h>
#include <kiln/jit/runtime/cuda/kernel_code.h>
#include <kiln/jit/runtime/emulated/kernel_code.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <new>

#include <unistd.h>

namespace kiln::tune {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int anchor_every = 8; // trials

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// CPU time that other virtual machines took from this one, all CPUs together, since it started.
double stolen_seconds() {
  std::ifstream in("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, stolen = 0;
  in >> cpu >> user >> nice >> system >> idle >> wait >> irq >> soft >> stolen;
  return in ? stolen / static_cast<double>(sysconf(_SC_CLK_TCK)) : 0;
}

std::string one_line(std::string text) {
  text = text.substr(0, text.find('\n'));
  constexpr std::size_t most = 400;
  return text.size() > most ? text.substr(0, most) + " ..." : text;
}

Measurement failed(Status status, std::string error) {
  Measurement m;
  m.status = status;
  m.error = one_line(std::move(error));
  return m;
}

// --- What goes wrong on purpose ----------------------------------------------------------------------------

[[noreturn]] void spin() {
  static std::atomic<bool> never{false};
  while (!never.load(std::memory_order_relaxed)) {
  }
  std::abort();
}

[[noreturn]] void use_up_memory() {
  std::vector<std::unique_ptr<char[]>> blocks;
  for (int i = 0; i < 4096; ++i) // far more than the process may have
    blocks.emplace_back(new char[std::size_t{1} << 30]);
  throw std::bad_alloc();
}

void inject_before_compiling(const std::string& fault) {
  if (fault == "compile error") throw TargetError("an injected compile error");
  if (fault == "compile crash") std::raise(SIGSEGV);
  if (fault == "compile hang") spin();
}

void inject_before_launching(const std::string& fault) {
  if (fault == "crash") std::raise(SIGSEGV);
  if (fault == "hang") spin();
  if (fault == "out of memory") use_up_memory();
}

void inject_into_output(const std::string& fault, std::vector<unsigned char>& bytes, DType dtype) {
  const auto size = static_cast<std::size_t>(size_of(dtype));
  if (bytes.size() < size) return;
  unsigned char* at = bytes.data() + bytes.size() / size / 2 * size;
  if (fault == "nan") { // not the first pattern's
    std::memset(at, 0xFF, size);
    at[size - 1] = 0x7F;
  }
  if (fault == "wrong") at[size - 1] ^= 0x41; // sign and exponent
}

// ---------------------------------------------------------------------------------------------------------

std::shared_ptr<const CompiledKernel> compiled(const LoadedCandidate& c, const Situation& s) {
  const MemoryPlan plan = plan_memory(s.arguments, c.kernel->recorded());
  return c.kernel->compile(s.device, c.config, imagined_words(plan, s.arguments));
}

} // namespace

std::vector<std::uint64_t> imagined_words(const MemoryPlan& plan, const std::vector<Argument>& arguments) {
  std::vector<std::uint64_t> addresses;
  for (const Block& block : plan.blocks)
    addresses.push_back((std::uint64_t{1} << 30) + static_cast<std::uint64_t>(block.misalignment));
  return plan.words(arguments, addresses);
}

LoadedCandidate load_candidate(const Message& m, const Situation& situation) {
  LoadedCandidate c;
  c.fault = m.value("fault", "");
  c.config = Config::parse(m.at("config").get<std::string>());
  if (auto grid = m.find("grid"); grid != m.end() && grid->is_array())
    c.grid = Grid{grid->at(0), grid->at(1), grid->at(2)};
  std::shared_ptr<const ir::Kernel> recorded = ir::parse(m.at("ir").get<std::string>(), "candidate");
  c.kernel = std::make_unique<IrKernel>(recorded, pinned_layouts(situation.arguments));
  return c;
}

std::map<std::string, double> facts_of(const CompiledKernel& code) {
  std::map<std::string, double> facts;
  if (code.code_bytes) facts["code_bytes"] = static_cast<double>(code.code_bytes);
  if (code.code) facts["scratch_bytes"] = static_cast<double>(code.scratch_bytes);
  if (code.cuda) {
    const cuda::FunctionInfo& info = code.cuda->function.info();
    facts["registers"] = info.registers;
    facts["spill_bytes"] = static_cast<double>(info.local_bytes);
    facts["shared_bytes"] = static_cast<double>(info.static_shared_bytes + code.cuda->shared_bytes);
  }
  if (code.emulated) facts["shared_bytes"] = static_cast<double>(code.emulated->shape.shared_bytes);
  return facts;
}

Measurement failure(Status otherwise) {
  try {
    throw;
  } catch (const UserError& e) {
    return failed(otherwise == Status::compile_error ? Status::refused : otherwise, e.what());
  } catch (const std::bad_alloc&) {
    return failed(Status::out_of_memory, "no memory is left");
  } catch (const std::exception& e) {
    const std::string text = e.what();
    const bool memory =
        text.find("out of memory") != std::string::npos || text.find("OUT_OF_MEMORY") != std::string::npos;
    return failed(memory ? Status::out_of_memory : otherwise, text);
  } catch (...) {
    return failed(otherwise, "an unknown exception");
  }
}

Measurement compile(const LoadedCandidate& candidate, const Situation& situation) {
  const auto begin = Clock::now();
  Measurement m;
  try {
    inject_before_compiling(candidate.fault);
    m.facts = facts_of(*compiled(candidate, situation));
  } catch (...) {
    m = failure(Status::compile_error);
  }
  m.compile_seconds = seconds_since(begin);
  return m;
}

// --- The runner --------------------------------------------------------------------------------------------

TrialRunner::TrialRunner(Situation situation, LoadedCandidate reference)
    : situation_(std::move(situation)), reference_(std::move(reference)),
      plan_(plan_memory(situation_.arguments, reference_.kernel->recorded())),
      contents_(make_contents(plan_, situation_.arguments, situation_.seed)), stream_(situation_.device) {
  const Device device = situation_.device;
  const std::int64_t bytes = plan_.bytes(), memory = device.properties().memory_bytes;
  if (memory > 0 && bytes > memory - memory / 8)
    throw UserError("the measured launch has " + std::to_string(bytes) + " bytes of arrays, and " +
                    to_string(device) + " has " + std::to_string(memory));
  // Arrays between faulting pages are another copy, which is left out where memory is short.
  const bool apart = device.is_cpu() && (memory <= 0 || bytes < memory / 16);
  const int sets = memory > 0 && bytes > memory / 8 ? 1 : sets_for(situation_.timing, device, bytes);
  timed_.reserve(static_cast<std::size_t>(sets));
  for (int i = 0; i < sets; ++i) {
    timed_.emplace_back(device, plan_, situation_.arguments, Surroundings::bytes);
    timed_.back().upload_inputs(stream_, contents_);
  }
  if (apart) {
    checked_ = std::make_unique<ArraySet>(device, plan_, situation_.arguments, Surroundings::pages);
    checked_->upload_inputs(stream_, contents_);
  }
  for (Pattern pattern : {Pattern::first, Pattern::second})
    for (const Block& block : plan_.blocks) {
      auto& bytes_of = patterns_[static_cast<int>(pattern)].emplace_back();
      if (!block.written || block.read) continue;
      bytes_of.resize(static_cast<std::size_t>(block.bytes));
      poison(bytes_of, block.dtype, pattern);
    }
  run_reference();
}

void TrialRunner::prepare(ArraySet& set, Pattern pattern) {
  set.restore(stream_, contents_);
  const auto& patterns = patterns_[static_cast<int>(pattern)];
  for (std::size_t i = 0; i < plan_.blocks.size(); ++i)
    if (!patterns[i].empty()) set.arrays()[i].upload(stream_, patterns[i].data());
}

void TrialRunner::run_reference() {
  const auto begin = Clock::now();
  reference_result_.facts = facts_of(*compiled(reference_, situation_));
  reference_result_.compile_seconds = seconds_since(begin);
  ArraySet& set = checked_ ? *checked_ : timed_.front();
  outputs_.resize(plan_.blocks.size());
  for (Pattern pattern : {Pattern::first, Pattern::second}) {
    prepare(set, pattern);
    reference_.kernel->launch(stream_, reference_.config, reference_.grid ? &*reference_.grid : nullptr,
                              set.words());
    stream_.synchronize();
    for (std::size_t i = 0; i < plan_.blocks.size(); ++i) {
      const Block& block = plan_.blocks[i];
      if (!block.written) continue;
      std::vector<unsigned char> values(static_cast<std::size_t>(block.bytes));
      set.arrays()[i].download(stream_, values.data());
      const auto& poisoned = patterns_[static_cast<int>(pattern)][i];
      const auto size = static_cast<std::size_t>(size_of(block.dtype));
      ReferenceOutput& output = outputs_[i];
      if (pattern == Pattern::first) {
        output.dtype = block.dtype;
        output.values = std::move(values);
        if (poisoned.empty()) continue;
        output.unwritten.resize(output.values.size() / size);
        for (std::size_t e = 0; e < output.unwritten.size(); ++e)
          output.unwritten[e] = std::memcmp(&output.values[e * size], &poisoned[e * size], size) == 0;
      } else { // what keeps both patterns is not written; a NaN that looks like one of them is
        for (std::size_t e = 0; e < output.unwritten.size(); ++e)
          output.unwritten[e] =
              output.unwritten[e] && std::memcmp(&values[e * size], &poisoned[e * size], size) == 0;
      }
    }
    const std::string damage = set.damage(stream_, contents_);
    if (!damage.empty()) throw UserError("kernel \"" + reference_.kernel->recorded().name + "\": " + damage);
  }
  Timer timer(stream_, timed_, contents_, situation_.timing);
  fill_in(reference_result_, timer.time(reference_.ready(), 0));
  anchor_seconds_ = reference_result_.seconds;
  reference_result_.relative = 1;
  reference_result_.run_seconds = seconds_since(begin) - reference_result_.compile_seconds;
}

void TrialRunner::time_anchor() {
  Timer timer(stream_, timed_, contents_, situation_.timing);
  const int launches = timer.launches_of_sample(reference_.ready());
  std::vector<double> samples;
  const auto begin = Clock::now();
  constexpr std::size_t most = 9;
  constexpr double most_seconds = 0.1;
  do
    samples.push_back(timer.sample(reference_.ready(), launches).seconds);
  while (samples.size() < most && seconds_since(begin) < most_seconds);
  anchor_seconds_ = median_of(samples);
  since_anchor_ = 0;
}

void TrialRunner::fill_in(Measurement& m, const Timing& timing) const {
  m.seconds = timing.seconds;
  m.low = timing.interval.low;
  m.high = timing.interval.high;
  m.launches = timing.launches;
  if (anchor_seconds_ > 0) m.relative = timing.seconds / anchor_seconds_;
  if (timing.disturbed) m.facts["disturbed"] = timing.disturbed;
  if (timing.dropped) m.facts["dropped"] = 1;
}

Verdict TrialRunner::checked_launch(const LoadedCandidate& c, Pattern pattern) {
  ArraySet& set = checked_ ? *checked_ : timed_.front();
  prepare(set, pattern);
  c.kernel->launch(stream_, c.config, c.grid ? &*c.grid : nullptr, set.words());
  stream_.synchronize();
  if (c.fault == "guard" && situation_.device.is_cpu() && !set.arrays().empty())
    reinterpret_cast<unsigned char*>(set.arrays().back().address())[-1] ^= 1;
  if (c.fault == "input" && situation_.device.is_cpu())
    for (std::size_t i = 0; i < plan_.blocks.size(); ++i)
      if (!plan_.blocks[i].written && plan_.blocks[i].bytes > 0)
        *reinterpret_cast<unsigned char*>(set.arrays()[i].address()) ^= 1;
  for (std::size_t i = 0; i < plan_.blocks.size(); ++i) {
    const Block& block = plan_.blocks[i];
    if (!block.written) continue;
    std::vector<unsigned char> values(static_cast<std::size_t>(block.bytes));
    set.arrays()[i].download(stream_, values.data());
    inject_into_output(c.fault, values, block.dtype);
    const double tolerance = situation_.tolerance > 0 && is_float(block.dtype)
                                 ? situation_.tolerance
                                 : std::max(tolerance_of(reference_.kernel->recorded(), block.dtype),
                                            tolerance_of(c.kernel->recorded(), block.dtype));
    Verdict v = compare(outputs_[i], values, patterns_[static_cast<int>(pattern)][i], tolerance);
    if (v.kind == Verdict::Kind::right) continue;
    if (plan_.blocks.size() > 1) v.error += ", in array " + std::to_string(i + 1);
    return v;
  }
  if (std::string damage = set.damage(stream_, contents_); !damage.empty())
    return {Verdict::Kind::wrong, damage, 0};
  return {};
}

Measurement TrialRunner::check(const LoadedCandidate& c, const std::function<void()>& stage) {
  Measurement m;
  const auto begin = Clock::now();
  try {
    m.facts = facts_of(*compiled(c, situation_));
    m.compile_seconds = seconds_since(begin);
  } catch (...) {
    m = failure(Status::compile_error);
    m.compile_seconds = seconds_since(begin);
    return m;
  }
  stage();
  try {
    inject_before_launching(c.fault);
    for (Pattern pattern : {Pattern::first, Pattern::second}) {
      const Verdict v = checked_launch(c, pattern);
      if (v.kind == Verdict::Kind::right) continue;
      m.status = v.kind == Verdict::Kind::not_a_number ? Status::not_a_number : Status::wrong_result;
      m.error = one_line(v.error);
      break;
    }
  } catch (...) {
    const double seconds = m.compile_seconds;
    m = failure(Status::launch_error);
    m.compile_seconds = seconds;
  }
  return m;
}

Measurement TrialRunner::run(const LoadedCandidate& c, double best, const std::function<void()>& stage) {
  const auto begin = Clock::now();
  const double stolen = stolen_seconds();
  if (++since_anchor_ >= anchor_every) time_anchor();
  Measurement m = check(c, stage);
  if (m.ok()) {
    try {
      TimingPlan plan = situation_.timing;
      if (c.fault == "noise") plan.noise = 0.25;
      Timer timer(stream_, timed_, contents_, plan);
      Timing timing = timer.time(c.ready(), best * anchor_seconds_);
      // Others may use the machine since the anchor was timed: what looks hopeless is compared with it anew.
      constexpr double beyond_drift = 4;
      if (timing.dropped && timing.seconds < beyond_drift * plan.drop * best * anchor_seconds_) {
        time_anchor();
        timing = timer.time(c.ready(), best * anchor_seconds_);
      }
      fill_in(m, timing);
      // One set stands for all: they are equal.
      if (std::string damage = timed_.front().damage(stream_, contents_); !damage.empty()) {
        m.status = Status::wrong_result;
        m.error = damage;
      }
    } catch (...) {
      m = failure(Status::launch_error);
    }
  }
  if (const double since = stolen_seconds() - stolen; since > 0) m.facts["stolen_seconds"] = since;
  m.run_seconds = seconds_since(begin) - m.compile_seconds;
  return m;
}

std::vector<Measurement> TrialRunner::confirm(const std::vector<LoadedCandidate>& candidates, double seconds,
                                              const std::function<void(std::size_t)>& stage) {
  std::vector<Measurement> results;
  std::vector<Candidate> right;
  for (const LoadedCandidate& c : candidates) {
    stage(results.size());
    results.push_back(check(c, [] {}));
    if (!results.back().ok()) return results;
    right.push_back(c.ready());
  }
  time_anchor();
  stage(candidates.size());
  const auto begin = Clock::now();
  Timer timer(stream_, timed_, contents_, situation_.timing);
  std::vector<Timing> timings = timer.interleaved(right, seconds);
  for (std::size_t i = 0; i < results.size(); ++i) {
    Measurement& m = results[i];
    fill_in(m, timings[i]);
    m.run_seconds = seconds_since(begin) / static_cast<double>(right.size());
  }
  return results;
}

} // namespace kiln::tune
