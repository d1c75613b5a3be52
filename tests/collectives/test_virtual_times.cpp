// Tests that times on the virtual clock do not depend on which rank's thread is faster.
#include <kiln/collectives/ranks.h>
#include <kiln/collectives/symmetric_memory.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

using namespace kiln;
using namespace kiln::collectives;

namespace {

constexpr int ranks = 4;

using Body = std::function<void(Communicator& comm, const std::function<void()>& delay)>;

// The times at which ranks end what they do. `delay` lasts for another real time on each rank and in each run.
std::vector<Nanoseconds> times_with_delays(int run, Nanoseconds jitter, const Body& body) {
  std::vector<Nanoseconds> times(ranks);
  run_ranks({.ranks = ranks,
             .clock = ClockKind::virtual_time,
             .link = {.bytes_per_second = 1e9, .latency = 500, .jitter = jitter, .seed = 7}},
            [&](Communicator& comm) {
              body(comm, [&] {
                std::this_thread::sleep_for(std::chrono::microseconds(500 * ((comm.rank() + run) % ranks)));
              });
              times[static_cast<std::size_t>(comm.rank())] = comm.now();
            });
  return times;
}

void check_times(Nanoseconds jitter, const Body& body) {
  const std::vector<Nanoseconds> expected = times_with_delays(0, jitter, body);
  for (int run = 1; run < 2 * ranks; ++run)
    CHECK(times_with_delays(run, jitter, body) == expected);
}

using Vector = Tensor<float, 1>;

} // namespace

TEST_CASE("on the virtual clock, what a rank sends to several ranks passes its port in the same order") {
  check_times(0, [](Communicator& comm, const auto& delay) {
    Stream stream;
    std::vector<Vector> data;
    for (int rank = 0; rank < ranks; ++rank)
      data.push_back(Vector::empty({1000 * (rank + 1)}));
    std::vector<Work> works;
    delay();
    for (int rank = 1; rank < ranks; ++rank)
      if (comm.rank() == 0)
        works.push_back(comm.async_send(stream, data[static_cast<std::size_t>(rank)], rank));
      else if (comm.rank() == rank)
        comm.recv(stream, data[static_cast<std::size_t>(rank)], 0);
  });
}

TEST_CASE("on the virtual clock, puts of several ranks pass the port of the receiver in the same order") {
  check_times(0, [](Communicator& comm, const auto& delay) {
    const std::vector<char> data(4000);
    const auto memory = comm.symmetric_memory(4000);
    delay();
    if (comm.rank() > 0)
      memory->put(0, 0, data.data(), 1000 * comm.rank());
    else
      for (int rank = 1; rank < ranks; ++rank)
        memory->wait(rank);
    comm.barrier();
  });
}

TEST_CASE("on the virtual clock, transfers of communicators that are used at once get the same jitter") {
  check_times(400, [](Communicator& comm, const auto& delay) {
    Stream stream;
    const auto half = comm.split(comm.rank() / 2);
    Vector x = Vector::empty({300});
    delay();
    for (int i = 0; i < 5; ++i)
      half->all_reduce(stream, x, x);
  });
}
