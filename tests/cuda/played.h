// Makes the fake driver's kernels compute: the interpreter runs them with the arguments that reached the
// driver.
//
//   Played played;
//   kernel.launch(stream, {BN = 64}, x, y);      // a stream of a CUDA device; its memory is the host's
//   stream.synchronize();                        // y is computed
//
// While it lives, kernels that have not been launched are compiled again and their tile IR is kept
// (KILN_KEEP), so that the image of a launch leads to it. Before the interpreter runs, the launch is compared
// with the kernel: the number and sizes of the parameters, the extents of the grid against the number of
// blocks, and the parameter that says whether views share memory. A launch that is wrong fails, and then the
// device is lost.
#pragma once

#include "cuda_test.h"

#include <kiln/jit/base/options.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>

namespace kiln::ir {
struct Kernel;
}

namespace kiln::test {

class Played {
public:
  explicit Played(bool debug = false);
  ~Played();

  int launches() const { return launches_; }
  const std::filesystem::path& folder() const { return folder_; }

private:
  static int run(const FakeExecution* e);
  int play(const FakeExecution& e);
  std::shared_ptr<const ir::Kernel> kernel_of(const std::string& image);

  std::filesystem::path folder_;
  ScopedOptions options_;
  std::mutex mutex_;                                                 // guards the members below
  std::map<std::string, std::shared_ptr<const ir::Kernel>> kernels_; // by their image
  std::atomic<int> launches_{0};
};

} // namespace kiln::test
