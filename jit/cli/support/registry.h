// Registers subcommands and kernels for the `kiln` command. Each folder registers its own, so that no lower
// folder has to include a higher one.
//
// In a .cpp file of ops/, at namespace scope:
//
//   static const cli::KernelRegistration registration({
//       .name = "matmul",
//       .summary = "c = a b, f32",
//       .record = [](const Config& config) { return matmul().record(config); }, // a kiln::Kernel
//       .config = "BM=64,BN=64,BK=64",
//       .sizes = "M=2048,N=2048,K=2048",
//       .parameters = "a=M,K b=K,N c=M,N",
//   });
//
// Then `kiln explain matmul --size M=1000` works. A subcommand is registered in the same way:
//
//   static const cli::CommandRegistration registration({"tune", "searches configs", run_tune});
//
// All texts must be string literals, because registration only stores pointers; it cannot fail. Only static
// objects may register: before main, or while the library that contains them is loaded. This header is cheap
// to include.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/config.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::ir {
struct Kernel;
} // namespace kiln::ir

KILN_API_BEGIN
namespace kiln {

namespace cli {

struct Command {
  const char* name;    // as typed: "tune"; "cache warm" is a subcommand of `kiln cache`
  const char* summary; // one line for `kiln --help`; empty: not listed, since only Kiln itself calls it
  // Runs the command; argv[0] is its name as above. Returns the exit code: 0, 1 for a failure, 2 for wrong
  // usage. If it throws a kiln::Error, the error is printed and the exit code is 1.
  int (*run)(int argc, char** argv);
};

struct RegisteredKernel {
  const char* name;    // as typed: "matmul"
  const char* summary; // one line for `kiln kernels`
  // Records the kernel as tile IR.
  std::shared_ptr<ir::Kernel> (*record)(const Config& config);
  const char* config = ""; // default sizes and options, in the syntax of Config::parse
  const char* sizes = "";  // default values of the names in `parameters`: "M=2048,N=2048"
  // The names of all parameters, in order. After the name, a view has its extents and a scalar its value,
  // each as a number or a name from `sizes`: "x=M,N scale=2 out=M,N". A pointer has the extents of the memory
  // that it points to, or only its name.
  const char* parameters = "";
  // The programs along each axis for these sizes and this config, as "8x24", if the kernel does not define its
  // grid.
  const char* grid = "";
  // Returns a line for `kiln explain` about a launch with these arguments, which are the words of the
  // parameters: addresses that must not be read, extents, strides and scalars. May be null; an empty line is
  // omitted.
  std::string (*remark)(const Config& config, const std::uint64_t* arguments) = nullptr;
};

namespace detail {
// An element of a linked list. The head is constant-initialised, so static objects may register in any order.
template <class T> struct Registered {
  T item;
  const Registered* next;
};
extern const Registered<Command>* first_command;
extern const Registered<RegisteredKernel>* first_kernel;
} // namespace detail

class CommandRegistration {
public:
  explicit CommandRegistration(const Command& command) : link_{command, detail::first_command} {
    detail::first_command = &link_;
  }
  CommandRegistration(const CommandRegistration&) = delete;

private:
  detail::Registered<Command> link_;
};

class KernelRegistration {
public:
  explicit KernelRegistration(const RegisteredKernel& kernel) : link_{kernel, detail::first_kernel} {
    detail::first_kernel = &link_;
  }
  KernelRegistration(const KernelRegistration&) = delete;

private:
  detail::Registered<RegisteredKernel> link_;
};

} // namespace cli
} // namespace kiln
KILN_API_END

namespace kiln::cli {

// The rest is for Kiln itself and is not exported.

// Return what `kiln` lists, sorted by name: the commands, the subcommands of one command (those that were
// registered separately), and the kernels.
std::vector<const Command*> commands();
std::vector<const Command*> subcommands(std::string_view command);
std::vector<const RegisteredKernel*> kernels();
const Command* find_command(std::string_view name);         // null if there is none
const RegisteredKernel* find_kernel(std::string_view name); // null if there is none

} // namespace kiln::cli
