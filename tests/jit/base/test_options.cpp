// The environment's switches, and the log.
#include <catch2/catch.hpp>
#include <kiln/jit/base/options.h>

#include <map>

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

TEST_CASE("an empty environment gives the defaults") {
  auto [o, warnings] = parse({});
  CHECK(warnings.empty());
  CHECK_FALSE(o.debug);
  CHECK_FALSE(o.perf);
  CHECK_FALSE(o.keep.any());
  CHECK(o.keep_dir == "kiln-keep");
  CHECK(o.log == LogLevel::Warning);
  CHECK(o.cache_dir.empty());
  CHECK(o.num_threads == 0);
  CHECK(o.cpu.empty());
  CHECK(o.ptxas_seconds == 120);
}

TEST_CASE("every switch is read") {
  auto [o, warnings] = parse({{"KILN_DEBUG", "1"},
                              {"KILN_PERF", "1"},
                              {"KILN_KEEP", "tile,asm"},
                              {"KILN_KEEP_DIR", "/k"},
                              {"KILN_LOG", "debug"},
                              {"KILN_CACHE_DIR", "/c"},
                              {"KILN_NUM_THREADS", "3"},
                              {"KILN_CPU", "haswell"},
                              {"KILN_PTXAS_TIMEOUT", "7"}});
  CHECK(warnings.empty());
  CHECK(o.debug);
  CHECK(o.perf);
  CHECK(o.keep == KeepFiles{.tile = true, .assembly = true});
  CHECK(o.keep_dir == "/k");
  CHECK(o.log == LogLevel::Debug);
  CHECK(o.cache_dir == "/c");
  CHECK(o.num_threads == 3);
  CHECK(o.cpu == "haswell");
  CHECK(o.ptxas_seconds == 7);
}

TEST_CASE("the cache folder follows XDG and then HOME") {
  CHECK(parse({{"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}).options.cache_dir == "/x/kiln");
  CHECK(parse({{"XDG_CACHE_HOME", "not/absolute"}, {"HOME", "/h"}}).options.cache_dir == "/h/.cache/kiln");
  CHECK(parse({{"HOME", "/h"}}).options.cache_dir == "/h/.cache/kiln");
}

TEST_CASE("a value that is not understood is warned about with the legal ones") {
  auto [o, warnings] = parse({{"KILN_DEBUG", "yes"},
                              {"KILN_KEEP", "tile,,mlir"},
                              {"KILN_LOG", "loud"},
                              {"KILN_NUM_THREADS", GENERATE("0", "-1", "2x", "5000", "99999999999")},
                              {"KILN_PTXAS_TIMEOUT", "0"}});
  REQUIRE(warnings.size() == 5);
  CHECK(warnings[0] == "KILN_DEBUG is 'yes'; use 0 or 1; taken as 0");
  CHECK(warnings[1] ==
        "KILN_KEEP is 'mlir'; use a comma list of tile, llvm, ptx, cubin, asm; this item is ignored");
  CHECK(warnings[2] == "KILN_LOG is 'loud'; use off, error, warning, info or debug; taken as warning");
  CHECK(warnings[3].ends_with("use a number from 1 to 4096; all CPUs are used"));
  CHECK(warnings[4] == "KILN_PTXAS_TIMEOUT is '0'; use a number from 1 to 86400; 120 holds");
  CHECK_FALSE(o.debug);
  CHECK(o.keep == KeepFiles{.tile = true});
  CHECK(o.log == LogLevel::Warning);
  CHECK(o.num_threads == 0);
  CHECK(o.ptxas_seconds == 120);
}

TEST_CASE("the log keeps what its level admits") {
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

TEST_CASE("a once-only warning is given once") {
  LogCapture captured;
  ScopedOptions scope(Options{});
  for (int i = 0; i < 3; ++i)
    log_warning_once("only this time");
  CHECK(captured.lines() == std::vector<std::string>{"warning: only this time"});
}

TEST_CASE("scoped options nest and end") {
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
