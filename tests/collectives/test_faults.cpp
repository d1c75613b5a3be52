// Injects faults into calls: one rank fails at some step of some schedule, and the others must notice.
#include "findings.h"
#include "test_seed.h"

#include <kiln/collectives/ranks.h>
#include <kiln/collectives/symmetric_memory.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <optional>
#include <random>
#include <thread>

using namespace kiln;
using namespace kiln::collectives;
using test::Findings;

namespace {

enum class Fault { throws, stalls, leaves, other_collective, other_counts, other_schedule, aborts };
const char* name_of(Fault f) {
  const char* names[] = {"throws",
                         "stalls",
                         "leaves",
                         "calls another collective",
                         "passes other counts",
                         "passes another schedule",
                         "aborts"};
  return names[static_cast<int>(f)];
}

constexpr std::int64_t row_bytes = 64;

Schedule schedule_of(int kind, const Shards& shards) {
  const RowBytes bytes{row_bytes, row_bytes, row_bytes};
  switch (kind) {
  case 0: return serial_gather(shards, bytes);
  case 1: return ring_gather(shards, bytes);
  case 2: return direct_gather(shards, bytes);
  case 3: return serial_scatter(shards, bytes);
  case 4: return direct_scatter(shards, bytes);
  case 5: return serial_all_reduce(shards, bytes);
  case 6: return two_shot_all_reduce(shards, bytes);
  case 7: return one_shot_all_reduce(shards, bytes);
  case 8: return serial_all_reduce(shards, bytes, {.uses_sums = true});
  default: return two_shot_all_reduce(shards, bytes, {.uses_sums = true});
  }
}
constexpr int schedules = 10;

// The memory of a rank for all pieces: a block for each kind and source.
class Memory {
public:
  explicit Memory(const Schedule& s)
      : shards_(s.shards), block_(s.shards.rows() * row_bytes),
        bytes_(static_cast<std::size_t>(block_) * static_cast<std::size_t>(s.ranks() + 2), untouched) {}
  char* at(const Piece& p) {
    const std::int64_t block = p.kind == Piece::Kind::shard ? 0
                               : p.kind == Piece::Kind::sum ? 1
                                                            : 2 + p.source;
    return bytes_.data() + block * block_ + shards_.rows(p.chunk).begin * row_bytes;
  }
  void write(const Piece& p, char value) {
    std::fill_n(at(p), shards_.rows(p.chunk).count() * row_bytes, value);
  }
  // Whether each piece is either untouched or what its sender wrote.
  bool is_whole(const Schedule& s) {
    for (const Step& step : s.steps) {
      if (step.kind != Step::Kind::put) continue;
      const char* bytes = at(step.piece);
      for (std::int64_t i = 1; i < step.bytes; ++i)
        if (bytes[i] != bytes[0]) return false;
      if (step.bytes > 0 && bytes[0] != untouched && bytes[0] != written) return false;
    }
    return true;
  }
  static constexpr char untouched = 7, written = 42;

private:
  Shards shards_;
  std::int64_t block_;
  std::vector<char> bytes_;
};

struct Outcome {
  std::optional<CommError> error;
  bool other_exception = false;
  bool whole = true;
  Nanoseconds began = 0, ended = 0;
};

struct Injection {
  Fault fault = Fault::throws;
  int schedule = 0, ranks = 2, chunks = 1, guilty = 0;
  int step = 0;  // the how-manieth computation of the guilty rank
  int calls = 0; // good calls before
  ClockKind clock = ClockKind::virtual_time;
  Nanoseconds deadline = 1'000'000;
  LinkModel link = {.bytes_per_second = 1e9, .latency = 200};
};

class StepThrew : public std::runtime_error {
public:
  StepThrew() : std::runtime_error("out of paper") {}
};

std::vector<Outcome> run(const Injection& in) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(in.ranks));
  std::vector<std::int64_t> rows(static_cast<std::size_t>(in.ranks), 5);
  const auto schedule =
      std::make_shared<const PreparedSchedule>(schedule_of(in.schedule, Shards(rows).in_chunks(in.chunks)));
  std::atomic<int> failed{0};
  RanksOptions options{.ranks = in.ranks, .clock = in.clock, .link = in.link, .deadline = in.deadline};
  const auto body = [&](Communicator& comm) {
    Outcome& out = outcomes[static_cast<std::size_t>(comm.rank())];
    const bool guilty = comm.rank() == in.guilty;
    Memory memory(*schedule);
    for (int c = 0; c < in.ranks; ++c)
      for (int i = 0; i < schedule->shards.chunks(); ++i)
        if (c == comm.rank()) memory.write({Piece::Kind::shard, {c, i}}, Memory::written);
    const auto execute = [&](bool faulty, int number) {
      CollectiveCall call{"layer", "call " + std::to_string(number), "f32", schedule};
      if (faulty && in.fault == Fault::other_collective) call.collective = "barrier";
      if (faulty && in.fault == Fault::other_counts) {
        rows[0] += 1;
        call.schedule = std::make_shared<const PreparedSchedule>(
            schedule_of(in.schedule, Shards(rows).in_chunks(in.chunks)));
      }
      if (faulty && in.fault == Fault::other_schedule)
        call.schedule =
            std::make_shared<const PreparedSchedule>( // instead of a serial one, one that overlaps
                schedule_of(schedule->name == "serial" ? in.schedule + 1 : in.schedule,
                            schedule->shards.in_chunks(in.chunks + 1)));
      const bool other_chunks = call.schedule != schedule;
      int computed = 0;
      call.part.place = [&](const Piece& p) { return memory.at(p); };
      call.part.run = [&](const Step& step) {
        if (other_chunks) return; // its chunks are not those of the memory
        const bool now = faulty && computed++ == in.step;
        if (now && in.fault == Fault::throws) throw StepThrew();
        if (now && in.fault == Fault::aborts) comm.abort("the user presses a key");
        if (now && in.fault == Fault::stalls && in.clock == ClockKind::wall)
          while (failed < in.ranks - 1) // the others notice
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        for (int i = 0; i < step.chunks; ++i)
          if (step.piece.kind == Piece::Kind::partial || step.kind == Step::Kind::reduce)
            memory.write({step.piece.kind, schedule->following(step.piece.chunk, i), step.piece.source},
                         Memory::written);
      };
      int asked = 0;
      call.cost = [&, asked](const Step&) mutable -> Nanoseconds {
        return faulty && in.fault == Fault::stalls && asked++ == in.step ? 10 * in.deadline : 300;
      };
      comm.execute(std::move(call));
    };
    try {
      for (int i = 0; i < in.calls; ++i)
        execute(false, i);
      out.began = comm.now();
      if (guilty && in.fault == Fault::leaves) return;
      execute(guilty, in.calls);
      execute(false, in.calls + 1); // a rank that had all that it needs fails here
      out.ended = comm.now();
    } catch (const CommError& e) {
      out.ended = comm.now();
      out.error = e;
      out.whole = memory.is_whole(*schedule);
      ++failed;
    } catch (const StepThrew&) {
      out.other_exception = true;
    }
  };
  run_ranks(options, body);
  return outcomes;
}

std::string text_of(const Injection& in) {
  return std::string(name_of(in.fault)) + ", schedule " + std::to_string(in.schedule) + " of " +
         std::to_string(in.ranks) + " ranks in " + std::to_string(in.chunks) + " chunks, guilty " +
         std::to_string(in.guilty) + ", step " + std::to_string(in.step) + ", call " +
         std::to_string(in.calls);
}

void check(const Injection& in, const std::vector<Outcome>& outcomes, Nanoseconds slack) {
  INFO(text_of(in));
  for (int rank = 0; rank < in.ranks; ++rank) {
    const Outcome& out = outcomes[static_cast<std::size_t>(rank)];
    if (rank == in.guilty) {
      CHECK((in.fault != Fault::throws || out.other_exception));
      continue;
    }
    INFO("rank " << rank);
    REQUIRE(out.error);
    const CommError& e = *out.error;
    CAPTURE(e.what());
    // Of ranks that call different things, either may be wrong.
    const bool mismatch = in.fault == Fault::other_collective || in.fault == Fault::other_counts ||
                          in.fault == Fault::other_schedule;
    CHECK((mismatch ? e.failed_rank() >= 0 : e.failed_rank() == in.guilty));
    CHECK((e.call().collective == "layer" && e.call().tag.substr(0, 5) == "call "));
    // A slow rank may still be in the call before.
    const auto sequence = static_cast<int>(e.call().sequence);
    CHECK((sequence >= in.calls - 1 && sequence <= in.calls + 1));
    CHECK(out.ended - out.began <= 2 * in.deadline + slack);
    CHECK(out.whole);
    if (mismatch) CHECK_THAT(e.what(), Catch::Contains("rank " + std::to_string(in.guilty) + " calls"));
  }
}

Injection random_injection(std::mt19937_64& random) {
  const auto up_to = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n + 1)); };
  Injection in;
  in.fault = static_cast<Fault>(up_to(6));
  in.schedule = up_to(schedules - 1);
  in.ranks = 2 + up_to(3);
  in.chunks = 1 + up_to(2);
  in.guilty = up_to(in.ranks - 1);
  in.calls = up_to(2);
  // Every rank has at least one computation.
  const Schedule s = schedule_of(
      in.schedule,
      Shards(std::vector<std::int64_t>(static_cast<std::size_t>(in.ranks), 5)).in_chunks(in.chunks));
  const auto own = std::count_if(s.steps.begin(), s.steps.end(), [&](const Step& step) {
    return step.rank == in.guilty && step.kind != Step::Kind::put;
  });
  in.step = up_to(static_cast<int>(own) - 1);
  return in;
}

} // namespace

TEST_CASE(
    "a thousand faults on the virtual clock are found by every other rank, which names the guilty one") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 1000; ++i) {
    const Injection in = random_injection(random);
    check(in, run(in), 0);
  }
}

TEST_CASE("faults on the wall clock are found within a second of the deadline") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 50; ++i) {
    Injection in = random_injection(random);
    in.clock = ClockKind::wall;
    in.deadline = 100'000'000;
    if (i % 2) in.link = {}; // the ranks move the data themselves
    check(in, run(in), 1'000'000'000);
  }
}

TEST_CASE("a rank that hangs is an error with the last calls of every rank") {
  Injection in{.fault = Fault::stalls, .schedule = 4, .ranks = 3, .guilty = 1, .calls = 1};
  const auto outcomes = run(in);
  const auto& error = outcomes[0].error;
  REQUIRE(error);
  CHECK_THAT(error->what(), Catch::Contains("layer #1 [call 1]") &&
                                Catch::Contains("rank 1 has not ended its computation of partial"));
  const std::string& calls =
      outcomes[0].error->last_calls().empty() ? outcomes[2].error->last_calls() : error->last_calls();
  CHECK_THAT(calls,
             Catch::Contains("rank 1: layer #0 [call 0] took") && Catch::Contains("layer #1 [call 1] since"));
}

TEST_CASE("a work that is dropped ends in its destructor, and errors come again") {
  Findings found;
  CHECK_THROWS_AS(run_ranks({.ranks = 2, .clock = ClockKind::virtual_time},
                            [&](Communicator& comm) {
                              Stream stream;
                              auto x = test::full(100, 2), y = Tensor<float, 1>::zeros({100});
                              {
                                const Work dropped = comm.async_all_reduce(stream, x, y);
                              }
                              found.require(y.view()(5) == 4, "the result of a dropped work");
                              if (comm.rank() == 1) return;
                              {
                                const Work dropped = comm.async_all_reduce(stream, x, y);
                              }
                              comm.barrier();
                            }),
                  CommError);
  CHECK(found.list() == test::nothing_wrong);
}

TEST_CASE("what a rank throws comes out of run_ranks, and not the errors of others that follow from it") {
  for (ClockKind clock : {ClockKind::virtual_time, ClockKind::wall})
    for (bool pending : {false, true}) {
      const auto began = std::chrono::steady_clock::now();
      const auto body = [&](Communicator& comm) {
        Stream stream;
        auto x = test::full(100, 1), y = test::full(100, 1);
        if (comm.rank() == 1) {
          Work sending;
          if (pending) sending = comm.async_send(stream, x, 0);
          throw StepThrew();
        }
        comm.all_reduce(stream, x, y);
      };
      CHECK_THROWS_AS(run_ranks({.ranks = 2, .clock = clock, .deadline = 20'000'000'000}, body), StepThrew);
      CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(10));
    }
}

TEST_CASE("a put into memory that its rank has released is an error, and writes nothing") {
  for (ClockKind clock : {ClockKind::virtual_time, ClockKind::wall}) {
    Findings found;
    const auto body = [&](Communicator& comm) {
      const int value = 7;
      auto memory = comm.symmetric_memory(64);
      if (comm.rank() == 0) {
        memory->put(1, 0, &value, sizeof value);
        comm.barrier(); // rank 1 has released its memory
        try {
          memory->put(1, 0, &value, sizeof value);
          found.require(false, "the put succeeds");
        } catch (const CommError& e) {
          found.require(e.failed_rank() == 1, e.what());
        }
        return;
      }
      memory->wait(0);
      memory.reset();
      comm.barrier();
    };
    run_ranks({.ranks = 2, .clock = clock}, body);
    CHECK(found.list() == test::nothing_wrong);
  }
}

TEST_CASE("what a dead link never brings is late") {
  for (ClockKind clock : {ClockKind::virtual_time, ClockKind::wall})
    for (const LinkModel& dead :
         {LinkModel{.latency = never}, LinkModel{.edges = {{.from = 1, .to = 0, .latency = never}}},
          LinkModel{.latency = 1000, .jitter = never}}) {
      const auto body = [](Communicator& comm) {
        Stream stream;
        comm.barrier({.tag = "soon"});
        auto x = test::full(100, 2), y = test::full(100, 0);
        comm.all_reduce(stream, x, y);
      };
      CHECK_THROWS_AS(run_ranks({.ranks = 2, .clock = clock, .link = dead, .deadline = 50'000'000}, body),
                      CommError);
    }
}

TEST_CASE("a poll sees that a collective is complete, or cannot be") {
  for (ClockKind clock : {ClockKind::virtual_time, ClockKind::wall}) {
    Findings found;
    CHECK_THROWS_AS(run_ranks({.ranks = 2,
                               .clock = clock,
                               .link = {.bytes_per_second = 1e9, .latency = 5000},
                               .deadline = never},
                              [&](Communicator& comm) {
                                Stream stream;
                                auto x = test::full(100, 2), y = test::full(100, 0);
                                Work good = comm.async_all_reduce(stream, x, y);
                                while (!good.test())
                                  std::this_thread::yield();
                                good.wait(never);
                                found.require(y.view()(5) == 4, "the result");
                                if (comm.rank() == 1) return;
                                Work bad = comm.async_all_reduce(stream, x, y);
                                while (!bad.test())
                                  std::this_thread::yield();
                                bad.wait();
                              }),
                    CommError);
    CHECK(found.list() == test::nothing_wrong);
  }
}
