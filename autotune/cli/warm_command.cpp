// Implements the command `kiln cache warm`, which compiles the best configs ahead of their launches.
#include <kiln/autotune/cli/device_option.h>
#include <kiln/autotune/cli/plugin.h>
#include <kiln/autotune/records/database.h>
#include <kiln/autotune/records/plan_record.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/autotune/space/shape.h>
#include <kiln/jit/cache/disk_cache.h>
#include <kiln/jit/cache/folder.h>
#include <kiln/jit/cli/support/example.h>
#include <kiln/jit/cli/support/parse.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/jit/runtime/kernel/compile.h>
#include <kiln/jit/runtime/kernel/compile_policy.h>
#include <kiln/jit/runtime/kernel/ir_kernel.h>

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <set>

namespace kiln::tune {

namespace {

constexpr const char* warm_description =
    "Compiles the best known configs into the cache, where launches of any process find the code. They\n"
    "are those of this machine's database and of the wisdom files in KILN_WISDOM, or only those of other\n"
    "wisdom files. Only kernels whose code is registered can be compiled: Kiln's own, and those of\n"
    "plug-ins.\n\n"
    "  kiln cache warm\n"
    "  kiln cache warm --wisdom app.json --plugin ./libmine.so mine matmul";

using Records = std::vector<std::shared_ptr<const Record>>;

// A registered kernel with the same code and space as a record.
struct Match {
  Task task;
  RecordKey key; // with the current tool versions
};

std::vector<LayoutClass> layouts_of(const Problem& problem, std::size_t views) {
  // "f32.unit.any" ends with one layout per view, possibly followed by the suffix of deterministic tasks.
  std::string text;
  std::size_t end =
      problem.kind.size() - (problem.kind.ends_with(one_order_suffix) ? one_order_suffix.size() : 0);
  for (std::size_t i = 0; i < views; ++i) {
    const std::size_t dot = problem.kind.rfind('.', end - 1);
    if (dot == std::string::npos) return {};
    text = problem.kind.substr(dot + 1, end - dot - 1) + (text.empty() ? "" : ",") + text;
    end = dot;
  }
  return cli::parse_layouts(text);
}

std::optional<Match> match(const TunableKernel& kernel, const RecordKey& wanted, Device device) {
  for (DType dtype : kernel.dtypes) {
    try {
      Match m;
      m.task = make_task(kernel, std::string(kiln::name(dtype)), shape_of(wanted.problem), device);
      if (m.task.kernel != wanted.kernel) continue;
      m.key = make_key(*m.task.canonical(), m.task.space, wanted.problem, device);
      if (m.key.id() != wanted.id()) continue;
      m.task.problem.kind = wanted.problem.kind;
      m.task.layouts = layouts_of(wanted.problem, m.task.layouts.size());
      return m;
    } catch (const UserError&) { // the kernel has other sizes or layouts
    }
  }
  return std::nullopt;
}

// Calls of ops are registered under other names than those of the kernels that they launch.
std::optional<Match> match(const RecordKey& wanted, Device device) {
  if (const TunableKernel* kernel = find_tunable(wanted.kernel))
    if (auto found = match(*kernel, wanted, device)) return found;
  for (const TunableKernel* kernel : tunable_kernels())
    if (kernel->make && kernel->name != wanted.kernel)
      if (auto found = match(*kernel, wanted, device)) return found;
  return std::nullopt;
}

class Warming {
public:
  Warming(std::vector<Device> devices, bool uses_database)
      : devices_(std::move(devices)), uses_database_(uses_database) {}

  void add(const Record& record) {
    const RecordKey& key = *record.key;
    if (is_of_plan(key) || !seen_.insert(key.id()).second) return; // a plan has no code
    const auto device = std::find_if(devices_.begin(), devices_.end(), [&](Device d) {
      return backend_of(d) == key.backend && silicon_of(d.properties()) == key.silicon;
    });
    if (device == devices_.end()) {
      ++elsewhere_;
    } else if (const auto found = match(key, *device)) {
      compile(*found, record);
    } else if (!find_tunable(key.kernel)) {
      ++unregistered_;
      unregistered_names_.insert(key.kernel);
    } else {
      ++changed_;
    }
  }

  // Prints the counts and returns the exit code.
  int report() const {
    fmt::print("{} compiled, {} already there\n", compiled_, there_);
    if (unregistered_) {
      std::string names;
      for (const std::string& name : unregistered_names_)
        names += (names.empty() ? "" : ", ") + name;
      fmt::print(
          "{} not compiled because the kernel's code is not registered ({}); use --plugin with its library\n",
          unregistered_, names);
    }
    if (changed_) fmt::print("{} not compiled because the kernel or its space has changed\n", changed_);
    if (elsewhere_) fmt::print("{} not compiled because they are for other devices\n", elsewhere_);
    if (failed_) fmt::print("{} failed\n", failed_);
    return failed_ ? 1 : 0;
  }

private:
  void compile(const Match& m, const Record& record) {
    const std::string what =
        fmt::format("{} {} on {}", m.task.kernel, text_of(m.key.problem), to_string(m.task.device));
    try {
      // Use the config that a launch would find, which may come from another source.
      const Lookup best = uses_database_ ? Database::standard().find_best(m.key) : Lookup();
      const BoundSpace space = m.task.bound_space();
      const auto point = point_of(space.knobs(), best ? best.record->config : record.config);
      if (!point || !space.contains(*point)) {
        ++changed_;
        return;
      }
      const std::int64_t before = compile_statistics().compiled;
      compile(m.task, space.config(*point));
      const bool compiled = compile_statistics().compiled != before;
      ++(compiled ? compiled_ : there_);
      fmt::print("{}: {{{}}}{}\n", what, space.text(*point), compiled ? "" : " was there");
    } catch (const Error& error) {
      ++failed_;
      fmt::print(stderr, "kiln: {}: {}\n", what, error.what());
    }
  }

  // Compiles with the keys that launches use: with the kernel's part of the config and, for a kernel that may
  // read any knob during recording, also with the whole config.
  static void compile(const Task& task, const Config& config) {
    const std::shared_ptr<const ir::Kernel> recorded = task.record(config);
    const Config own = own_part(config, recorded->dimensions());
    compile_kernel({*recorded, config_for(task.device, own), task.layouts, task.device, {}});
    if (recorded->config_specific)
      compile_kernel({*recorded, config_for(task.device, config), task.layouts, task.device, {}});
  }

  std::vector<Device> devices_;
  bool uses_database_;
  std::set<cache::Key> seen_;
  std::set<std::string> unregistered_names_;
  int compiled_ = 0, there_ = 0, failed_ = 0, elsewhere_ = 0, unregistered_ = 0, changed_ = 0;
};

Records records_of(const std::vector<std::string>& files) {
  Records records;
  for (const std::string& file : files) {
    const Wisdom wisdom = read_wisdom_file(file);
    if (!wisdom.problem.empty()) throw UserError("--wisdom " + file + ": " + wisdom.problem);
    records.insert(records.end(), wisdom.records.begin(), wisdom.records.end());
  }
  if (!files.empty()) return records;
  records = Database::standard().wisdom();
  const Records stored = RecordStore::standard().bests();
  records.insert(records.end(), stored.begin(), stored.end());
  return records;
}

// Keeps only the records of these kernels; throws UserError if a kernel has none.
void keep_named(Records& records, const std::vector<std::string>& kernels) {
  if (kernels.empty()) return;
  for (const std::string& name : kernels)
    if (std::none_of(records.begin(), records.end(), [&](const auto& r) { return r->key->kernel == name; }))
      throw UserError("no config is known for a kernel \"" + name +
                      "\"; see `kiln records list` for tuned kernels, or tune it with `kiln tune`");
  std::erase_if(records, [&](const auto& r) {
    return std::find(kernels.begin(), kernels.end(), r->key->kernel) == kernels.end();
  });
}

std::vector<Device> devices_named(const std::vector<std::string>& names) {
  std::vector<Device> devices;
  for (const std::string& name : names)
    devices.push_back(device_from_option(name));
  if (!names.empty()) return devices;
  devices.push_back(Device::cpu());
  for (int i = 0; i < Device::cuda_count(); ++i)
    devices.push_back(Device::cuda(i));
  return devices;
}

// Fail early, since compiling code that cannot be kept takes long.
void check_keeps(const std::filesystem::path& folder) {
  const std::string problem = cache::open_folder(folder, cache::IfMissing::create).problem;
  if (!problem.empty()) throw UserError("nothing was compiled, since the code could not be kept: " + problem);
}

int run_warm(int argc, char** argv) {
  CLI::App app(warm_description, "kiln cache warm");
  std::vector<std::string> kernels, files, plugins, devices;
  app.add_option("KERNEL", kernels, "only these kernels (default: all)");
  app.add_option("--wisdom", files, "only the configs in this wisdom file")->allow_extra_args(false);
  app.add_option("--plugin", plugins, "a shared library that registers kernels")->allow_extra_args(false);
  app.add_option("--device", devices,
                 "only for this device: cpu, cuda:0, emulated:sm_80 (default: all but emulated ones)")
      ->allow_extra_args(false);
  if (auto code = cli::parse(app, argc, argv)) return *code;
  cache::DiskCache& disk = cache::DiskCache::standard();
  if (disk.folder().empty())
    throw UserError(
        "the cache is disabled, since it has no folder; set KILN_CACHE_DIR, XDG_CACHE_HOME or HOME");
  check_keeps(disk.folder());
  for (const std::string& plugin : plugins)
    open_plugin(plugin);
  Records records = records_of(files);
  keep_named(records, kernels);
  const ScopedCompilePolicy policy(CompilePolicy::allow);
  Warming warming(devices_named(devices), files.empty());
  for (const auto& record : records)
    warming.add(*record);
  const int code = warming.report();
  if (disk.stats().failed_stores > 0)
    throw UserError("the code could not be kept in " + disk.folder().string() +
                    "; see the warning above, or set KILN_CACHE_DIR to another folder");
  return code;
}

const cli::CommandRegistration warm_command({"cache warm", "compile the best known configs into the cache",
                                             run_warm});

} // namespace
} // namespace kiln::tune
