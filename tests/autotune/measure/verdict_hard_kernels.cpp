// Defines kernels of the tests of verdicts whose right versions differ much and whose wrong ones differ
// little: appends, decisions on ties, exact counts, long sums, accumulators of 16 bits, sums that become
// integers.
#include "verdict_case_list.h"

#include <cmath>

namespace kiln::test {

namespace {

class HardKernels : public VerdictCaseList {
public:
  using VerdictCaseList::VerdictCaseList;

  std::vector<VerdictCase> all() {
    append_rows();
    tiles_from_a_counter();
    whole_numbers_as_floats();
    best_index_of_ties();
    counts_of_equal_floats();
    last_lane();
    threshold();
    doubles_of_all_sizes();
    sums_of_tiny_doubles();
    counts_in_floats();
    long_sums();
    long_total();
    narrow_accumulator<f16>("f16 accumulator");
    narrow_accumulator<bf16>("bf16 accumulator");
    narrow_atomics();
    fixed_point();
    bits_of_sums();
    shared_matrix();
    normalised_rows();
    return std::move(cases_);
  }

private:
  // Rows of two columns, which are swapped.
  void append_rows() {
    const std::int64_t n = between(2000, 5000);
    add_flat("append rows", {in<float>({n, 2}), out<float>({n, 2}), out<std::int32_t>({1})},
             text_by([](bool wrong) {
               return kernel("rows",
                             [=](View<const float, 2> x, View<float, 2> y, View<std::int32_t, 1> counter) {
                               auto [i] = program_tile(x, BN);
                               auto row = Scalar<std::int64_t>(i) + arange(BN);
                               Tile a = x.at(row, 0).load(), b = x.at(row, 1).load();
                               Tile keep = (row < x.rows()) & (a > 0.5f);
                               Tile ones = cast<std::int32_t>(keep);
                               auto start = raw::atomic_add(counter.data(), sum(ones));
                               Tile to = cast<std::int64_t>(cumsum(ones, BN) - ones + start);
                               y.at(to, 0).store(wrong ? b : a, keep);
                               y.at(to, 1).store(wrong ? a : b, keep);
                             });
             }));
  }

  // Each program takes the number of its tile from a counter, which is no append.
  void tiles_from_a_counter() {
    const std::int64_t n = 1024 * between(4, 20);
    Argument counter = given<std::int32_t>({1}, [](std::size_t) { return 0; });
    counter.readonly = false;
    add_flat("tiles from a counter", {in<float>({n}), out<float>({n}), counter}, text_by([](bool wrong) {
               return kernel(
                   "tiles", [=](View<const float, 1> x, View<float, 1> y, View<std::int32_t, 1> counter) {
                     program_tile(y, BN);
                     auto i = offset(BN, cast<std::int64_t>(counter.at(0).atomic_add(1)) * dim_size(BN));
                     Tile t = x.tile(i).load() * 2.0f;
                     y.tile(i).store(wrong ? Tile(flip(t, BN)) : t);
                   });
             }));
    cases_.back().outputs = {{.parameter = 2, .ignored = true}};
  }

  void whole_numbers_as_floats() {
    const std::int64_t n = between(3000, 9000), step = between(0, 1);
    add_flat(
        "whole numbers as floats",
        {given<float>({n}, [&](std::size_t i) { return static_cast<double>(i % 10) * (step ? 1 : 0.5); }),
         out<std::int32_t>({n}), out<float>({n})},
        text_by([](bool wrong) {
          return kernel("whole", [=](View<const float, 1> x, View<std::int32_t, 1> y, View<float, 1> z) {
            auto [i] = program_tile(y, BN);
            Tile t = round(x.tile(i).load());
            Tile u = cast<std::int32_t>(x.tile(i).load());
            z.tile(i).store(t);
            y.tile(i).store(wrong ? Tile(where(u >= 3, u + 1, u)) : Tile(u));
          });
        }));
    add_flat(
        "rounded whole numbers",
        {given<float>({n}, [&](std::size_t i) { return static_cast<double>(i % 10) * (step ? 1 : 0.5); }),
         out<float>({n})},
        text_by([](bool wrong) {
          return kernel("rounded", [=](View<const float, 1> x, View<float, 1> y) {
            auto [i] = program_tile(y, BN);
            Tile t = trunc(x.tile(i).load());
            y.tile(i).store(wrong ? Tile(where(t > 2.0f, t + 1.0f, t)) : Tile(t));
          });
        }));
  }

  void best_index_of_ties() {
    const std::int64_t rows = between(100, 300), columns = between(600, 1500);
    add_rows("best index of ties",
             {given<float>({rows, columns}, [](std::size_t i) { return i * 7919 % 13; }),
              out<std::int32_t>({rows})},
             text_by([](bool wrong) {
               return kernel("ties", [=](View<const float, 2> x, View<std::int32_t, 1> y) {
                 auto [m] = program_tile(y, BM);
                 auto [best, at] =
                     for_range(BN, x.cols(), state(full<float>(-1e30f, BM), zeros<std::int32_t>(BM)),
                               [&](auto n, auto best, auto at) {
                                 Tile t = x.tile(m, n).load_or(-1e30f);
                                 Tile here = max(t, BN);
                                 Tile index = cast<std::int32_t>(argmax(t, BN)) +
                                              (wrong ? Scalar<std::int32_t>(1)
                                                     : cast<std::int32_t>(Scalar<std::int64_t>(n)));
                                 return state(max(best, here), where(here > best, index, at));
                               });
                 y.tile(m).store(at);
               });
             }));
  }

  void counts_of_equal_floats() {
    const std::int64_t rows = between(100, 300), columns = between(600, 1500);
    add_rows("counts of equal floats",
             {given<float>({rows, columns}, [](std::size_t i) { return i * 7919 % 10; }),
              out<std::int32_t>({rows})},
             text_by([](bool wrong) {
               return kernel("equal", [=](View<const float, 2> x, View<std::int32_t, 1> y) {
                 auto [m] = program_tile(y, BM);
                 auto count = for_range(BN, x.cols(), zeros<std::int32_t>(BM), [&](auto n, auto t) {
                   return t + sum(cast<std::int32_t>(x.tile(m, n).load() == 3.0f), BN);
                 });
                 y.tile(m).store(wrong ? Tile(count * 2) : Tile(count));
               });
             }));
  }

  void last_lane() {
    const std::int64_t n = between(100'000, 200'000);
    add_flat("last lane of a tile", {in<float>({n}), out<std::int8_t>({n})}, text_by([](bool wrong) {
               return kernel("lanes", [=](View<const float, 1> x, View<std::int8_t, 1> y) {
                 auto [i] = program_tile(y, BN);
                 Tile t = round(x.tile(i).load() * 10.0f);
                 y.tile(i).store(cast<std::int8_t>(
                     wrong ? Tile(where(arange(BN) == dim_size(BN) - 1, t + 1.0f, t)) : Tile(t)));
               });
             }));
  }

  void threshold() {
    const std::int64_t n = between(100'000, 200'000);
    add_flat("threshold", {in<float>({n}), out<float>({n})}, text_by([](bool wrong) {
               return kernel("threshold", [=](View<const float, 1> x, View<float, 1> y) {
                 auto [i] = program_tile(y, BN);
                 Tile t = x.tile(i).load();
                 Tile u = where(t > 1.0f, t * 1000.0f, t);
                 y.tile(i).store(wrong ? Tile(where(arange(BN) == dim_size(BN) - 1, u + 100.0f, u))
                                       : Tile(u));
               });
             }));
  }

  void doubles_of_all_sizes() {
    const std::int64_t n = between(3000, 9000);
    add_flat("doubles of all sizes",
             {given<double>({n},
                            [&](std::size_t i) {
                              return (1 + static_cast<double>(random_.below(1000))) *
                                     std::pow(10.0, i % 600 - 300.0);
                            }),
              out<double>({n})},
             text_by([](bool wrong) {
               return kernel("doubles", [=](View<const double, 1> x, View<double, 1> y) {
                 auto [i] = program_tile(y, BN);
                 Tile t = x.tile(i).load();
                 y.tile(i).store(wrong ? Tile(t * where(abs(t) > 1e60, 1.0001, 1.0)) : Tile(t * 1.0));
               });
             }));
  }

  void sums_of_tiny_doubles() {
    const std::int64_t rows = between(100, 300), columns = between(500, 2000);
    add_rows("sums of tiny doubles", {in<double>({rows, columns}), out<double>({rows})},
             text_by([](bool wrong) {
               return kernel("tiny", [=](View<const double, 2> x, View<double, 1> y) {
                 auto [m] = program_tile(y, BM);
                 y.tile(m).store(for_range(BN, x.cols(), zeros<double>(BM), [&](auto n, auto t) {
                   return t + sum(x.tile(m, n).load() * (wrong ? 1.00000001e-60 : 1e-60), BN);
                 }));
               });
             }));
  }

  // No rounding error changes a count, so none may be missed.
  void counts_in_floats() {
    const std::int64_t n = between(50'000, 100'000), bins = between(4, 50);
    add_flat("counts in floats", {indices(n, bins - 1), out<float>({bins})}, text_by([n](bool wrong) {
               return kernel("counts", [=](View<const std::int32_t, 1> x, View<float, 1> h) {
                 auto [i] = program_tile(x, BN);
                 auto inside = i + arange(BN) < n - (wrong ? 1 : 0);
                 h.at(cast<std::int64_t>(x.tile(i).load())).atomic_add(full<float>(1, BN), inside);
               });
             }));
  }

  void long_sums() {
    const std::int64_t rows = between(40, 80), columns = between(8000, 16000);
    add({"long sums",
         {in<float>({rows, columns}), out<float>({rows})},
         bm_bn(1, power(2, 10)),
         bm_bn(power(0, 3), power(2, 10)),
         text_by([](bool wrong) {
           return kernel("long", [=](View<const float, 2> x, View<float, 1> y) {
             auto [m] = program_tile(y, BM);
             Tile t = for_range(BN, x.cols(), zeros<float>(BM),
                                [&](auto n, auto t) { return t + sum(x.tile(m, n).load(), BN); });
             y.tile(m).store(t * (wrong ? 1.0002f : 1.0f));
           });
         })});
  }

  void long_total() {
    const std::int64_t n = between(500'000, 1'000'000);
    add_flat("long total", {in<float>({n}), out<float>({1})}, text_by([](bool wrong) {
               return kernel("total", [=](View<const float, 1> x, View<float, 1> y) {
                 auto [i] = program_tile(x, BN);
                 Tile t = abs(x.tile(i).load());
                 if (wrong) t = Tile(where(i + arange(BN) < x.size() - 200, t, 0.0f));
                 y.at(0).atomic_add(sum(t));
               });
             }));
  }

  template <class T> void narrow_accumulator(const std::string& name) {
    const std::int64_t rows = between(200, 500), columns = between(1000, 4000);
    add({name, {in<T>({rows, columns}), out<T>({rows})}, bm_bn(1, 8), bm_bn(1, 512), text_by([](bool wrong) {
           return kernel("narrow", [=](View<const T, 2> x, View<T, 1> y) {
             auto [m] = program_tile(y, BM);
             Tile t = for_range(BN, x.cols(), zeros<T>(BM),
                                [&](auto n, auto t) { return t + sum(x.tile(m, n).load(), BN); });
             y.tile(m).store(wrong ? Tile(t * T(2.5f)) : Tile(t));
           });
         })});
  }

  void narrow_atomics() {
    const std::int64_t bins = between(200, 500), n = 20 * bins;
    add_flat("bf16 atomics", {indices(n, bins - 1), in<bf16>({n}), out<bf16>({bins})},
             text_by([](bool wrong) {
               return kernel("atomics",
                             [=](View<const std::int32_t, 1> x, View<const bf16, 1> w, View<bf16, 1> h) {
                               auto [i] = program_tile(x, BN);
                               Tile t = w.tile(i).load();
                               h.at(cast<std::int64_t>(x.tile(i).load()))
                                   .atomic_add(wrong ? Tile(t * bf16(4.0f)) : t, i + arange(BN) < x.size());
                             });
             }));
  }

  void fixed_point() {
    const std::int64_t rows = between(1000, 4000), columns = between(500, 1000);
    add({"sums in fixed point",
         {in<float>({rows, columns}), out<std::int32_t>({rows})},
         bm_bn(1, 8),
         bm_bn(1, 1024),
         text_by([](bool wrong) {
           return kernel("fixed", [=](View<const float, 2> x, View<std::int32_t, 1> y) {
             auto [m] = program_tile(y, BM);
             Tile t = for_range(BN, x.cols(), zeros<float>(BM),
                                [&](auto n, auto t) { return t + sum(x.tile(m, n).load(), BN); });
             y.tile(m).store(cast<std::int32_t>(t * (wrong ? 1.001e6f : 1e6f)));
           });
         })});
  }

  void bits_of_sums() {
    const std::int64_t rows = between(1000, 4000), columns = between(500, 1000);
    add({"bits of sums",
         {in<float>({rows, columns}), out<std::int32_t>({rows})},
         bm_bn(1, 8),
         bm_bn(1, 1024),
         text_by([](bool wrong) {
           return kernel("bits", [=](View<const float, 2> x, View<std::int32_t, 1> y) {
             auto [m] = program_tile(y, BM);
             Tile t = for_range(BN, x.cols(), zeros<float>(BM),
                                [&](auto n, auto t) { return t + sum(x.tile(m, n).load(), BN); });
             y.tile(m).store(bitcast<std::int32_t>(t * (wrong ? 1.01f : 1.0f)));
           });
         })});
  }

  // The columns of one matrix are an input and two outputs.
  void shared_matrix() {
    const std::int64_t n = between(1000, 4000);
    const auto column = [&](std::int64_t i, bool readonly) {
      Argument a = tensor_argument(DType::F32, {n}, readonly);
      a.strides = {3};
      a.address = 0x10000 + 4 * static_cast<std::uint64_t>(i);
      return a;
    };
    add_flat("columns of one matrix", {column(0, true), column(1, false), column(2, false)},
             text_by([](bool wrong) {
               return kernel("columns", [=](View<const float, 1> x, View<float, 1> y, View<float, 1> z) {
                 auto [i] = program_tile(y, BN);
                 Tile t = x.tile(i).load();
                 y.tile(i).store(t * 2.0f);
                 z.tile(i).store(log(abs(t) + 1.0f) * (wrong ? 3.0f : 1.0f));
               });
             }));
  }

  // Whole rows as tiles, next to loops over columns.
  void normalised_rows() {
    const std::int64_t rows = between(20, 60), columns = between(1000, 3000);
    add({"softmax of long rows",
         {in<float>({rows, columns}), out<float>({rows, columns})},
         bm_bn(1, 4096),
         bm_bn(power(0, 2), 4096),
         text_by([](bool wrong) {
           return kernel("softmax", [=](View<const float, 2> x, View<float, 2> y) {
             auto [m] = program_tile(x, BM);
             auto n = offset(BN, 0);
             Tile t = x.tile(m, n).load_or(-INFINITY);
             Tile e = exp(t - max(t, BN, keep));
             y.tile(m, n).store(e * (1.0f / sum(e, BN, keep)) * (wrong ? 1.0001f : 1.0f));
           });
         })});
    add_rows("layernorm over columns", {in<float>({rows, columns}), out<float>({rows, columns})},
             text_by([](bool wrong) {
               return kernel("layernorm", [=](View<const float, 2> x, View<float, 2> y) {
                 auto [m] = program_tile(x, BM);
                 auto [a, b] = for_range(BN, x.cols(), state(zeros<float>(BM), zeros<float>(BM)),
                                         [&](auto n, auto a, auto b) {
                                           Tile t = x.tile(m, n).load();
                                           return state(a + sum(t, BN), b + sum(t * t, BN));
                                         });
                 Tile count = full<float>(cast<float>(x.cols()), BM);
                 Tile mean = a / count;
                 Tile scale = rsqrt(b / count - mean * mean + (wrong ? 1e-3f : 1e-5f));
                 for_range(BN, x.cols(), [&](auto n) {
                   y.tile(m, n).store((x.tile(m, n).load() - expand<1>(mean)) * expand<1>(scale));
                 });
               });
             }));
  }
};

} // namespace

std::vector<VerdictCase> hard_verdict_cases(tune::Random& random) { return HardKernels(random).all(); }

} // namespace kiln::test
