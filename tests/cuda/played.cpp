// Finds the tile IR of a launched image, checks the launch, and interprets the kernel.
#include "played.h"

#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/interpreter.h>
#include <kiln/dsl/ir/parser.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <unistd.h>

namespace kiln::test {

namespace fs = std::filesystem;

namespace {

constexpr int assert_failed = 710, launch_failed = 719;

Options keeping(const fs::path& folder, bool debug) {
  Options o = options();
  o.keep = {.tile = true, .llvm = false, .ptx = true, .cubin = true, .assembly = false};
  o.keep_dir = folder.string();
  o.debug = debug;
  return o;
}

fs::path fresh_folder() {
  static std::atomic<int> number;
  return fs::temp_directory_path() /
         ("kiln-played-" + std::to_string(getpid()) + "-" + std::to_string(number++));
}

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// The size of each parameter that the entry point of a kernel must have.
std::vector<int> parameter_bytes(const ir::Kernel& kernel, int count) {
  std::vector<int> bytes;
  for (const auto& arg : kernel.body.args) {
    const bool one = !arg->type.is_view();
    bytes.push_back(one && !arg->type.pointer ? size_of(arg->type.dtype) : 8);
    bytes.insert(bytes.end(), one ? 0 : 2 * static_cast<std::size_t>(arg->type.view_rank), 8);
  }
  while (static_cast<int>(bytes.size()) < count - 1) // extents of the grid
    bytes.push_back(8);
  bytes.push_back(4);
  return bytes;
}

// Whether a byte of a view that is stored to may belong to another view too. Simply compares the ranges from
// the first to the last byte.
bool views_meet(const ir::Kernel& kernel, const std::uint64_t* arguments) {
  struct Span {
    std::uint64_t low, high;
    bool written;
  };
  std::vector<Span> spans;
  const auto layout = ir::ArgumentLayout::of(kernel);
  for (std::size_t p = 0; p < kernel.body.args.size(); ++p) {
    const ir::Value* arg = kernel.body.args[p].get();
    if (!arg->type.is_view()) continue;
    const std::uint64_t* words = arguments + layout.first_word[p];
    const auto rank = static_cast<std::size_t>(arg->type.view_rank);
    std::uint64_t low = words[0], high = words[0];
    bool empty = false, written = false;
    for (std::size_t a = 0; a < rank; ++a) {
      empty |= words[1 + a] == 0;
      const auto reach =
          static_cast<std::int64_t>((words[1 + a] - 1) * words[1 + rank + a]) * size_of(arg->type.dtype);
      (reach < 0 ? low : high) += static_cast<std::uint64_t>(reach);
    }
    ir::walk(kernel.body, [&](const ir::Op& op) {
      const bool stores = op.is(ir::Opcode::ViewStore) || op.is(ir::Opcode::ViewScatter);
      written |= stores && op.operand(0) == arg;
    });
    if (!empty) spans.push_back({low, high + static_cast<std::uint64_t>(size_of(arg->type.dtype)), written});
  }
  for (std::size_t i = 0; i < spans.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if ((spans[i].written || spans[j].written) && spans[i].low < spans[j].high &&
          spans[j].low < spans[i].high)
        return true;
  return false;
}

} // namespace

Played::Played(bool debug) : folder_(fresh_folder()), options_(keeping(folder_, debug)) {
  fs::remove_all(folder_);
  fake().execute(run, this);
}

Played::~Played() {
  fake().execute(nullptr, nullptr);
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

// The files of a kernel share one name: NAME-KEY.ptx, .cubin and .kir. The latter has the kernel as recorded
// and as lowered.
std::shared_ptr<const ir::Kernel> Played::kernel_of(const std::string& image) {
  // Kernels outlive the tests that made them.
  static std::map<std::string, std::shared_ptr<const ir::Kernel>> kernels;
  auto& known = kernels[image];
  if (known) return known;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const auto suffix = entry.path().extension();
    if ((suffix != ".ptx" && suffix != ".cubin") || read(entry.path()) != image) continue;
    auto tile = entry.path();
    auto both = ir::parse_all(read(tile.replace_extension(".kir")), tile.string());
    return known = std::shared_ptr<const ir::Kernel>(std::move(both.back()));
  }
  return nullptr;
}

int Played::run(const FakeExecution* e) {
  auto& self = *static_cast<Played*>(e->context);
  std::lock_guard lock(self.mutex_);
  try {
    return self.play(*e);
  } catch (const UserError& error) { // a failed device_assert
    return assert_failed;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernel %s was launched wrongly: %s\n", e->kernel, error.what());
    return launch_failed;
  }
}

int Played::play(const FakeExecution& e) {
  auto require = [](bool ok, const char* what) {
    if (!ok) throw std::runtime_error(what);
  };
  auto kernel = kernel_of(std::string(e.image, e.image_bytes));
  require(kernel != nullptr, "its image was not compiled here");
  ++launches_;
  const int words = ir::ArgumentLayout::of(*kernel).words, rank = e.argument_count - words - 1;
  const std::vector<int> found(e.argument_bytes, e.argument_bytes + e.argument_count);
  require(rank >= 1 && found == parameter_bytes(*kernel, e.argument_count), "the parameters' sizes");
  const std::uint64_t* last = e.arguments + e.argument_count - 1;
  require(*last <= 1, "the overlap is neither 0 nor 1");
  require(*last == 1 || !views_meet(*kernel, e.arguments),
          "views overlap, and the launch says that they do not");
  std::vector<std::int64_t> grid;
  std::int64_t programs = 1;
  for (const std::uint64_t* extent = e.arguments + words; extent < last; ++extent) {
    grid.push_back(static_cast<std::int64_t>(*extent));
    programs *= grid.back();
  }
  require(programs == e.grid[0] && e.grid[1] == 1 && e.grid[2] == 1, "the extents and the number of blocks");
  if (!kernel->grid.empty()) {
    const auto wanted = ir::grid_of(*kernel, e.arguments);
    grid.resize(wanted.size()); // further axes that the kernel reads by program_id have one program
    require(grid == wanted, "the extents of the grid");
  }
  ir::interpret(*kernel, e.arguments, grid, {.device_asserts = options().debug});
  return 0;
}

} // namespace kiln::test
