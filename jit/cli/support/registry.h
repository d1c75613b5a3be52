// What the `kiln` command knows: subcommands and kernels, registered by the folders that have them, so that
// no lower folder includes a higher one.
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
// and `kiln explain matmul --size M=1000` works. A subcommand is registered the same way:
//
//   static const cli::CommandRegistration registration({"tune", "searches configs", run_tune});
//
// The texts are literals: registration is a handful of stores at start-up and never fails. The library's
// static objects are all made before main; nothing may register later. Cheap to include.
#pragma once

#include <kiln/dsl/config.h>

#include <memory>
#include <string_view>
#include <vector>

namespace kiln {

namespace ir {
struct Kernel;
}

namespace cli {

struct Command {
  const char* name;    // as typed: "tune"; "cache warm" is a subcommand of `kiln cache`, which lists it
  const char* summary; // one line, for `kiln --help`; empty: for Kiln itself to call, and not shown
  // argv[0] is the command's name as above. Returns the exit code: 0, 1 for a failure, 2 for wrong usage. A
  // kiln::Error that it throws is printed and gives 1.
  int (*run)(int argc, char** argv);
};

struct RegisteredKernel {
  const char* name;
  const char* summary; // one line, for `kiln kernels`
  // Records the kernel: tile IR as the lambda wrote it.
  std::shared_ptr<ir::Kernel> (*record)(const Config& config);
  const char* config = ""; // default sizes and options, as Config::parse reads them
  const char* sizes = "";  // what the names in `parameters` stand for by default: "M=2048,N=2048"
  // Names for all parameters in order. For a view its extents, for a scalar its value, each a number or a
  // name from `sizes`: "x=M,N scale=2 out=M,N"; for a pointer the extents of what is behind it, or its name
  // alone.
  const char* parameters = "";
};

namespace detail {
// Links of a list whose head is constant-initialised: the order in which static objects are made is free.
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

// All that are shown, sorted by name; of subcommands, those that registered on their own.
std::vector<const Command*> commands();
std::vector<const Command*> subcommands(std::string_view command);
std::vector<const RegisteredKernel*> kernels();
const Command* find_command(std::string_view name);         // null if there is none
const RegisteredKernel* find_kernel(std::string_view name); // null if there is none

} // namespace cli
} // namespace kiln
