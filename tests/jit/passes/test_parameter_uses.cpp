// Tests the analysis of how a kernel uses the memory behind its parameters, for every way to reach it.
#include "test_seed.h"

#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/dsl/record.h>
#include <kiln/jit/passes/parameter_uses.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <random>

using namespace kiln;

namespace {

KILN_DIM(BN);

// "r w rw -" for a kernel with four parameters: read, written, both, neither.
std::string text_of(const ir::Kernel& kernel) {
  std::string text;
  for (const passes::ParameterUse& use : passes::parameter_uses(kernel))
    text += std::string(text.empty() ? "" : " ") + (use.read && use.written ? "rw"
                                                    : use.read              ? "r"
                                                    : use.written           ? "w"
                                                                            : "-");
  return text;
}

enum class Access { none, load, store, update };
enum class Path { view, pointers, data, loop, second_loop, branch, selection };

// Builds a kernel that reaches each of its arrays in a way that is drawn, and keeps what it does with each.
class RandomAccesses {
public:
  explicit RandomAccesses(std::mt19937_64& random) : random_(random), kernel_("accesses"), b_(&kernel_.body) {
    constexpr int arrays = 5;
    for (int i = 0; i < arrays; ++i)
      views_.push_back(kernel_.body.add_arg(ir::Type::view(DType::I32, 1, false)));
    uses_.resize(arrays);
    for (int i = 0; i < arrays; ++i)
      for (auto n = random_() % 3; n > 0; --n)
        access(i, static_cast<Access>(random_() % 4), static_cast<Path>(random_() % 7));
  }

  const ir::Kernel& kernel() const { return kernel_; }
  std::string uses() const {
    std::string text;
    for (const passes::ParameterUse& use : uses_)
      text += std::string(text.empty() ? "" : " ") + (use.read && use.written ? "rw"
                                                      : use.read              ? "r"
                                                      : use.written           ? "w"
                                                                              : "-");
    return text;
  }

private:
  static ir::Type pointers() { return ir::Type::pointer_to(DType::I32, false, {ir::Dim(8)}); }
  static ir::Type tile(DType t) { return ir::Type::tile(t, {ir::Dim(8)}); }
  ir::Value* offsets() { return b_.splat(b_.index(1), {ir::Dim(8)}); }

  ir::Value* data(int i) {
    ir::Value* first =
        b_.create(ir::Opcode::ViewData, {views_[i]}, {ir::Type::pointer_to(DType::I32, false)})->result();
    return b_.create(ir::Opcode::PtrAdd, {b_.splat(first, {ir::Dim(8)}), offsets()}, {pointers()})->result();
  }
  // Pointers that a loop carries and moves, or with `swapped` that it exchanges with another pair.
  ir::Value* carried(ir::Value* first, ir::Value* second) {
    ir::Op* loop = b_.create(ir::Opcode::For, {b_.index(0), b_.index(3), b_.index(1), first, second},
                             {pointers(), pointers()});
    ir::Region* outer = b_.region();
    ir::Region* body = loop->add_region();
    body->add_arg(ir::Type::scalar(DType::I64));
    ir::Value* x = body->add_arg(pointers());
    ir::Value* y = body->add_arg(pointers());
    b_.set_region(body);
    ir::Value* moved = b_.create(ir::Opcode::PtrAdd, {x, offsets()}, {pointers()})->result();
    b_.yield({y, moved});
    b_.set_region(outer);
    return loop->result(0);
  }
  ir::Value* branch(ir::Value* x, ir::Value* y) {
    ir::Op* op = b_.create(ir::Opcode::If, {b_.constant(DType::Bool, std::int64_t{1})}, {pointers()});
    ir::Region* outer = b_.region();
    for (ir::Value* v : {x, y}) {
      b_.set_region(op->add_region());
      b_.yield({v});
    }
    b_.set_region(outer);
    return op->result();
  }

  void access(int i, Access what, Path path) {
    if (what == Access::none) return;
    std::vector<int> reached = {i};
    ir::Value* p = nullptr;
    const int other = static_cast<int>(random_() % views_.size());
    switch (path) {
    case Path::view: return by_view(i, what);
    case Path::pointers: {
      ir::Op* op = b_.create(ir::Opcode::ViewPtrs, {views_[i], b_.index(0)}, {pointers()});
      op->set("axes", std::vector<std::int64_t>{0});
      p = op->result();
      break;
    }
    case Path::data: p = data(i); break;
    case Path::loop: p = carried(data(i), data(i)); break;
    case Path::second_loop: // the loop exchanges them
      p = carried(data(i), data(other));
      reached.push_back(other);
      break;
    case Path::branch:
      p = branch(data(i), data(other));
      reached.push_back(other);
      break;
    case Path::selection:
      p = b_.create(ir::Opcode::Select,
                    {b_.splat(b_.constant(DType::Bool, std::int64_t{0}), {ir::Dim(8)}), data(i), data(other)},
                    {pointers()})
              ->result();
      reached.push_back(other);
      break;
    }
    ir::Value* value = b_.splat(b_.constant(DType::I32, std::int64_t{1}), {ir::Dim(8)});
    if (what == Access::load) {
      b_.create(ir::Opcode::Load, {p}, {tile(DType::I32)});
    } else if (what == Access::store) {
      b_.create(ir::Opcode::Store, {p, value}, {});
    } else {
      ir::Op* op = b_.create(ir::Opcode::AtomicRmw, {p, value}, {tile(DType::I32)});
      op->set("kind", std::string("add"));
      op->set("order", std::string("relaxed"));
      op->set("scope", std::string("gpu"));
    }
    for (int r : reached)
      note(r, what);
  }
  void by_view(int i, Access what) {
    ir::Value* value = b_.splat(b_.constant(DType::I32, std::int64_t{1}), {ir::Dim(8)});
    if (what == Access::load) {
      b_.create(ir::Opcode::ViewGather, {views_[i], offsets()}, {tile(DType::I32)});
      return note(i, what);
    }
    b_.create(ir::Opcode::ViewScatter, {views_[i], value, offsets()}, {});
    note(i, Access::store);
  }
  void note(int i, Access what) {
    uses_[static_cast<std::size_t>(i)].read |= what != Access::store;
    uses_[static_cast<std::size_t>(i)].written |= what != Access::load;
  }

  std::mt19937_64& random_;
  ir::Kernel kernel_;
  ir::Builder b_;
  std::vector<ir::Value*> views_;
  std::vector<passes::ParameterUse> uses_;
};

} // namespace

TEST_CASE("reads and writes through views, indices and pointers are found") {
  const auto views =
      record("views", [](View<const float, 1> x, View<float, 1> y, View<float, 1> z, View<float, 1> u) {
        auto [i] = program_tile(x, BN);
        y.tile(i).store(x.tile(i).load() + z.tile(i).load());
      });
  CHECK(text_of(*views) == "r w r -");
  const auto indices = record(
      "indices", [](View<const std::int32_t, 1> x, View<float, 1> y, View<float, 1> z, View<float, 1> u) {
        auto [i] = program_tile(x, BN);
        auto at = cast<std::int64_t>(x.tile(i).load());
        y.at(at).store(z.at(at).load());
        u.at(at).atomic_add(full<float>(1, BN));
      });
  CHECK(text_of(*indices) == "r w r rw");
  const auto pointers =
      record("pointers", [](raw::Ptr<const float> p, raw::Ptr<float> q, View<float, 1> x, View<float, 1> y) {
        auto i = program_id(0) * BN + arange(BN);
        raw::store(q + i, raw::load(p + i));
        raw::store(x.data() + i, raw::load(x.data() + i) * 2.0f);
        raw::store(y.data() + i, zeros<float>(BN));
      });
  CHECK(text_of(*pointers) == "r w rw w");
  const auto scalars = record("scalars", [](Scalar<float> a, raw::Ptr<float> p, Scalar<std::int64_t> n) {
    raw::atomic_max(p + n, a);
  });
  CHECK(text_of(*scalars) == "- rw -");
}

TEST_CASE("a view that a function takes is used as the function uses it") {
  const auto doubled = [](auto view, auto i) { view.tile(i).store(view.tile(i).load() * 2.0f); };
  const auto kernel = record("function", [&](View<float, 1> x, View<float, 1> y) {
    auto [i] = program_tile(x, BN);
    doubled(y, i);
  });
  CHECK(text_of(*kernel) == "- rw");
}

TEST_CASE("the uses of arrays are found however random kernels reach them") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const RandomAccesses accesses(random);
    INFO(ir::print(accesses.kernel()));
    REQUIRE(ir::problems(accesses.kernel()).empty());
    REQUIRE(text_of(accesses.kernel()) == accesses.uses());
  }
}
