// Tests that code grows linearly with the operations of a kernel that reads tiles through several index maps,
// as sorting networks and FFTs do, and that such kernels are right.
#include "jit/cpu/cpu_runner.h"
#include "random_numbers.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <dsl/kernel_arguments.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/cpu/tuning.h>

#include <numeric>
#include <random>
#include <sstream>

using namespace kiln;
using namespace kiln::ir;

namespace {

constexpr std::int64_t elements = 256;

// A kernel of one program that computes with tiles of 256 integers.
class Growing {
public:
  explicit Growing(std::mt19937_64& random) : number_(random) {
    Value* x = kernel.body.add_arg(Type::view(DType::I32, 1, true));
    y_ = kernel.body.add_arg(Type::view(DType::I32, 1, false));
    for (int i = 0; i < 3; ++i)
      tiles_.push_back(load(x, i * elements));
  }

  void grow(int operations) {
    while (count() < operations)
      tiles_.push_back(step());
    for (int i = 0; i < 3; ++i)
      store(tiles_[tiles_.size() - 1 - static_cast<std::size_t>(i)], i * elements);
    verify(kernel);
  }
  int count() {
    int n = 0;
    walk(kernel.body, [&](const Op&) { ++n; });
    return n;
  }

  Kernel kernel{"growing"};

private:
  using Extents = std::vector<std::int64_t>;

  static Type type(const Extents& extents, DType t = DType::I32) {
    Shape shape;
    for (std::int64_t e : extents)
      shape.push_back(Dim(e));
    return Type::tile(t, shape);
  }
  static Extents extents_of(const Value* v) {
    Extents found;
    for (const Dim& d : v->type.shape)
      found.push_back(d.value());
    return found;
  }
  Value* load(Value* x, std::int64_t at) {
    Op* op = b_.create(Opcode::ViewLoad, {x, b_.index(at)}, {type({elements})});
    op->set("axes", std::vector<std::int64_t>{0});
    return op->result();
  }
  void store(Value* v, std::int64_t at) {
    Op* op = b_.create(Opcode::ViewStore, {y_, v, b_.index(at)}, {});
    op->set("axes", std::vector<std::int64_t>{0});
  }
  Value* reshape(Value* v, const Extents& to) {
    return b_.create(Opcode::Reshape, {v}, {type(to)})->result();
  }
  Value* permute(Value* v, const std::vector<std::int64_t>& order) {
    const Extents from = extents_of(v);
    Extents to;
    for (std::int64_t axis : order)
      to.push_back(from[static_cast<std::size_t>(axis)]);
    Op* op = b_.create(Opcode::Permute, {v}, {type(to)});
    op->set("order", order);
    return op->result();
  }
  Value* extract(Value* v, std::int64_t axis, std::int64_t index) {
    Extents to = extents_of(v);
    to.erase(to.begin() + axis);
    Op* op = b_.create(Opcode::Extract, {v}, {type(to)});
    op->set("axis", axis);
    op->set("index", index);
    return op->result();
  }
  // a and b in turn along a new axis of two elements.
  Value* interleave(Value* a, Value* b) {
    Extents one = extents_of(a), two = one;
    one.push_back(1), two.push_back(2);
    auto widened = [&](Value* v) {
      Op* expanded = b_.create(Opcode::ExpandDims, {v}, {type(one)});
      expanded->set("axis", static_cast<std::int64_t>(one.size() - 1));
      return b_.broadcast(expanded->result(), type(two).shape);
    };
    Op* range = b_.create(Opcode::Arange, {}, {type({2})});
    range->set("start", std::int64_t{0});
    Value* first = b_.binary(Opcode::Eq, range->result(),
                             b_.splat(b_.constant(DType::I32, std::int64_t{0}), range->result()->type.shape));
    return b_.select(b_.broadcast(first, type(two).shape), widened(a), widened(b));
  }
  Opcode operation() {
    constexpr Opcode all[] = {Opcode::Add, Opcode::Sub, Opcode::Xor, Opcode::Min, Opcode::Max, Opcode::Mul};
    return all[number_(0, 5)];
  }
  // Mostly one of the newest tiles, so that the program becomes deep.
  Value* any() {
    const auto newest = static_cast<std::int64_t>(tiles_.size());
    return tiles_[static_cast<std::size_t>(
        number_(std::max<std::int64_t>(0, newest - number_(1, 8)), newest - 1))];
  }
  Value* step() {
    const std::int64_t half = std::int64_t{1} << number_(1, 7), rest = elements / 2 / half;
    switch (number_(0, 6)) {
    case 0:
    case 1: return b_.binary(operation(), any(), any());
    case 2: return reshape(permute(reshape(any(), {2 * half, rest}), {1, 0}), {elements});
    case 3: { // partners at a distance, as in a sorting network
      Value* v = reshape(any(), {rest, 2, half});
      Value *low = extract(v, 1, 0), *high = extract(v, 1, 1);
      Value* both = interleave(b_.binary(Opcode::Min, low, high), b_.binary(Opcode::Max, low, high));
      return reshape(permute(both, {0, 2, 1}), {elements});
    }
    case 4: { // a butterfly whose results are next to each other
      Value* v = permute(reshape(any(), {2, elements / 2}), {1, 0});
      Value *a = extract(v, 1, 0), *c = extract(v, 1, 1);
      return reshape(interleave(b_.binary(Opcode::Add, a, c), b_.binary(Opcode::Sub, a, c)), {elements});
    }
    case 5: { // partners that an index names
      Op* range = b_.create(Opcode::Arange, {}, {type({elements})});
      range->set("start", std::int64_t{0});
      Value* flip = b_.splat(b_.constant(DType::I32, number_(0, elements - 1)), range->result()->type.shape);
      Value* v = any();
      Op* op = b_.create(Opcode::Gather, {v, b_.binary(Opcode::Xor, range->result(), flip)}, {v->type});
      op->set("axis", std::int64_t{0});
      return b_.binary(operation(), v, op->result());
    }
    default: { // sums of all pairs of a row and a column, of which the diagonal is one element of each
      Value* v = reshape(any(), {16, 16});
      return reshape(b_.binary(operation(), v, permute(v, {1, 0})), {elements});
    }
    }
  }

  test::RandomIntegers number_;
  Builder b_{&kernel.body};
  Value* y_ = nullptr;
  std::vector<Value*> tiles_;
};

struct CodeSize { // in LLVM instructions
  std::size_t emitted = 0;
  std::size_t largest_function = 0, largest_block = 0; // after optimization
};

CodeSize code_size_of(const Kernel& kernel) {
  passes::PassOptions options;
  options.layouts = {LayoutClass::Unit, LayoutClass::Unit};
  const auto lowered = passes::lower_generic(kernel, options);
  const auto code = cpu::compile(*lowered, cpu::host_target(), {.keep_llvm = true});
  CodeSize size;
  for (std::size_t at = 0; (at = code.llvm_before.find("\n  ", at)) != std::string::npos; ++at)
    ++size.emitted;
  std::size_t in_function = 0, in_block = 0;
  std::istringstream lines(code.llvm_after);
  for (std::string line; std::getline(lines, line);) {
    const bool instruction = line.starts_with("  ");
    in_block = instruction ? in_block + 1 : 0;
    in_function = instruction ? in_function + 1 : line.starts_with("define") ? 0 : in_function;
    size.largest_function = std::max(size.largest_function, in_function);
    size.largest_block = std::max(size.largest_block, in_block);
  }
  return size;
}

} // namespace

TEST_CASE("code grows linearly with operations that read tiles through several index maps") {
  const std::uint64_t seed = test::fresh_seed();
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  for (int operations : {10, 40, 160, 600, 2000}) {
    Growing growing(random);
    growing.grow(operations);
    CAPTURE(operations);
    const CodeSize size = code_size_of(growing.kernel);
    WARN(growing.count() << " operations: " << size.emitted << " instructions, " << size.largest_function
                         << " of them in one function");
    CHECK(size.emitted < 2000 + 200 * static_cast<std::size_t>(growing.count()));
    CHECK(size.largest_function < 2 * cpu::tuning::max_whole_instructions);
    std::vector<std::int32_t> x(3 * elements), y(3 * elements);
    for (std::int32_t& e : x)
      e = static_cast<std::int32_t>(random());
    test::Arguments()
        .view(x.data(), {3 * elements})
        .view(y.data(), {3 * elements})
        .run_on(growing.kernel, {1});
  }
}

TEST_CASE("long chains become several nests, by the size of their code") {
  constexpr std::int64_t lanes = 64;
  const auto chain = [](DType t, auto step) {
    auto kernel = std::make_unique<Kernel>("chain");
    Builder b(&kernel->body);
    Value* x = kernel->body.add_arg(Type::view(t, 1, true));
    Value* y = kernel->body.add_arg(Type::view(t, 1, false));
    const auto load = [&](std::int64_t at) {
      Op* op = b.create(Opcode::ViewLoad, {x, b.index(at)}, {Type::tile(t, {Dim(lanes)})});
      op->set("axes", std::vector<std::int64_t>{0});
      return op->result();
    };
    Value* v = load(0);
    for (int i = 1; i < 1000; ++i)
      v = step(b, load, v, i);
    Op* store = b.create(Opcode::ViewStore, {y, v, b.index(0)}, {});
    store->set("axes", std::vector<std::int64_t>{0});
    verify(*kernel);
    return code_size_of(*kernel);
  };
  const CodeSize divisions = chain(DType::I64, [](Builder& b, const auto&, Value* v, int i) {
    return b.binary(Opcode::Div, b.splat(b.constant(DType::I64, std::int64_t{1} << 40 | i), v->type.shape),
                    v);
  });
  CHECK(divisions.largest_block < 300);
  const CodeSize loads = chain(DType::F32, [](Builder& b, const auto& load, Value* v, int i) {
    return b.binary(Opcode::Add, v, load(100 * i));
  });
  CHECK(loads.largest_block < 8000);
  CHECK(loads.largest_function < 2 * cpu::tuning::max_whole_instructions);
  const CodeSize sums =
      chain(DType::BF16, [](Builder& b, const auto&, Value* v, int) { return b.binary(Opcode::Add, v, v); });
  CHECK(sums.emitted < 20000); // calls: inlined, they would be 40000
  CAPTURE(divisions.largest_block, loads.largest_block, sums.emitted);
}

TEST_CASE("long functions of which a kernel has many become calls, with the same results") {
  constexpr std::int64_t count = 100;
  // Applies a chain of two functions to each element, several times.
  auto repeated = [&](int times) {
    auto kernel = std::make_unique<Kernel>("functions");
    Builder b(&kernel->body);
    Value* x = kernel->body.add_arg(Type::view(DType::F32, 1, true));
    Value* y = kernel->body.add_arg(Type::view(DType::F32, 1, false));
    Op* load = b.create(Opcode::ViewLoad, {x, b.index(0)}, {Type::tile(DType::F32, {Dim(count)})});
    load->set("axes", std::vector<std::int64_t>{0});
    Value* v = load->result();
    Value* large =
        b.splat(b.constant(DType::F32, 1e6), v->type.shape); // also takes sin's path for huge angles
    for (int i = 0; i < times; ++i)
      v = b.unary(Opcode::Sin, b.binary(Opcode::Mul, b.unary(Opcode::Tanh, v), large));
    Op* store = b.create(Opcode::ViewStore, {y, v, b.index(0)}, {});
    store->set("axes", std::vector<std::int64_t>{0});
    verify(*kernel);
    return kernel;
  };
  auto llvm_of = [](const Kernel& kernel) {
    passes::PassOptions options;
    options.layouts = {LayoutClass::Unit, LayoutClass::Unit};
    return cpu::compile(*passes::lower_generic(kernel, options), cpu::host_target(), {.keep_llvm = true})
        .llvm_before;
  };
  const auto many = repeated(40), few = repeated(2);
  CHECK(llvm_of(*many).find("@kiln.sin.f32.f32x") != std::string::npos);
  CHECK(llvm_of(*few).find("@kiln.sin.") == std::string::npos);

  test::Random random;
  KILN_SEED(random);
  std::vector<float> x(count), y(count), expected(count);
  for (float& e : x)
    e = static_cast<float>(random.uniform(-2, 2));
  expected = x;
  auto run = [&](const Kernel& kernel, std::vector<float>& from, std::vector<float>& to) {
    test::CpuKernel compiled(kernel, {}, {LayoutClass::Unit, LayoutClass::Unit});
    const std::uint64_t words[] = {reinterpret_cast<std::uintptr_t>(from.data()), count, 1,
                                   reinterpret_cast<std::uintptr_t>(to.data()),   count, 1};
    compiled.run(words, {1});
  };
  for (int i = 0; i < 20; ++i)
    run(*few, expected, expected);
  run(*many, x, y);
  CHECK(y == expected);
}
