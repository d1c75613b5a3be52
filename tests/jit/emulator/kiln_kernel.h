// Compiles a kernel of tile IR to PTX and runs it on the emulated GPU.
#pragma once

#include <kiln/dsl/ir/arguments.h>
#include <kiln/jit/emulator/emulator.h>
#include <kiln/jit/gpu/compiler.h>

#include <span>
#include <string>
#include <vector>

namespace kiln::test {

class EmulatedKernel {
public:
  EmulatedKernel(const ir::Kernel& lowered, const std::string& arch, int warps, bool debug = false)
      : arch_(arch), name_(lowered.name),
        words_(static_cast<std::size_t>(ir::ArgumentLayout::of(lowered).words)),
        ptx_(gpu::compile_to_ptx(lowered, {arch}, {warps, debug})),
        module_(emulator::Module::parse(ptx_.text, lowered.name + ".ptx")) {}

  const std::string& text() const { return ptx_.text; }

  // `memories` are all the memory that the words point into.
  emulator::Report run(const std::uint64_t* words, std::span<const std::span<std::byte>> memories,
                       const std::vector<std::int64_t>& grid, emulator::Options options,
                       bool overlap = true) const {
    options.arch = arch_;
    emulator::Gpu gpu(options);
    for (auto m : memories)
      if (!m.empty()) gpu.share(m.data(), m.size());
    // The words of the parameters, the grid, and whether views overlap.
    std::vector<std::uint64_t> all(words, words + words_);
    std::size_t parameters = 0;
    for (const auto& f : module_->tree().functions)
      if (f.name == name_) parameters = f.params.size();
    std::vector<std::int64_t> axes = grid;
    axes.resize(parameters - words_ - 1, 1);
    std::uint64_t programs = 1;
    for (std::int64_t g : grid)
      programs *= static_cast<std::uint64_t>(g);
    for (std::int64_t g : axes)
      all.push_back(static_cast<std::uint64_t>(g));
    all.push_back(overlap);
    if (!programs) return {};
    return gpu.launch(module_, name_,
                      {.grid = {static_cast<std::uint32_t>(programs)},
                       .block = {static_cast<std::uint32_t>(ptx_.shape.warps) * 32},
                       .shared_bytes = static_cast<std::uint64_t>(ptx_.shape.shared_bytes)},
                      all);
  }

private:
  std::string arch_, name_;
  std::size_t words_;
  gpu::Ptx ptx_;
  std::shared_ptr<const emulator::Module> module_;
};

} // namespace kiln::test
