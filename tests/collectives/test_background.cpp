// Tests computations of calls that throw, polls for calls, and deadlines.
#include "findings.h"

#include <kiln/collectives/ranks.h>
#include <kiln/collectives/symmetric_memory.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <stdexcept>
#include <thread>

using namespace kiln;
using namespace kiln::collectives;
using test::Findings;

namespace {

struct NoException {};

// An all-reduce of two rows of each rank, in which what rank 1 computes throws.
CollectiveCall throwing_call(int rank, int ranks, std::vector<char>& memory, bool in_background,
                             bool exception) {
  CollectiveCall call{"sums"};
  call.schedule = std::make_shared<const PreparedSchedule>(one_shot_all_reduce(
      Shards::even(2 * ranks, ranks), {.partial = 4, .sum = 4}, {.computes = !in_background}));
  memory.assign(64 * static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks), 0);
  call.part.place = [&memory, ranks](const Piece& p) -> void* {
    return memory.data() + 64 * (p.source * ranks + p.chunk.owner);
  };
  call.part.run = [rank, exception](const Step& step) {
    if (rank != 1) return;
    if (exception) throw std::runtime_error("no memory for " + std::to_string(step.piece.chunk.owner));
    throw NoException();
  };
  call.in_background = in_background;
  return call;
}

} // namespace

TEST_CASE("whatever a computation throws, on the rank's thread or in the background, ends the call") {
  for (const bool in_background : {false, true})
    for (const bool exception : {false, true})
      for (int repeat = 0; repeat < 50; ++repeat) {
        const int ranks = 2 + repeat % 7;
        std::vector<std::string> errors(static_cast<std::size_t>(ranks));
        std::vector<std::vector<char>> memory(errors.size());
        try {
          run_ranks({.ranks = ranks, .deadline = 20'000'000'000}, [&](Communicator& comm) {
            const auto r = static_cast<std::size_t>(comm.rank());
            try {
              comm.execute(throwing_call(comm.rank(), ranks, memory[r], in_background, exception));
            } catch (const CommError& e) {
              errors[r] = e.failed_rank() == 1 ? e.what() : "another rank is at fault";
              throw;
            }
          });
        } catch (const CommError&) {
          CHECK(in_background);
        } catch (const std::runtime_error&) {
          CHECK((!in_background && exception));
        } catch (const NoException&) {
          CHECK((!in_background && !exception));
        }
        const std::string cause = exception ? "no memory for" : "what is no std::exception";
        for (std::size_t r = 0; r < errors.size(); ++r)
          if (!errors[r].empty() || (r == 1 && in_background)) // others may have ended before
            CHECK_THAT(errors[r], Catch::Contains(cause));
      }
}

TEST_CASE("a schedule for another number of ranks, or without places, is an error on its rank") {
  run_ranks({.ranks = 1}, [](Communicator& comm) {
    CollectiveCall call{"mine"};
    CHECK_THROWS_WITH(comm.execute(call), Catch::Contains("mine: the schedule is for 0 ranks"));
    call.schedule = std::make_shared<const PreparedSchedule>(ring_gather(Shards::even(4, 3), {.shard = 8}));
    CHECK_THROWS_WITH(comm.execute(call), Catch::Contains("is for 3 ranks, and the communicator has 1"));
    call.schedule = std::make_shared<const PreparedSchedule>(ring_gather(Shards::even(4, 1), {.shard = 8}));
    CHECK_THROWS_WITH(comm.execute(call), Catch::Contains("place is not given"));
  });
}

TEST_CASE("negative deadlines of waits are errors, after which the ranks continue") {
  Findings found;
  run_ranks({.ranks = 2}, [&](Communicator& comm) {
    Stream stream;
    auto x = test::full(100, 2), y = test::full(100, 0);
    Work sum = comm.async_all_reduce(stream, x, y);
    const auto memory = comm.symmetric_memory(8);
    const auto refused = [&](const auto& wait) {
      try {
        wait();
      } catch (const UserError& e) {
        return std::string(e.what()).find("deadline is negative") != std::string::npos;
      }
      return false;
    };
    found.require(refused([&] { sum.wait(-1); }), "Work::wait(-1) is no UserError");
    found.require(refused([&] { memory->wait(1 - comm.rank(), -1); }), "the wait for a signal is none");
    sum.wait();
    found.require(y.view()(99) == 4, "the sum is wrong");
    comm.barrier();
  });
  CHECK(found.list() == test::nothing_wrong);
}

TEST_CASE("only an error of a deadline has the last calls of all ranks") {
  Findings found;
  for (const bool late : {false, true})
    try {
      run_ranks({.ranks = 2, .deadline = 50'000'000}, [&](Communicator& comm) {
        const auto memory = comm.symmetric_memory(8);
        if (comm.rank() == 1) {
          if (!late) comm.abort("enough");
          std::this_thread::sleep_for(std::chrono::milliseconds(late ? 200 : 0));
          return;
        }
        try {
          memory->wait(1);
        } catch (const CommError& e) {
          found.require(e.last_calls().empty() != late, std::string(e.what()) + ": " + e.last_calls());
          throw;
        }
      });
      FAIL("the wait ended without its signal");
    } catch (const CommError&) {
    }
  CHECK(found.list() == test::nothing_wrong);
}

TEST_CASE("on the virtual clock, ranks that poll for what never comes are soon late") {
  const auto began = std::chrono::steady_clock::now();
  const auto body = [](Communicator& comm) {
    Stream stream;
    auto x = test::full(100, 2), y = test::full(100, 0);
    if (comm.rank() == 0) comm.barrier();           // waits for ranks
    Work receiving = comm.async_recv(stream, y, 0); // that wait for it
    while (!receiving.test()) {
    }
    receiving.wait();
  };
  CHECK_THROWS_AS(run_ranks({.ranks = 4, .clock = ClockKind::virtual_time}, body), CommError);
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(20));
}
