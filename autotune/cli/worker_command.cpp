// Implements the command `kiln tune-worker`, which only LiveMeasurer starts.
#include <kiln/autotune/measure/worker.h>
#include <kiln/autotune/measure/worker_process.h>
#include <kiln/jit/cli/support/registry.h>

#include <cstdio>
#include <cstdlib>

#include <sys/socket.h>

namespace kiln::cli {

namespace {

bool is_socket(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

int run_tune_worker(int argc, char** argv) {
  if (argc != 3 || !is_socket(tune::worker_socket)) {
    std::fputs("kiln: only the tuner starts tune-worker; see `kiln tune --help` for how to tune\n", stderr);
    return 2;
  }
  return tune::run_worker(argv[2], std::atoi(argv[1]));
}

const CommandRegistration worker_command({"tune-worker", "", run_tune_worker});

} // namespace

} // namespace kiln::cli
