// The files of KILN_KEEP: they lie in its folder, whatever a kernel is called.
#include <kiln/jit/runtime/options.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <filesystem>
#include <unistd.h>
#include <vector>

using namespace kiln;
namespace fs = std::filesystem;

namespace {

// The names of the files that lie in a new folder after the launch of a kernel with that name; nothing else
// may lie beside the folder.
std::vector<std::string> kept_for(const std::string& name) {
  const fs::path around = fs::temp_directory_path() / ("kiln-kept-files-" + std::to_string(getpid()));
  Options o = options();
  o.keep = {};
  o.keep.tile = true;
  o.keep_dir = (around / "keep").string();
  const ScopedOptions scoped(o);
  const auto k = kernel(name.c_str(), [](View<float, 1> x) { x.at(program_id(0)).store(1.f); });
  std::vector<float> x(2);
  Stream stream;
  k.launch(stream, {}, Grid{2}, TensorView(x));
  stream.synchronize();
  CHECK(x == std::vector<float>{1, 1});
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(around / "keep"))
    files.push_back(entry.path().filename().string());
  CHECK(std::distance(fs::directory_iterator(around), fs::directory_iterator()) == 1);
  fs::remove_all(around);
  return files;
}

} // namespace

TEST_CASE("kept files are named after the kernel and lie in their folder, whatever its name is") {
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
