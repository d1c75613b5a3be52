// Implements `kiln emulate`: runs any kernel in PTX on an emulated GPU.
#include <kiln/dsl/error.h>
#include <kiln/jit/cli/support/dispatch.h>
#include <kiln/jit/cli/support/emulate_arguments.h>
#include <kiln/jit/cli/support/parse.h>
#include <kiln/jit/cli/support/read_input.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/jit/emulator/counters.h>
#include <kiln/jit/emulator/ptx/ast.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>

namespace kiln::cli {

namespace {

using namespace std::string_view_literals;

constexpr int findings_code = 3;

constexpr const char* emulate_description =
    "Runs a kernel of a PTX file (from nvcc -ptx, Triton or Kiln, for example) on an emulated GPU, and "
    "reports "
    "races, reads of uninitialised memory, accesses out of bounds, deadlocks and more.\n"
    "If FILE is -, reads the standard input. Compile with nvcc -lineinfo to see source lines in reports.\n\n"
    "  nvcc -ptx -lineinfo -arch=sm_80 saxpy.cu\n"
    "  kiln emulate saxpy.ptx --kernel saxpy --grid 8 --block 128 --args f32:2 buffer:f32:1000 "
    "buffer:f32:1000:out=y.bin i32:1000\n"
    "  kiln emulate saxpy.ptx --list\n\n";

constexpr const char* footer =
    "\nexit status: 0 without findings, 3 with findings, 1 for errors, 2 for wrong options";

struct EmulateCommand {
  std::string file, kernel, grid = "1", block = "32", cluster, arch, check = "all", asynchrony = "random";
  std::vector<std::string> arguments;
  std::uint64_t shared = 0, seed = 0, budget = 100'000'000;
  int threads = 1, resident = 1;
  bool non_portable_cluster = false, counters = false, json = false, list = false, stop_at_first = false;
};

// Parses "4", "4,2" or "4,2,1".
emulator::Extent extent(const std::string& option, const std::string& text) {
  std::uint32_t sizes[3] = {1, 1, 1};
  const char *at = text.data(), *end = at + text.size();
  for (int axis = 0; axis < 3; ++axis) {
    auto [next, error] = std::from_chars(at, end, sizes[axis]);
    if (error != std::errc() || sizes[axis] == 0) break;
    if (next == end) return {sizes[0], sizes[1], sizes[2]};
    if (*next != ',') break;
    at = next + 1;
  }
  throw UserError(option + " " + text + ": give one to three numbers of at least 1, as in 4,2,1");
}

std::string parameter_text(const emulator::ptx::Variable& v) {
  const int bits = bits_of(v.type);
  if (v.bytes * 8 == static_cast<std::uint64_t>(bits))
    return fmt::format("{} (.{}, {} bytes)", v.name, name_of(v.type), v.bytes);
  return fmt::format("{} ({} bytes)", v.name, v.bytes);
}

std::string signature(const emulator::ptx::Function& f) {
  std::string text;
  for (const auto& p : f.params)
    text += (text.empty() ? "" : ", ") + parameter_text(p);
  return text.empty() ? "no arguments" : text;
}

// Whether a symbol is the mangled name of the C++ function `name`: _Z3sumIfEvPKT_ matches "sum" and
// "sum<float>".
bool is_called(const std::string& symbol, const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string function = text ? text : "";
  std::free(text);
  function = function.substr(0, function.find('('));
  if (function.starts_with("void ")) function.erase(0, 5); // the return type of a template function
  return !name.empty() && (function == name || function.substr(0, function.find('<')) == name);
}

const emulator::ptx::Function& find_kernel(const emulator::Module& module, const std::string& wanted) {
  const std::vector<std::string> all = module.kernels();
  std::string names;
  for (const std::string& name : all)
    names += (names.empty() ? "" : ", ") + name;
  const std::string& file = module.tree().name;
  if (all.empty()) throw UserError(file + ": it has no kernel (.entry)");
  if (wanted.empty() && all.size() > 1)
    throw UserError(file + ": it has several kernels; choose one with --kernel: " + names);
  const std::string& name = wanted.empty() ? all.front() : wanted;
  for (const auto& f : module.tree().functions)
    if (f.entry && f.defined && f.name == name) return f;
  const emulator::ptx::Function* found = nullptr;
  std::string called;
  for (const auto& f : module.tree().functions) {
    if (!f.entry || !f.defined || !is_called(std::string(f.name), name)) continue;
    called += (found ? ", " : "") + std::string(f.name);
    found = &f;
  }
  if (found && called == found->name) return *found;
  if (found) throw UserError(file + ": several kernels are called " + name + "; choose among " + called);
  const std::string meant = nearest(name, all);
  throw UserError(file + ": there is no kernel " + name + "; " +
                  (meant.empty() ? "it has " + names : "did you mean " + meant + "?"));
}

using Json = nlohmann::ordered_json;

void print(const Json& json) { fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace)); }

void list(const emulator::Module& module, bool as_json) {
  Json json{{"kernels", Json::array()}};
  for (const auto& f : module.tree().functions) {
    if (!f.entry || !f.defined) continue;
    if (!as_json) fmt::print("{}: {}\n", f.name, signature(f));
    Json parameters = Json::array();
    for (const auto& p : f.params)
      parameters.push_back({{"name", p.name}, {"type", name_of(p.type)}, {"bytes", p.bytes}});
    json["kernels"].push_back({{"name", f.name}, {"parameters", parameters}});
  }
  if (as_json) print(json);
}

std::vector<EmulateArgument> arguments_of(const EmulateCommand& command, const emulator::ptx::Function& f) {
  if (command.arguments.size() != f.params.size())
    throw UserError(fmt::format("kernel {} takes {} {}: {}; --args gives {}", f.name, f.params.size(),
                                f.params.size() == 1 ? "argument" : "arguments", signature(f),
                                command.arguments.size()));
  std::vector<EmulateArgument> arguments;
  for (std::size_t n = 0; n < f.params.size(); ++n) {
    arguments.emplace_back(command.arguments[n], std::to_string(n + 1));
    EmulateArgument& a = arguments.back();
    const bool is_address = a.is_buffer() || a.word() == "null";
    if (a.is_tensor_map() && f.params[n].bytes == 8) a.pass_by_address();
    if (a.bytes() == f.params[n].bytes) continue;
    throw UserError(fmt::format("{}, \"{}\", has {} bytes, and the parameter is {}", a.name(), a.word(),
                                a.bytes(), parameter_text(f.params[n])) +
                    (a.is_tensor_map() ? "; a tensor map has 128 bytes, or 8 for its address"
                     : is_address      ? ", which takes no address"
                                       : "; give a number of that size, or hex:BYTES"));
  }
  return arguments;
}

emulator::Options options_of(const EmulateCommand& command, const emulator::Module& module) {
  emulator::Options o;
  o.arch = command.arch.empty() ? module.tree().target : command.arch;
  o.seed = command.seed;
  o.checks = emulator::Checks::parse(command.check);
  o.instruction_budget = command.budget;
  o.threads = command.threads;
  o.resident_blocks = command.resident;
  o.stop_at_first = command.stop_at_first;
  o.asynchrony = command.asynchrony == "earliest" ? emulator::Asynchrony::Earliest
                 : command.asynchrony == "latest" ? emulator::Asynchrony::Latest
                                                  : emulator::Asynchrony::Random;
  return o;
}

std::vector<std::byte> pack(const emulator::ptx::Function& f,
                            const std::vector<std::vector<std::byte>>& values) {
  std::vector<std::byte> packed;
  for (std::size_t n = 0; n < values.size(); ++n) {
    const std::uint64_t align = std::max<std::uint64_t>(f.params[n].align, 1);
    packed.resize((packed.size() + align - 1) / align * align);
    packed.insert(packed.end(), values[n].begin(), values[n].end());
  }
  return packed;
}

void print_text(const emulator::Report& report, const std::vector<EmulateArgument>& arguments,
                const EmulateCommand& command, const emulator::Counters& counters) {
  fmt::print("{}", report.printed);
  for (const EmulateArgument& a : arguments)
    a.each_buffer([](const EmulateArgument& b) {
      if (b.changed() || b.is_output()) fmt::print("{}\n", b.summary());
    });
  if (command.counters) fmt::print("{}", counters.text());
  const std::size_t count = report.findings.size() + report.left_out;
  fmt::print("{}{}: {}; {} instructions of warps\n", report.text(), report.kernel,
             count == 0   ? "nothing was found"
             : count == 1 ? "1 finding"
                          : std::to_string(count) + " findings",
             report.warp_instructions);
}

void print_json(const emulator::Report& report, const std::vector<EmulateArgument>& arguments,
                const EmulateCommand& command, const emulator::Counters& counters) {
  Json json;
  json["report"] = Json::parse(report.json());
  json["buffers"] = Json::array();
  for (const EmulateArgument& a : arguments)
    a.each_buffer([&](const EmulateArgument& b) { json["buffers"].push_back(b.json()); });
  if (command.counters) json["counters"] = Json::parse(counters.json());
  print(json);
}

int run(const EmulateCommand& command) {
  auto module =
      emulator::Module::parse(read_input(command.file, "name a file with PTX, or - for the standard input"),
                              command.file == "-" ? "stdin" : command.file);
  if (command.list) {
    list(*module, command.json);
    return 0;
  }
  const emulator::ptx::Function& f = find_kernel(*module, command.kernel);
  std::vector<EmulateArgument> arguments = arguments_of(command, f);
  emulator::Launch launch{.grid = extent("--grid", command.grid),
                          .block = extent("--block", command.block),
                          .shared_bytes = command.shared};
  launch.non_portable_cluster = command.non_portable_cluster;
  if (!command.cluster.empty()) launch.cluster = extent("--cluster", command.cluster);
  emulator::Gpu gpu(options_of(command, *module));
  emulator::Counters counters;
  if (command.counters) gpu.attach(&counters);
  for (EmulateArgument& a : arguments)
    a.place(gpu, command.seed);
  std::vector<std::vector<std::byte>> values;
  for (EmulateArgument& a : arguments)
    values.push_back(a.value(gpu, arguments));
  emulator::Report report = gpu.launch_packed(module, std::string(f.name), launch, pack(f, values));
  for (EmulateArgument& a : arguments)
    a.collect(gpu);
  command.json ? print_json(report, arguments, command, counters)
               : print_text(report, arguments, command, counters);
  return report.ok() ? 0 : findings_code;
}

int run_emulate(int argc, char** argv) {
  EmulateCommand c;
  CLI::App app(emulate_description + std::string(emulate_arguments_help), "kiln emulate");
  app.footer(footer);
  const CLI::Validator number = whole_number();
  app.add_option("FILE", c.file, "file of PTX; - reads the standard input")->required();
  app.add_option("--kernel", c.kernel, "name of the kernel (default: the only one)");
  app.add_option("--grid", c.grid, "blocks along x,y,z (default: 1)");
  app.add_option("--block", c.block, "threads of a block along x,y,z (default: 32)");
  app.add_flag("--non-portable-cluster", c.non_portable_cluster, "allow clusters of more than 8 blocks");
  app.add_option("--cluster", c.cluster, "blocks of a cluster along x,y,z (default: as the kernel declares)");
  app.add_option("--shared", c.shared, "bytes of dynamic shared memory")->check(number);
  app.add_option("--args", c.arguments, "the arguments, as above");
  app.add_option("--arch", c.arch, "architecture of the GPU, such as sm_90a (default: the file's .target)");
  app.add_option("--seed", c.seed, "seed of random buffers and of the order in which warps run (default: 0)")
      ->check(number);
  app.add_option("--check", c.check, "a comma list of races, init, bounds; or all or none (default: all)");
  app.add_option("--async", c.asynchrony, "when asynchronous copies take effect: random, earliest or latest")
      ->check(CLI::IsMember({"random", "earliest", "latest"}));
  app.add_option("--budget", c.budget,
                 "warp instructions after which the launch counts as an endless loop (default: 100 million)")
      ->check(number);
  app.add_option("--threads", c.threads,
                 "host threads that run blocks (default: 1); only if races are not checked")
      ->check(from_to(1, 4096));
  app.add_option("--resident", c.resident, "blocks that run interleaved (default: 1)")
      ->check(from_to(1, 4096));
  app.add_flag("--stop-at-first", c.stop_at_first, "end at the first finding");
  app.add_flag("--counters", c.counters, "count instructions, sectors and bank conflicts for each line");
  app.add_flag("--json", c.json, "print JSON, also for errors and --list");
  app.add_flag("--list", c.list, "list the kernels and their parameters");
  std::string wrong;
  const bool as_json = std::any_of(argv, argv + argc, [](const char* word) { return word == "--json"sv; });
  int code = 1;
  try {
    const auto ends = parse(app, argc, argv, as_json ? &wrong : nullptr);
    if (wrong.empty()) return ends ? *ends : run(c);
    code = *ends;
  } catch (const std::exception& error) {
    if (!as_json) throw;
    wrong = error.what();
  }
  print({{"error", wrong}});
  return code;
}

const CommandRegistration emulate_command({"emulate", "runs a kernel in PTX on an emulated GPU and checks it",
                                           run_emulate});

} // namespace

} // namespace kiln::cli
