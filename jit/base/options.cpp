// Reads and parses the environment variables of Kiln.
#include <kiln/jit/base/options.h>

#include <kiln/jit/base/parse_size.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace kiln {
namespace {

constexpr int max_num_threads = 4096;
constexpr int max_ptxas_seconds = 86'400;

struct LogLevelName {
  std::string_view name;
  LogLevel level;
};
constexpr LogLevelName log_level_names[] = {{"off", LogLevel::Off},
                                            {"error", LogLevel::Error},
                                            {"warning", LogLevel::Warning},
                                            {"info", LogLevel::Info},
                                            {"debug", LogLevel::Debug}};

struct KeepName {
  std::string_view name;
  bool KeepFiles::* member;
};
constexpr KeepName keep_names[] = {{"tile", &KeepFiles::tile},
                                   {"llvm", &KeepFiles::llvm},
                                   {"ptx", &KeepFiles::ptx},
                                   {"cubin", &KeepFiles::cubin},
                                   {"asm", &KeepFiles::assembly}};

class Parser {
public:
  Parser(const char* (*lookup)(const char*, void*), void* context) : lookup_(lookup), context_(context) {}

  ParsedOptions parse() {
    Options& o = result_.options;
    o.debug = flag("KILN_DEBUG");
    o.perf = flag("KILN_PERF");
    o.keep = keep();
    if (auto dir = value("KILN_KEEP_DIR"); !dir.empty()) o.keep_dir = dir;
    o.log = log_level();
    o.cache_dir = cache_dir();
    o.cache_limit = cache_limit(o.cache_limit);
    o.compile_policy = compile_policy();
    o.num_threads = number("KILN_NUM_THREADS", max_num_threads, o.num_threads, "all CPUs are used");
    o.cpu = value("KILN_CPU");
    o.cuda_library = value("KILN_CUDA_LIBRARY");
    if (const char* ptxas = lookup_("KILN_PTXAS", context_)) o.ptxas = ptxas;
    o.ptxas_seconds = number("KILN_PTXAS_TIMEOUT", max_ptxas_seconds, o.ptxas_seconds, "120 is used");
    o.emulate_check = value("KILN_EMULATE_CHECK");
    o.emulate_seed = value("KILN_EMULATE_SEED");
    o.emulate_threads = value("KILN_EMULATE_THREADS");
    o.tune = value("KILN_TUNE");
    o.wisdom = value("KILN_WISDOM");
    o.ranks_trace = value("KILN_RANKS_TRACE");
    o.command = value("KILN_COMMAND");
    return std::move(result_);
  }

private:
  // An empty variable counts as unset.
  std::string_view value(const char* name) const {
    const char* v = lookup_(name, context_);
    return v ? std::string_view(v) : std::string_view();
  }

  void warn(std::string_view name, std::string_view value, std::string_view legal) {
    result_.warnings.push_back(std::string(name) + " is '" + std::string(value) + "'; use " +
                               std::string(legal));
  }

  bool flag(const char* name) {
    auto v = value(name);
    if (!v.empty() && v != "0" && v != "1") warn(name, v, "0 or 1; taken as 0");
    return v == "1";
  }

  KeepFiles keep() {
    KeepFiles keep;
    for (auto rest = value("KILN_KEEP"); !rest.empty();) {
      auto comma = rest.find(',');
      auto item = rest.substr(0, comma);
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
      if (item.empty()) continue;
      bool known = false;
      for (const auto& k : keep_names)
        if (k.name == item) keep.*k.member = known = true;
      if (!known)
        warn("KILN_KEEP", item, "a comma list of tile, llvm, ptx, cubin, asm; this item is ignored");
    }
    return keep;
  }

  LogLevel log_level() {
    auto v = value("KILN_LOG");
    if (v.empty()) return LogLevel::Warning;
    for (const auto& l : log_level_names)
      if (l.name == v) return l.level;
    warn("KILN_LOG", v, "off, error, warning, info or debug; taken as warning");
    return LogLevel::Warning;
  }

  // A relative XDG_CACHE_HOME is ignored, as the XDG base directory specification requires.
  std::string cache_dir() {
    if (auto v = value("KILN_CACHE_DIR"); !v.empty()) return std::string(v);
    if (auto v = value("XDG_CACHE_HOME"); v.starts_with('/')) return std::string(v) + "/kiln";
    if (auto v = value("HOME"); !v.empty()) return std::string(v) + "/.cache/kiln";
    return {};
  }

  std::uint64_t cache_limit(std::uint64_t otherwise) {
    auto v = value("KILN_CACHE_LIMIT");
    if (v.empty()) return otherwise;
    if (auto bytes = parse_size(v)) return *bytes;
    warn("KILN_CACHE_LIMIT", v, "a number of bytes, such as 500M or 2G; taken as 2G");
    return otherwise;
  }

  std::string compile_policy() {
    auto v = value("KILN_COMPILE_POLICY");
    for (std::string_view policy : {"allow", "warn", "forbid"})
      if (v == policy) return std::string(v);
    if (!v.empty()) warn("KILN_COMPILE_POLICY", v, "allow, warn or forbid; taken as allow");
    return "allow";
  }

  int number(const char* name, int most, int otherwise, const std::string& what_holds) {
    auto v = value(name);
    if (v.empty()) return otherwise;
    int n = 0;
    auto [end, error] = std::from_chars(v.data(), v.data() + v.size(), n);
    if (error == std::errc() && end == v.data() + v.size() && n >= 1 && n <= most) return n;
    warn(name, v, "a number from 1 to " + std::to_string(most) + "; " + what_holds);
    return otherwise;
  }

  const char* (*lookup_)(const char*, void*);
  void* context_;
  ParsedOptions result_;
};

ParsedOptions parse_environment() {
  return parse_options([](const char* name, void*) -> const char* { return std::getenv(name); }, nullptr);
}

void give_warnings(const ParsedOptions& parsed) {
  for (const auto& warning : parsed.warnings)
    log_warning_once(warning);
}

std::atomic<const Options*> replaced{nullptr};

} // namespace

ParsedOptions parse_options(const char* (*lookup)(const char*, void*), void* context) {
  return Parser(lookup, context).parse();
}

std::vector<std::string> option_variables() {
  std::vector<std::string> names;
  parse_options(
      [](const char* name, void* context) -> const char* {
        static_cast<std::vector<std::string>*>(context)->push_back(name);
        return nullptr;
      },
      &names);
  return names;
}

const Options& environment_options() {
  static std::atomic<bool> warned{false};
  // Never destroyed, because destructors of static objects may use it.
  static const ParsedOptions* parsed = new ParsedOptions(parse_environment());
  // The log calls this function, so warnings must wait until `parsed` is initialised.
  if (!warned.exchange(true)) give_warnings(*parsed);
  return parsed->options;
}

Options read_environment() {
  ParsedOptions parsed = parse_environment();
  give_warnings(parsed);
  return std::move(parsed.options);
}

const Options& options() {
  const Options* o = replaced.load(std::memory_order_acquire);
  return o ? *o : environment_options();
}

ScopedOptions::ScopedOptions(Options replacement) : options_(std::move(replacement)) {
  previous_ = replaced.exchange(&options_, std::memory_order_acq_rel);
}

ScopedOptions::~ScopedOptions() { replaced.store(previous_, std::memory_order_release); }

} // namespace kiln
