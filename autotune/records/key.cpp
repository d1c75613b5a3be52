// Builds record keys from kernels, spaces and devices, and compares them.
#include <kiln/autotune/records/key.h>

#include <kiln/dsl/ir/printer.h>
#include <kiln/jit/base/version.h>
#include <kiln/jit/gpu/ptxas.h>

#include <algorithm>
#include <bit>

#include <fmt/format.h>

namespace kiln::tune {
namespace {

std::string size_text(std::int64_t bytes) {
  static constexpr const char* suffixes = "BKMGT";
  int unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit < 4)
    bytes /= 1024, ++unit;
  return fmt::format("{}{}", bytes, suffixes[unit]);
}

// Rounds to one of eight steps between powers of two, since drivers reserve varying amounts.
std::int64_t rounded_memory(std::int64_t bytes) {
  if (bytes <= 0) return 0;
  const std::uint64_t step =
      std::max<std::uint64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes)) / 8, 1);
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(bytes) + step / 2) / step * step);
}

// The order in which sizes were given does not matter.
std::vector<const std::pair<std::string, std::int64_t>*> by_name(const Problem& problem) {
  std::vector<const std::pair<std::string, std::int64_t>*> sizes;
  sizes.reserve(problem.sizes.size());
  for (const auto& size : problem.sizes)
    sizes.push_back(&size);
  std::sort(sizes.begin(), sizes.end(), [](const auto* a, const auto* b) { return *a < *b; });
  return sizes;
}

bool same_sizes(const Problem& a, const Problem& b) {
  return std::ranges::equal(by_name(a), by_name(b), [](const auto* x, const auto* y) { return *x == *y; });
}

void add_difference(std::vector<std::string>& list, const char* what, const std::string& recorded,
                    const std::string& now) {
  if (recorded != now && !recorded.empty() && !now.empty())
    list.push_back(fmt::format("{} {}, now {}", what, recorded, now));
}

} // namespace

cache::Key RecordKey::id() const {
  cache::KeyBuilder builder;
  builder.add(kernel).add(ir.high).add(ir.low).add(space.high).add(space.low);
  builder.add(silicon).add(backend).add(code_generation).add(problem.kind).add(problem.sizes.size());
  for (const auto* size : by_name(problem))
    builder.add(size->first).add(size->second);
  if (!problem.key.empty()) builder.add("key").add(problem.key);
  return builder.key();
}

cache::Key hash_of(const ir::Kernel& recorded) { return cache::KeyBuilder().add(ir::print(recorded)).key(); }

std::string silicon_of(const DeviceProperties& p) {
  if (p.sm != 0)
    return fmt::format("{}:{}sm:{}:{}:{}", p.isa, p.multiprocessors, size_text(p.shared_bytes),
                       size_text(p.l2_bytes), size_text(rounded_memory(p.memory_bytes)));
  std::string isa = p.isa;
  std::replace(isa.begin(), isa.end(), ' ', '+');
  return fmt::format("{}:{}:{}:{}:{}:{}t", p.cpu, isa, size_text(p.l1d_bytes), size_text(p.l2_bytes),
                     size_text(p.l3_bytes), p.num_threads);
}

std::string backend_of(Device device) {
  switch (device.kind()) {
  case DeviceKind::Cpu: return "cpu";
  case DeviceKind::Cuda: return "ptx";
  case DeviceKind::Emulated: return "emulated";
  }
  return "cpu";
}

ToolVersions tools_of(Device device) {
  const DeviceProperties& p = device.properties();
  ToolVersions tools{.product = p.name,
                     .driver = {},
                     .llvm = llvm_version(),
                     .ptxas = {},
                     .kiln = version(),
                     .verification = verification_version};
  if (device.kind() == DeviceKind::Cuda) {
    tools.driver = fmt::format("{}.{}", p.cuda_version / 1000, p.cuda_version % 1000 / 10);
    tools.ptxas = gpu::ptxas_version();
  }
  return tools;
}

RecordKey make_key(std::string kernel, cache::Key ir, cache::Key space, Problem bucketed, Device device) {
  RecordKey key;
  key.kernel = std::move(kernel);
  key.ir = ir;
  key.space = space;
  key.problem = std::move(bucketed);
  key.silicon = silicon_of(device.properties());
  key.backend = backend_of(device);
  key.code_generation = code_generation_version;
  key.tools = tools_of(device);
  return key;
}

RecordKey make_key(const ir::Kernel& recorded, cache::Key space, Problem bucketed, Device device) {
  return make_key(recorded.name, hash_of(recorded), space, std::move(bucketed), device);
}

std::vector<std::string> hard_differences(const RecordKey& a, const RecordKey& b) {
  std::vector<std::string> list;
  const auto add = [&](bool differs, const char* what) {
    if (differs) list.emplace_back(what);
  };
  add(a.kernel != b.kernel, "kernel");
  add(a.kernel == b.kernel && a.ir != b.ir, "the kernel's code");
  add(a.space != b.space, "space");
  add(!same_sizes(a.problem, b.problem), "sizes");
  add(a.problem.kind != b.problem.kind, "dtypes or layouts");
  add(a.problem.key != b.problem.key, "the caller's key");
  add(a.silicon != b.silicon, "silicon");
  add(a.backend != b.backend, "back end");
  add(a.code_generation != b.code_generation, "code generation");
  return list;
}

std::vector<std::string> soft_differences(const ToolVersions& recorded, const ToolVersions& now) {
  std::vector<std::string> list;
  add_difference(list, "product", recorded.product, now.product);
  add_difference(list, "driver", recorded.driver, now.driver);
  add_difference(list, "llvm", recorded.llvm, now.llvm);
  add_difference(list, "ptxas", recorded.ptxas, now.ptxas);
  add_difference(list, "kiln", recorded.kiln, now.kiln);
  add_difference(list, "verification", std::to_string(recorded.verification),
                 std::to_string(now.verification));
  return list;
}

std::string text_of(const Problem& problem) {
  std::string text;
  for (const auto& [name, size] : problem.sizes)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, size);
  if (!problem.kind.empty()) text += (text.empty() ? "" : " ") + problem.kind;
  if (!problem.key.empty()) text += fmt::format("{}\"{}\"", text.empty() ? "" : " ", problem.key);
  return text;
}

} // namespace kiln::tune
