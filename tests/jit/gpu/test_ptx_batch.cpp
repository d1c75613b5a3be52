// Tests the batches in which tests assemble PTX.
#include "ptx_batch.h"

#include <catch2/catch.hpp>

using namespace kiln;

namespace {

// A kernel "k" with declarations before it.
std::string ptx(const std::string& declarations, const std::string& body = "ret;") {
  return "//\n// Generated\n//\n\n.version 8.0\n.target sm_90a\n.address_size 64\n\n\t// .globl\tk\n" +
         declarations + "\n.visible .entry k(\n\t.param .u64 k_param_0\n)\n.reqntid 128, 1, 1\n{\n" + body +
         "\n}\n";
}

const std::string shared = ".extern .shared .align 16 .b8 room[];\n";

} // namespace

TEST_CASE("kernels of one name are assembled together, each with a line in the log") {
  test::PtxBatch batch("sm_90a");
  CHECK(batch.add(ptx(shared)));
  CHECK(batch.add(
      ptx(shared, ".reg .b64 %r<2>;\nld.param.b64 %r1, [k_param_0];\nst.global.b64 [%r1], %r1;\nret;")));
  CHECK(batch.add(ptx("")));
  CHECK(batch.size() == 3);
  CHECK_FALSE(batch.add(ptx(".extern .shared .align 8 .b8 room[];\n")));
  CHECK_FALSE(batch.add(ptx(".extern .func f();\n")));
  CHECK_FALSE(batch.add("no PTX"));
  CHECK(batch.size() == 3);
  if (gpu::ptxas_path().empty()) return;
  const gpu::Assembled all = batch.assemble();
  INFO(all.log);
  CHECK(all.ok);
  CHECK_FALSE(gpu::has_complaint(all.log));
  for (const char* name : {"'kernel_0'", "'kernel_1'", "'kernel_2'"})
    CHECK(all.log.find(name) != std::string::npos);
  CHECK(batch.size() == 0);
  CHECK(batch.add(ptx(".extern .shared .align 8 .b8 room[];\n")));
}

TEST_CASE("one bad kernel of a batch is noticed") {
  if (gpu::ptxas_path().empty()) return;
  test::PtxBatch batch("sm_90a");
  CHECK(batch.add(ptx("")));
  // Local memory at an address that is not constant needs a stack frame.
  CHECK(batch.add(ptx("", ".local .align 8 .b8 frame[64];\n.reg .b64 %r<4>;\nld.param.b64 %r1, [k_param_0];\n"
                          "mov.b64 %r2, frame;\ncvta.local.u64 %r2, %r2;\nadd.s64 %r2, %r2, %r1;\n"
                          "st.b64 [%r2], %r1;\nld.b64 %r3, [%r2];\nst.global.b64 [%r1], %r3;\nret;")));
  const gpu::Assembled framed = batch.assemble();
  INFO(framed.log);
  CHECK(framed.ok);
  CHECK(gpu::has_complaint(framed.log));
  CHECK(batch.add(ptx("")));
  CHECK(batch.add(ptx("", "no instruction;")));
  CHECK_FALSE(batch.assemble().ok);
}
