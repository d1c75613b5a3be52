// Tests Config (printing, parsing, names) and the extents that a config binds.
#include <catch2/catch.hpp>
#include <kiln/dsl/config.h>
#include <kiln/dsl/error.h>
#include <kiln/dsl/ir/dim.h>
#include <kiln/dsl/symbol.h>

using namespace kiln;

TEST_CASE("a config prints sorted and parses back") {
  Config config{{intern("BN"), 64}, {intern("BM"), 128}, num_warps = 8};
  CHECK(config.to_string() == "BM=128,BN=64,num_warps=8");
  CHECK(Config::parse(config.to_string()) == config);
  CHECK_THROWS_AS(Config::parse("BM=x"), UserError);
  CHECK_THROWS_AS(Config::parse("BM"), UserError);
  CHECK_THROWS_AS(Config::parse("BM=99999999999999999999"), UserError);
}

TEST_CASE("a config takes names from any text") {
  std::string name = "BN";
  Config config{{name, 4}};
  config.set(name + "2", 5);
  config.set("BN", 8);
  name = "gone";
  CHECK(config.to_string() == "BN=8,BN2=5");
  CHECK(config == Config::parse("BN2=5,BN=8"));
}

TEST_CASE("extents reduce, bind and refuse fractions") {
  ir::Dim bm = ir::Dim::symbol(intern("BM")), bk = ir::Dim::symbol(intern("BK"));
  CHECK((bm * 2 / 2) == bm);
  CHECK((bm * bk / bm) == bk);
  CHECK((bk / 4).to_string() == "BK/4");
  Config config{{intern("BM"), 128}, {intern("BK"), 6}};
  CHECK((bm * bk).bind(config) == 768);
  CHECK_THROWS_AS((bk / 4).bind(config), UserError);
  CHECK_THROWS_AS(ir::Dim::symbol(intern("BN")).bind(config), UserError);
}
