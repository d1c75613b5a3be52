// Fuzzes the parser of tile IR: it rejects the bytes with a UserError, or the kernels print as text that
// parses back to the same kernels.
//
//   cmake -S . -B build-fuzz -D CMAKE_CXX_COMPILER=clang++-19 -D KILN_FUZZ=ON
//   cmake build-fuzz -D KILN_SANITIZE=address,undefined
//   cmake --build build-fuzz --target fuzz_ir_parser
//   build-fuzz/bin/fuzz_ir_parser CORPUS tests/lit/ir
#include <kiln/dsl/ir/parser.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/ir/verifier.h>

#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::unique_ptr<ir::Kernel>> kernels;
  try {
    kernels = ir::parse_all(text, "fuzz");
  } catch (const UserError&) {
    return 0;
  }
  for (const auto& kernel : kernels) {
    ir::problems(*kernel);
    std::string once = ir::print(*kernel), twice = ir::print(*ir::parse(once, "printed"));
    if (once != twice) {
      std::fprintf(stderr, "printed:\n%s\nand after parsing that:\n%s\n", once.c_str(), twice.c_str());
      std::abort();
    }
  }
  return 0;
}
