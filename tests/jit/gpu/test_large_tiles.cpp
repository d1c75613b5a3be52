// Tests that typical kernels with large tiles assemble without a spill, a stack frame or a warning.
//
// test_every_kernel.cpp does not draw such kernels.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <kiln/dsl/language.h>
#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/gpu/ptxas.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/jit/runtime/kernel/kernel.h>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);
KILN_DIM(D);

template <class T> auto matmul() {
  return kernel("matmul", [](View<const T, 2> a, View<const T, 2> b, View<T, 2> c) {
    auto [m, n] = program_tile(c, BM, BN);
    Tile acc = for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto acc) {
      return acc + dot(a.tile(m, k).load(), b.tile(k, n).load());
    });
    c.tile(m, n).store(cast<T>(acc));
  });
}

template <class T> auto attention(bool causal) {
  return kernel(causal ? "attention_causal" : "attention", [causal](View<const T, 3> q, View<const T, 3> k,
                                                                    View<const T, 3> v, View<T, 3> o,
                                                                    View<float, 2> lse, Scalar<float> scale) {
    auto [head, m] = program_tile(q, 1_c, BM);
    Scalar<std::int64_t> h = head;
    auto d = offset(D, 0);
    Tile queries = q.tile(h, m, d).load();
    auto start = state(full(-INFINITY, BM), zeros<float>(BM), zeros<float>(BM, D));
    Scalar<std::int64_t> last = k.extent(1);
    if (causal) last = min(m + BM, k.extent(1));
    auto [top, total, acc] =
        for_range(BN, range(0, last), start, [&](auto n, auto top, auto total, auto acc) {
          Tile s = dot(queries, trans(k.tile(h, n, d).load())) * scale;
          Tile col = expand<0>(n + arange(BN));
          Scalar<std::int64_t> slack = causal ? 0 : 1 << 30;
          Tile seen = where((col <= expand<1>(m + arange(BM)) + slack) & (col < k.extent(1)), s, -INFINITY);
          Tile next = max(top, max(seen, BN));
          Tile p = exp2(seen - expand<1>(next));
          Tile factor = exp2(top - next);
          return state(next, total * factor + sum(p, BN),
                       dot(cast<T>(p), v.tile(h, n, d).load(), acc * expand<1>(factor)));
        });
    o.tile(h, m, d).store(cast<T>(acc / expand<1>(total)));
    lse.tile(h, m).store(top + log2(total));
  });
}

template <class T> auto gather() {
  return kernel("gather", [](View<const T, 2> x, View<const std::int64_t, 1> rows, View<T, 2> y) {
    auto [m, n] = program_tile(y, BM, BN);
    Tile r = rows.tile(m).load();
    y.tile(m, n).store(x.at(expand<1>(r), expand<0>(n + arange(BN))).load());
  });
}

auto bools() {
  return kernel("bools", [](View<const float, 2> x, View<const bool, 2> keep, View<bool, 2> y) {
    auto [m, n] = program_tile(y, BM, BN);
    Tile k = keep.tile(m, n).load();
    Tile t = x.tile(m, n).load();
    y.tile(m, n).store((k & (t > 0)) | (t < -1));
  });
}

template <class T> auto scan1() {
  return kernel("scan", [](View<const T, 2> x, View<T, 2> y) {
    auto [m] = program_tile(x, 1_c);
    auto n = offset(BN, 0);
    y.tile(m, n).store(cumsum(x.tile(m, n).load(), BN));
  });
}

// Rotates halves of rows by angles that may be huge; computing their sines must not spill the other tiles.
template <class T> auto rotary() {
  return kernel("rotary", [](View<const T, 2> low, View<const T, 2> high, View<T, 2> y, View<T, 2> z,
                             Scalar<float> base) {
    auto [m, n] = program_tile(low, BM, BN);
    Tile at = expand<1>(cast<float>(m + arange(BM)));
    Tile angle = at * expand<0>(exp2(-base * cast<float>(n + arange(BN))));
    Tile a = cast<float>(low.tile(m, n).load()), b = cast<float>(high.tile(m, n).load());
    y.tile(m, n).store(cast<T>(a * cos(angle) - b * sin(angle)));
    z.tile(m, n).store(cast<T>(b * cos(angle) + a * sin(angle)));
  });
}

// Long division of each element, during which the dividends are live too.
template <class T> auto wrapped() {
  return kernel("wrapped", [](View<const T, 1> x, View<const T, 1> period, View<T, 1> y) {
    auto [n] = program_tile(x, BN);
    Tile t = x.tile(n).load();
    y.tile(n).store(t - t % period.tile(n).load());
  });
}

template <class T> auto layernorm_backward() {
  return kernel("layernorm_backward",
                [](View<const T, 2> x, View<const T, 2> dy, View<const T, 1> w, View<const float, 1> mean,
                   View<const float, 1> rstd, View<T, 2> dx, View<float, 2> dw) {
                  auto [m] = program_tile(x, BM);
                  auto n = offset(BN, 0);
                  Tile r = expand<1>(rstd.tile(m).load());
                  Tile xhat = (cast<float>(x.tile(m, n).load()) - expand<1>(mean.tile(m).load())) * r;
                  Tile g = cast<float>(dy.tile(m, n).load());
                  Tile wg = g * cast<float>(w.tile(n).load());
                  Scalar<float> cols = cast<float>(x.cols());
                  Tile c1 = sum(xhat * wg, BN) / cols, c2 = sum(wg, BN) / cols;
                  dx.tile(m, n).store(cast<T>((wg - (xhat * expand<1>(c1) + expand<1>(c2))) * r));
                  dw.tile(program_id(0), n).store(sum(g * xhat, BM));
                });
}

template <class T> auto matmul_gelu() {
  return kernel("matmul_gelu", [](View<const T, 2> a, View<const T, 2> b, View<const float, 1> bias,
                                  View<const T, 2> residual, View<T, 2> c) {
    auto [m, n] = program_tile(c, BM, BN);
    Tile acc = for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto acc) {
      return dot(a.tile(m, k).load(), b.tile(k, n).load(), acc);
    });
    Tile x = acc + bias.tile(n).load();
    Tile y = 0.5f * x * (1.0f + tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
    c.tile(m, n).store(cast<T>(y + cast<float>(residual.tile(m, n).load())));
  });
}

template <class T> auto attention_backward_kv() {
  return kernel("attention_backward_kv", [](View<const T, 3> q, View<const T, 3> k, View<const T, 3> v,
                                            View<const T, 3> grad, View<const float, 2> lse,
                                            View<const float, 2> delta, View<T, 3> dk, View<T, 3> dv,
                                            Scalar<float> scale) {
    auto [head, n] = program_tile(k, 1_c, BN);
    Scalar<std::int64_t> h = head;
    auto d = offset(D, 0);
    Tile keys = k.tile(h, n, d).load();
    Tile values = v.tile(h, n, d).load();
    auto [gk, gv] = for_range(
        BM, q.extent(1), state(zeros<float>(BN, D), zeros<float>(BN, D)), [&](auto m, auto gk, auto gv) {
          Tile queries = q.tile(h, m, d).load();
          Tile go = grad.tile(h, m, d).load();
          Tile pt = exp2(dot(keys, trans(queries)) * scale - expand<0>(lse.tile(h, m).load()));
          Tile next_v = dot(cast<T>(pt), go, gv);
          Tile dpt = dot(values, trans(go));
          Tile dst = pt * (dpt - expand<0>(delta.tile(h, m).load()));
          return state(dot(cast<T>(dst), queries, gk), next_v);
        });
    dk.tile(h, n, d).store(cast<T>(gk * scale));
    dv.tile(h, n, d).store(cast<T>(gv));
  });
}

auto conv1d() {
  return kernel("conv1d", [](View<const float, 3> x, View<const float, 3> w, View<const float, 1> bias,
                             View<float, 3> y) {
    auto [image, n] = program_tile(y, 1_c, BN);
    Scalar<std::int64_t> b = image;
    (void)n;
    auto t = program_id(2) * BM;
    Tile at = t + arange(BM);
    Tile out = program_id(1) * BN + arange(BN);
    Scalar inner = w.extent(1) * w.extent(2);
    Tile acc = for_range(BK, inner, zeros<float>(BM, BN), [&](auto k, auto acc) {
      Tile i = k + arange(BK);
      Tile c = i / w.extent(2), tap = i % w.extent(2);
      Tile patch = x.at(b, expand<0>(c), expand<1>(at) + expand<0>(tap)).load(expand<0>(i < inner));
      Tile weights = w.at(expand<0>(out), expand<1>(c), expand<1>(tap)).load(expand<1>(i < inner));
      return acc + dot(patch, weights, Precision::tf32);
    });
    y.at(b, expand<0>(out), expand<1>(at)).store(relu(acc + expand<0>(bias.at(out).load())));
  });
}

template <class T> auto gather_matmul() {
  return kernel("gather_matmul", [](View<const T, 2> x, View<const std::int64_t, 1> rows, View<const T, 3> w,
                                    View<const std::int64_t, 1> expert, View<T, 2> y) {
    auto [m, n] = program_tile(y, BM, BN);
    Tile r = rows.tile(m).load();
    Scalar<std::int64_t> e = expert.at(m / BM).load();
    Tile acc = for_range(BK, x.cols(), zeros<float>(BM, BN), [&](auto k, auto acc) {
      Tile a = x.at(expand<1>(r), expand<0>(k + arange(BK))).load();
      return dot(a, w.tile(e, k, n).load(), acc);
    });
    y.tile(m, n).store(cast<T>(acc));
  });
}

template <class T> auto cross_entropy() {
  return kernel("cross_entropy", [](View<const T, 2> logits, View<const std::int64_t, 1> targets,
                                    View<float, 1> loss) {
    auto [m] = program_tile(logits, BM);
    auto [top, total] = for_range(
        BN, logits.cols(), state(full(-INFINITY, BM), zeros<float>(BM)), [&](auto n, auto top, auto total) {
          Tile x = cast<float>(logits.tile(m, n).load_or(-INFINITY));
          Tile next = max(top, max(x, BN));
          return state(next, total * exp(top - next) + sum(exp(x - expand<1>(next)), BN));
        });
    Tile target = targets.tile(m).load();
    loss.tile(m).store(top + log(total) - cast<float>(logits.at(m + arange(BM), target).load()));
  });
}

const char* const all_architectures[] = {"sm_80", "sm_90a", "sm_100a"};

// Assembles for all architectures or, to save time, for one of them.
template <class K> void check(const K& kernel, const Config& config, int warps, int architecture = -1) {
  auto recorded = kernel.record(config);
  std::size_t views = 0;
  for (const auto& arg : recorded->body.args)
    views += arg->type.is_view();
  const auto lowered =
      passes::lower_generic(*recorded, {config, std::vector<LayoutClass>(views, LayoutClass::Aligned)});
  for (int i = 0; i < 3; ++i) {
    if (architecture >= 0 && i != architecture) continue;
    const char* arch = all_architectures[i];
    const auto result = gpu::assemble(gpu::compile_to_ptx(*lowered, {arch}, {.warps = warps}).text, arch);
    INFO(recorded->name << " {" << config.to_string() << "} num_warps=" << warps << " for " << arch << ": "
                        << result.log);
    CHECK(result.ok);
    CHECK_FALSE(gpu::has_complaint(result.log));
  }
}

} // namespace

TEST_CASE("kernels of large tiles fit a thread's registers") {
  if (gpu::ptxas_path().empty()) {
    WARN("skipped: there is no ptxas here");
    return;
  }
  check(matmul<f16>(), {BM = 128, BN = 256, BK = 64}, 8);
  check(matmul<bf16>(), {BM = 256, BN = 128, BK = 32}, 8);
  check(attention<f16>(false), {BM = 128, BN = 128, D = 128}, 8);
  check(attention<f16>(false), {BM = 64, BN = 64, D = 128}, 8);
  check(attention<bf16>(true), {BM = 64, BN = 64, D = 64}, 4, 0);
  check(attention<bf16>(true), {BM = 128, BN = 128, D = 64}, 8, 1);
  check(attention_backward_kv<bf16>(), {BM = 64, BN = 64, D = 64}, 8, 2);
  check(matmul_gelu<f16>(), {BM = 128, BN = 128, BK = 32}, 8, 0);
  check(gather_matmul<f16>(), {BM = 128, BN = 128, BK = 32}, 8, 1);
  check(conv1d(), {BM = 64, BN = 64, BK = 32}, 4, 2);
  check(layernorm_backward<bf16>(), {BM = 4, BN = 1024}, 4, 0);
  check(cross_entropy<f16>(), {BM = 1, BN = 4096}, 4, 1);
  check(rotary<float>(), {BM = 32, BN = 64}, 4);
  check(rotary<bf16>(), {BM = 32, BN = 64}, 4, 1);
  check(wrapped<float>(), {BN = 4096}, 4);
  check(wrapped<double>(), {BN = 2048}, 4, 0);
  check(gather<float>(), {BM = 64, BN = 256}, 32);
  check(bools(), {BM = 256, BN = 128}, 8, 0);
  check(scan1<double>(), {BN = 4096}, 4, 1);
}
