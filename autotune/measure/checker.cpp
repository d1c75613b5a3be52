// Launches the reference and candidates, reads back outputs, and compares them.
#include <kiln/autotune/measure/checker.h>

#include <kiln/autotune/measure/inject.h>
#include <kiln/jit/cli/support/text.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>

namespace kiln::tune {

namespace {

constexpr Pattern patterns[] = {Pattern::first, Pattern::second};

// The bytes that checks need on the host: the inputs and, for each output, the reference's values, the values
// of a launch, and the patterns that it is filled with.
std::int64_t host_bytes(const MemoryPlan& plan) {
  std::int64_t total = 0;
  for (const Block& block : plan.blocks)
    total += (block.read ? block.bytes : 0) +
             (block.written ? block.bytes * (block.read ? 2 : 2 + static_cast<int>(std::size(patterns))) : 0);
  return total;
}

void check_room(Device device, std::int64_t needed, std::int64_t arrays) {
  const std::int64_t memory = device.properties().memory_bytes;
  if (memory <= 0 || needed <= memory - memory / 8) return;
  const auto text = [](std::int64_t bytes) { return cli::bytes_text(static_cast<double>(bytes)); };
  throw UserError("the measured launch has " + text(arrays) + " of arrays and needs " + text(needed) +
                  " to be measured and checked, but " + to_string(device) + " has only " + text(memory) +
                  "; choose smaller sizes");
}

MemoryPlan plan_with_room(const Situation& s, const ir::Kernel& kernel) {
  MemoryPlan plan = plan_memory(s.arguments, kernel);
  const std::int64_t arrays = plan.bytes(), host = host_bytes(plan);
  const bool cuda = s.device.kind() == DeviceKind::Cuda;
  check_room(s.device, cuda ? arrays : arrays + host, arrays);
  check_room(Device::cpu(), cuda ? host : arrays + host, arrays);
  return plan;
}

std::unique_ptr<ArraySet> make_set(const Situation& s, const Inputs& inputs, Stream& stream) {
  const Surroundings surroundings = s.device.is_cpu() ? Surroundings::pages : Surroundings::bytes;
  auto set = std::make_unique<ArraySet>(s.device, inputs.plan, s.arguments, surroundings);
  set->upload_inputs(stream, inputs.contents);
  return set;
}

// Injects damage that the checks must find.
void inject_around(const std::string& fault, const MemoryPlan& plan, ArraySet& set) {
  if (fault == "guard" && !set.arrays().empty())
    reinterpret_cast<unsigned char*>(set.arrays().back().address())[-1] ^= 1;
  if (fault != "input") return;
  for (std::size_t i = 0; i < plan.blocks.size(); ++i)
    if (!plan.blocks[i].written && plan.blocks[i].bytes > 0)
      *reinterpret_cast<unsigned char*>(set.arrays()[i].address()) ^= 1;
}

} // namespace

Inputs::Inputs(const Situation& situation, const ir::Kernel& kernel, Values values)
    : plan(plan_with_room(situation, kernel)),
      contents(make_contents(plan, situation.arguments, situation.seed, values)) {}

Measurement outcome_of(const Verdict& verdict) {
  if (verdict.kind == Verdict::Kind::right) return {};
  return failed(verdict.kind == Verdict::Kind::not_a_number ? Status::not_a_number : Status::wrong_result,
                verdict.error);
}

bool has_room_apart(Device device, std::int64_t bytes) {
  const std::int64_t memory = device.properties().memory_bytes;
  return memory <= 0 || bytes < memory / 16;
}

Checker::Checker(const Situation& situation, const Inputs& inputs, const LoadedCandidate& reference,
                 Stream& stream, ArraySet* shared)
    : situation_(situation), inputs_(inputs), reference_(reference), stream_(stream),
      own_(shared ? nullptr : make_set(situation, inputs, stream)), set_(shared ? *shared : *own_) {
  for (Pattern pattern : patterns)
    for (const Block& block : inputs_.plan.blocks) {
      auto& bytes = poison_[static_cast<int>(pattern)].emplace_back();
      if (!block.written || block.read) continue;
      bytes.resize(static_cast<std::size_t>(block.bytes));
      poison(bytes, block.dtype, pattern);
    }
}

double Checker::launch(const LoadedCandidate& candidate, Pattern pattern) {
  set_.restore(stream_, inputs_.contents);
  for (std::size_t i = 0; i < inputs_.plan.blocks.size(); ++i)
    if (const auto& bytes = poison_of(i, pattern); !bytes.empty())
      set_.arrays()[i].upload(stream_, bytes.data());
  stream_.synchronize();
  const auto begin = std::chrono::steady_clock::now();
  candidate.launch(stream_, set_.words());
  stream_.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<unsigned char> Checker::output(std::size_t block) {
  std::vector<unsigned char> values(static_cast<std::size_t>(inputs_.plan.blocks[block].bytes));
  set_.arrays()[block].download(stream_, values.data());
  return values;
}

Checker::Launched Checker::run_reference(const std::function<bool(double)>& again) {
  outputs_.assign(inputs_.plan.blocks.size(), {});
  Launched launched;
  for (Pattern pattern : patterns) {
    if (pattern != Pattern::first && again && !again(launched.seconds)) break;
    const double seconds = launch(reference_, pattern);
    if (launched.launches++ == 0) launched.seconds = seconds;
    for (std::size_t i = 0; i < inputs_.plan.blocks.size(); ++i) {
      const Block& block = inputs_.plan.blocks[i];
      if (!block.written) continue;
      std::vector<unsigned char> values = output(i);
      const auto& poisoned = poison_of(i, pattern);
      const auto size = static_cast<std::size_t>(size_of(block.dtype));
      ReferenceOutput& kept = outputs_[i];
      if (pattern == Pattern::first) {
        kept.dtype = block.dtype;
        kept.values = std::move(values);
        if (poisoned.empty()) continue;
        kept.unwritten.resize(kept.values.size() / size);
        for (std::size_t e = 0; e < kept.unwritten.size(); ++e)
          kept.unwritten[e] = std::memcmp(&kept.values[e * size], &poisoned[e * size], size) == 0;
      } else { // an element is unwritten only if it keeps both patterns
        for (std::size_t e = 0; e < kept.unwritten.size(); ++e)
          kept.unwritten[e] =
              kept.unwritten[e] && std::memcmp(&values[e * size], &poisoned[e * size], size) == 0;
      }
    }
    const std::string damage = set_.damage(stream_, inputs_.contents);
    if (!damage.empty()) throw UserError("kernel \"" + reference_.kernel->recorded().name + "\": " + damage);
  }
  return launched;
}

Verdict Checker::check_output(const LoadedCandidate& c, std::size_t i, Pattern pattern,
                              Strictness strictness) {
  const DType dtype = inputs_.plan.blocks[i].dtype;
  std::vector<unsigned char> values = output(i);
  inject_into_output(c.fault, values, dtype);
  const double tolerance = situation_.tolerance > 0 && is_float(dtype)
                               ? situation_.tolerance
                               : std::max(tolerance_of(reference_.kernel->recorded(), dtype),
                                          tolerance_of(c.kernel->recorded(), dtype));
  Verdict v = compare(outputs_[i], values, poison_of(i, pattern), tolerance, strictness);
  if (v.kind != Verdict::Kind::right && inputs_.plan.blocks.size() > 1)
    v.error += ", in array " + std::to_string(i + 1);
  return v;
}

Verdict Checker::check(const LoadedCandidate& c, Strictness strictness) {
  for (Pattern pattern : patterns) {
    launch(c, pattern);
    if (situation_.device.is_cpu()) inject_around(c.fault, inputs_.plan, set_);
    for (std::size_t i = 0; i < inputs_.plan.blocks.size(); ++i) {
      if (!inputs_.plan.blocks[i].written) continue;
      Verdict v = check_output(c, i, pattern, strictness);
      if (v.kind != Verdict::Kind::right) return v;
    }
    if (std::string damage = set_.damage(stream_, inputs_.contents); !damage.empty())
      return {Verdict::Kind::wrong, damage, 0};
  }
  return {};
}

} // namespace kiln::tune
