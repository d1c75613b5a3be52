// Tests that the files of KILN_KEEP are written to its folder, for kernels of any name.
#include "temporary_folder.h"

#include <kiln/jit/base/options.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <filesystem>
#include <vector>

using namespace kiln;
namespace fs = std::filesystem;

namespace {

// Launches a kernel with this name and returns the names of the files in a new KILN_KEEP_DIR. Checks that no
// files were written outside of it.
std::vector<std::string> kept_for(const std::string& name) {
  const test::TemporaryFolder around;
  Options o = options();
  o.keep = {};
  o.keep.tile = true;
  o.keep_dir = (around.path() / "keep").string();
  const ScopedOptions scoped(o);
  const auto k = kernel(name.c_str(), [](View<float, 1> x) { x.at(program_id(0)).store(1.f); });
  std::vector<float> x(2);
  Stream stream;
  k.launch(stream, {}, Grid{2}, TensorView(x));
  stream.synchronize();
  CHECK(x == std::vector<float>{1, 1});
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(around.path() / "keep"))
    files.push_back(entry.path().filename().string());
  CHECK(std::distance(fs::directory_iterator(around.path()), fs::directory_iterator()) == 1);
  return files;
}

} // namespace

TEST_CASE("kept files are named after the kernel and stay in their folder, whatever its name is") {
  for (const auto& [name, stem] : {std::pair<std::string, std::string>{"kept_scale", "kept_scale-"},
                                   {"../../up", "______up-"},
                                   {"a/b \"c\"\nd", "a_b__c__d-"},
                                   {std::string(5000, 'n'), std::string(128, 'n') + "-"}}) {
    CAPTURE(name);
    const std::vector<std::string> files = kept_for(name);
    REQUIRE(!files.empty());
    for (const std::string& file : files)
      CHECK(file.substr(0, stem.size()) == stem);
  }
}
