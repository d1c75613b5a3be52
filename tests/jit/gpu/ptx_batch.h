// Assembles the PTX of many kernels in one run of ptxas, which saves most of the time that small kernels take.
//
//   test::PtxBatch batch("sm_90a");
//   if (!batch.add(ptx)) ...                  // it does not go with the others: assemble it alone
//   gpu::Assembled all = batch.assemble();    // `log` has the messages about all kernels
#pragma once

#include <kiln/jit/gpu/ptxas.h>

#include <map>
#include <string>

namespace kiln::test {

class PtxBatch {
public:
  explicit PtxBatch(std::string arch) : arch_(std::move(arch)) {}
  // Adds the PTX of one kernel, under a name of its own. Returns false, and adds nothing, if the PTX declares
  // functions, or another object of the same name as one that is already there.
  bool add(const std::string& ptx);
  int size() const { return size_; }
  // Assembles what was added since the last call. Needs ptxas.
  gpu::Assembled assemble();

private:
  std::string arch_, header_, kernels_;
  std::map<std::string, std::string> objects_; // declarations by name
  int size_ = 0;
};

} // namespace kiln::test
