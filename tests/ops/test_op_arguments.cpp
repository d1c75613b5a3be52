// Tests the errors of ops: results that overlap an input or themselves, and extents that do not match.
#include "op_test.h"

#include <functional>

using namespace kiln;
using namespace kiln::test;

namespace {

// The text of the error after its location, which is the line of `call` or, where the call is wrapped, the
// next one.
template <class F>
std::string error_of(const F& call, std::source_location here = std::source_location::current()) {
  std::string text;
  try {
    call();
  } catch (const UserError& e) {
    text = e.what();
  }
  for (unsigned line : {here.line(), here.line() + 1}) {
    std::string place = std::string(here.file_name()) + ":" + std::to_string(line) + ": ";
    if (text.starts_with(place)) return text.substr(place.size());
  }
  return text.empty() ? "no error" : text;
}

} // namespace

TEST_CASE("ops name the line of their caller for extents that do not match") {
  Stream stream;
  Matrix<float> x(3, 5), y(3, 4);
  std::vector<float> one(4);
  TensorView<const float, 1> v(one);
  const std::string ends = "; pass tensors whose extents match";
  CHECK(error_of([&] { ops::matmul(stream, x.view(), y.view(), y.view()); }) ==
        std::string("ops::matmul: a's columns and b's rows differ: 5 != 3") + ends);
  CHECK(error_of([&] { ops::linear(stream, x.view(), x.view().transpose(), v, y.view()); }) ==
        std::string("ops::linear: weight's columns and y's columns differ: 3 != 4") + ends);
  CHECK(error_of([&] { ops::softmax(stream, x.view(), y.view()); }) ==
        "ops::softmax: x has extents {3, 5} and y {3, 4}; pass tensors of the same extents");
  CHECK(error_of([&] { ops::layernorm(stream, x.view(), v, v, x.view()); }) ==
        std::string("ops::layernorm: gamma's size and the extent of x's last axis differ: 4 != 5") + ends);
  CHECK(error_of([&] { ops::rmsnorm(stream, x.view(), v, x.view()); }) ==
        std::string("ops::rmsnorm: gamma's size and the extent of x's last axis differ: 4 != 5") + ends);
  CHECK(error_of([&] { ops::activation(stream, x.view(), y.view(), ops::Activation::relu); }) ==
        "ops::activation: x, {3, 5}, does not broadcast to y, {3, 4}; pass extents that are equal or 1");
  CHECK(error_of([&] { ops::activation_mul(stream, y.view(), x.view(), y.view()); }) ==
        "ops::activation_mul: up, {3, 5}, does not broadcast to y, {3, 4}; pass extents that are equal or 1");
}

TEST_CASE("linear takes the bias as a parameter only, and writes nothing if the option is given, too") {
  Stream stream;
  std::vector<float> memory(4), bias(2, 1.0f), y(4, 7.0f);
  const TensorView<const float, 2> x(memory.data(), {2, 2});
  const TensorView<const float, 1> b(bias.data(), {2});
  const TensorView<float, 2> to(y.data(), {2, 2});
  for (const ops::Input& parameter : {ops::Input(b), ops::Input()})
    CHECK(error_of([&] { ops::linear(stream, x, x, parameter, to, {.bias = b}); }) ==
          "ops::linear: the option bias is given, and linear has a parameter for it; pass the bias as the "
          "parameter");
  stream.synchronize();
  CHECK(y == std::vector<float>(4, 7.0f));
}

TEST_CASE("a result that overlaps an input is a user error") {
  Stream stream;
  std::vector<float> memory(200), other(64);
  TensorView<float, 2> x(memory.data(), {8, 8}), w(other.data(), {8, 8});
  TensorView<float, 2> late(memory.data() + 63, {8, 8});
  TensorView<float, 1> bias(memory.data() + 3, {8}), first_row(memory.data(), {8});
  auto apart = [](const char* c, const char* a) {
    return std::string(c) + " overlaps " + a +
           ", which is read while it is written; give it memory of its own";
  };
  auto same = [](const char* y, const char* a) {
    return std::string(y) + " overlaps " + a + " without being the same; pass " + a +
           " itself, or memory of its own";
  };
  CHECK(error_of([&] { ops::matmul(stream, x, w, x); }) == std::string("ops::matmul: ") + apart("c", "a"));
  CHECK(error_of([&] { ops::matmul(stream, w, x, late); }) == std::string("ops::matmul: ") + apart("c", "b"));
  CHECK(error_of([&] { ops::linear(stream, w, w, bias, x); }) ==
        std::string("ops::linear: ") + apart("y", "bias"));
  CHECK(error_of([&] { ops::softmax(stream, x, late); }) == std::string("ops::softmax: ") + same("y", "x"));
  CHECK(error_of([&] { ops::softmax(stream, x, x.transpose()); }) ==
        std::string("ops::softmax: ") + same("y", "x"));
  CHECK(error_of([&] { ops::layernorm(stream, x, bias, first_row, w); }) == "no error");
  CHECK(error_of([&] { ops::layernorm(stream, x, first_row, first_row, x); }) ==
        std::string("ops::layernorm: ") + apart("y", "gamma"));
  CHECK(error_of([&] { ops::rmsnorm(stream, w, bias, x); }) ==
        std::string("ops::rmsnorm: ") + apart("y", "gamma"));
  stream.synchronize();
}

TEST_CASE("a result with several indices for one element is a user error") {
  Stream stream;
  std::vector<float> memory(64), other(64);
  TensorView<float, 2> x(other.data(), {8, 8});
  for (auto [rows, columns] : {std::pair{0, 1}, {1, 1}, {7, 1}, {1, 0}, {2, 3}, {-1, 1}}) {
    TensorView<float, 2> y(memory.data() + 8, {8, 8}, {rows, columns});
    const std::string text = "with extents {8, 8} and strides {" + std::to_string(rows) + ", " +
                             std::to_string(columns) +
                             "} has several indices for one element; write to a view without them";
    CHECK(error_of([&] { ops::softmax(stream, x, y); }) == std::string("ops::softmax: y ") + text);
    CHECK(error_of([&] { ops::matmul(stream, x, x, y); }) == std::string("ops::matmul: c ") + text);
    CHECK(error_of([&] { ops::activation(stream, x, y, ops::Activation::relu); }) ==
          std::string("ops::activation: y ") + text);
  }
  stream.synchronize();
}

TEST_CASE("interleaved parts of one array do not overlap") {
  Stream stream;
  Random random;
  KILN_SEED(random);
  Matrix<float> all(16, 48);
  all.fill(random);
  auto part = [&](int i) { return all.view().slice(1, 16 * i, 16 * i + 16); };
  Matrix<float> expected(16, 16);
  ops::matmul(stream, part(0), part(1), expected.view());
  ops::matmul(stream, part(0), part(1), part(2));
  ops::softmax(stream, part(0), part(0)); // in place
  ops::softmax(stream, part(0), part(1));
  stream.synchronize();
  for (std::int64_t r = 0; r < 16; ++r)
    for (std::int64_t c = 0; c < 16; ++c)
      REQUIRE(part(2)(r, c) == expected(r, c));
}

TEST_CASE("every op names the result and the argument that it must not overlap") {
  Stream s;
  constexpr std::int64_t n = 8;
  std::vector<float> memory(4096, 1), elsewhere(4096, 1), free_memory(4096);
  std::vector<int> numbers(512), more_numbers(512);
  using M = TensorView<float, 2>;
  using V = TensorView<float, 1>;
  using C = TensorView<float, 4>;
  using H = TensorView<float, 3>;
  using I = TensorView<int, 1>;
  using P = TensorView<int, 2>;
  // `x` and `late` overlap. `w` and `v` are inputs apart from them, and `out`, `vector` are results.
  const M x(memory.data(), {n, n}), late(memory.data() + 4, {n, n}), w(elsewhere.data(), {n, n}),
      out(free_memory.data(), {n, n}), next(free_memory.data() + 1024, {n, n});
  const V row(memory.data() + 8, {n}), v(elsewhere.data() + 2048, {n}),
      vector(free_memory.data() + 2048, {n}), late_row(memory.data() + 10, {n});
  const I ends(numbers.data(), {2}), ends_inside(reinterpret_cast<int*>(memory.data()), {2});
  const H group(elsewhere.data(), {1, n, n}), group_inside(memory.data(), {1, n, n});
  const C cache(memory.data(), {1, 1, n, n}), late_cache(memory.data() + 4, {1, 1, n, n}),
      apart(elsewhere.data(), {1, 1, n, n});
  const H token(elsewhere.data() + 1024, {1, 1, n}), token_inside(memory.data(), {1, 1, n}),
      late_token(memory.data() + 4, {1, 1, n}), other_token(free_memory.data(), {1, 1, n});
  const I length(numbers.data(), {1}), length_inside(reinterpret_cast<int*>(memory.data()), {1});
  const P pairs(numbers.data(), {4, 2}), same_pairs(numbers.data() + 2, {4, 2}),
      other_pairs(more_numbers.data(), {4, 2});
  const I order(more_numbers.data() + 64, {8}), offsets(more_numbers.data() + 128, {4}),
      offsets_inside(numbers.data() + 1, {4}), order_inside(numbers.data() + 3, {8}),
      rows_order(numbers.data() + 256, {8}), order_in_memory(reinterpret_cast<int*>(memory.data()), {8});
  const M tokens(elsewhere.data(), {4, n}), weights(free_memory.data(), {4, 2}),
      weights_inside(elsewhere.data() + 4, {4, 2});
  const P place(numbers.data() + 128, {4, 2}), place_in_memory(reinterpret_cast<int*>(memory.data()), {4, 2});
  using ops::Activation;
  const ops::KeyValueCache read{.keys = apart, .values = apart};
  struct Wrong {
    const char* text; // "RESULT overlaps ARGUMENT"
    std::function<void()> call;
  };
  const Wrong calls[] = {
      {"ops::matmul: c overlaps a", [&] { ops::matmul(s, x, w, late); }},
      {"ops::matmul: c overlaps bias", [&] { ops::matmul(s, w, w, x, {.bias = row}); }},
      {"ops::matmul: c overlaps times", [&] { ops::matmul(s, w, w, x, {.times = late}); }},
      {"ops::matmul: c overlaps residual", [&] { ops::matmul(s, w, w, x, {.residual = late}); }},
      {"ops::linear: y overlaps weight", [&] { ops::linear(s, w, x, v, late); }},
      {"ops::matmul_backward: da overlaps b", [&] { ops::matmul_backward(s, w, x, w, late, {}); }},
      {"ops::matmul_backward: db overlaps da", [&] { ops::matmul_backward(s, w, w, w, x, late); }},
      {"ops::matmul_backward: dbias overlaps dc",
       [&] { ops::matmul_backward(s, w, w, x, {}, {}, {.dbias = row}); }},
      {"ops::linear_backward: dweight overlaps x", [&] { ops::linear_backward(s, x, w, w, {}, late); }},
      {"ops::grouped_matmul: c overlaps a", [&] { ops::grouped_matmul(s, x, group, ends, late); }},
      {"ops::grouped_matmul: c overlaps b", [&] { ops::grouped_matmul(s, w, group_inside, ends, late); }},
      {"ops::grouped_matmul: c overlaps offsets", [&] { ops::grouped_matmul(s, w, group, ends_inside, x); }},
      {"ops::grouped_matmul_backward_b: db overlaps dc",
       [&] { ops::grouped_matmul_backward_b(s, w, late, ends, group_inside); }},
      {"ops::softmax: y overlaps x", [&] { ops::softmax(s, x, late); }},
      {"ops::log_softmax: y overlaps x", [&] { ops::log_softmax(s, x, late); }},
      {"ops::softmax_backward: dx overlaps y", [&] { ops::softmax_backward(s, x, w, late); }},
      {"ops::log_softmax_backward: dx overlaps dy", [&] { ops::log_softmax_backward(s, w, x, late); }},
      {"ops::layernorm: y overlaps x", [&] { ops::layernorm(s, x, v, v, late); }},
      {"ops::layernorm: y overlaps beta", [&] { ops::layernorm(s, w, v, row, x); }},
      {"ops::rmsnorm: y overlaps residual", [&] { ops::rmsnorm(s, w, v, x, {.residual = late}); }},
      {"ops::rmsnorm: sum overlaps x", [&] { ops::rmsnorm(s, x, v, out, {.residual = w, .sum = late}); }},
      {"ops::rmsnorm: y overlaps sum", [&] { ops::rmsnorm(s, w, v, x, {.residual = w, .sum = late}); }},
      {"ops::layernorm_backward: dx overlaps dy", [&] { ops::layernorm_backward(s, w, v, x, late, {}, {}); }},
      {"ops::layernorm_backward: dgamma overlaps x",
       [&] { ops::layernorm_backward(s, x, v, w, {}, row, {}); }},
      {"ops::layernorm_backward: dbeta overlaps dgamma",
       [&] { ops::layernorm_backward(s, w, v, w, {}, row, late_row); }},
      {"ops::rmsnorm_backward: dgamma overlaps dx", [&] { ops::rmsnorm_backward(s, w, v, w, x, row); }},
      {"ops::activation_mul_backward: dgate overlaps gate",
       [&] { ops::activation_mul_backward(s, x, w, w, late, {}); }},
      {"ops::activation_mul_backward: dup overlaps dgate",
       [&] { ops::activation_mul_backward(s, w, w, w, x, late); }},
      {"ops::dropout: y overlaps x", [&] { ops::dropout(s, x, late); }},
      {"ops::attention: o overlaps q", [&] { ops::attention(s, x, w, w, late); }},
      {"ops::attention: o overlaps v", [&] { ops::attention(s, w, w, x, late); }},
      {"ops::attention: lse overlaps k", [&] { ops::attention(s, w, x, w, out, {.lse = row}); }},
      {"ops::attention: o overlaps lse", [&] { ops::attention(s, w, w, w, x, {.lse = row}); }},
      {"ops::attention_backward: dq overlaps k",
       [&] { ops::attention_backward(s, w, w, x, w, w, v, late, {}, {}); }},
      {"ops::attention_backward: dk overlaps lse",
       [&] { ops::attention_backward(s, w, w, w, w, w, row, {}, x, {}); }},
      {"ops::attention_backward: dq overlaps dv",
       [&] { ops::attention_backward(s, w, w, w, w, w, v, x, {}, late); }},
      {"ops::rotary: y overlaps x", [&] { ops::rotary(s, x, late); }},
      {"ops::rotary_backward: dx overlaps dy", [&] { ops::rotary_backward(s, x, late); }},
      {"ops::cache_append: cache.keys overlaps k",
       [&] { ops::cache_append(s, token_inside, token, length, {.keys = cache, .values = apart}); }},
      {"ops::cache_append: cache.values overlaps cache.keys",
       [&] { ops::cache_append(s, token, token, length, {.keys = cache, .values = late_cache}); }},
      {"ops::cache_append: cache.keys overlaps lengths",
       [&] {
         ops::cache_append(s, other_token, other_token, length_inside, {.keys = cache, .values = apart});
       }},
      {"ops::cache_append: rotated_q overlaps q",
       [&] {
         ops::cache_append(s, other_token, other_token, length,
                           {.keys = apart, .values = C(free_memory.data() + 512, {1, 1, n, n})},
                           {.rotary = ops::RotaryOptions{}, .q = token_inside, .rotated_q = late_token});
       }},
      {"ops::attention_decode: o overlaps q",
       [&] { ops::attention_decode(s, token_inside, read, length, late_token); }},
      {"ops::attention_decode: o overlaps cache.keys",
       [&] { ops::attention_decode(s, token, {.keys = cache, .values = apart}, length, late_token); }},
      {"ops::route_topk: weights overlaps logits",
       [&] { ops::route_topk(s, tokens, other_pairs, weights_inside); }},
      {"ops::group_by_expert: offsets overlaps experts",
       [&] { ops::group_by_expert(s, pairs, offsets_inside, order, other_pairs); }},
      {"ops::group_by_expert: order overlaps experts",
       [&] { ops::group_by_expert(s, pairs, offsets, order_inside, other_pairs); }},
      {"ops::group_by_expert: place overlaps experts",
       [&] { ops::group_by_expert(s, pairs, offsets, order, same_pairs); }},
      {"ops::permute_rows: y overlaps x", [&] { ops::permute_rows(s, x, rows_order, late); }},
      {"ops::permute_rows: y overlaps order", [&] { ops::permute_rows(s, w, order_in_memory, x); }},
      {"ops::combine_rows: y overlaps rows",
       [&] { ops::combine_rows(s, x, place, {}, M(memory.data() + 4, {4, n})); }},
      {"ops::combine_rows: y overlaps place",
       [&] { ops::combine_rows(s, w, place_in_memory, {}, M(memory.data(), {4, n})); }},
  };
  for (const Wrong& wrong : calls) {
    std::string text = "no error";
    try {
      wrong.call();
    } catch (const UserError& e) {
      text = e.what();
    }
    CHECK_THAT(text, Catch::Contains(std::string(wrong.text) + ", which") ||
                         Catch::Contains(std::string(wrong.text) + " without"));
  }
  s.synchronize();
  for (float f : memory)
    REQUIRE(f == 1);
}

TEST_CASE("lambdas of attention take at most 8 tensors") {
  Stream stream;
  Matrix<float> q(8, 16), o(8, 16);
  std::vector<float> one(1);
  const TensorView<const float, 1> v(one);
  const auto sum = [](auto s, auto, auto, auto, auto... views) { return (s + ... + views.at(0).load()); };
  ops::attention(stream, q.view(), q.view(), q.view(), o.view(), {}, ops::score(sum, v, v, v, v, v, v, v, v));
  CHECK(error_of([&] {
          ops::attention(stream, q.view(), q.view(), q.view(), o.view(), {},
                         ops::score(sum, v, v, v, v, v, v, v, v, v));
        }) == "ops::attention: a score and a mask take at most 8 tensors each; merge some");
  stream.synchronize();
}

TEST_CASE("ops refuse activations that do not exist, and write nothing") {
  Stream stream;
  auto x = Tensor<float, 2>::zeros({2, 2}), y = Tensor<float, 2>::zeros({2, 2});
  y.fill(7);
  const auto wrong = static_cast<ops::Activation>(99);
  const std::string mistake =
      ": there is no activation with the value 99; pass one of none, relu, gelu, silu";
  CHECK(error_of([&] { ops::matmul(stream, x, x, y, {.activation = wrong}); }) == "ops::matmul" + mistake);
  CHECK(error_of([&] { ops::matmul_backward(stream, x, x, x, y, {}, {.activation = wrong}); }) ==
        "ops::matmul_backward" + mistake);
  CHECK(error_of([&] { ops::activation(stream, x, y, wrong); }) == "ops::activation" + mistake);
  CHECK(error_of([&] { ops::activation_backward(stream, x, x, y, wrong); }) ==
        "ops::activation_backward" + mistake);
  CHECK(error_of([&] { ops::activation_mul(stream, x, x, y, wrong); }) == "ops::activation_mul" + mistake);
  CHECK(error_of([&] { ops::activation_mul_backward(stream, x, x, x, y, {}, wrong); }) ==
        "ops::activation_mul_backward" + mistake);
  stream.synchronize();
  CHECK(std::all_of(y.begin(), y.end(), [](float v) { return v == 7; }));
}

TEST_CASE("attention takes an output whose dtype is known at run time only") {
  Stream stream;
  auto v = Tensor<float, 2>::zeros({8, 16}), o = Tensor<float, 2>::zeros({8, 16});
  v.fill(0.5f);
  ops::attention(stream, v, v, v, ops::Output(o));
  stream.synchronize();
  CHECK(o.data()[0] == Approx(0.5f));
}

TEST_CASE("ops refuse arrays with more than 8 axes") {
  Stream stream;
  ops::Array a{nullptr, DType::F32, false, max_rank + 1};
  CHECK_THROWS_WITH(ops::softmax(stream, ops::Input(a), ops::Output(a)),
                    Catch::Contains("ops::softmax: x has 9 axes and may have at most 8; reshape it"));
}
