// Tests how environment variables become options, and what the log writes.
#include <catch2/catch.hpp>
#include <kiln/jit/base/options.h>
#include <kiln/jit/base/parse_size.h>

#include "scoped_variable.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

using namespace kiln;

namespace {
ParsedOptions parse(std::map<std::string, std::string> variables) {
  auto lookup = [](const char* name, void* context) -> const char* {
    auto& map = *static_cast<std::map<std::string, std::string>*>(context);
    auto found = map.find(name);
    return found == map.end() ? nullptr : found->second.c_str();
  };
  return parse_options(lookup, &variables);
}
} // namespace

TEST_CASE("an empty environment gives the defaults", "[options]") {
  auto [o, warnings] = parse({});
  CHECK(warnings.empty());
  CHECK_FALSE(o.debug);
  CHECK_FALSE(o.perf);
  CHECK_FALSE(o.keep.any());
  CHECK(o.keep_dir == "kiln-keep");
  CHECK(o.log == LogLevel::Warning);
  CHECK(o.cache_dir.empty());
  CHECK(o.cache_limit == std::uint64_t{2} << 30);
  CHECK(o.compile_policy == "allow");
  CHECK(o.num_threads == 0);
  CHECK(o.cpu.empty());
  CHECK(o.cuda_library.empty());
  CHECK_FALSE(o.ptxas);
  CHECK(o.ptxas_seconds == 120);
  for (const std::string* text : {&o.emulate_check, &o.emulate_seed, &o.emulate_threads, &o.tune, &o.wisdom,
                                  &o.ranks_trace, &o.command})
    CHECK(text->empty());
}

TEST_CASE("every variable is read", "[options]") {
  auto [o, warnings] = parse({{"KILN_DEBUG", "1"},
                              {"KILN_PERF", "1"},
                              {"KILN_KEEP", "tile,asm"},
                              {"KILN_KEEP_DIR", "/k"},
                              {"KILN_LOG", "debug"},
                              {"KILN_CACHE_DIR", "/c"},
                              {"KILN_CACHE_LIMIT", "500M"},
                              {"KILN_COMPILE_POLICY", "warn"},
                              {"KILN_NUM_THREADS", "3"},
                              {"KILN_CPU", "haswell"},
                              {"KILN_CUDA_LIBRARY", "/l.so"},
                              {"KILN_PTXAS", "/p"},
                              {"KILN_PTXAS_TIMEOUT", "7"},
                              {"KILN_EMULATE_CHECK", "races"},
                              {"KILN_EMULATE_SEED", "11"},
                              {"KILN_EMULATE_THREADS", "2"},
                              {"KILN_TUNE", "off"},
                              {"KILN_WISDOM", "/w:/v"},
                              {"KILN_RANKS_TRACE", "/t.svg"},
                              {"KILN_COMMAND", "/kiln"}});
  CHECK(warnings.empty());
  CHECK(o.debug);
  CHECK(o.perf);
  CHECK(o.keep == KeepFiles{.tile = true, .assembly = true});
  CHECK(o.keep_dir == "/k");
  CHECK(o.log == LogLevel::Debug);
  CHECK(o.cache_dir == "/c");
  CHECK(o.num_threads == 3);
  CHECK(o.cache_limit == std::uint64_t{500} << 20);
  CHECK(o.compile_policy == "warn");
  CHECK(o.cpu == "haswell");
  CHECK(o.cuda_library == "/l.so");
  CHECK(o.ptxas == "/p");
  CHECK(o.ptxas_seconds == 7);
  CHECK(o.emulate_check == "races");
  CHECK(o.emulate_seed == "11");
  CHECK(o.emulate_threads == "2");
  CHECK(o.tune == "off");
  CHECK(o.wisdom == "/w:/v");
  CHECK(o.ranks_trace == "/t.svg");
  CHECK(o.command == "/kiln");
}

TEST_CASE("an empty KILN_PTXAS is a value, and other empty variables count as unset", "[options]") {
  CHECK(parse({{"KILN_PTXAS", ""}}).options.ptxas == "");
  auto [o, warnings] = parse({{"KILN_DEBUG", ""}, {"KILN_CACHE_LIMIT", ""}, {"KILN_COMPILE_POLICY", ""}});
  CHECK(warnings.empty());
  CHECK(o.cache_limit == Options().cache_limit);
}

TEST_CASE("the names of the variables are listed, each once", "[options]") {
  const std::vector<std::string> names = option_variables();
  const std::set<std::string> distinct(names.begin(), names.end());
  CHECK(distinct.size() == names.size());
  for (const char* name : {"KILN_DEBUG", "KILN_CACHE_DIR", "KILN_PTXAS", "KILN_COMMAND", "HOME"})
    CHECK(distinct.count(name) == 1);
}

TEST_CASE("no other file of the library reads Kiln's variables", "[options]") {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(KILN_TESTS_DIR).parent_path();
  for (const char* folder : {"dsl", "jit", "autotune", "ops", "collectives"}) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& file : fs::recursive_directory_iterator(root / folder)) {
      if (file.path().extension() != ".cpp" && file.path().extension() != ".h") continue;
      std::ifstream in(file.path());
      for (std::string line; std::getline(in, line);)
        if (line.find("getenv(\"KILN_") != std::string::npos)
          FAIL_CHECK(file.path().string() << ": " << line);
    }
  }
}

TEST_CASE("the environment can be read again, and then gives its warnings once", "[options]") {
  const test::ScopedVariable folder("KILN_CACHE_DIR", "/elsewhere"), limit("KILN_CACHE_LIMIT", "enough");
  LogCapture captured;
  ScopedOptions scope(Options{});
  CHECK(read_environment().cache_dir == "/elsewhere");
  CHECK(read_environment().cache_limit == Options().cache_limit);
  const std::vector<std::string> lines = captured.lines();
  CHECK(
      std::count(lines.begin(), lines.end(),
                 "warning: KILN_CACHE_LIMIT is 'enough'; use a number of bytes, such as 500M or 2G; taken as "
                 "2G") == 1);
}

TEST_CASE("sizes have an optional suffix", "[options]") {
  CHECK(parse_size("0") == 0);
  CHECK(parse_size("123") == 123);
  CHECK(parse_size("500M") == 500u << 20);
  CHECK(parse_size("500m") == 500u << 20);
  CHECK(parse_size("7K") == 7u << 10);
  CHECK(parse_size("2G") == std::uint64_t{2} << 30);
  CHECK(parse_size("18446744073709551615") == ~std::uint64_t{0});
  for (const char* bad : {"", "G", "-1", "+1", "1.5G", "2GB", " 1", "1 ", "0x10", "1T",
                          "18446744073709551616", "18014398509481984K", "99999999999999999999999"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_size(bad));
  }
}

TEST_CASE("the cache folder follows XDG and then HOME", "[options]") {
  CHECK(parse({{"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}).options.cache_dir == "/x/kiln");
  CHECK(parse({{"XDG_CACHE_HOME", "not/absolute"}, {"HOME", "/h"}}).options.cache_dir == "/h/.cache/kiln");
  CHECK(parse({{"HOME", "/h"}}).options.cache_dir == "/h/.cache/kiln");
}

TEST_CASE("a value that is not understood gives a warning with the legal values", "[options]") {
  auto [o, warnings] = parse({{"KILN_DEBUG", "yes"},
                              {"KILN_KEEP", "tile,,mlir"},
                              {"KILN_LOG", "loud"},
                              {"KILN_NUM_THREADS", GENERATE("0", "-1", "2x", "5000", "99999999999")},
                              {"KILN_PTXAS_TIMEOUT", "0"},
                              {"KILN_CACHE_LIMIT", "big"},
                              {"KILN_COMPILE_POLICY", "never"}});
  REQUIRE(warnings.size() == 7);
  CHECK(warnings[0] == "KILN_DEBUG is 'yes'; use 0 or 1; taken as 0");
  CHECK(warnings[1] ==
        "KILN_KEEP is 'mlir'; use a comma list of tile, llvm, ptx, cubin, asm; this item is ignored");
  CHECK(warnings[2] == "KILN_LOG is 'loud'; use off, error, warning, info or debug; taken as warning");
  CHECK(warnings[3] == "KILN_CACHE_LIMIT is 'big'; use a number of bytes, such as 500M or 2G; taken as 2G");
  CHECK(warnings[4] == "KILN_COMPILE_POLICY is 'never'; use allow, warn or forbid; taken as allow");
  CHECK(warnings[5].ends_with("use a number from 1 to 4096; all CPUs are used"));
  CHECK(warnings[6] == "KILN_PTXAS_TIMEOUT is '0'; use a number from 1 to 86400; 120 is used");
  CHECK_FALSE(o.debug);
  CHECK(o.keep == KeepFiles{.tile = true});
  CHECK(o.log == LogLevel::Warning);
  CHECK(o.num_threads == 0);
  CHECK(o.ptxas_seconds == 120);
}

TEST_CASE("the log writes messages up to its level", "[options]") {
  LogCapture captured;
  ScopedOptions scope([] {
    Options o;
    o.log = LogLevel::Info;
    return o;
  }());
  log_error("a");
  log_info("b");
  log_debug("c");
  CHECK(captured.lines() == std::vector<std::string>{"error: a", "info: b"});
  CHECK(log_enabled(LogLevel::Info));
  CHECK_FALSE(log_enabled(LogLevel::Debug));
}

TEST_CASE("log_warning_once writes a message once", "[options]") {
  LogCapture captured;
  ScopedOptions scope(Options{});
  for (int i = 0; i < 3; ++i)
    log_warning_once("only this time");
  CHECK(captured.lines() == std::vector<std::string>{"warning: only this time"});
}

TEST_CASE("scoped options nest and end", "[options]") {
  Options outer, inner;
  outer.num_threads = 7;
  inner.num_threads = 9;
  int before = options().num_threads;
  {
    ScopedOptions a(outer);
    {
      ScopedOptions b(inner);
      CHECK(options().num_threads == 9);
    }
    CHECK(options().num_threads == 7);
  }
  CHECK(options().num_threads == before);
}
