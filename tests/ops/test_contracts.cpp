// Tests what holds for every op: the same bits from run to run, extents of 0 and 1, and results in place.
#include "every_op.h"

#include <on_device.h>

#include <cmath>

using namespace kiln;
using namespace kiln::test;

namespace {

// Where a result of floats has a number that is not finite, as `fill` has left it: "", or a description.
std::string unwritten(const Arena::Result& result, const std::vector<unsigned char>& bytes) {
  for (std::int64_t i = 0; i < result.size; ++i) {
    const unsigned char* at = bytes.data() + result.offset + i * size_of(result.dtype);
    if (std::all_of(at, at + size_of(result.dtype), [](unsigned char b) { return b == 0xff; }))
      return "element " + std::to_string(i) + " of " + std::to_string(result.size) + " of " +
             std::string(name(result.dtype));
  }
  return "";
}
bool changed(const Arena::Result& r, const std::vector<unsigned char>& before,
             const std::vector<unsigned char>& after) {
  const auto bytes = r.size * size_of(r.dtype);
  return !std::equal(before.begin() + r.offset, before.begin() + r.offset + bytes, after.begin() + r.offset);
}

EveryOp::Sizes usual_sizes() { return test_device().is_cpu() ? EveryOp::Sizes() : EveryOp::small(); }

} // namespace

TEST_CASE("every op gives the same bits from run to run") {
  const Device device = test_device();
  const std::uint64_t seed = fresh_seed();
  INFO("seed " << seed);
  Stream first(device), second(device);
  EveryOp every(device, usual_sizes());
  for (const EveryOp::Call& call : every.calls()) {
    INFO(call.name);
    std::vector<unsigned char> bytes[2];
    for (int i = 0; i < 2; ++i) {
      Stream& stream = i == 0 ? first : second;
      every.fill(seed);
      call.run(stream);
      stream.synchronize();
      bytes[i] = every.bytes();
    }
    CHECK((bytes[0] == bytes[1]));
  }
}

// Sums without terms are zeros, and results without elements are not written: each result that an op writes
// for usual sizes has all of its elements written for these.
TEST_CASE("every op takes tensors without elements and extents of 1") {
  const Device device = test_device();
  Stream stream(device);
  const std::uint64_t seed = fresh_seed();
  INFO("seed " << seed);
  using Sizes = EveryOp::Sizes;
  struct Case {
    const char* name;
    void (*change)(Sizes&);
  };
  constexpr Case cases[] = {
      {"no batches", [](Sizes& s) { s.batches = 0; }},
      {"no tokens", [](Sizes& s) { s.tokens = 0; }},
      {"no columns", [](Sizes& s) { s.columns = 0; }},
      {"no terms in products", [](Sizes& s) { s.inner = 0; }},
      {"one of each", [](Sizes& s) { s.batches = s.tokens = s.columns = s.inner = s.experts = 1; }},
      {"one head", [](Sizes& s) { s.heads = s.key_heads = 1; }},
      {"one token", [](Sizes& s) { s.tokens = 1; }},
      {"one column and one term", [](Sizes& s) { s.columns = s.inner = 1; }}};
  EveryOp usual(device, usual_sizes());
  std::vector<std::vector<bool>> written; // by call and result
  for (const EveryOp::Call& call : usual.calls()) {
    usual.fill(seed);
    const auto before = usual.bytes();
    call.run(stream);
    stream.synchronize();
    const auto after = usual.bytes();
    std::vector<bool>& of_call = written.emplace_back();
    for (const Arena::Result& r : usual.results())
      of_call.push_back(changed(r, before, after));
  }
  for (const Case& c : cases) {
    if (!device.is_cpu() && &c - cases > 4) break; // these take their time
    Sizes sizes = usual_sizes();
    c.change(sizes);
    EveryOp every(device, sizes);
    for (std::size_t i = 0; i < every.calls().size(); ++i) {
      INFO(c.name << ": " << every.calls()[i].name);
      every.fill(seed);
      const auto before = every.bytes();
      CHECK_NOTHROW(every.calls()[i].run(stream));
      stream.synchronize();
      const auto after = every.bytes();
      for (std::size_t r = 0; r < every.results().size(); ++r) {
        if (!written[i][r])
          CHECK_FALSE(changed(every.results()[r], before, after));
        else if (is_float(every.results()[r].dtype))
          CHECK(unwritten(every.results()[r], after) == "");
      }
    }
  }
}

TEST_CASE("a result that may be an input has the same bits in place") {
  const Device device = test_device();
  const std::uint64_t seed = fresh_seed();
  INFO("seed " << seed);
  Stream s(device);
  Arena arena(device);
  using V = TensorView<float, 2>;
  constexpr std::int64_t m = 6, n = 20, places = 4;
  const std::array extents{m, n};
  V in[places];
  for (V& v : in)
    v = arena.input<float>(extents);
  const V apart = arena.result<float>(extents), other = arena.result<float>(extents);
  const auto v = arena.input<float>(std::array{n}), dv = arena.result<float>(std::array{n});
  const auto a = arena.input<float>(std::array{m, std::int64_t{9}}),
             b = arena.input<float>(std::array{std::int64_t{9}, n});
  const auto ends =
      arena.input<std::int32_t>(std::array{std::int64_t{2}}, [](Random&, std::int64_t i) { return i * m; });
  const auto one_group = b.reshape({1, 9, n});
  struct InPlace {
    const char* name;
    std::vector<int> may_be; // the inputs that the result may be
    std::function<void(const V& out)> run;
  };
  using ops::Activation;
  const auto &x = in[0], &y = in[1], &z = in[2], &w = in[3];
  const InPlace calls[] = {
      {"softmax", {0}, [&](const V& out) { ops::softmax(s, x, out); }},
      {"log_softmax", {0}, [&](const V& out) { ops::log_softmax(s, x, out, {.axis = 0}); }},
      {"softmax_backward", {0, 1}, [&](const V& out) { ops::softmax_backward(s, x, y, out); }},
      {"log_softmax_backward", {0, 1}, [&](const V& out) { ops::log_softmax_backward(s, x, y, out); }},
      {"layernorm", {0}, [&](const V& out) { ops::layernorm(s, x, v, v, out); }},
      {"rmsnorm", {0, 1}, [&](const V& out) { ops::rmsnorm(s, x, v, out, {.residual = y}); }},
      {"rmsnorm's sum",
       {0, 1},
       [&](const V& out) { ops::rmsnorm(s, x, v, other, {.residual = y, .sum = out}); }},
      {"layernorm_backward",
       {0, 1, 2, 3},
       [&](const V& out) { ops::layernorm_backward(s, x, v, y, out, dv, {}, {.residual = z, .dsum = w}); }},
      {"rmsnorm_backward", {0, 1}, [&](const V& out) { ops::rmsnorm_backward(s, x, v, y, out, dv); }},
      {"activation", {0}, [&](const V& out) { ops::activation(s, x, out, Activation::gelu); }},
      {"activation_mul", {0, 1}, [&](const V& out) { ops::activation_mul(s, x, y, out); }},
      {"activation_backward",
       {0, 1},
       [&](const V& out) { ops::activation_backward(s, x, y, out, Activation::silu); }},
      {"activation_mul_backward",
       {0, 1, 2},
       [&](const V& out) { ops::activation_mul_backward(s, x, y, z, out, other); }},
      {"activation_mul_backward's dup",
       {0, 1, 2},
       [&](const V& out) { ops::activation_mul_backward(s, x, y, z, other, out); }},
      {"dropout", {0}, [&](const V& out) { ops::dropout(s, x, out); }},
      {"rotary", {0}, [&](const V& out) { ops::rotary(s, x, out); }},
      {"rotary_backward", {0}, [&](const V& out) { ops::rotary_backward(s, x, out); }},
      {"matmul", {0, 1}, [&](const V& out) { ops::matmul(s, a, b, out, {.times = x, .residual = y}); }},
      {"grouped_matmul", {0, 1}, [&](const V& out) {
         ops::grouped_matmul(s, a, one_group, ends, out, {.times = x, .residual = y});
       }}};
  const auto content = [&](const V& view) {
    std::vector<float> values(static_cast<std::size_t>(view.size()));
    copy(s, values.data(), view.data(), view.size() * 4);
    s.synchronize();
    return values;
  };
  for (const InPlace& call : calls) {
    INFO(call.name);
    arena.fill(seed);
    call.run(apart);
    const auto expected = content(apart);
    for (int i : call.may_be) {
      INFO("in place of input " << i);
      arena.fill(seed);
      call.run(in[i]);
      CHECK(content(in[i]) == expected);
    }
  }
}
