// kiln: shows what Kiln makes of kernels and looks after what it keeps; `kiln --help` says how.
#include <kiln/jit/cli/support/dispatch.h>

#include <csignal>

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN); // a file past the process's limit is an error that says so, and no death
  return kiln::cli::run(argc, argv);
}
