// Runs the steps of compiling: lower tile IR, make the key, then load the code from the cache or run a back
// end.
#include <kiln/jit/runtime/kernel/compile.h>

#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/base/file_stem.h>
#include <kiln/jit/base/float_environment.h>
#include <kiln/jit/base/log.h>
#include <kiln/jit/cache/disk_cache.h>
#include <kiln/jit/cpu/object/engine.h>
#include <kiln/jit/cpu/rewrite/widen.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/jit/runtime/cuda/cubin.h>
#include <kiln/jit/runtime/kernel/backend.h>
#include <kiln/jit/runtime/kernel/compile_policy.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <new>

namespace kiln {
namespace {

struct Totals {
  std::mutex mutex;
  CompileStatistics statistics;
};
Totals& totals() {
  static auto* t = new Totals; // never destroyed, because kernels may compile while the process exits
  return *t;
}

class Stopwatch {
public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_).count();
  }

private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

std::string text_of(const std::vector<LayoutClass>& layouts) {
  constexpr const char* names[] = {"any", "unit", "aligned"};
  std::string text;
  for (LayoutClass c : layouts)
    text += (text.empty() ? "" : ", ") + std::string(names[static_cast<int>(c)]);
  return text;
}

// Recognises a source location, as in "matmul.cpp:12: ...", but not the beginning of "kernel add on cuda:0:
// ...".
bool starts_with_location(const std::string& text) {
  if (text.starts_with("kernel ")) return false;
  std::size_t end = text.find(": ");
  std::size_t digits = end;
  while (digits != std::string::npos && digits > 0 && text[digits - 1] >= '0' && text[digits - 1] <= '9')
    --digits;
  return digits != std::string::npos && digits < end && digits > 0 && text[digits - 1] == ':';
}

// Carries out one call of compile_kernel.
class Service {
public:
  explicit Service(const CompileRequest& request) : request_(request) {}

  std::shared_ptr<const CompiledKernel> run() {
    try {
      c_ = lower(request_.recorded, chosen_config(), request_.layouts);
      describe();
      backend_ = request_.device.is_cpu()        ? make_cpu_backend(c_, request_.device)
                 : request_.device.is_emulated() ? make_emulated_backend(c_, request_.device)
                                                 : make_cuda_backend(c_, request_.device);
      keep_tile_ir();
      if (!c_.keep.generated() && from_disk()) return result_;
      ask_policy();
      compile();
    } catch (const CompileForbidden&) {
      throw;
    } catch (const UserError& e) {
      throw with_place(e, request_.where, request_.recorded.name);
    } catch (const TargetError& e) {
      if (!request_.device.is_cpu()) throw; // errors of drivers and tools name the kernel
      throw TargetError((to_string(request_.where).empty() ? "" : to_string(request_.where) + ": ") +
                        "kernel " + request_.recorded.name + " with the config {" +
                        request_.config.to_string() + "}: " + e.what());
    }
    return result_;
  }

private:
  // On the CPU, tiles are enlarged where this does not affect the result.
  Config chosen_config() const {
    if (!request_.device.is_cpu()) return request_.config;
    ir::verify(request_.recorded);
    return cpu::widened_config(request_.recorded, {request_.config, request_.layouts, options().debug},
                               Device::cpu().properties().num_threads);
  }

  // Records what the host needs for each launch.
  void describe() {
    result_->name = c_.lowered->name;
    ir::ArgumentLayout layout = ir::ArgumentLayout::of(*c_.lowered);
    for (const ir::GridAxis& axis : c_.lowered->grid)
      result_->grid.push_back({layout.extent_word(axis.param, axis.axis), axis.tile.value()});
    result_->expectations = ir::Expectations::compile(*c_.lowered);
    result_->cost = CostModel::of(*c_.lowered);
  }

  bool from_disk() {
    for (const cache::Key& key : backend_->keys()) {
      Stopwatch watch;
      auto payload = cache::DiskCache::standard().load(key);
      if (!payload) continue;
      try {
        backend_->load(*payload, *result_);
      } catch (const cpu::NoExecutableMemory&) {
        throw;
      } catch (const TargetError& e) {
        log_warning("a cached kernel is compiled again: " + std::string(e.what()));
        continue;
      }
      std::lock_guard lock(totals().mutex);
      ++totals().statistics.disk_hits;
      totals().statistics.load_ms += watch.ms();
      return true;
    }
    return false;
  }

  void ask_policy() const {
    if (compile_policy() == CompilePolicy::allow) return;
    std::string what = "kernel " + c_.lowered->name + " is not compiled for the config {" +
                       request_.config.to_string() + "}, layout classes (" + text_of(request_.layouts) +
                       ") on " + to_string(request_.device);
    if (compile_policy() == CompilePolicy::forbid)
      throw CompileForbidden(request_.where, what + ", and the compile policy forbids compiling it; call "
                                                    "warm_up first, or ship the cache folder");
    log_warning(what + " and is compiled now");
  }

  void keep_tile_ir() const {
    if (!c_.keep.tile) return;
    KeptFiles(c_, backend_->keys().front())
        .write(true, ".kir",
               "// config " + request_.config.to_string() + "\n// layouts " + text_of(request_.layouts) +
                   "\n" + ir::print(request_.recorded) + "\n" + c_.text);
  }

  void compile() {
    Stopwatch watch;
    StoredCode code = backend_->compile(*result_);
    double ms = watch.ms();
    if (log_enabled(LogLevel::Info))
      log_info("compiled kernel " + c_.lowered->name + " {" + request_.config.to_string() + "} for " +
               code.target + " in " + std::to_string(ms) + " ms");
    {
      std::lock_guard lock(totals().mutex);
      ++totals().statistics.compiled;
      totals().statistics.compile_ms += ms;
    }
    cache::DiskCache::standard().store(
        code.key, code.payload,
        {.kernel = c_.lowered->name, .config = request_.config.to_string(), .target = code.target});
  }

  const CompileRequest& request_;
  Compilation c_;
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<CompiledKernel> result_ = std::make_shared<CompiledKernel>();
};

} // namespace

UserError with_place(const UserError& e, SourceLocation where, const std::string& kernel) {
  std::string text = e.what();
  if (starts_with_location(text)) return e;
  if (!text.starts_with("kernel ")) text = "kernel " + kernel + ": " + text;
  return UserError(where, text);
}

Compilation lower(const ir::Kernel& recorded, const Config& config, const std::vector<LayoutClass>& layouts) {
  Compilation c{
      .lowered = {}, .text = {}, .config = config, .debug = options().debug, .keep = options().keep};
  ir::verify(recorded); // the passes and back ends rely on valid IR
  c.lowered = passes::lower_generic(recorded, {config, layouts, c.debug});
  // Only asserts put source locations into the code, and only under KILN_DEBUG.
  c.text = ir::print(*c.lowered, {.locations = c.debug});
  return c;
}

KeptFiles::KeptFiles(const Compilation& c, const cache::Key& key) {
  if (!c.keep.any()) return;
  stem_ = options().keep_dir + "/" + file_stem(c.lowered->name) + "-" + cache::to_string(key).substr(0, 8);
  std::error_code ignored; // files that cannot be opened are reported by write()
  std::filesystem::create_directories(options().keep_dir, ignored);
}

void KeptFiles::write(bool wanted, const char* suffix, std::string_view text) const {
  if (!wanted) return;
  std::ofstream out(stem_ + suffix, std::ios::binary);
  out << text;
  if (!out) log_warning_once("KILN_KEEP: cannot write " + stem_ + suffix + "; check KILN_KEEP_DIR");
}

CompileStatistics compile_statistics() {
  std::lock_guard lock(totals().mutex);
  return totals().statistics;
}

Config config_for(DeviceKind kind, const Config& config) {
  Config used;
  for (const Binding& b : config)
    if (!is_option(b.name)) used.set(b);
  if (kind != DeviceKind::Cpu) {
    used.set(num_warps.name, config.get(num_warps.name).value_or(gpu::default_warps));
    if (auto most = config.get(max_registers.name)) used.set(max_registers.name, *most);
  }
  return used;
}

std::shared_ptr<const CompiledKernel> compile_kernel(const CompileRequest& request) {
  const DefaultFloatEnvironment environment; // because the passes fold constants
  try {
    return Service(request).run();
  } catch (const std::bad_alloc&) {
    throw UserError(request.where, "kernel " + request.recorded.name + ": no memory left to compile it");
  }
}

} // namespace kiln
