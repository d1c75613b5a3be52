// Defines the kernels of the tests of verdicts. A wrong version has a fault that a tuner must notice: a
// forgotten last element, a wrong factor of a small part, one element shifted, something counted twice.
#include "verdict_case_list.h"

namespace kiln::test {

namespace {

class Kernels : public VerdictCaseList {
public:
  using VerdictCaseList::VerdictCaseList;

  std::vector<VerdictCase> all() {
    elementwise();
    statistics();
    softmax();
    cancellation();
    product<float>("f32 product", 1);
    product<bf16>("bf16 product", 1);
    coarse_output<bf16>("bf16 output");
    coarse_output<f8e4m3>("f8 output");
    quantisation();
    integers_from_logarithms();
    mask();
    best_index();
    fake_quantisation();
    histogram();
    float_atomics();
    scatter();
    append();
    in_place();
    rounded_inside();
    return std::move(cases_);
  }

private:
  void elementwise() {
    const std::int64_t n = between(1000, 5000), kind = between(0, 3);
    add_flat("elementwise " + std::to_string(kind), {in<float>({n}), in<float>({n}), out<float>({n})},
             text_by([kind](bool wrong) {
               return kernel("elementwise",
                             [=](View<const float, 1> x, View<const float, 1> y, View<float, 1> z) {
                               auto [i] = program_tile(z, BN);
                               Tile a = x.tile(i).load();
                               Tile b = y.tile(i).load();
                               Tile t = kind == 0   ? Tile(exp(a) - 1.0f)
                                        : kind == 1 ? Tile(log(1.0f + exp(a)) - b)
                                        : kind == 2 ? Tile(relu(a * b - a))
                                                    : Tile(where(a > b, sqrt(abs(a)), b * 1e-3f));
                               z.tile(i).store(wrong ? Tile(t * 1.0001f) : t);
                             });
             }));
  }

  // A large column and a small one, which is wrong.
  void statistics() {
    const std::int64_t rows = between(100, 400), columns = between(500, 2000);
    add_rows("small column", {in<float>({rows, columns}), out<float>({rows, 2})}, text_by([](bool wrong) {
               return kernel("statistics", [=](View<const float, 2> x, View<float, 2> y) {
                 auto [m] = program_tile(x, BM);
                 auto [a, b] = for_range(BN, x.cols(), state(zeros<float>(BM), zeros<float>(BM)),
                                         [&](auto n, auto a, auto b) {
                                           Tile t = x.tile(m, n).load();
                                           return state(a + sum(t * t, BN), b + sum(t, BN));
                                         });
                 auto rows = Scalar<std::int64_t>(m) + arange(BM);
                 y.at(rows, 0).store(a * 1000.0f);
                 y.at(rows, 1).store(b / cast<float>(x.cols()) * (wrong ? 3.0f : 1.0f));
               });
             }));
  }

  void softmax() {
    const std::int64_t rows = between(20, 60), columns = between(100, 1500);
    add_rows(
        "softmax denominators", {in<float>({rows, columns}), out<float>({rows})}, text_by([](bool wrong) {
          return kernel("denominators", [=](View<const float, 2> x, View<float, 1> y) {
            auto [m] = program_tile(y, BM);
            y.tile(m).store(for_range(BN, x.cols() - (wrong ? 1 : 0), zeros<float>(BM), [&](auto n, auto t) {
              Tile last = n + arange(BN) < x.cols() - (wrong ? 1 : 0);
              return t + sum(exp(x.tile(m, n).load()) * cast<float>(last), BN);
            }));
          });
        }));
  }

  // Terms of size 1000 whose sums are near 0.
  void cancellation() {
    const std::int64_t rows = between(200, 600), columns = 2 * between(200, 600);
    add_rows("cancellation", {in<float>({rows, columns}), out<float>({rows})}, text_by([](bool wrong) {
               return kernel("cancellation", [=](View<const float, 2> x, View<float, 1> y) {
                 auto [m] = program_tile(y, BM);
                 auto total = for_range(BN, x.cols(), zeros<float>(BM), [&](auto n, auto t) {
                   return t + sum(x.tile(m, n).load() * 1000.0f, BN);
                 });
                 auto minus = for_range(BN, x.cols(), zeros<float>(BM), [&](auto n, auto t) {
                   return t + sum(x.tile(m, n).load() * -999.0f, BN);
                 });
                 y.tile(m).store(total + minus * (wrong ? 1.001f : 1.0f));
               });
             }));
  }

  template <class T> void product(const std::string& name, int) {
    const std::int64_t m = between(20, 90), n = between(20, 90), k = between(50, 400);
    VerdictCase c{name,
                  {in<T>({m, k}), in<T>({k, n}), out<float>({m, n})},
                  Config::parse("BM=16,BN=16,BK=16"),
                  Config::parse("BM=32,BN=32,BK=" + std::to_string(power(3, 6))),
                  text_by([](bool wrong) {
                    return kernel("product", [=](View<const T, 2> a, View<const T, 2> b, View<float, 2> c) {
                      auto [m, n] = program_tile(c, BM, BN);
                      Tile sums = for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto sum) {
                        return sum + dot(a.tile(m, k).load(), b.tile(k, n).load());
                      });
                      c.tile(m, n).store(wrong ? Tile(sums * 0.9f) : sums);
                    });
                  })};
    add(std::move(c));
  }

  template <class T> void coarse_output(const std::string& name) {
    const std::int64_t rows = between(100, 300), columns = between(30, 300);
    add_rows(name, {in<float>({rows, columns}), out<T>({rows})}, text_by([](bool wrong) {
               return kernel("coarse", [=](View<const float, 2> x, View<T, 1> y) {
                 auto [m] = program_tile(y, BM);
                 auto total = for_range(BN, x.cols(), zeros<float>(BM),
                                        [&](auto n, auto t) { return t + sum(x.tile(m, n).load(), BN); });
                 y.tile(m).store(cast<T>(total * (wrong ? 1.5f : 1.0f)));
               });
             }));
  }

  void quantisation() {
    const std::int64_t rows = between(50, 150), columns = between(100, 400);
    add_rows("int8 quantisation",
             {in<float>({rows, columns}), out<std::int8_t>({rows, columns}), out<float>({rows})},
             text_by([](bool wrong) {
               return kernel(
                   "quantisation", [=](View<const float, 2> x, View<std::int8_t, 2> q, View<float, 1> s) {
                     auto [m] = program_tile(x, BM);
                     auto squares = for_range(BN, x.cols(), zeros<float>(BM), [&](auto n, auto t) {
                       Tile v = x.tile(m, n).load();
                       return t + sum(v * v, BN);
                     });
                     Tile scale = sqrt(squares / cast<float>(x.cols())) * 0.03f;
                     s.tile(m).store(scale);
                     for_range(BN, x.cols(), [&](auto n) {
                       Tile t = x.tile(m, n).load() / expand<1>(scale);
                       q.tile(m, n).store(cast<std::int8_t>(wrong ? Tile(trunc(t)) : Tile(round(t))));
                     });
                   });
             }));
  }

  void integers_from_logarithms() {
    const std::int64_t n = between(3000, 9000);
    add_flat("integers from logarithms", {in<float>({n}), out<std::int32_t>({n})}, text_by([](bool wrong) {
               return kernel("logarithms", [=](View<const float, 1> x, View<std::int32_t, 1> y) {
                 auto [i] = program_tile(y, BN);
                 y.tile(i).store(
                     cast<std::int32_t>(log(abs(x.tile(i).load()) + 1.0f) * (wrong ? 1.01e5f : 1e5f)));
               });
             }));
  }

  void mask() {
    const std::int64_t rows = between(1000, 3000), columns = between(50, 200);
    add_rows("mask of sums", {in<float>({rows, columns}), out<bool>({rows})}, text_by([](bool wrong) {
               return kernel("mask", [=](View<const float, 2> x, View<bool, 1> y) {
                 auto [m] = program_tile(y, BM);
                 auto total = for_range(BN, x.cols(), zeros<float>(BM),
                                        [&](auto n, auto t) { return t + sum(x.tile(m, n).load(), BN); });
                 y.tile(m).store(total > (wrong ? 0.5f : 0.0f));
               });
             }));
  }

  void best_index() {
    const std::int64_t rows = between(300, 900), columns = between(50, 300);
    add_rows(
        "index of the best", {in<float>({rows, columns}), out<std::int32_t>({rows})}, text_by([](bool wrong) {
          return kernel("best", [=](View<const float, 2> x, View<std::int32_t, 1> y) {
            auto [m] = program_tile(y, BM);
            auto [best, at] = for_range(BN, x.cols(), state(full<float>(-1e30f, BM), zeros<std::int32_t>(BM)),
                                        [&](auto n, auto best, auto at) {
                                          Tile t = x.tile(m, n).load_or(-1e30f);
                                          Tile here = max(t, BN);
                                          Tile index = cast<std::int32_t>(argmax(t, BN)) +
                                                       cast<std::int32_t>(Scalar<std::int64_t>(n));
                                          return state(max(best, here), where(here > best, index, at));
                                        });
            y.tile(m).store(wrong ? Tile(max(at - 1, 0)) : Tile(at));
          });
        }));
  }

  void fake_quantisation() {
    const std::int64_t rows = between(300, 900), columns = between(50, 300);
    add_rows("sums rounded to steps", {in<float>({rows, columns}), out<float>({rows})},
             text_by([](bool wrong) {
               return kernel("steps", [=](View<const float, 2> x, View<float, 1> y) {
                 auto [m] = program_tile(y, BM);
                 auto total = for_range(BN, x.cols(), zeros<float>(BM),
                                        [&](auto n, auto t) { return t + sum(x.tile(m, n).load(), BN); });
                 y.tile(m).store((round(total * 1000.0f) + (wrong ? 1.0f : 0.0f)) * 1e-3f);
               });
             }));
  }

  void histogram() {
    const std::int64_t n = between(3000, 9000), bins = between(4, 50);
    add_flat("histogram", {indices(n, bins - 1), out<std::int32_t>({bins})}, text_by([](bool wrong) {
               return kernel("histogram", [=](View<const std::int32_t, 1> x, View<std::int32_t, 1> h) {
                 auto [i] = program_tile(x, BN);
                 auto inside = i + arange(BN) < x.size();
                 h.at(cast<std::int64_t>(x.tile(i).load()))
                     .atomic_add(full<std::int32_t>(wrong ? 2 : 1, BN), inside);
               });
             }));
  }

  void float_atomics() {
    const std::int64_t n = between(3000, 9000), bins = between(4, 50);
    add_flat("atomic sums", {indices(n, bins - 1), in<float>({n}), out<float>({bins})},
             text_by([](bool wrong) {
               return kernel("atomic_sums",
                             [=](View<const std::int32_t, 1> x, View<const float, 1> w, View<float, 1> h) {
                               auto [i] = program_tile(x, BN);
                               auto inside = i + arange(BN) < x.size();
                               h.at(cast<std::int64_t>(x.tile(i).load()))
                                   .atomic_add(w.tile(i).load() * (wrong ? 1.01f : 1.0f), inside);
                             });
             }));
  }

  void scatter() {
    const std::int64_t n = between(2000, 5000);
    add_flat("scatter", {permutation(n, random_), in<float>({n}), out<float>({n})}, text_by([](bool wrong) {
               return kernel(
                   "scatter", [=](View<const std::int32_t, 1> to, View<const float, 1> x, View<float, 1> y) {
                     auto [i] = program_tile(x, BN);
                     auto inside = i + arange(BN) < x.size();
                     auto at = cast<std::int64_t>(to.tile(i).load());
                     auto moved = wrong ? Tile(where(at == 17, at + 1, at)) : Tile(at); // one element
                     y.at(moved).store(x.tile(i).load(), inside);
                   });
             }));
  }

  // Appends what is large through a counter, so that the order depends on timing and tiles.
  void append() {
    const std::int64_t n = between(2000, 5000);
    add_flat("append", {in<float>({n}), out<float>({n}), out<std::int32_t>({n}), out<std::int32_t>({1})},
             text_by([](bool wrong) {
               return kernel("append", [=](View<const float, 1> x, View<float, 1> y,
                                           View<std::int32_t, 1> from, View<std::int32_t, 1> counter) {
                 auto [i] = program_tile(x, BN);
                 Tile t = x.tile(i).load();
                 Tile keep = (i + arange(BN) < x.size()) & (t > 0.5f);
                 Tile ones = cast<std::int32_t>(keep);
                 Tile before = cumsum(ones, BN) - ones;
                 auto start = raw::atomic_add(counter.data(), sum(ones));
                 Tile to = cast<std::int64_t>(before + start);
                 y.at(to).store(t, keep);
                 // Pairs of a value and its index must stay together.
                 Tile reversed = cast<std::int64_t>(sum(ones) - 1 - before + start);
                 from.at(wrong ? reversed : to).store(cast<std::int32_t>(i + arange(BN)), keep);
               });
             }));
  }

  void in_place() {
    const std::int64_t n = between(2000, 5000);
    add_flat("update in place", {out<float>({n})}, text_by([](bool wrong) {
               return kernel("update", [=](View<float, 1> x) {
                 auto [i] = program_tile(x, BN);
                 x.tile(i).store(x.tile(i).load() * (wrong ? 2.001f : 2.0f) + 1.0f);
               });
             }));
  }

  // Weights that are rounded to bf16 before they are summed, as in attention.
  void rounded_inside() {
    const std::int64_t rows = between(20, 60), columns = between(100, 600);
    add_rows("rounded inside", {in<float>({rows, columns}), out<float>({rows})}, text_by([](bool wrong) {
               return kernel("rounded", [=](View<const float, 2> x, View<float, 1> y) {
                 auto [m] = program_tile(y, BM);
                 y.tile(m).store(for_range(BN, x.cols(), zeros<float>(BM), [&](auto n, auto t) {
                   auto weights = cast<float>(cast<bf16>(exp(x.tile(m, n).load() - (wrong ? 0.5f : 0.0f))));
                   return t + sum(weights * x.tile(m, n).load(), BN);
                 }));
               });
             }));
  }
};

} // namespace

std::vector<VerdictCase> verdict_cases(tune::Random& random) {
  std::vector<VerdictCase> all = Kernels(random).all();
  for (VerdictCase& c : hard_verdict_cases(random))
    all.push_back(std::move(c));
  return all;
}

} // namespace kiln::test
