// Runs compiled kernels on emulated devices, and makes errors from the emulator's reports.
#include <kiln/jit/runtime/emulated/kernel_code.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/emulated/device_state.h>

#include <cstdio>

namespace kiln::emulated {

namespace {

std::string heading(const KernelCode& code, const emulator::Report& report) {
  const std::size_t count = report.findings.size() + report.left_out;
  return "kernel \"" + code.name + "\" on " + DeviceState::get(code.device).name() + ": " +
         (count == 1 ? "1 finding" : std::to_string(count) + " findings");
}

} // namespace

void run(const KernelCode& code, const std::int64_t* grid, int rank, const std::uint64_t* arguments) {
  std::vector<std::uint64_t> words(arguments, arguments + code.words);
  std::uint64_t programs = 1;
  for (int axis = 0; axis < code.shape.grid_rank; ++axis) {
    words.push_back(axis < rank ? static_cast<std::uint64_t>(grid[axis]) : 1);
    programs *= words.back();
  }
  words.push_back(cuda::elements_meet(code.views, arguments));
  emulator::Launch launch{.grid = {static_cast<std::uint32_t>(programs)},
                          .block = {static_cast<std::uint32_t>(32 * code.shape.warps)},
                          .shared_bytes = static_cast<std::uint64_t>(code.shape.shared_bytes)};
  emulator::Report report = DeviceState::get(code.device).with_gpu([&](emulator::Gpu& gpu) {
    return gpu.launch(code.module, code.entry, launch, words);
  });
  if (!report.printed.empty()) {
    std::fwrite(report.printed.data(), 1, report.printed.size(), stdout);
    std::fflush(stdout);
  }
  if (report.ok()) return;
  std::string text = report.text();
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  throw UserError(heading(code, report) + "\n" + text);
}

} // namespace kiln::emulated
