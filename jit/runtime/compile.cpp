// The compile service: tile IR -> lowered tile IR -> key -> cache on disk, or LLVM -> loaded code.
#include <kiln/jit/runtime/compile.h>

#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/cache/disk_cache.h>
#include <kiln/jit/cpu/compiler.h>
#include <kiln/jit/cpu/legality.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/jit/runtime/compile_policy.h>
#include <kiln/jit/runtime/log.h>
#include <kiln/jit/runtime/options.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>

namespace kiln {
namespace {

struct Totals {
  std::mutex mutex;
  CompileStatistics numbers;
};
Totals& totals() {
  static auto* t = new Totals; // never destroyed: kernels may compile while the process exits
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

// "matmul.cpp:12: ..."
bool starts_with_location(const std::string& text) {
  std::size_t end = text.find(": ");
  std::size_t digits = end;
  while (digits != std::string::npos && digits > 0 && text[digits - 1] >= '0' && text[digits - 1] <= '9')
    --digits;
  return digits != std::string::npos && digits < end && digits > 0 && text[digits - 1] == ':';
}

// What stands in the cache: the scratch size, then the object file.
std::vector<char> to_payload(const cpu::CompiledObject& object) {
  std::vector<char> payload(sizeof object.scratch_bytes + object.object.size());
  std::memcpy(payload.data(), &object.scratch_bytes, sizeof object.scratch_bytes);
  std::memcpy(payload.data() + sizeof object.scratch_bytes, object.object.data(), object.object.size());
  return payload;
}

class Compilation {
public:
  explicit Compilation(const CompileRequest& request)
      : request_(request), target_(cpu::host_target()), keep_(options().keep), debug_(options().debug) {}

  std::shared_ptr<const CompiledKernel> run() {
    try {
      lower();
      cpu::check_legal(*lowered_);
      make_key();
      if (!keep_.any() && from_disk()) return result_;
      ask_policy();
      compile();
    } catch (const UserError& e) {
      // Errors about the kernel as a whole get the line where it was made.
      std::string text = e.what();
      if (starts_with_location(text)) throw;
      if (!text.starts_with("kernel ")) text = "kernel " + request_.recorded.name + ": " + text;
      throw UserError(request_.where, text);
    }
    return result_;
  }

private:
  void lower() {
    ir::verify(request_.recorded); // what the passes and back ends rely on
    passes::PassOptions pass_options{request_.config, request_.layouts, debug_};
    lowered_ = passes::lower_generic(request_.recorded, pass_options);
    result_->name = lowered_->name;
    ir::ArgumentLayout layout = ir::ArgumentLayout::of(*lowered_);
    for (const ir::GridAxis& axis : lowered_->grid)
      result_->grid.push_back({layout.extent_word(axis.param, axis.axis), axis.tile.value()});
    result_->expectations = ir::Expectations::compile(*lowered_);
    result_->cost = CostModel::of(*lowered_);
  }

  void make_key() {
    // Asserts carry locations into the code; nothing else does.
    text_ = ir::print(*lowered_, {.locations = debug_});
    key_ = cache::KeyBuilder::versioned()
               .add(text_)
               .add(request_.config.to_string())
               .add(target_.key())
               .add(debug_)
               .key();
  }

  bool from_disk() {
    Stopwatch watch;
    auto payload = cache::DiskCache::standard().load(key_);
    if (!payload || payload->size() < sizeof result_->scratch_bytes) return false;
    std::memcpy(&result_->scratch_bytes, payload->data(), sizeof result_->scratch_bytes);
    try {
      load(std::span<const char>(*payload).subspan(sizeof result_->scratch_bytes));
    } catch (const TargetError& e) {
      log_warning("a cached kernel is compiled again: " + std::string(e.what()));
      return false;
    }
    std::lock_guard lock(totals().mutex);
    ++totals().numbers.disk_hits;
    totals().numbers.load_ms += watch.ms();
    return true;
  }

  void ask_policy() const {
    if (compile_policy() == CompilePolicy::allow) return;
    std::string what = "kernel " + lowered_->name + " is not compiled for the config {" +
                       request_.config.to_string() + "}, layout classes (" + text_of(request_.layouts) +
                       ") on " + to_string(request_.device);
    if (compile_policy() == CompilePolicy::forbid)
      throw UserError(request_.where, what + ", and the compile policy forbids to compile it; call warm_up "
                                             "before, or ship the cache folder");
    log_warning(what + " and is compiled now");
  }

  void compile() {
    Stopwatch watch;
    cpu::CompiledObject object = cpu::compile(
        *lowered_, target_,
        {.debug = debug_, .line_info = debug_, .keep_llvm = keep_.llvm, .keep_assembly = keep_.assembly});
    std::int64_t limit = request_.device.limits().max_scratch_bytes;
    if (object.scratch_bytes > limit)
      throw UserError("kernel " + lowered_->name + ": the tiles of the config {" +
                      request_.config.to_string() + "} need " + std::to_string(object.scratch_bytes) +
                      " bytes of scratch memory, and " + to_string(request_.device) + " has " +
                      std::to_string(limit) + " for a program; choose smaller sizes");
    keep_files(object);
    result_->scratch_bytes = object.scratch_bytes;
    load(object.object);
    double ms = watch.ms();
    if (log_enabled(LogLevel::Info))
      log_info("compiled kernel " + lowered_->name + " {" + request_.config.to_string() + "} in " +
               std::to_string(ms) + " ms");
    {
      std::lock_guard lock(totals().mutex);
      ++totals().numbers.compiled;
      totals().numbers.compile_ms += ms;
    }
    cache::DiskCache::standard().store(
        key_, to_payload(object),
        {.kernel = lowered_->name, .config = request_.config.to_string(), .target = target_.cpu});
  }

  void keep_files(const cpu::CompiledObject& object) const {
    if (!keep_.tile && !keep_.llvm && !keep_.assembly) return;
    std::string stem = options().keep_dir + "/" + lowered_->name + "-" + cache::to_string(key_).substr(0, 8);
    std::error_code ignored; // the files that then cannot be opened are reported
    std::filesystem::create_directories(options().keep_dir, ignored);
    auto write = [&](bool wanted, const char* suffix, const std::string& text) {
      if (!wanted) return;
      std::ofstream out(stem + suffix);
      out << text;
      if (!out) log_warning_once("KILN_KEEP: cannot write " + stem + suffix + "; check KILN_KEEP_DIR");
    };
    write(keep_.tile, ".tile", ir::print(request_.recorded) + "\n" + text_);
    write(keep_.llvm, ".ll", object.llvm_after);
    write(keep_.assembly, ".s", object.assembly);
  }

  void load(std::span<const char> object) {
    // Debuggers and profilers show this name: variants of a kernel differ in it.
    std::string config = request_.config.to_string();
    result_->code = cpu::load_object(object, lowered_->name + (config.empty() ? "" : "[" + config + "]"));
  }

  const CompileRequest& request_;
  const cpu::Target& target_;
  KeepFiles keep_;
  bool debug_;
  std::unique_ptr<ir::Kernel> lowered_;
  std::string text_;
  cache::Key key_;
  std::shared_ptr<CompiledKernel> result_ = std::make_shared<CompiledKernel>();
};

} // namespace

CompileStatistics compile_statistics() {
  std::lock_guard lock(totals().mutex);
  return totals().numbers;
}

Config config_for(Device, const Config& config) {
  Config used;
  for (const Binding& b : config)
    if (!is_option(b.name)) used.set(b.name, b.value); // a CPU has none of the options
  return used;
}

std::shared_ptr<const CompiledKernel> compile_kernel(const CompileRequest& request) {
  // Here a CUDA device's kernels become modules; launch.cpp and assign.cpp then call cuda::launch with them.
  if (!request.device.is_cpu())
    throw UserError(request.where, "kernel " + request.recorded.name + ": kernels do not run on " +
                                       to_string(request.device) +
                                       " in this build, only copies and events; launch it on a stream of "
                                       "Device::cpu()");
  return Compilation(request).run();
}

} // namespace kiln
