// Implements Module and Gpu: loads modules, checks launches, and copies memory.
#include "emulator.h"
#include <kiln/jit/emulator/core/block.h>
#include <kiln/jit/emulator/instructions/decode.h>
#include <kiln/jit/emulator/ptx/parser.h>

#include <algorithm>
#include <cstring>
#include <kiln/dsl/error.h>
#include <unordered_map>

namespace kiln::emulator {
namespace {

// The bytes of shared memory that a block may have, by compute capability.
std::uint64_t shared_limit(int capability) {
  switch (capability) {
  case 70:
  case 72: return 96 << 10;
  case 75: return 64 << 10;
  case 80:
  case 87: return 163 << 10;
  case 86:
  case 89:
  case 120:
  case 121: return 99 << 10;
  default: return capability >= 90 ? 227 << 10 : 48 << 10;
  }
}

// Parses a target: {90, 'a'} for "sm_90a".
std::pair<int, char> capability(const std::string& target) {
  int number = 0;
  std::size_t at = target.rfind("sm_", 0) == 0 ? 3 : target.rfind("compute_", 0) == 0 ? 8 : target.size();
  while (at < target.size() && at < 12 && target[at] >= '0' && target[at] <= '9')
    number = number * 10 + (target[at++] - '0');
  const char suffix = at < target.size() ? target[at] : '\0';
  if (number < 30 || number > 200 ||
      (suffix && (at + 1 != target.size() || (suffix != 'a' && suffix != 'f'))))
    return {0, '\0'};
  return {number, suffix};
}

} // namespace

std::uint64_t shared_bytes_of(const std::string& arch) { return shared_limit(capability(arch).first); }

std::shared_ptr<const Module> Module::parse(std::string text, std::string name) {
  auto module = std::make_shared<Module>();
  module->tree_ = ptx::parse(std::move(text), std::move(name));
  return module;
}

std::vector<std::string> Module::kernels() const {
  std::vector<std::string> names;
  for (const auto& f : tree_->functions)
    if (f.entry && f.defined) names.emplace_back(f.name);
  return names;
}

struct Gpu::State {
  Options options;
  Probe* probe = nullptr;
  Allocations allocations;
  struct Loaded {
    std::shared_ptr<const Module> module;
    std::unordered_map<std::string, Region*> variables;
    std::unordered_map<std::string, std::unique_ptr<Program>> programs;
  };
  std::unordered_map<const Module*, Loaded> loaded;

  Loaded& load(const std::shared_ptr<const Module>& module);
  const Program& program(const std::shared_ptr<const Module>& module, const std::string& kernel);
  void check(const Program& program, const Launch& launch, const std::string& target) const;
};

Gpu::State::Loaded& Gpu::State::load(const std::shared_ptr<const Module>& module) {
  auto [at, fresh] = loaded.try_emplace(module.get());
  Loaded& l = at->second;
  if (!fresh) return l;
  try {
    l.module = module;
    const ptx::Module& tree = module->tree();
    auto [wanted, suffix] = capability(tree.target);
    auto [have, own] = capability(options.arch);
    if (!wanted) throw UserError(tree.name + ": the target " + tree.target + " is not known");
    if (suffix == 'a'   ? wanted != have || own != 'a'
        : suffix == 'f' ? wanted / 10 != have / 10 || wanted > have
                        : wanted > have)
      throw UserError(tree.name + ": it is for " + tree.target + " and does not run on " + options.arch);
    for (const ptx::Variable& v : tree.variables) {
      if (v.space == ptx::Space::Shared) continue;
      if (v.external) continue; // an error where it is used
      Region& r = allocations.allocate(std::max<std::uint64_t>(v.bytes, 1), std::string(v.name), false);
      r.kind = v.space == ptx::Space::Const ? Region::Kind::Constant : Region::Kind::Global;
      r.writable = v.space != ptx::Space::Const;
      r.owned = false;
      std::memset(r.data, 0, r.bytes);
      std::copy(v.initial.begin(), v.initial.end(), r.data);
      l.variables[std::string(v.name)] = &r;
    }
    for (const ptx::Variable& v : tree.variables) {
      if (v.relocations.empty()) continue;
      Region& r = *l.variables.at(std::string(v.name));
      for (const ptx::Relocation& x : v.relocations) {
        auto target = l.variables.find(std::string(x.symbol));
        std::uint64_t address = static_cast<std::uint64_t>(x.addend);
        if (target != l.variables.end())
          address += target->second->base;
        else if (auto f = tree.function_named.find(x.symbol); f != tree.function_named.end())
          address += code_window + f->second;
        else
          throw UserError(tree.name + ":" + std::to_string(v.line) + ": the initial value of " +
                          std::string(v.name) + " names " + std::string(x.symbol) + ", which is no variable");
        if (x.mask) address = (address & x.mask) >> std::countr_zero(x.mask);
        if (x.offset + static_cast<std::uint64_t>(x.bytes) <= r.bytes)
          std::memcpy(r.data + x.offset, &address, static_cast<std::size_t>(std::min(x.bytes, 8)));
      }
    }
  } catch (...) {
    loaded.erase(module.get());
    throw;
  }
  return l;
}

const Program& Gpu::State::program(const std::shared_ptr<const Module>& module, const std::string& kernel) {
  Loaded& l = load(module);
  auto& slot = l.programs[kernel];
  if (slot) return *slot;
  try {
    slot = decode(module->tree(), kernel, [&l](std::string_view name) -> const Region* {
      auto at = l.variables.find(std::string(name));
      return at == l.variables.end() ? nullptr : at->second;
    });
  } catch (...) {
    l.programs.erase(kernel);
    throw;
  }
  return *slot;
}

void Gpu::State::check(const Program& p, const Launch& launch, const std::string& where) const {
  auto fail = [&](const std::string& what) {
    throw UserError(where + ": launch of " + p.kernel + ": " + what);
  };
  auto shown = [](const auto& v) {
    return std::to_string(v[0]) + " x " + std::to_string(v[1]) + " x " + std::to_string(v[2]);
  };
  const auto& b = launch.block;
  const auto& g = launch.grid;
  if (!b[0] || !b[1] || !b[2] || b[0] > 1024 || b[1] > 1024 || b[2] > 64 ||
      std::uint64_t(b[0]) * b[1] * b[2] > 1024)
    fail("a block of " + shown(b) + " threads; it has 1 to 1024 in all, and at most 1024 x 1024 x 64");
  if (!g[0] || !g[1] || !g[2] || g[0] > 0x7fffffff || g[1] > 65535 || g[2] > 65535)
    fail("a grid of " + shown(g) + " blocks; it has at least one, and at most 2147483647 x 65535 x 65535");
  if (p.required[0] && (p.required[0] != b[0] || p.required[1] != b[1] || p.required[2] != b[2]))
    fail("a block of " + shown(b) + " threads, where the kernel requires " + shown(p.required) +
         " (.reqntid)");
  if (p.maximum[0] &&
      std::uint64_t(b[0]) * b[1] * b[2] > std::uint64_t(p.maximum[0]) * p.maximum[1] * p.maximum[2])
    fail("a block of " + shown(b) + " threads, where the kernel allows " + shown(p.maximum) + " (.maxntid)");
  Extent cluster{p.cluster[0], p.cluster[1], p.cluster[2]};
  if (launch.cluster) {
    const Extent& c = *launch.cluster;
    if (p.cluster[0] && shown(c) != shown(p.cluster))
      fail("a cluster of " + shown(c) + " blocks, where the kernel requires " + shown(p.cluster) +
           " (.reqnctapercluster)");
    if (capability(options.arch).first < 90)
      fail("a cluster of " + shown(c) + " blocks; " + options.arch +
           " has no clusters, sm_90 is the first that has them");
    if (!c.x || !c.y || !c.z) fail("a cluster of " + shown(c) + " blocks; it has at least one");
    cluster = c;
  }
  if (cluster.x) {
    if (cluster.x > 16 || cluster.y > 16 || cluster.z > 16 || cluster.x * cluster.y * cluster.z > 16)
      fail("a cluster of " + shown(cluster) + " blocks; it has at most 16 in all");
    if (cluster.x * std::max(1u, cluster.y) * std::max(1u, cluster.z) > 8 && !launch.non_portable_cluster)
      fail("a cluster of " + shown(cluster) +
           " blocks; more than 8 are not portable, and are for launches that allow them "
           "(non_portable_cluster, "
           "kiln emulate --non-portable-cluster; cudaFuncAttributeNonPortableClusterSizeAllowed in CUDA)");
    for (std::size_t k = 0; k < 3; ++k)
      if (g[k] % std::max(1u, cluster[k]))
        fail("a grid of " + shown(g) + " blocks, which is no multiple of the cluster, " + shown(cluster));
  }
  constexpr std::uint64_t resident_threads = 132 * 2048;
  if (p.cooperative &&
      std::uint64_t(b[0]) * b[1] * b[2] > resident_threads / (std::uint64_t(g[0]) * g[1] * g[2]))
    fail("a grid of " + shown(g) + " blocks of " + shown(b) +
         " threads, which synchronises as a whole (%envreg1, %envreg2); " + std::to_string(resident_threads) +
         " threads can be resident together");
  const std::uint64_t limit = shared_limit(capability(options.arch).first);
  if (launch.shared_bytes > limit || p.dynamic_offset + launch.shared_bytes > limit)
    fail(std::to_string(p.shared_bytes) + " bytes of static and " + std::to_string(launch.shared_bytes) +
         " of dynamic shared memory; " + options.arch + " has " + std::to_string(limit) + " for a block");
}

Gpu::Gpu(Options options) : state_(std::make_unique<State>()) {
  if (!capability(options.arch).first)
    throw UserError("the emulated architecture " + options.arch + " is not known; sm_80 and sm_90a are");
  state_->options = std::move(options);
}
Gpu::~Gpu() = default;

std::uint64_t Gpu::allocate(std::uint64_t bytes, std::string name) {
  return state_->allocations.allocate(bytes, std::move(name), state_->options.checks.uninitialised).base;
}
void Gpu::free(std::uint64_t address) { state_->allocations.free(address); }

void Gpu::write(std::uint64_t to, const void* from, std::uint64_t bytes) {
  if (!bytes) return;
  Region* r = state_->allocations.containing(to, bytes);
  if (!r || !r->alive)
    throw UserError("a copy of " + std::to_string(bytes) +
                    " bytes to the emulated GPU: " + state_->allocations.describe(to, bytes));
  std::memcpy(r->data + (to - r->base), from, bytes);
  if (!r->shadow.empty()) std::memset(r->shadow.data() + (to - r->base), 1, bytes);
}

void Gpu::read(void* to, std::uint64_t from, std::uint64_t bytes) const {
  if (!bytes) return;
  Region* r = state_->allocations.containing(from, bytes);
  if (!r || !r->alive)
    throw UserError("a copy of " + std::to_string(bytes) +
                    " bytes from the emulated GPU: " + state_->allocations.describe(from, bytes));
  std::memcpy(to, r->data + (from - r->base), bytes);
}

void Gpu::copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  if (!bytes) return;
  auto find = [&](std::uint64_t address, const char* side) -> Region& {
    Region* r = state_->allocations.containing(address, bytes);
    if (!r || !r->alive)
      throw UserError("a copy of " + std::to_string(bytes) + " bytes " + side +
                      " the emulated GPU: " + state_->allocations.describe(address, bytes));
    return *r;
  };
  Region &source = find(from, "from"), &target = find(to, "to");
  std::memmove(target.data + (to - target.base), source.data + (from - source.base), bytes);
  if (target.shadow.empty()) return;
  std::uint8_t* shadow = target.shadow.data() + (to - target.base);
  if (source.shadow.empty())
    std::memset(shadow, 1, bytes);
  else
    std::memmove(shadow, source.shadow.data() + (from - source.base), bytes);
}

void Gpu::share(void* host, std::uint64_t bytes, std::string name, bool writable) {
  state_->allocations.share(host, bytes, std::move(name), writable);
}
void Gpu::forget(void* host) { state_->allocations.forget(reinterpret_cast<std::uint64_t>(host)); }

std::pair<std::uint64_t, std::uint64_t> Gpu::variable(std::shared_ptr<const Module> module,
                                                      const std::string& name) {
  auto& l = state_->load(module);
  auto at = l.variables.find(name);
  if (at == l.variables.end())
    throw UserError(module->tree().name + ": there is no .global or .const variable " + name);
  return {at->second->base, at->second->bytes};
}

Report Gpu::launch(std::shared_ptr<const Module> module, const std::string& kernel, const Launch& launch,
                   std::span<const std::uint64_t> words) {
  const Program& p = state_->program(module, kernel);
  const auto& params = p.functions.front()->params;
  const std::string where = module->tree().name + ": launch of " + kernel + ": ";
  if (words.size() != params.size())
    throw UserError(where + std::to_string(words.size()) + " arguments, where the kernel takes " +
                    std::to_string(params.size()));
  std::vector<std::byte> packed(p.kernel_param_bytes);
  for (std::size_t k = 0; k < words.size(); ++k) {
    if (params[k].bytes > 8)
      throw UserError(where + "parameter " + std::to_string(k) + " has " + std::to_string(params[k].bytes) +
                      " bytes and takes launch_packed");
    std::memcpy(packed.data() + params[k].offset, &words[k], params[k].bytes);
  }
  return launch_packed(module, kernel, launch, packed);
}

Report Gpu::launch_packed(std::shared_ptr<const Module> module, const std::string& kernel,
                          const Launch& launch, std::span<const std::byte> parameters) {
  const Program& p = state_->program(module, kernel);
  if (parameters.size() != p.kernel_param_bytes)
    throw UserError(module->tree().name + ": launch of " + kernel + ": " + std::to_string(parameters.size()) +
                    " bytes of parameters, where the kernel takes " + std::to_string(p.kernel_param_bytes));
  state_->check(p, launch, module->tree().name);
  const auto* first = reinterpret_cast<const std::uint8_t*>(parameters.data());
  Execution execution(state_->options, state_->allocations, p, launch, {first, first + parameters.size()},
                      state_->probe);
  if (!p.cooperative) return execution.run();
  Region& workspace = state_->allocations.allocate(16, "the workspace of the grid", false);
  std::memset(workspace.data, 0, workspace.bytes);
  execution.workspace = workspace.base;
  Report report = execution.run();
  state_->allocations.free(workspace.base);
  return report;
}

Options& Gpu::options() { return state_->options; }
void Gpu::attach(Probe* probe) { state_->probe = probe; }

} // namespace kiln::emulator
