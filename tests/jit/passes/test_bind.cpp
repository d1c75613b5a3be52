// Tests bind and expand-grid, and their messages for configs that do not fit.
#include <catch2/catch.hpp>
#include <kiln/dsl/symbol.h>
#include <kiln/jit/passes/passes.h>

using namespace kiln;
using namespace kiln::ir;

namespace {

struct Copy : Kernel {
  Value *in, *out;
  Op* tile = nullptr;
  Copy() : Kernel("copy") {
    in = body.add_arg(Type::view(DType::F32, 2, true, LayoutClass::Unit));
    out = body.add_arg(Type::view(DType::F32, 2, false));
    add_tile(out);
  }
  void add_tile(Value* view) {
    Builder b(&body);
    b.set_location({"copy.cpp", 3});
    Shape dims{Dim::symbol(intern("BM")), Dim::symbol(intern("BN"))};
    Type i64 = Type::scalar(DType::I64);
    tile = b.create(Opcode::ProgramTile, {view}, {i64, i64});
    tile->set("dims", dims);
    Op* load =
        b.create(Opcode::ViewLoad, {in, tile->result(0), tile->result(1)}, {Type::tile(DType::F32, dims)});
    load->set("axes", std::vector<std::int64_t>{0, 1});
    Op* store = b.create(Opcode::ViewStore, {out, load->result(), tile->result(0), tile->result(1)}, {});
    store->set("axes", std::vector<std::int64_t>{0, 1});
  }
};

passes::PassOptions with(const char* config) { return {Config::parse(config), {}}; }

} // namespace

TEST_CASE("bind leaves no names and keeps the stronger layout class") {
  Copy k;
  passes::PassOptions options = with("BM=4,BN=32,num_warps=8");
  options.layouts = {LayoutClass::Any, LayoutClass::Aligned};
  std::vector<std::string> seen;
  auto lowered = passes::lower_generic(
      k, options, [&](std::string_view pass, const Kernel&) { seen.emplace_back(pass); });
  CHECK(lowered->dimensions().empty());
  CHECK(k.dimensions().size() == 2);
  CHECK(seen.front() == "bind");
  CHECK(lowered->body.args[0]->type.layout == LayoutClass::Unit);
  CHECK(lowered->body.args[1]->type.layout == LayoutClass::Aligned);
  CHECK(lowered->grid == std::vector<GridAxis>{{1, 0, Dim(4)}, {1, 1, Dim(32)}});
  walk(lowered->body, [](const Op& op) { CHECK_FALSE(op.is(Opcode::ProgramTile)); });
}

TEST_CASE("bind reports all dimensions without a size, and names that the kernel does not use") {
  Copy k;
  CHECK_THROWS_WITH(
      passes::bind(k, with("num_warps=4")),
      "kernel copy: dimensions BM, BN have no size in the config {num_warps=4}; add BM = SIZE, BN = SIZE");
  CHECK_THROWS_WITH(
      passes::bind(k, with("BM=4,BN=8,BK=2")),
      "kernel copy: the config {BK=2,BM=4,BN=8} names BK, which the kernel does not use; its dimensions "
      "are BM, BN");
  CHECK_THROWS_WITH(
      passes::bind(k, with("BM=0,BN=8")),
      "kernel copy: dimension BM has size 0 in the config {BM=0,BN=8}; a size must be positive");
  CHECK_THROWS_WITH(
      passes::bind(k, with("BM=65536,BN=65536")),
      "copy.cpp:3: a tile<65536 x 65536 x f32> has more than 268435456 elements with the config "
      "{BM=65536,BN=65536}; choose smaller sizes");
}

TEST_CASE("a size is rejected if its axis lacks the element that is extracted") {
  auto bind = [](const char* config) {
    Copy k;
    Builder b(&k.body);
    b.set_location({"copy.cpp", 7});
    Value* ones = b.splat(b.constant(DType::F32, 1.0), {Dim::symbol(intern("BM")), Dim(8)});
    Op* extract = b.create(Opcode::Extract, {ones}, {Type::tile(DType::F32, {Dim(8)})});
    extract->set("axis", std::int64_t{0});
    extract->set("index", std::int64_t{4});
    passes::bind(k, with(config));
  };
  CHECK_THROWS_WITH(bind("BM=4,BN=8"),
                    Catch::Contains("copy.cpp:7") &&
                        Catch::Contains("position 4 is outside an axis whose extent is 4 with the config"));
  CHECK_NOTHROW(bind("BM=5,BN=8"));
}

TEST_CASE("equal program_tile define one grid, and different ones are rejected") {
  Copy k;
  SECTION("equal") {
    k.add_tile(k.out);
    passes::bind(k, with("BM=4,BN=8"));
    CHECK_NOTHROW(passes::expand_grid(k, {}));
    CHECK(k.grid.size() == 2);
  }
  SECTION("different") {
    k.add_tile(k.in);
    passes::bind(k, with("BM=4,BN=8"));
    CHECK_THROWS_WITH(
        passes::expand_grid(k, {}),
        "copy.cpp:3: kernel copy has one grid, but program_tile gives tiles of parameter 0 (4, 8) after "
        "tiles of parameter 1 (4, 8); call program_tile once and use its offsets for all views");
  }
}
