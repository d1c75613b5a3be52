// Tests the PTX of some kernels: the widths of accesses, and the numbers of barriers and shuffles.
#include <catch2/catch.hpp>
#include <kiln/dsl/record.h>
#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/gpu/ptxas.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/kiln.h>

using namespace kiln;

namespace {

KILN_DIM(B);
KILN_DIM(BN);

const char* const architectures[] = {"sm_80", "sm_90a", "sm_100a"};

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

// The PTX of a kernel, which ptxas must assemble without a spill or a warning.
std::string ptx_of(const ir::Kernel& recorded, const Config& config, std::size_t views, const char* arch,
                   LayoutClass layout = LayoutClass::Aligned) {
  auto lowered = passes::lower_generic(recorded, {config, std::vector<LayoutClass>(views, layout)});
  std::string ptx = gpu::compile_to_ptx(*lowered, {arch}).text;
  INFO(ptx);
  CHECK(count(ptx, std::string(".target ") + arch) == 1);
  if (!gpu::ptxas_path().empty()) {
    auto assembled = gpu::assemble(ptx, arch);
    INFO(assembled.log);
    CHECK(assembled.ok);
    CHECK_FALSE(gpu::has_complaint(assembled.log));
  }
  return ptx;
}

std::shared_ptr<ir::Kernel> add() {
  return record("add", [](View<const float, 1> a, View<const float, 1> b, View<float, 1> c) {
    auto [i] = program_tile(c, B);
    c.tile(i).store(a.tile(i).load() + b.tile(i).load());
  });
}

} // namespace

TEST_CASE("a vector add reads and writes 16 bytes at a time") {
  for (const char* arch : architectures) {
    std::string ptx = ptx_of(*add(), Config{B = 1024}, 3, arch); // eight elements a thread
    CHECK(count(ptx, "ld.global.v4.b32") == 4);
    CHECK(count(ptx, "st.global.v4.b32") == 2);
    CHECK(count(ptx, "shfl") == 0);
    CHECK(count(ptx, "barrier") + count(ptx, "bar.sync") == 1); // executed if c overlaps an input
    CHECK(count(ptx, "ld.shared") + count(ptx, "st.shared") == 0);
  }
}

TEST_CASE("tensors that may not be aligned are read as vectors where they are, strided ones by element") {
  std::string unit = ptx_of(*add(), Config{B = 1024}, 3, "sm_80", LayoutClass::Unit);
  CHECK(count(unit, "ld.global.v4.b32") == 4);
  CHECK(count(unit, "ld.global.b32") >= 16);
  CHECK(count(unit, "st.global.v4.b32") == 2);
  CHECK(count(unit, "st.global.b32") >= 8);
  std::string any = ptx_of(*add(), Config{B = 1024}, 3, "sm_80", LayoutClass::Any);
  CHECK(count(any, "ld.global.v") == 0);
  CHECK(count(any, "st.global.v") == 0);
}

TEST_CASE("a softmax converts nothing, and takes two exchanges between warps and ten shuffles") {
  auto recorded = record("softmax", [](View<const float, 2> x, View<float, 2> y) {
    auto [row] = program_tile(x, 1_c);
    Tile t = x.tile(row, offset(BN, 0)).load_or(-INFINITY);
    Tile e = exp(t - max(t, BN, keep));
    y.tile(row, offset(BN, 0)).store(e / sum(e, BN, keep));
  });
  for (const char* arch : architectures) {
    std::string ptx = ptx_of(*recorded, Config{BN = 4096}, 2, arch);
    CHECK(count(ptx, "shfl.sync.bfly") == 10);
    CHECK(count(ptx, "shfl") == 10);
    CHECK(count(ptx, "bar.sync") == 2);
    CHECK(count(ptx, "ld.global.v4.b32") == 8);
    CHECK(count(ptx, "st.global.v4.b32") == 8);
  }
}
