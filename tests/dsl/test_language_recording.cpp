// Tests which operations the language records, and which mistakes are errors while recording.
#include "language_test.h"

#include <kiln/dsl/symbol.h>

#include <thread>

using namespace kiln;
using namespace kiln::test;
using ir::Opcode;

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

namespace {
template <class F> std::string error_of(const F& kernel, const Config& config = {}) {
  try {
    record("test", kernel, config);
  } catch (const UserError& e) {
    std::string text = e.what();
    auto file = text.find("test_language_recording.cpp:");
    // The text after "file:line: ".
    return file == std::string::npos ? text : text.substr(text.find(' ', file) + 1);
  }
  return "no error";
}
const ir::Op& only(const ir::Kernel& kernel, Opcode code) {
  const ir::Op* found = nullptr;
  ir::walk(kernel.body, [&](const ir::Op& op) {
    if (op.is(code)) found = &op;
  });
  REQUIRE(found);
  return *found;
}
} // namespace

// --- Types -------------------------------------------------------------------------------------------------

template <class A, class B> constexpr bool same = std::is_same_v<A, B>;
template <auto D> using dim = detail::dimension_of<D>;

static_assert(same<dim<BM * 2_c / 2_c>, dim<BM>>);
static_assert(same<dim<BM * BN>, dim<BN * BM>>);
static_assert(same<dim<BM * BN / BM>, dim<BN>>);
static_assert(same<dim<6_c * 4_c / 3_c>, dim<8_c>>);
static_assert(same<dim<BK / 4_c * 8_c>, dim<2_c * BK>>);
static_assert(!same<dim<BM>, dim<BN>>);
static_assert(same<detail::shape_t<Tile<float, BM, 16>>, detail::shape_t<Tile<float, BM, 16_c>>>);
static_assert(1'000_c .value == 1000);

template <class A, class B> using promoted = detail::promote_t<A, B>;
static_assert(same<promoted<bool, std::int8_t>, std::int8_t>);
static_assert(same<promoted<std::int64_t, f16>, f16>);
static_assert(same<promoted<f16, bf16>, float> && same<promoted<bf16, f16>, float>);
static_assert(same<promoted<f16, double>, double> && same<promoted<float, bf16>, float>);
static_assert(same<promoted<f8e4m3, f8e5m2>, float> && same<promoted<f8e4m3, f16>, f16>);
static_assert(same<promoted<std::int32_t, std::uint32_t>, std::uint32_t>);
static_assert(same<promoted<std::int32_t, std::uint16_t>, std::int32_t>);
static_assert(same<promoted<std::uint8_t, std::int64_t>, std::int64_t>);

template <class X> using element = detail::element_t<X>;
static_assert(same<element<decltype(std::declval<Tile<f16, BM>>() * 2)>, f16>);
static_assert(same<element<decltype(std::declval<Tile<f16, BM>>() * 0.5)>, f16>);
static_assert(same<element<decltype(std::declval<Tile<int, BM>>() * 0.5)>, float>);
static_assert(same<element<decltype(std::declval<Tile<std::uint8_t, BM>>() + 1)>, std::uint8_t>);
static_assert(same<element<decltype(std::declval<Tile<bool, BM>>() + std::declval<Tile<bool, BM>>())>, int>);
static_assert(same<element<decltype(std::declval<Tile<float, BM>>() < 1)>, bool>);

template <class X> using shape = detail::shape_t<X>;
using MN = Tile<float, BM, BN>;
static_assert(same<shape<decltype(std::declval<MN>() + std::declval<Tile<float, BN>>())>, shape<MN>>);
static_assert(same<shape<decltype(std::declval<MN>() + std::declval<Tile<float, BM, 1>>())>, shape<MN>>);
static_assert(same<shape<decltype(std::declval<Tile<float, BM, 1>>() * std::declval<Tile<float, 1, BN>>())>,
                   shape<MN>>);
static_assert(same<decltype(std::declval<Offset<BM>>() + 1), Offset<BM>>);
static_assert(same<decltype(std::declval<Scalar<int>>() * BM), Offset<BM>>);

// --- Structure ---------------------------------------------------------------------------------------------

TEST_CASE("program_tile defines the grid by its view's leading axes") {
  auto kernel = recorded([](View<const float, 2>, View<float, 3> out) { program_tile(out, BM, BN * 2_c); });
  REQUIRE(kernel->grid.size() == 2);
  CHECK(kernel->grid[0] == ir::GridAxis{1, 0, ir::Dim::symbol(intern("BM"))});
  CHECK(kernel->grid[1] == ir::GridAxis{1, 1, ir::Dim::symbol(intern("BN")) * ir::Dim(2)});
}

TEST_CASE("pure operations are recorded once, however often an expression is used") {
  auto kernel = recorded([](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    auto t = x.tile(i).load();
    auto e = exp(t - 1) * 2;
    Tile a = e + e;
    Tile b = e * 2;
    x.tile(i).store(a + b * e);
  });
  CHECK(count(*kernel, Opcode::Exp) == 1);
  CHECK(count(*kernel, Opcode::Sub) == 1);
}

TEST_CASE("loads are never merged: memory may have changed") {
  auto kernel = recorded([](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    x.tile(i).store(x.tile(i).load() + x.tile(i).load());
  });
  CHECK(count(*kernel, Opcode::ViewLoad) == 2);
}

TEST_CASE("values of an outer region are reused inside, but not the other way round") {
  auto kernel = recorded([](View<float, 1> x, Scalar<float> s) {
    auto [i] = program_tile(x, BN);
    Tile before = sqrt(s);
    for_range(0, 4, 1, [&](auto) { x.tile(i).store(sqrt(s) + log(s)); });
    x.tile(i).store(log(s) + before);
  });
  CHECK(count(*kernel, Opcode::Sqrt) == 1);
  CHECK(count(*kernel, Opcode::Log) == 2);
}

TEST_CASE("an expression of more than sixteen nodes is recorded at once") {
  recorded([](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    auto t = x.tile(i).load();
    auto small = t + t;
    auto large = small * small + small * small + small * small;
    static_assert(!same<decltype(small), Tile<float, BN>>);
    static_assert(same<decltype(large), Tile<float, BN>>);
  });
}

TEST_CASE("the constants +0 and -0 are not merged") {
  auto kernel = recorded([](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    x.tile(i).store(x.tile(i).load() * -0.0f + 0.0f);
  });
  CHECK(count(*kernel, Opcode::Constant) == 2);
}

TEST_CASE("operations carry the line of the named call or declaration that records them") {
  int named = 0, declared = 0, stored = 0;
  auto kernel = recorded([&](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    auto t = x.tile(i).load();
    // clang-format off
    named = __LINE__ + 1;
    auto e = exp(
        t * 3);
    declared = __LINE__ + 1;
    Tile r = e / 7;
    stored = __LINE__ + 1;
    x.tile(i).store(r - 5);
    // clang-format on
  });
  CHECK(only(*kernel, Opcode::Mul).loc.line == named);
  CHECK(only(*kernel, Opcode::Exp).loc.line == named);
  CHECK(only(*kernel, Opcode::Div).loc.line == declared);
  CHECK(only(*kernel, Opcode::Sub).loc.line == stored);
  CHECK(only(*kernel, Opcode::ViewStore).loc.line == stored);
  CHECK(std::string(only(*kernel, Opcode::Exp).loc.file).find("test_language_recording.cpp") !=
        std::string::npos);
}

TEST_CASE("a loop carries the Vars that its body assigns, and no others") {
  auto kernel = recorded([](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    Var<float> assigned = 0, only_read = 1, untouched = 2;
    Var<int> counter = 0;
    for_range(BN, x.size(), [&](auto k) {
      assigned += sum(x.tile(k).load()) * only_read;
      for_range(0, 3, 1, [&](auto) { counter += 1; });
    });
    x.tile(i).store(assigned + only_read + untouched + cast<float>(counter));
  });
  const ir::Op* outer = nullptr;
  for (const auto& op : kernel->body.ops)
    if (op->is(Opcode::For)) outer = op.get();
  REQUIRE(outer);
  CHECK(outer->num_results() == 2);
  CHECK(outer->region()->args.size() == 3); // the index and two carried values
}

TEST_CASE("branches carry Vars that either side assigns") {
  auto kernel = bound(
      [](View<std::int32_t, 1> x) {
        Scalar i = program_id(0);
        Var v = x.tile(i).load();
        if_else(v > 10, [&] { v = v * 2; }, [&] { if_then(v < 0, [&] { v = 0; }); });
        x.tile(i).store(v);
      },
      {});
  std::vector<std::int32_t> x{20, 5, -3};
  Arguments().view(x.data(), {3}).run_on(*kernel, {3});
  CHECK(x == std::vector<std::int32_t>{40, 5, 0});
}

TEST_CASE("an expression of a Var keeps the value from when it was written") {
  auto kernel = bound(
      [](View<float, 1> x) {
        Var<float> v = 1;
        auto before = v + 10;
        v = 5;
        x.tile(0).store(before);
        x.tile(1).store(v);
      },
      {});
  std::vector<float> x(2);
  Arguments().view(x.data(), {2}).run_on(*kernel, {1});
  CHECK(x == std::vector<float>{11, 5});
}

TEST_CASE("a Tile declared from a Var is a copy of its value") {
  auto kernel = bound(
      [](View<float, 1> x) {
        Var<float> v = 1;
        Var sums = full(2.0f, 4_c);
        Tile number = v;
        Tile copied = sums;
        v = 5;
        sums = sums * 3;
        x.at(0).store(number);
        x.at(1).store(sum(copied));
        x.at(2).store(sum(Tile(sums)));
      },
      {});
  std::vector<float> x(3);
  Arguments().view(x.data(), {3}).run_on(*kernel, {1});
  CHECK(x == std::vector<float>{1, 8, 24});
}

TEST_CASE("a tile assigned in a native loop unrolls") {
  auto kernel = recorded([](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    Tile t = x.tile(i).load();
    for (int k = 0; k < 3; ++k)
      t = t * t + static_cast<float>(k);
    t += 7;
    x.tile(i).store(t);
  });
  CHECK(count(*kernel, Opcode::Mul) == 3);
  CHECK(count(*kernel, Opcode::For) == 0);
}

TEST_CASE("expects keeps both sides of a comparison for its message") {
  auto kernel = recorded([](View<const float, 2> a, View<const float, 2> b, Scalar<int> n) {
    expects(a.cols() == b.rows(), "columns and rows");
    expects((n > 0) & (n < 8), "n is small");
  });
  std::vector<int> operands;
  for (const auto& op : kernel->body.ops)
    if (op->is(Opcode::Expects)) operands.push_back(op->num_operands());
  CHECK(operands == std::vector<int>{3, 1});
}

TEST_CASE("a layout class pinned in the type is recorded") {
  auto kernel = recorded([](View<float, 2, LayoutClass::Aligned>, View<const float, 1>) {});
  CHECK(kernel->body.args[0]->type == ir::Type::view(DType::F32, 2, false, LayoutClass::Aligned));
  CHECK(kernel->body.args[1]->type == ir::Type::view(DType::F32, 1, true, LayoutClass::Any));
  using P = detail::parameters_of<void (*)(View<float, 2, LayoutClass::Any>, View<float, 1>)>;
  static_assert(same<P, detail::ParameterList<View<float, 2, LayoutClass::Any>, View<float, 1>>>);
  CHECK(detail::Parameter<View<float, 2, LayoutClass::Any>>::info.layout == 0);
  CHECK(detail::Parameter<View<float, 2>>::info.layout == detail::ParameterInfo::not_pinned);
}

TEST_CASE("device_print and device_assert are recorded in order") {
  std::vector<std::string> lines;
  auto kernel = bound(
      [](View<const std::int32_t, 1> x) {
        auto [i] = program_tile(x, BN);
        auto t = x.tile(i).load();
        device_print("sum", sum(t), i);
        device_assert(t >= 0, "not negative", i + arange(BN) < x.size());
      },
      {BN = 2});
  std::vector<std::int32_t> x{1, 2, 3};
  ir::InterpreterOptions options;
  options.print = [&](const std::string& line) { lines.push_back(line); };
  Arguments().view(x.data(), {3}).run(*kernel, options);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].find("sum") != std::string::npos);
  CHECK(lines[0].find('3') != std::string::npos);
  x[1] = -2;
  CHECK_THROWS_AS(Arguments().view(x.data(), {3}).run(*kernel, options), UserError);
}

// --- Errors ------------------------------------------------------------------------------------------------

TEST_CASE("a kernel is not recorded inside another") {
  CHECK(error_of([](View<float, 1>) { record("inner", [](View<float, 1>) {}); }) ==
        "kernel \"inner\" is recorded while kernel \"test\" is being recorded; kernels do not nest, call a "
        "C++ function "
        "instead");
}

TEST_CASE("an exception while recording leaves nothing behind") {
  CHECK_THROWS_AS(record("test",
                         [](View<float, 1> x) {
                           Var<float> v = 0;
                           for_range(BN, x.size(), [&](auto) {
                             v += 1;
                             throw std::runtime_error("stop");
                           });
                         }),
                  std::runtime_error);
  CHECK_NOTHROW(recorded([](View<float, 1> x) { program_tile(x, BN); }));
}

TEST_CASE("an exception caught inside the kernel drops only the loop") {
  auto kernel = recorded([](View<float, 1> x) {
    Var<float> v = 1;
    try {
      for_range(BN, x.size(), [&](auto) {
        v += 1;
        throw std::runtime_error("stop");
      });
    } catch (const std::runtime_error&) {
    }
    x.tile(0).store(v);
  });
  CHECK(count(*kernel, Opcode::For) == 0);
}

TEST_CASE("a tile belongs to one recording") {
  std::unique_ptr<Tile<float, BN>> kept;
  record("first", [&](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    kept = std::make_unique<Tile<float, BN>>(x.tile(i).load());
  });
  CHECK(error_of([&](View<float, 1> x) { x.tile(offset(BN, 0)).store(*kept); }) ==
        "kernel \"test\" uses a tile or view from the recording of kernel \"first\"; pass data between "
        "kernels through "
        "memory");
  CHECK_THROWS_WITH(
      Tile(*kept + 1),
      Catch::Contains(
          "a tile or scalar is used while no kernel is being recorded; use it inside a kernel's lambda "
          "only"));
}

TEST_CASE("a tile leaves the loop that computed it only through the state") {
  CHECK(error_of([](View<float, 1> x) {
          std::unique_ptr<Scalar<float>> leaked;
          for_range(BN, x.size(),
                    [&](auto k) { leaked = std::make_unique<Scalar<float>>(sum(x.tile(k).load())); });
          x.tile(0).store(*leaked);
        }) == "kernel \"test\" uses a tile outside of the loop, branch or combine function that computed it; "
              "return it "
              "from there or keep it in a Var");
}

TEST_CASE("a tile of an outer region is not assigned inside a loop") {
  CHECK(error_of([](View<float, 1> x) {
          Scalar<float> total = 0;
          for_range(BN, x.size(), [&](auto k) { total = total + sum(x.tile(k).load()); });
        }) == "kernel \"test\" assigns to a tile of an outer region from inside a loop, branch or combine "
              "function; declare "
              "it as Var, or return it as the loop's state");
}

TEST_CASE("program_tile is called once, outside of loops") {
  CHECK(error_of([](View<float, 1> x, View<float, 1> y) {
          program_tile(x, BN);
          program_tile(y, BN);
        }) ==
        "kernel \"test\" calls program_tile twice; one view defines the grid, the others follow its offsets");
  CHECK(error_of([](View<float, 1> x) { for_range(0, 3, 1, [&](auto) { program_tile(x, BN); }); }) ==
        "kernel \"test\" calls program_tile inside a loop or branch; call it first in the kernel");
}

TEST_CASE("a number must fit the tile's dtype") {
  CHECK(error_of([](View<std::int8_t, 1> x) { x.tile(0).store(x.tile(0).load() + 200); }) ==
        "kernel \"test\": the number 200 does not fit into i8; cast the tile to a wider dtype first");
  CHECK(error_of([](View<std::uint8_t, 1> x) { x.tile(0).store(x.tile(0).load() + 200); }) == "no error");
}

TEST_CASE("value needs a size in the config") {
  auto kernel = [](View<float, 1> x) { x.tile(0).store(static_cast<float>(value(BM))); };
  CHECK(error_of(kernel).find("dimension BM has no size in the config {}; add BM = SIZE") !=
        std::string::npos);
  auto made = recorded(kernel, {BM = 8});
  CHECK(made->config_specific);
}

TEST_CASE("combine functions only compute") {
  CHECK(error_of([](View<float, 1> x) {
          auto [i] = program_tile(x, BN);
          reduce(x.tile(i).load(), BN, [&](auto a, auto b) {
            x.tile(0).store(a);
            return a + b;
          });
        }) == "kernel \"test\" uses view_store inside the combine function of a reduction or scan; combine "
              "functions only "
              "compute");
  CHECK(error_of([](View<float, 1> x) {
          auto [i] = program_tile(x, BN);
          Var<float> v = 0;
          reduce(x.tile(i).load(), BN, [&](auto a, auto b) {
            v = a;
            return a + b;
          });
        }) == "kernel \"test\" assigns a Var inside the combine function of a reduction or scan; only bodies "
              "of loops and "
              "branches may assign");
}

TEST_CASE("a view has only its own axes") {
  CHECK(error_of([](View<float, 2> x) { x.tile(0, 0).store(cast<float>(x.extent(2))); }) ==
        "kernel \"test\" requests axis 2 of a view of rank 2; axes are 0 to 1");
}

TEST_CASE("threads record at the same time") {
  std::vector<std::thread> threads;
  std::vector<std::string> texts(8);
  for (std::size_t t = 0; t < texts.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i)
        texts[t] = ir::print(*record("parallel", [](View<float, 1> x) {
          auto [i] = program_tile(x, BN);
          x.tile(i).store(exp(x.tile(i).load()));
        }));
    });
  for (auto& thread : threads)
    thread.join();
  for (const auto& text : texts)
    CHECK(text == texts[0]);
}
