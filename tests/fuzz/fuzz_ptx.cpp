// libFuzzer: any bytes are refused with a UserError, or are PTX whose kernels run, within an instruction
// budget, to their end or to a report.
//
//   cmake -S . -B build-fuzz -D CMAKE_CXX_COMPILER=clang++-19 -D KILN_FUZZ=ON -D
//   KILN_SANITIZE=address,undefined build-fuzz/bin/fuzz_ptx CORPUS tests/jit/emulator/triton/ptx
#include <kiln/dsl/error.h>
#include <kiln/jit/emulator/emulator.h>

using namespace kiln;

namespace {

void launch(const std::shared_ptr<const emulator::Module>& module, const std::string& kernel,
            const char* arch) {
  emulator::Options options;
  options.arch = arch;
  options.instruction_budget = 2000;
  options.resident_blocks = 2;
  options.checks.uninitialised = options.checks.races = true;
  emulator::Gpu gpu(options);
  const std::uint64_t memory = gpu.allocate(4096);
  const std::vector<std::byte> zeros(4096);
  gpu.write(memory, zeros.data(), zeros.size());
  // As many arguments as the kernel wants; each may serve as an address or as a small number.
  for (std::size_t count = 0; count < 24; ++count) {
    std::vector<std::uint64_t> words(count, memory);
    if (count > 1) words.back() = 40;
    try {
      gpu.launch(module, kernel, {.grid = {2}, .block = {64}, .shared_bytes = 1024}, words);
      return;
    } catch (const UserError&) { // of another number of arguments, or of anything else
    }
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    auto module = emulator::Module::parse(std::string(reinterpret_cast<const char*>(data), size), "fuzz.ptx");
    for (const std::string& kernel : module->kernels())
      launch(module, kernel, "sm_90a");
  } catch (const UserError&) {
  }
  return 0;
}
