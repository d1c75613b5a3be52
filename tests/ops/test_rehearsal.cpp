// Tests rehearsals: they compile what calls launch, list it, and run nothing.
#include <catch2/catch.hpp>
#include <kiln/kiln.h>

#include <cmath>
#include <string>

using namespace kiln;
using Catch::Contains;

namespace {
KILN_DIM(BN);

auto twice_kernel() {
  return kernel("twice", [](View<const float, 1> x, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    y.tile(i).store(x.tile(i).load() * 2.0f);
  });
}

} // namespace

TEST_CASE("a rehearsal lists launches and runs none") {
  Stream stream;
  auto x = Tensor<float, 2>::zeros({6, 40}), y = Tensor<float, 2>::zeros({6, 40});
  y.fill(-1);
  const auto twice = twice_kernel();
  const Rehearsal r = rehearse([&] {
    ops::softmax(stream, x, y);
    twice.launch(stream, {BN = 16}, x.view().reshape({240}), y.view().reshape({240}));
    assign(stream, y, x + 1.0f);
    assign(stream, y.view().slice(0, 1, 6), y.view().slice(0, 0, 5) + 1.0f); // through a temporary
  });
  stream.synchronize();
  for (int i = 0; i < 240; ++i)
    REQUIRE(y.data()[i] == -1);
  REQUIRE(r.launches.size() == 5);
  CHECK(r.launches[0].kernel == "softmax");
  CHECK(r.launches[1].kernel == "twice");
  CHECK(r.launches[1].grid.size() == 1);
  CHECK(r.launches[1].config.get("BN") == 16);
  CHECK(r.launches[1].arguments == std::vector<std::string>{"f32 [240]", "f32 [240]"});
  CHECK(r.launches[2].kernel == "assign");
  CHECK(r.workspace_bytes == 5 * 40 * 4);
  CHECK_THAT(r.to_string(), Contains("twice on cpu: 1 programs of {BN=16} for (f32 [240], f32 [240])\n") &&
                                Contains("workspace: 800 bytes"));
  ops::softmax(stream, x, y); // launches run again
  stream.synchronize();
  CHECK(std::abs(y.data()[0] - 1.0f / 40) < 1e-6f);
}

TEST_CASE("a rehearsal with stand-ins allows the same calls under the policy forbid") {
  Stream stream;
  const Rehearsal r = rehearse([&] {
    ops::matmul(stream, stand_in<bf16>({3, 33, 18}), stand_in<bf16>({3, 18, 50}),
                stand_in<float>({3, 33, 50}));
    ops::attention(stream, stand_in<float>({1, 4, 130, 24}), stand_in<float>({1, 2, 130, 24}),
                   stand_in<float>({1, 2, 130, 24}), stand_in<float>({1, 4, 130, 24}), {.causal = true});
  });
  CHECK(r.launches.size() >= 2);
  CHECK(r.workspace_bytes == 0);
  const ScopedCompilePolicy forbid(CompilePolicy::forbid);
  auto a = Tensor<bf16, 3>::zeros({3, 33, 18}), b = Tensor<bf16, 3>::zeros({3, 18, 50});
  auto c = Tensor<float, 3>::zeros({3, 33, 50});
  c.fill(7);
  ops::matmul(stream, a, b, c);
  stream.synchronize();
  CHECK(c.data()[0] == 0);
  auto q = Tensor<float, 4>::zeros({1, 4, 130, 24}), k = Tensor<float, 4>::zeros({1, 2, 130, 24});
  auto o = Tensor<float, 4>::zeros({1, 4, 130, 24});
  ops::attention(stream, q, k, k, o, {.causal = true});
  stream.synchronize();
  // Another combination of dtypes would compile.
  auto d = Tensor<double, 3>::zeros({3, 33, 50});
  CHECK_THROWS_WITH(ops::matmul(stream, a, b, d), Contains("test_rehearsal.cpp") && Contains("matmul") &&
                                                      Contains("bf16 [3, 33, 18]") &&
                                                      Contains("forbids compiling") && Contains("rehearse"));
}

TEST_CASE("a rehearsal says which path a call takes") {
  Stream stream;
  auto x = Tensor<float, 4>::zeros({3, 4, 5, 6}), y = Tensor<float, 4>::zeros({4, 5, 3, 6});
  CHECK(rehearse([&] { ops::softmax(stream, x, x); }).notes.empty());
  const Rehearsal r = rehearse([&] { ops::softmax(stream, x.view().permute({1, 2, 0, 3}), y); });
  REQUIRE(r.notes.size() == 1);
  CHECK_THAT(r.notes[0], Contains("ops::softmax") && Contains("strides"));
}

TEST_CASE("stand-ins are refused outside of rehearsals") {
  Stream stream;
  auto y = Tensor<float, 1>::zeros({64});
  CHECK_THROWS_WITH(twice_kernel().launch(stream, {BN = 16}, stand_in<float>({64}), y),
                    Contains("argument 1") && Contains("stand-in") && Contains("rehearse()"));
  CHECK_THROWS_WITH(assign(stream, y, stand_in<float>({64}) * 2.0f),
                    Contains("stand-in") && Contains("test_rehearsal.cpp"));
  CHECK(stand_in<float>({64}).data() != stand_in<float>({64}).data());
}

TEST_CASE("errors leave a rehearsal, and rehearsals nest") {
  Stream stream;
  auto x = Tensor<float, 1>::zeros({64}), y = Tensor<float, 1>::zeros({63});
  CHECK_THROWS_AS(rehearse([&] { ops::softmax(stream, x, y); }), UserError);
  const Rehearsal outer = rehearse([&] {
    const Rehearsal inner = rehearse([&] { ops::softmax(stream, x, x); });
    CHECK(inner.launches.size() == 1);
  });
  CHECK(outer.launches.empty());
  assign(stream, x, x + 1.0f);
  stream.synchronize();
  CHECK(x.data()[0] == 1);
}

TEST_CASE("a rehearsal says why the bounds of a mask give up") {
  Stream stream;
  const auto x = [] { return stand_in<float>({1, 2, 300, 64}); };
  const auto notes = [&](const auto& mask) {
    const Rehearsal r = rehearse([&] {
      ops::attention(stream, x(), x(), x(), x(), {.causal = true}, mask);
      ops::attention_backward(stream, x(), x(), x(), x(), x(), stand_in<float>({1, 2, 300}), x(), {}, {},
                              {.causal = true}, mask);
    });
    return r.notes;
  };
  CHECK(notes(ops::mask([](auto, auto query, auto key) { return key > query - 32; })).empty());
  const auto mixed = ops::mask([](auto, auto query, auto key) { return ((query * 7) ^ (key * 5)) % 8 != 0; });
  for (int i = 0; i < 2; ++i) { // also when the kernels exist already
    const auto why = notes(mixed);
    REQUIRE(why.size() == 2);
    const std::string because =
        ": the mask has no exact bounds, because it computes a whole tile of integers "
        "without a rule for its bounds; blocks that it hides are computed, too";
    CHECK(why[0] == "ops::attention" + because);
    CHECK(why[1] == "ops::attention_backward" + because);
  }
  const auto located = notes(ops::mask([](auto, auto query, auto key) {
    Tile seen = cast<float>(query) * cast<float>(key) > 5.0f;
    return seen;
  }));
  REQUIRE(located.size() == 2);
  CHECK_THAT(located[0], Contains("because") && Contains("test_rehearsal.cpp"));
}
