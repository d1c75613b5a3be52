// Tests that every kernel assembles for three architectures without a spill, a stack frame or a warning.
//
// Kernels are those of ops, samples and tests.
//
//   KILN_TEST_KERNELS  folders with .kir files (KILN_KEEP=tile writes them), separated by ":"
//   KILN_TEST_ARCH     one architecture only
//   KILN_TEST_COUNT    how many variants are drawn, one each of as many kernels; 0: all
//   KILN_TEST_SEED     the seed of the draw; 1 by default, so that a failure is repeated
//
// Every kernel is compiled for all architectures and assembled for sm_90a. PTX that is the same for another
// architecture needs as many registers there, so of such PTX only an eighth is assembled again. Kernels are
// assembled in batches; if ptxas complains about one, each of its kernels is assembled alone.
//
// The variants of a kernel have other dtypes, all views of one layout class or of those that it ran with, 1
// to 8 warps, and tiles from small ones to the largest sane ones. A config is sane if the tiles that are live
// at the same time take at most 3/8 of the registers of a thread (gpu::register_need), which is 96 of 255 in
// blocks of up to 8 warps. The rest is for addresses, masks and copies in other layouts. A larger config may
// spill, but no sane one may.
#include "kernel_collection.h"
#include "ptx_batch.h"

#include <kiln/dsl/error.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/jit/gpu/block_bound.h>
#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/gpu/register_need.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace kiln;

namespace {

std::int64_t sane_registers(int warps) { return 3 * 65536 / (32 * std::max(warps, 8)) / 8; }

// PTX for the others is compared with that for the first one.
const char* const architectures[] = {"sm_90a", "sm_80", "sm_100a"};

struct Variant {
  const test::CollectedKernel* kernel = nullptr;
  Config config;
  std::vector<LayoutClass> layouts;
  int warps = 4;
};

std::string to_string(const Variant& v) {
  std::string text = v.kernel->name + " {" + v.config.to_string() + "} num_warps=" + std::to_string(v.warps);
  for (LayoutClass c : v.layouts)
    text += c == LayoutClass::Any ? " any" : c == LayoutClass::Unit ? " unit" : " aligned";
  return text;
}

std::int64_t elements_at_most(const Config& config) {
  std::int64_t product = 1;
  for (const Binding& b : config)
    if (!is_option(b.name)) product = std::min<std::int64_t>(product * b.value, std::int64_t{1} << 40);
  return product;
}

// Halves the largest size of a config. Returns false if all sizes are 1.
bool shrink(Config& config) {
  const Binding* largest = nullptr;
  for (const Binding& b : config)
    if (!is_option(b.name) && b.value > 1 && (!largest || b.value > largest->value)) largest = &b;
  if (!largest) return false;
  config.set(largest->name, largest->value / 2);
  return true;
}

bool is_sane(const ir::Kernel& kernel, int warps) {
  // Elements that may be apart in memory have an address each, which the estimate does not count.
  const bool apart = std::ranges::any_of(kernel.body.args, [](const auto& arg) {
    return arg->type.is_view() && arg->type.layout == LayoutClass::Any;
  });
  return gpu::register_need(kernel, gpu::plan_layouts(kernel, warps)).at_once <=
         sane_registers(warps) / (apart ? 2 : 1);
}

// The kernel with the largest sane sizes up to those of the variant, or else with more warps. Null if there
// is none.
std::unique_ptr<ir::Kernel> sane(Variant& v) {
  std::unique_ptr<ir::Kernel> kernel;
  do {
    if (elements_at_most(v.config) > std::int64_t{1} << 26) continue;
    try {
      kernel = test::lowered(*v.kernel, v.config, v.layouts);
      if (is_sane(*kernel, v.warps)) return kernel;
    } catch (const UserError&) { // the sizes do not go together
    }
  } while (shrink(v.config));
  for (; kernel && v.warps < 32; v.warps *= 2)
    if (is_sane(*kernel, 2 * v.warps)) {
      v.warps *= 2;
      return kernel;
    }
  return nullptr;
}

std::vector<Variant> variants_of(const test::CollectedKernel& kernel) {
  std::vector<Variant> variants;
  std::vector<std::vector<LayoutClass>> layouts = {kernel.layouts};
  for (LayoutClass c : {LayoutClass::Aligned, LayoutClass::Any, LayoutClass::Unit})
    if (std::vector<LayoutClass> all(kernel.layouts.size(), c);
        std::ranges::find(layouts, all) == layouts.end())
      layouts.push_back(all);
  for (int halvings = 0; halvings < 4; ++halvings) {
    Config config = kernel.config;
    for (int i = 0; i < 2 * halvings; ++i)
      shrink(config);
    for (int warps : {4, 8, 1, 2})
      for (const auto& chosen : layouts)
        variants.push_back({&kernel, config, chosen, warps});
  }
  return variants;
}

std::vector<test::CollectedKernel> all_kernels() {
  std::vector<test::CollectedKernel> kernels = test::registered_kernels();
  if (const char* folders = std::getenv("KILN_TEST_KERNELS")) {
    std::istringstream list(folders);
    for (std::string folder; std::getline(list, folder, ':');)
      for (auto& kernel : test::kept_kernels(folder))
        kernels.push_back(std::move(kernel));
  }
  return kernels;
}

bool prints(const ir::Kernel& kernel) {
  bool found = false;
  ir::walk(kernel.body, [&](const ir::Op& op) { found |= op.is(ir::Opcode::DevicePrint); });
  return found;
}

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::uint64_t hash_of(const std::string& text, std::uint64_t seed = 0) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

// PTX without the lines that name the version and the architecture.
std::string without_target(const std::string& ptx) {
  const std::size_t begin = ptx.find("\n.version "), end = ptx.find("\n.address_size ");
  return begin == std::string::npos || end == std::string::npos ? ptx : ptx.substr(end);
}

// Assembles the kernels for one architecture.
class Assembler {
public:
  explicit Assembler(std::string arch) : arch_(std::move(arch)), batch_(arch_) {}

  // Compiles a kernel, and returns its PTX without the architecture; empty if it is refused. Assembles it
  // unless the PTX is `known` and no member of the sample.
  std::string add(const std::string& what, const ir::Kernel& kernel, int warps, const std::string& known) {
    Compiled compiled{what, "", prints(kernel)};
    try {
      compiled.ptx = gpu::compile_to_ptx(kernel, {arch_}, {.warps = warps}).text;
    } catch (const UserError& e) {
      ++refused;
      if (std::getenv("KILN_TEST_VERBOSE")) std::cout << "refused: " << e.what() << std::endl;
      return "";
    } catch (const std::exception& e) {
      fail(compiled, e.what());
      return "";
    }
    const std::string text = without_target(compiled.ptx);
    const std::uint64_t hash = hash_of(text);
    if (text == known && hash % 8 != 0) {
      ++equal;
    } else if (done_.insert(hash).second) {
      ++assembled;
      if (!batch_.add(compiled.ptx)) {
        assemble(compiled);
      } else {
        waiting_.push_back(std::move(compiled));
        if (batch_.size() == 32) flush();
      }
    }
    return text;
  }
  const std::string& arch() const { return arch_; }
  // Assembles what is left.
  void flush() {
    if (batch_.size() == 0) return;
    const gpu::Assembled all = batch_.assemble();
    if (!all.ok || gpu::has_complaint(all.log))
      for (Compiled& compiled : waiting_)
        assemble(compiled);
    waiting_.clear();
  }

  // refused: by a UserError; equal: not assembled, because the PTX is that for another architecture
  int assembled = 0, equal = 0, refused = 0, failed = 0;

private:
  struct Compiled {
    std::string what, ptx;
    bool prints = false;
  };

  void assemble(Compiled& compiled) {
    const gpu::Assembled result = gpu::assemble_either_way(compiled.ptx, arch_);
    // printf reads its arguments from a stack frame.
    if (!result.ok || (gpu::has_complaint(result.log) && !compiled.prints)) fail(compiled, result.log);
  }
  void fail(const Compiled& compiled, const std::string& problem) {
    ++failed;
    UNSCOPED_INFO(compiled.what << " for " << arch_ << ": " << problem);
    std::cout << "FAILED " << compiled.what << " for " << arch_ << ": " << problem << std::endl;
    if (const char* file = std::getenv("KILN_TEST_SAVE")) std::ofstream(file) << compiled.ptx;
  }

  std::string arch_;
  test::PtxBatch batch_;
  std::vector<Compiled> waiting_; // what is in the batch
  std::set<std::uint64_t> done_;
};

// Draws `count` variants of as many kernels, among which are kernels with other dtypes; all, if it is 0. `owned`
// holds the latter. The first variant of each given kernel is left out.
std::vector<Variant> draw(const std::vector<test::CollectedKernel>& kernels, std::uint64_t seed,
                          std::size_t count, std::deque<test::CollectedKernel>& owned) {
  struct Candidate {
    const test::CollectedKernel* kernel;
    std::optional<std::pair<DType, DType>> change;
  };
  std::map<std::uint64_t, Candidate> candidates; // in an order that does not depend on the other kernels
  std::set<std::string> known;
  for (const auto& kernel : kernels) {
    known.insert(kernel.text);
    candidates.insert({hash_of(kernel.text, seed), {&kernel, {}}});
    for (const auto& change : test::possible_dtype_changes(kernel)) {
      const auto which =
          static_cast<std::uint64_t>(change.first) * 256 + static_cast<std::uint64_t>(change.second);
      candidates.insert({hash_of(kernel.text, seed + 1 + which), {&kernel, change}});
    }
  }
  std::vector<Variant> drawn;
  std::set<std::string> names; // halving a kernel without sizes gives duplicates
  for (const auto& [rank, candidate] : candidates) {
    if (count && drawn.size() >= count) break;
    const test::CollectedKernel* kernel = candidate.kernel;
    if (candidate.change) {
      auto other = test::with_other_dtype(*kernel, candidate.change->first, candidate.change->second);
      if (!other || !known.insert(other->text).second) continue;
      kernel = &owned.emplace_back(std::move(*other));
    }
    std::vector<Variant> variants = variants_of(*kernel);
    if (!candidate.change) variants.erase(variants.begin());
    if (count) variants = {variants[rank % variants.size()]};
    for (const Variant& v : variants)
      if (names.insert(to_string(v) + v.kernel->text).second) drawn.push_back(v);
  }
  return drawn;
}

} // namespace

TEST_CASE("every kernel assembles without a spill", "[.][every_kernel]") {
  if (gpu::ptxas_path().empty()) {
    WARN("skipped: there is no ptxas here");
    return;
  }
  const std::uint64_t seed = number("KILN_TEST_SEED", 1), count = number("KILN_TEST_COUNT", 300);
  const char* only = std::getenv("KILN_TEST_ARCH");
  CAPTURE(seed);
  const auto kernels = all_kernels();
  std::deque<test::CollectedKernel> owned;
  std::vector<Variant> variants;
  for (const test::CollectedKernel& kernel : kernels)
    variants.push_back(variants_of(kernel).front());
  const auto drawn = draw(kernels, seed, count, owned);
  variants.insert(variants.end(), drawn.begin(), drawn.end());
  std::deque<Assembler> assemblers;
  for (const char* arch : architectures)
    if (!only || std::string(only) == arch) assemblers.emplace_back(arch);
  int insane = 0;
  for (Variant& v : variants) {
    const auto kernel = sane(v);
    if (!kernel) {
      ++insane;
      if (std::getenv("KILN_TEST_VERBOSE")) std::cout << "not sane: " << to_string(v) << std::endl;
      continue;
    }
    const auto need = gpu::register_need(*kernel, gpu::plan_layouts(*kernel, v.warps)).at_once;
    const std::string what = to_string(v) + ", which needs " + std::to_string(need) + " registers,";
    std::string first;
    for (Assembler& assembler : assemblers) {
      const std::string text = assembler.add(what, *kernel, v.warps, first);
      if (first.empty()) first = text;
    }
  }
  std::cout << kernels.size() << " kernels, and " << drawn.size() << " variants drawn with seed " << seed
            << "; no config is sane for " << insane << "\n";
  for (Assembler& assembler : assemblers) {
    assembler.flush();
    std::cout << assembler.arch() << ": assembled " << assembler.assembled << ", equal to "
              << assemblers.front().arch() << " " << assembler.equal << ", refused " << assembler.refused
              << ", failed " << assembler.failed << "\n";
    CHECK(assembler.assembled > 0);
    CHECK(assembler.failed == 0);
  }
}
