// Tests what calls of ops cost on the host.
#include <allocation_count.h>
#include <catch2/catch.hpp>
#include <kiln/kiln.h>

using namespace kiln;

TEST_CASE("a warm call of an op allocates nothing") {
  Stream stream;
  auto x = Tensor<float, 3>::zeros({2, 3, 40}), y = Tensor<float, 3>::zeros({2, 3, 40});
  auto m = Tensor<bf16, 3>::zeros({2, 40, 40});
  auto v = Tensor<float, 1>::zeros({40}), dv = Tensor<float, 1>::zeros({40});
  auto dm = Tensor<bf16, 2>::zeros({40, 40});
  auto lse = Tensor<float, 2>::zeros({2, 3});
  auto dq = Tensor<float, 3>::zeros({2, 3, 40}), dk = Tensor<float, 3>::zeros({2, 3, 40}),
       dz = Tensor<float, 3>::zeros({2, 3, 40});
  auto keys = Tensor<bf16, 4>::zeros({2, 1, 9, 40}), values = Tensor<bf16, 4>::zeros({2, 1, 9, 40});
  auto lengths = Tensor<std::int32_t, 1>::zeros({2});
  constexpr auto gelu = ops::Activation::gelu;
  auto offsets = Tensor<int, 1>::zeros({3}), order = Tensor<int, 1>::zeros({6});
  auto experts = Tensor<int, 2>::zeros({3, 2}), place = Tensor<int, 2>::zeros({3, 2});
  auto chosen = Tensor<float, 2>::zeros({3, 2}), rows = Tensor<float, 2>::zeros({6, 40});
  const auto call = [&] {
    ops::softmax(stream, x, y);
    ops::log_softmax(stream, x, y, {.axis = 1});
    ops::layernorm(stream, x, v, v, y);
    ops::rmsnorm(stream, x, {}, y, {.residual = x});
    ops::activation_mul(stream, x, v, y);
    ops::matmul(stream, x, m, y, {.bias = v});
    ops::matmul(stream, x, m, y, [](auto sum, auto at, auto v) { return sum + v.tile(at.n).load(); }, v);
    ops::attention(stream, x, x, x, y, {.causal = true, .lse = lse});
    ops::attention_backward(stream, x, x, x, x, y, lse, dq, dk, dz, {.causal = true});
    ops::layernorm_backward(stream, x, v, x, y, dv, {});
    ops::matmul_backward(stream, x, m, x, y, {}, {.dbias = dv});
    ops::matmul_backward(stream, x, m.view().select(0, 0), x, {}, dm, {.activation = gelu, .before = x});
    ops::activation_mul_backward(stream, x, x, x, y, {});
    ops::dropout(stream, x, y);
    ops::route_topk(stream, x.view().select(0, 0), experts, chosen);
    ops::group_by_expert(stream, experts, offsets, order, place);
    ops::permute_rows(stream, x.view().select(0, 0), order, rows, {.slots = 2});
    ops::combine_rows(stream, rows, place, chosen, y.view().select(0, 0));
    ops::grouped_matmul(stream, x.view().select(0, 0), m, offsets, y.view().select(0, 0));
    ops::grouped_matmul_backward_b(stream, x.view().select(0, 0), y.view().select(0, 0), offsets, m);
    ops::rotary(stream, x, y, {.offset = 3});
    ops::cache_append(stream, m.view().slice(1, 0, 1), m.view().slice(1, 1, 2), lengths,
                      {.keys = keys, .values = values}, {.rotary = ops::RotaryOptions{}});
    ops::attention_decode(stream, x, {.keys = keys, .values = values}, lengths, y, {.appended = 1});
  };
  for (int i = 0; i < 3; ++i) {
    call();
    stream.synchronize();
  }
  const long before = allocation_count();
  call();
  CHECK(allocation_count() == before);
  stream.synchronize();
}
