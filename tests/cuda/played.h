// Lets the fake driver's kernels run: by the interpreter, on the very arguments that reached the driver.
//
//   Played played;
//   kernel.launch(stream, {BN = 64}, x, y);      // a stream of a CUDA device; its memory is the host's
//   stream.synchronize();                        // y is there
//
// While it lives, every kernel that was not launched yet is compiled anew and its tile IR kept (KILN_KEEP);
// the image of a launch leads to it. Before the interpreter runs, the launch is compared with the kernel: the
// number of the parameters and the bytes of each, the extents of the grid against the number of blocks, and
// whether views that share memory were announced. A launch that is wrong fails, which the device does not
// survive.
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
  std::mutex mutex_;                                                 // guards what follows
  std::map<std::string, std::shared_ptr<const ir::Kernel>> kernels_; // by image
  std::atomic<int> launches_{0};
};

} // namespace kiln::test
