// Tests that every kernel assembles for three architectures without a spill, a stack frame or a warning.
//
// Kernels are those of ops, samples and tests.
//
//   KILN_TEST_KERNELS  folders with .kir files (KILN_KEEP=tile writes them), separated by ":"
//   KILN_TEST_ARCH     one architecture only
//   KILN_TEST_COUNT    how many variants are drawn for each architecture; 0: all
//   KILN_TEST_SEED     the seed of the draw; 1 by default, since each draw takes minutes
//
// The variants of a kernel have other dtypes, all views of one layout class or of those that it ran with, 1
// to 8 warps, and tiles from small ones to the largest sane ones. A config is sane if the tiles that are live
// at the same time take at most 3/8 of the registers of a thread (gpu::register_need), which is 96 of 255 in
// blocks of up to 8 warps. The rest is for addresses, masks and copies in other layouts. A larger config may
// spill, but no sane one may.
#include "kernel_collection.h"

#include <kiln/dsl/error.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/jit/gpu/block_bound.h>
#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/gpu/register_need.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace kiln;

namespace {

std::int64_t sane_registers(int warps) { return 3 * 65536 / (32 * std::max(warps, 8)) / 8; }

const char* const architectures[] = {"sm_80", "sm_90a", "sm_100a"};

struct Variant {
  const test::CollectedKernel* kernel = nullptr;
  Config config;
  std::vector<LayoutClass> layouts;
  int warps = 4;
  std::uint64_t rank = 0; // its order in the draw
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
        variants.push_back({&kernel, config, chosen, warps, 0});
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

struct Tally {
  int assembled = 0, refused = 0, failed = 0; // refused: by a UserError, or because no config is sane
};

void assemble(Variant v, const char* arch, Tally& tally) {
  auto kernel = sane(v);
  if (!kernel) {
    ++tally.refused;
    if (std::getenv("KILN_TEST_VERBOSE")) std::cout << "not sane: " << to_string(v) << std::endl;
    return;
  }
  std::string problem, ptx;
  try {
    ptx = gpu::compile_to_ptx(*kernel, {arch}, {.warps = v.warps}).text;
  } catch (const UserError& e) {
    ++tally.refused;
    if (std::getenv("KILN_TEST_VERBOSE")) std::cout << "refused: " << e.what() << std::endl;
    return;
  } catch (const std::exception& e) {
    problem = e.what();
  }
  ++tally.assembled;
  if (problem.empty()) {
    const gpu::Assembled result = gpu::assemble_either_way(ptx, arch);
    // printf reads its arguments from a stack frame.
    if (!result.ok || (gpu::has_complaint(result.log) && !prints(*kernel))) problem = result.log;
  }
  if (problem.empty()) return;
  ++tally.failed;
  UNSCOPED_INFO(to_string(v) << " for " << arch << ": " << problem);
  std::cout << "FAILED " << to_string(v) << " for " << arch << " need "
            << gpu::register_need(*kernel, gpu::plan_layouts(*kernel, v.warps)).at_once << ": " << problem
            << std::endl;
  if (const char* file = std::getenv("KILN_TEST_SAVE")) std::ofstream(file) << ptx;
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
  const auto others = test::with_other_dtypes(kernels);
  std::vector<Variant> firsts, rest;
  for (const auto* list : {&kernels, &others})
    for (const test::CollectedKernel& kernel : *list) {
      auto variants = variants_of(kernel);
      if (list == &kernels) firsts.push_back(variants.front());
      rest.insert(rest.end(), variants.begin() + (list == &kernels), variants.end());
    }
  for (Variant& v : rest) {
    const std::string text = to_string(v) + v.kernel->text;
    v.rank = XXH3_64bits_withSeed(text.data(), text.size(), seed);
  }
  std::ranges::sort(rest, {}, &Variant::rank);
  const auto same =
      std::ranges::unique(rest, {}, &Variant::rank); // halving a kernel without sizes gives duplicates
  rest.erase(same.begin(), same.end());
  const std::size_t all = rest.size();
  if (count && rest.size() > count) rest.resize(count);
  for (const char* arch : architectures) {
    if (only && std::string(only) != arch) continue;
    const auto begin = std::chrono::steady_clock::now();
    Tally tally;
    for (const auto* list : {&firsts, &rest})
      for (const Variant& v : *list)
        assemble(v, arch, tally);
    std::cout << arch << ": " << kernels.size() << " kernels, " << others.size() << " with other dtypes; "
              << rest.size() << " of " << all << " variants drawn with seed " << seed << "; assembled "
              << tally.assembled << ", refused " << tally.refused << ", failed " << tally.failed << " in "
              << std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() << " s\n";
    CHECK(tally.failed == 0);
  }
}
