// Fuzzes the emulated GPU: it rejects the bytes with a UserError, or they are PTX whose kernels run to their
// end or to a report within an instruction budget.
//
//   cmake -S . -B build-fuzz -D CMAKE_CXX_COMPILER=clang++-19 -D KILN_FUZZ=ON
//   cmake build-fuzz -D KILN_SANITIZE=address,undefined
//   cmake --build build-fuzz --target fuzz_ptx
//   build-fuzz/bin/fuzz_ptx CORPUS tests/jit/emulator/triton/ptx
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
  // Tries each number of arguments until the kernel takes it. The last argument is a small number, the others
  // are addresses.
  for (std::size_t count = 0; count < 24; ++count) {
    std::vector<std::uint64_t> words(count, memory);
    if (count > 1) words.back() = 40;
    try {
      gpu.launch(module, kernel, {.grid = {2}, .block = {64}, .shared_bytes = 1024}, words);
      return;
    } catch (const UserError&) { // the number of arguments is wrong, or something else is
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
