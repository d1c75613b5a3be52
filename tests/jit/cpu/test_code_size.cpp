// Tests that code size and compile time grow linearly with the kernel.
#include "cpu_runner.h"

#include <catch2/catch.hpp>
#include <dsl/kernel_arguments.h>
#include <kiln/dsl/ir/verifier.h>

#include <chrono>
#include <pthread.h>

using namespace kiln;
using namespace kiln::ir;
using test::Arguments;

namespace {

double compile_seconds(const Kernel& kernel) {
  auto begin = std::chrono::steady_clock::now();
  test::CpuKernel compiled(kernel, {}, {LayoutClass::Unit, LayoutClass::Unit});
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Long { // a kernel that reads one tile of %x, and stores its result in %y
  Kernel kernel{"long"};
  Builder b{&kernel.body};
  Value *x, *y, *zero, *tile;
  explicit Long(std::int64_t elements = 64) {
    x = kernel.body.add_arg(Type::view(DType::F32, 1, true));
    y = kernel.body.add_arg(Type::view(DType::F32, 1, false));
    zero = b.index(0);
    Op* load = b.create(Opcode::ViewLoad, {x, zero}, {Type::tile(DType::F32, {Dim(elements)})});
    load->set("axes", std::vector<std::int64_t>{0});
    tile = load->result();
  }
  void store(Value* v, Value* at) {
    Op* op = b.create(Opcode::ViewStore, {y, v, at}, {});
    op->set("axes", std::vector<std::int64_t>{0});
  }
};

} // namespace

TEST_CASE("the code of a sort does not grow with the length of its lines") {
  auto seconds = [](std::int64_t elements) {
    Long k(elements);
    Op* sort = k.b.create(Opcode::Sort, {k.tile}, {k.tile->type, k.tile->type.with_dtype(DType::I32)});
    sort->set("axis", std::int64_t{0});
    k.store(sort->result(0), k.zero);
    k.store(k.b.cast(sort->result(1), DType::F32), k.b.index(elements));
    return compile_seconds(k.kernel);
  };
  const double shortest = std::min(seconds(256), seconds(256));
  const double longest = std::min(seconds(65536), seconds(65536));
  CAPTURE(shortest, longest);
  CHECK(longest < 2 * shortest + 0.5);
}

TEST_CASE("code grows linearly with the kernel: long chains, diamonds, many stores, deep branches") {
  { // every operation uses the one before twice, and no use can be folded
    Long k;
    Value* v = k.tile;
    for (int i = 0; i < 2000; ++i)
      v = k.b.binary(i % 2 ? Opcode::Mul : Opcode::Add, v, i % 3 ? v : k.tile);
    k.store(v, k.zero);
    double seconds = compile_seconds(k.kernel);
    WARN("chain of 2000 operations: " << seconds << " s");
    CHECK(seconds < 60);
    std::vector<float> x(64, 0.25f), y(64);
    Arguments().view(x.data(), {64}).view(y.data(), {64}).run_on(k.kernel, {1});
  }
  { // pieces of a chain share a nest, which must not evaluate them recursively, since the stack is small
    Long k;
    Value* v = k.tile;
    for (int i = 0; i < 6000; ++i)
      v = k.b.binary(i % 2 ? Opcode::Mul : Opcode::Add, v, i % 3 ? v : k.tile);
    k.store(v, k.zero);
    auto compile = [](void* kernel) -> void* {
      compile_seconds(*static_cast<const Kernel*>(kernel));
      return nullptr;
    };
    pthread_attr_t attributes;
    REQUIRE(pthread_attr_init(&attributes) == 0);
    REQUIRE(pthread_attr_setstacksize(&attributes, std::size_t{2} << 20) == 0);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, &attributes, compile, &k.kernel) == 0);
    REQUIRE(pthread_join(thread, nullptr) == 0);
    REQUIRE(pthread_attr_destroy(&attributes) == 0);
  }
  {
    Long k;
    for (int i = 0; i < 200; ++i)
      k.store(
          k.b.binary(Opcode::Add, k.tile, k.b.splat(k.b.constant(DType::F32, i * 0.5), k.tile->type.shape)),
          k.b.index(i * 64));
    double seconds = compile_seconds(k.kernel);
    WARN("200 stores: " << seconds << " s");
    CHECK(seconds < 60);
  }
  {
    Long k;
    std::vector<Region*> open;
    for (int i = 0; i < 64; ++i) {
      Op* extent = k.b.create(Opcode::ViewExtent, {k.x}, {Type::scalar(DType::I64)});
      extent->set("axis", std::int64_t{0});
      Op* branch = k.b.create(Opcode::If, {k.b.binary(Opcode::Gt, extent->result(), k.b.index(i))}, {});
      open.push_back(branch->add_region());
      Builder(branch->add_region()).yield({});
      k.b.set_region(open.back());
      k.store(k.b.unary(Opcode::Neg, k.tile), k.b.index(i));
    }
    for (Region* region : open)
      Builder(region).yield({});
    verify(k.kernel);
    double seconds = compile_seconds(k.kernel);
    WARN("64 nested branches: " << seconds << " s");
    CHECK(seconds < 60);
  }
}

TEST_CASE("code does not grow with the size of tiles") {
  double smallest = 0;
  for (std::int64_t elements = 64; elements <= std::int64_t{1} << 20; elements *= 16) {
    Long k(elements);
    Value* e = k.b.unary(Opcode::Exp, k.tile);
    k.store(k.b.binary(Opcode::Mul, e, k.tile), k.zero);
    double seconds = compile_seconds(k.kernel);
    WARN("tiles of " << elements << " elements: " << 1000 * seconds << " ms");
    if (elements == 64) smallest = seconds;
    CHECK(seconds < 10 * smallest + 0.5);
  }
}

TEST_CASE("tiles that need too much scratch memory are an error that names their size") {
  Kernel kernel("big");
  Builder b(&kernel.body);
  Value* x = kernel.body.add_arg(Type::view(DType::F64, 1, false));
  Value* zero = b.index(0);
  for (int i = 0; i < 3; ++i) { // each tile is loaded, and its memory is overwritten before it is used
    Op* load = b.create(Opcode::ViewLoad, {x, zero}, {Type::tile(DType::F64, {Dim(std::int64_t{1} << 28)})});
    load->set("axes", std::vector<std::int64_t>{0});
    Op* scan = b.create(Opcode::Scan, {load->result()}, {load->result()->type});
    scan->set("axis", std::int64_t{0});
    Region* region = scan->add_region();
    Value* p = region->add_arg(Type::scalar(DType::F64));
    Value* q = region->add_arg(Type::scalar(DType::F64));
    Builder inside(region);
    inside.yield({inside.binary(Opcode::Add, p, q)});
    Op* store = b.create(Opcode::ViewStore, {x, scan->result(), zero}, {});
    store->set("axes", std::vector<std::int64_t>{0});
  }
  try {
    test::CpuKernel compiled(kernel, {});
    FAIL("compiled with " << compiled.scratch_bytes << " bytes of scratch");
  } catch (const UserError& e) {
    CHECK(std::string(e.what()).find("tile<268435456 x f64>") != std::string::npos);
  }
}
