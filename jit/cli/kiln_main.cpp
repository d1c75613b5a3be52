// Implements the `kiln` command; `kiln --help` lists its subcommands.
#include <kiln/jit/cli/support/dispatch.h>

#include <csignal>

int main(int argc, char** argv) {
  // Writing past the limit of file sizes is an error, rather than ending the process.
  std::signal(SIGXFSZ, SIG_IGN);
  return kiln::cli::run(argc, argv);
}
