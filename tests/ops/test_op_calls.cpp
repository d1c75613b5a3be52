// Tests what calls of ops cost on the host.
#include "every_op.h"

#include <allocation_count.h>

using namespace kiln;
using namespace kiln::test;

TEST_CASE("a warm call of any op allocates nothing") {
  Stream stream;
  EveryOp every(Device::cpu());
  every.fill(fresh_seed());
  for (const EveryOp::Call& call : every.calls()) {
    INFO(call.name);
    for (int i = 0; i < 3; ++i) {
      call.run(stream);
      stream.synchronize();
    }
    const long before = allocation_count();
    call.run(stream);
    const long after = allocation_count();
    CHECK(after == before);
    stream.synchronize();
  }
}

TEST_CASE("a warm product whose K is divided into parts allocates nothing") {
  const auto a = Tensor<float, 2>::zeros({16, 16384}), b = Tensor<float, 2>::zeros({16384, 16});
  auto c = Tensor<float, 2>::zeros({16, 16});
  Stream stream;
  for (int i = 0; i < 3; ++i) {
    ops::matmul(stream, a, b, c, {.batch_invariant = true});
    stream.synchronize();
  }
  const long before = allocation_count();
  ops::matmul(stream, a, b, c, {.batch_invariant = true});
  const long after = allocation_count();
  CHECK(after == before);
  stream.synchronize();
}
