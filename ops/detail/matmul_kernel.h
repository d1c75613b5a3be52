// Defines what the kernels and the calls of matmul have in common: a program's tile of c, its epilogue, which
// may be a lambda of the user, and the arguments.
#pragma once

#include <kiln/ops/detail/hook.h>
#include <kiln/ops/detail/product.h>

#include <array>

namespace kiln::ops::detail {

// The tile of the result that a program computes. Kernels of rank 3 have an axis of batches.
template <int Rank> struct ProgramTile;
template <> struct ProgramTile<2> {
  Offset<BM> m;
  Offset<BN> n;
  template <class A> static ProgramTile of(const ErasedView<A, 2>& c) {
    auto [m, n] = program_tile(c.view(), BM, BN);
    return {m, n};
  }
  template <class A, class I, class J> auto tile(const ErasedView<A, 2>& x, const I& i, const J& j) const {
    return x.tile(i, j);
  }
};
template <> struct ProgramTile<3> {
  Scalar<std::int64_t> batch;
  Offset<BM> m;
  Offset<BN> n;
  template <class A> static ProgramTile of(const ErasedView<A, 3>& c) {
    auto [batch, m, n] = program_tile(c.view(), each, BM, BN);
    return {batch, m, n};
  }
  template <class A, class I, class J> auto tile(const ErasedView<A, 3>& x, const I& i, const J& j) const {
    return x.tile(batch, i, j);
  }
};

// The last parameters are those of ProductEpilogue; for an epilogue of the user, the number of its first batch
// and its views follow.
template <class A, int Rank> class MatmulResult {
public:
  MatmulResult(const OpVariant& v, const Handle* next) : hook_(v.hook), next_(next), epilogue_(v, next_) {
    if (epilogue_.bias) expects(epilogue_.bias->size() == c().cols(), "bias's size and c's columns");
  }

  const ErasedView<A, Rank>& c() const { return epilogue_.c; }
  DotOptions dot_options() const { return epilogue_.dot_options(); }
  // Stores the result for a tile of a b.
  void store(const Tile<A, BM, BN>& sum, const ProgramTile<Rank>& at) const {
    at.tile(c(), at.m, at.n)
        .store(hook_ ? by_hook(sum, at)
                     : epilogue_.finished(
                           sum, [&](const auto& bias) { return bias.tile(at.n); },
                           [&](const auto& view) { return at.tile(view, at.m, at.n); }));
  }

private:
  static Scalar<std::int64_t> batch_of(const ProgramTile<2>&) { return 0; }
  static Scalar<std::int64_t> batch_of(const ProgramTile<3>& at) { return at.batch; }

  Tile<A, BM, BN> by_hook(const Tile<A, BM, BN>& sum, const ProgramTile<Rank>& at) const {
    const Scalar<std::int64_t> batch = batch_of(at) + Scalar<std::int64_t>(next_[0]);
    const Handle values[] = {sum.record(), batch.record(), at.m.record(), at.n.record()};
    return Tile<A, BM, BN>(record_hook(*hook_, values, next_ + 1, "ops::matmul: the epilogue"));
  }

  const Hook* hook_;
  const Handle* next_;
  ProductEpilogue<A, 1, Rank> epilogue_;
};

// A call after the checks.
struct MatmulCall : EpilogueArguments { // with c
  Array a, b;
  OpVariant variant;
  const Input* views; // of the user's epilogue
  std::int64_t first_batch = 0;

  std::array<Array*, 5> batched() { return {&c, &a, &b, &times, &residual}; } // without the bias
  // Adds the arguments of a MatmulResult.
  void add_result(OpArguments& list) const {
    add_to(list, variant.compute);
    if (variant.hook) list.add(first_batch);
    for (int i = 0; variant.hook && i < variant.hook->view_count; ++i)
      list.add(views[i]);
  }
};

} // namespace kiln::ops::detail
