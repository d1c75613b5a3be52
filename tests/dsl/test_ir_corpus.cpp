// Checks that the tests in tests/lit/ir cover every operation, and that damaged copies of them do not crash
// the parser.
#include "test_seed.h"

#include <catch2/catch.hpp>

#include <kiln/dsl/ir/parser.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/ir/verifier.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

using namespace kiln;
using namespace kiln::ir;

namespace {
// The valid files below tests/lit/ir.
std::vector<std::string> corpus() {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(KILN_TESTS_DIR "/lit/ir")) {
    if (entry.path().extension() != ".kir" || entry.path().filename().string().rfind("invalid", 0) == 0)
      continue;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

// Changes, removes, doubles or swaps bytes of a text.
std::string damaged(std::string text, std::mt19937_64& random) {
  auto below = [&](std::size_t n) { return n ? random() % n : 0; };
  static constexpr std::string_view likely = "(){}[]<>=,:*/@%\"\\x0 \n-.e9";
  for (std::size_t i = 0, edits = 1 + below(4); i < edits && !text.empty(); ++i) {
    std::size_t at = below(text.size()), length = std::min(text.size() - at, 1 + below(20));
    switch (below(5)) {
    case 0: text[at] = static_cast<char>(random()); break;
    case 1: text[at] = likely[below(likely.size())]; break;
    case 2: text.erase(at, length); break;
    case 3: text.insert(below(text.size()), text.substr(at, length)); break;
    default: text.resize(at);
    }
  }
  return text;
}
} // namespace

TEST_CASE("every operation occurs in the corpus of text tests") {
  std::set<Opcode> seen;
  for (const std::string& text : corpus())
    for (const auto& kernel : parse_all(text)) {
      CHECK(problems(*kernel) == std::vector<std::string>{});
      walk(kernel->body, [&](const Op& op) { seen.insert(op.code); });
    }
  for (const OpInfo& op : op_table) {
    INFO(op.name);
    CHECK(seen.count(op.code) == 1);
  }
}

TEST_CASE("damaged text is a user error or parses and is verified, and never crashes") {
  std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::vector<std::string> texts = corpus();
  REQUIRE(!texts.empty());
  int parsed = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = damaged(texts[random() % texts.size()], random);
    try {
      for (const auto& kernel : parse_all(text, "damaged")) {
        ++parsed;
        problems(*kernel);
        std::string once = print(*kernel);
        REQUIRE(print(*parse(once)) == once);
      }
    } catch (const UserError& error) {
      ++refused;
      CAPTURE(text);
      REQUIRE(std::string(error.what()).rfind("damaged:", 0) == 0);
    }
  }
  CHECK(parsed > 0);
  CHECK(refused > 0);
}
