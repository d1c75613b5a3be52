// Reads the switches from the environment.
#include <kiln/jit/base/options.h>

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
    o.num_threads = number("KILN_NUM_THREADS", max_num_threads, o.num_threads, "all CPUs are used");
    o.cpu = value("KILN_CPU");
    o.cuda_library = value("KILN_CUDA_LIBRARY");
    o.ptxas_seconds = number("KILN_PTXAS_TIMEOUT", max_ptxas_seconds, o.ptxas_seconds, "120 holds");
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

  std::string cache_dir() {
    if (auto v = value("KILN_CACHE_DIR"); !v.empty()) return std::string(v);
    if (auto v = value("XDG_CACHE_HOME"); v.starts_with('/')) return std::string(v) + "/kiln";
    if (auto v = value("HOME"); v.starts_with('/')) return std::string(v) + "/.cache/kiln";
    return {};
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

const Options& environment_options() {
  static std::atomic<bool> warned{false};
  static const ParsedOptions* parsed = new ParsedOptions(
      parse_options([](const char* name, void*) -> const char* { return std::getenv(name); }, nullptr));
  // After `parsed` exists, because the log asks for the options.
  if (!warned.exchange(true))
    for (const auto& warning : parsed->warnings)
      log_warning_once(warning);
  return parsed->options;
}

std::atomic<const Options*> replaced{nullptr};

} // namespace

ParsedOptions parse_options(const char* (*lookup)(const char*, void*), void* context) {
  return Parser(lookup, context).parse();
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
