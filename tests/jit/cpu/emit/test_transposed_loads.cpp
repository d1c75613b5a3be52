// Tests transposed loads, which are contiguous along the loop around the vector loop.
#include "left_out.h"
#include "random_numbers.h"
#include "test_seed.h"

#include <kiln/jit/emit/transpose.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>
#include <llvm/IR/Constants.h>

#include <cstring>
#include <functional>
#include <random>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BP);

// A matrix whose rows, or columns, have a stride of their own.
template <class T> struct Matrix {
  std::vector<T> memory;
  TensorView<T, 2> view;

  Matrix(std::int64_t rows, std::int64_t columns, bool by_columns, std::int64_t gap, std::mt19937_64& random)
      : memory(static_cast<std::size_t>((rows + gap) * (columns + gap))),
        view(by_columns ? TensorView<T, 2>(memory.data(), {rows, columns}, {1, rows + gap})
                        : TensorView<T, 2>(memory.data(), {rows, columns}, {columns + gap, 1})) {
    for (T& x : memory)
      x = T(static_cast<float>(random() % 16));
  }
  T& at(std::int64_t i, std::int64_t j) { return view.data()[i * view.stride(0) + j * view.stride(1)]; }
};

// Runs one of `one_of` cases, drawn at random.
template <class T> void transposes_exactly(std::mt19937_64& random, unsigned one_of = 1) {
  // The launch gives the grid, so that tiles have the sizes below.
  const auto both = kernel("both", [](View<const T, 2> x, View<const T, 2> w, View<T, 2> z) {
    auto i = program_id(0) * BM;
    auto j = program_id(1) * BN;
    z.tile(i, j).store(trans(x.tile(j, i).load()) + w.tile(i, j).load());
  });
  test::RandomIntegers number{random};
  Stream stream;
  for (auto [bm, bn] : {std::pair{16, 16}, {32, 16}, {8, 64}, {48, 24}, {64, 64}, {50, 20}, {4, 4}})
    for (int layouts = 0; layouts < 8; ++layouts) {
      if (random() % one_of != 0 || test::left_out(random)) continue;
      const std::int64_t rows = number(1, 130), columns = number(1, 130);
      CAPTURE(bm, bn, layouts, rows, columns);
      Matrix<T> x(columns, rows, (layouts & 1) != 0, number(0, 3), random);
      Matrix<T> w(rows, columns, (layouts & 2) != 0, number(0, 3), random);
      Matrix<T> z(rows, columns, (layouts & 4) != 0, number(0, 3), random);
      both.launch(stream, {BM = bm, BN = bn}, Grid{(rows + bm - 1) / bm, (columns + bn - 1) / bn}, x.view,
                  w.view, z.view);
      stream.synchronize();
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
          if (float(z.at(i, j)) != float(x.at(j, i)) + float(w.at(i, j)))
            FAIL("row " << i << ", column " << j);
    }
}

// Reduces the rows of transposed matrices, and compares the bits with those for the same rows one after the
// other in memory.
template <class T> void reduces_alike(std::mt19937_64& random) {
  using A = std::conditional_t<(sizeof(T) < sizeof(float)), float, T>;
  const auto weights = kernel("weights", [](View<const T, 2> x, View<T, 2> y, View<A, 1> sums) {
    auto [row] = program_tile(x, BM);
    auto column = offset(BN, 0);
    Tile t = cast<A>(x.tile(row, column).load_or(T(-20.0f)));
    Tile e = (max(t, BN, keep) - t) * (t + A(21)); // integers, whose sums are exact in any order
    Tile total = sum(e, BN);
    sums.tile(row).store(total);
    y.tile(row, column).store(cast<T>(e * (A(100) / (expand<1>(total) + A(1)))));
  });
  test::RandomIntegers number{random};
  Stream stream;
  for (auto [bm, bn] : {std::pair{32, 128}, {64, 256}, {16, 64}, {40, 130}})
    for (bool turned_y : {false, true}) {
      const std::int64_t rows = number(1, 150), columns = number(1, bn);
      CAPTURE(bm, bn, turned_y, rows, columns);
      Matrix<T> x(rows, columns, false, 0, random), y(rows, columns, false, 0, random);
      Matrix<T> of_x(rows, columns, true, number(0, 3), random);
      Matrix<T> of_y(rows, columns, turned_y, number(0, 3), random);
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
          of_x.at(i, j) = x.at(i, j);
      const auto before = of_y.memory;
      std::vector<A> sums(static_cast<std::size_t>(rows)), of_sums(sums.size());
      weights.launch(stream, {BM = bm, BN = bn}, x.view, y.view, TensorView(sums));
      weights.launch(stream, {BM = bm, BN = bn}, of_x.view, of_y.view, TensorView(of_sums));
      stream.synchronize();
      CHECK(std::memcmp(sums.data(), of_sums.data(), sums.size() * sizeof(A)) == 0);
      std::vector<bool> written(before.size());
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j) {
          written[static_cast<std::size_t>(&of_y.at(i, j) - of_y.memory.data())] = true;
          if (std::memcmp(&y.at(i, j), &of_y.at(i, j), sizeof(T)) != 0) FAIL("row " << i << ", column " << j);
        }
      for (std::size_t k = 0; k < before.size(); ++k)
        if (!written[k] && float(of_y.memory[k]) != float(before[k])) FAIL("the gap at " << k);
    }
}

} // namespace

TEST_CASE("rows of transposed matrices are reduced to the same bits as those of others") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  SECTION("f32") { reduces_alike<float>(random); }
  SECTION("f64") { reduces_alike<double>(random); }
  SECTION("bf16") { reduces_alike<bf16>(random); }
  SECTION("f16") { reduces_alike<f16>(random); }
  SECTION("i8") { reduces_alike<std::int8_t>(random); }
}

TEST_CASE(
    "transposed matrices of every element type are read where they lie, whatever their strides and edges") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  SECTION("f32") { transposes_exactly<float>(random); }
  SECTION("f64") { transposes_exactly<double>(random); }
  SECTION("bf16") { transposes_exactly<bf16>(random); }
  SECTION("i8") { transposes_exactly<std::int8_t>(random); }
  // Elements of the same sizes as those above are moved by the same instructions.
  SECTION("f16") { transposes_exactly<f16>(random, 4); }
  SECTION("i32") { transposes_exactly<std::int32_t>(random, 4); }
  SECTION("i64") { transposes_exactly<std::int64_t>(random, 4); }
}

TEST_CASE("a matrix is transposed in place by one program") {
  const auto turn = kernel("turn", [](View<float, 2> x) {
    auto m = offset(BM, 0);
    x.tile(m, m).store(trans(x.tile(m, m).load()) * 2.0f);
  });
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Stream stream;
  for (std::int64_t n : {1, 16, 47, 64}) {
    Matrix<float> x(n, n, false, n % 3, random);
    const auto before = x.memory;
    turn.launch(stream, {BM = 64}, Grid{1}, x.view);
    stream.synchronize();
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        REQUIRE(x.at(i, j) == 2 * before[static_cast<std::size_t>(j * x.view.stride(0) + i)]);
  }
}

TEST_CASE("a tile and its transpose are added, whichever is read first and however the matrix lies") {
  const auto transpose_first = kernel("transpose first", [](View<const float, 2> x, View<float, 2> y) {
    auto m = program_id(0) * BM;
    Tile t = x.tile(m, m).load();
    y.tile(m, m).store(trans(t) * 100.0f + t);
  });
  const auto tile_first = kernel("tile first", [](View<const float, 2> x, View<float, 2> y) {
    auto m = program_id(0) * BM;
    y.tile(m, m).store(x.tile(m, m).load() + trans(x.tile(m, m).load()) * 100.0f);
  });
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Stream stream;
  for (bool by_columns : {false, true})
    for (std::int64_t n : {5, 16, 47, 64}) {
      Matrix<float> x(n, n, by_columns, 1, random), y(n, n, false, 0, random);
      for (const auto& launch :
           {std::function([&] { transpose_first.launch(stream, {BM = 64}, Grid{1}, x.view, y.view); }),
            std::function([&] { tile_first.launch(stream, {BM = 64}, Grid{1}, x.view, y.view); })}) {
        launch();
        stream.synchronize();
        CAPTURE(by_columns, n);
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j < n; ++j)
            REQUIRE(y.at(i, j) == x.at(j, i) * 100 + x.at(i, j));
      }
    }
}

TEST_CASE("transposed loads agree with masks, other values, tiles in scratch and further axes") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Stream stream;
  const std::int64_t m = 45, n = 70, p = 5;

  SECTION("out of bounds and masked elements have the value that the kernel gives") {
    const auto padded =
        kernel("padded", [](View<const float, 2> x, View<float, 2> z, Scalar<std::int64_t> most) {
          auto [i, j] = program_tile(z, BM, BN);
          Tile whole = trans(x.tile(j, i).load_or(-1.0f));
          Tile part = trans(x.tile(j, i).load(expand<1>(j + arange(BN)) < most, 50.0f));
          z.tile(i, j).store(whole * 100.0f + part);
        });
    Matrix<float> x(n, m, false, 1, random), z(m + 20, n + 20, false, 2, random);
    padded.launch(stream, {BM = 32, BN = 16}, x.view, z.view, 33);
    stream.synchronize();
    for (std::int64_t i = 0; i < m + 20; ++i)
      for (std::int64_t j = 0; j < n + 20; ++j) {
        const bool inside = i < m && j < n;
        const float whole = inside ? x.at(j, i) : -1.0f, part = inside && j < 33 ? x.at(j, i) : 50.0f;
        REQUIRE(z.at(i, j) == whole * 100 + part);
      }
  }
  SECTION("functions of transposed loads, used twice") {
    const auto twice = kernel("twice", [](View<const float, 2> x, View<float, 2> y, View<float, 2> z) {
      auto [i, j] = program_tile(z, BM, BN);
      Tile e = exp(trans(x.tile(j, i).load()) * 0.25f);
      y.tile(i, j).store(e);
      z.tile(i, j).store(e + 1.0f);
    });
    Matrix<float> x(n, m, false, 1, random), y(m, n, false, 0, random), z(m, n, false, 2, random);
    twice.launch(stream, {BM = 32, BN = 64}, x.view, y.view, z.view);
    stream.synchronize();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        REQUIRE(y.at(i, j) == Approx(std::exp(x.at(j, i) * 0.25f)).epsilon(1e-6));
        REQUIRE(z.at(i, j) == y.at(i, j) + 1);
      }
  }
  SECTION("the inner axes of three, and the outer ones") {
    const auto turned = kernel("turned", [](View<const float, 3> x, View<float, 3> y, View<float, 3> z) {
      auto [i, j] = program_tile(y, BP, BM); // y: [p, m, n], z: [n, m, p]; x: [p, n, m]
      auto k = offset(BN, 0);
      Tile t = x.tile(i, k, j).load();
      y.tile(i, j, k).store(permute<0, 2, 1>(t));
      z.tile(k, j, i).store(permute<1, 2, 0>(t));
    });
    std::vector<float> x(static_cast<std::size_t>(m * n * p)), y(x.size()), z(x.size());
    for (float& v : x)
      v = static_cast<float>(random() % 1000);
    turned.launch(stream, {BP = 4, BM = 16, BN = 128}, TensorView<float, 3>(x.data(), {p, n, m}),
                  TensorView<float, 3>(y.data(), {p, m, n}), TensorView<float, 3>(z.data(), {n, m, p}));
    stream.synchronize();
    for (std::int64_t i = 0; i < p; ++i)
      for (std::int64_t j = 0; j < m; ++j)
        for (std::int64_t k = 0; k < n; ++k) {
          const float expected = x[static_cast<std::size_t>((i * n + k) * m + j)];
          REQUIRE(y[static_cast<std::size_t>((i * m + j) * n + k)] == expected);
          REQUIRE(z[static_cast<std::size_t>((k * m + j) * p + i)] == expected);
        }
  }
}

TEST_CASE("square matrices of constants are transposed in registers") {
  llvm::LLVMContext context;
  emit::IRBuilder b(context);
  for (unsigned bits : {8U, 16U, 32U, 64U})
    for (unsigned n : {2U, 4U, 8U, 16U})
      for (int block_bits : {128, 256, 512}) {
        llvm::Type* element = b.getIntNTy(bits);
        auto number = [&](unsigned i, unsigned j) { return llvm::ConstantInt::get(element, n * i + j); };
        emit::Values rows;
        for (unsigned i = 0; i < n; ++i) {
          std::vector<llvm::Constant*> row;
          for (unsigned j = 0; j < n; ++j)
            row.push_back(number(i, j));
          rows.push_back(llvm::ConstantVector::get(row));
        }
        const auto columns = emit::transposed(b, rows, block_bits);
        REQUIRE(columns.size() == n);
        CAPTURE(bits, n, block_bits);
        for (unsigned i = 0; i < n; ++i)
          for (unsigned j = 0; j < n; ++j)
            CHECK(llvm::cast<llvm::Constant>(columns[i])->getAggregateElement(j) == number(j, i));
      }
}
