// Tests streams: order, full queues, errors, waiting and dozing, forks, and launches without allocation.
#include "stream_support.h"
#include <allocation_count.h>
#include <catch2/catch.hpp>
#include <kiln/dsl/error.h>
#include <kiln/jit/base/options.h>
#include <kiln/jit/base/sanitized.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace kiln;
using namespace std::chrono_literals;
using test::enqueue;
using test::Gate;

TEST_CASE("commands run in order, also small ones") {
  Stream stream;
  std::vector<int> order; // not atomic: only the stream's order synchronises the accesses
  for (int i = 0; i < 5000; ++i)
    enqueue(stream, [&order, i] { order.push_back(i); }, {.small = i % 3 == 0});
  stream.synchronize();
  REQUIRE(order.size() == 5000);
  for (int i = 0; i < 5000; ++i)
    REQUIRE(order[static_cast<std::size_t>(i)] == i);
  CHECK(stream.query());
}

TEST_CASE("a launch returns before its command has run") {
  Stream stream;
  Gate gate;
  stream.host_function(Gate::pass, &gate);
  std::atomic<bool> ran{false};
  // The stream is not idle, so even a small command is queued.
  enqueue(stream, [&ran] { ran = true; }, {.small = true});
  CHECK_FALSE(stream.query());
  CHECK_FALSE(ran);
  gate.open = true;
  stream.synchronize();
  CHECK(ran);
}

TEST_CASE("a small command on an idle stream runs in the launching call") {
  Stream stream;
  std::thread::id where;
  enqueue(stream, [&where] { where = std::this_thread::get_id(); }, {.small = true});
  CHECK(where == std::this_thread::get_id());
  CHECK(stream.query());
}

TEST_CASE("payloads of every size arrive intact") {
  Stream stream;
  struct Large {
    int* sum;
    unsigned char bytes[1000];
  };
  int sum = 0;
  for (std::size_t size : {sizeof(int*), std::size_t{224}, std::size_t{225}, sizeof(Large)}) {
    Large p{&sum, {}};
    for (auto& b : p.bytes)
      b = 1;
    Gate gate;
    stream.host_function(Gate::pass, &gate);
    auto add = [](void* payload, CommandAction) {
      CHECK(reinterpret_cast<std::uintptr_t>(payload) % 16 == 0);
      int* total;
      std::memcpy(&total, payload, sizeof total);
      ++*total;
    };
    stream.enqueue(add, &p, size);
    p.sum = nullptr; // the stream uses its own copy
    gate.open = true;
    stream.synchronize();
  }
  CHECK(sum == 4);
}

TEST_CASE("a full queue blocks the producer and loses no command") {
  Stream stream;
  Gate gate;
  stream.host_function(Gate::pass, &gate);
  std::atomic<int> launched{0}, ran{0};
  std::jthread producer([&] {
    for (int i = 0; i < 2000; ++i) {
      enqueue(stream, [&ran] { ++ran; });
      ++launched;
    }
  });
  std::this_thread::sleep_for(30ms);
  CHECK(launched < 300);
  gate.open = true;
  producer.join();
  stream.synchronize();
  CHECK(ran == 2000);
}

TEST_CASE("the commands of each of several producers stay in order") {
  Stream stream;
  constexpr int producers = 4, each = 3000;
  int last[producers] = {}; // only commands access it
  bool in_order = true;
  {
    std::vector<std::jthread> threads;
    for (int p = 0; p < producers; ++p)
      threads.emplace_back([&, p] {
        for (int i = 1; i <= each; ++i) {
          enqueue(stream,
                  [&last, &in_order, p, i] {
                    in_order &= last[p] == i - 1;
                    last[p] = i;
                  },
                  {.small = i % 5 == 0});
          if (i % 500 == 0) stream.synchronize();
          if (i % 700 == 0) std::this_thread::sleep_for(1ms); // so that the worker goes to sleep
        }
      });
  }
  stream.synchronize();
  CHECK(in_order);
  for (int l : last)
    CHECK(l == each);
}

TEST_CASE("repeated launches and waits, with pauses") {
  Stream stream;
  int n = 0;
  for (int i = 0; i < 300; ++i) {
    enqueue(stream, [&n] { ++n; });
    if (i % 7 == 0) std::this_thread::sleep_for(200us);
    stream.synchronize();
    REQUIRE(n == i + 1);
  }
}

// How often the streams' threads have gone to sleep.
std::int64_t sleeps_of_streams() {
  std::int64_t sleeps = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name, line;
    std::getline(std::ifstream(task.path() / "comm"), name);
    std::ifstream status(name == "kiln-stream" ? task.path() / "status" : "/dev/null");
    while (std::getline(status, line))
      if (const std::string key = "voluntary_ctxt_switches:"; line.starts_with(key))
        sleeps += std::stoll(line.substr(key.size()));
  }
  return sleeps;
}

// Launches and waits directly afterwards, again and again for this time.
void launch_and_wait(Stream& stream, std::chrono::microseconds time) {
  std::int64_t n = 0;
  int launches = 0;
  const auto end = std::chrono::steady_clock::now() + time;
  for (; std::chrono::steady_clock::now() < end; ++launches) {
    enqueue(stream, [&n] { ++n; });
    stream.synchronize();
  }
  REQUIRE(n == launches);
}

TEST_CASE("launches with a wait directly afterwards do not wake the stream's thread") {
  Stream stream;
  auto for_a_while = [] {
    const auto end = std::chrono::steady_clock::now() + 50us;
    while (std::chrono::steady_clock::now() < end) {
    }
  };
  launch_and_wait(stream, 1ms);
  constexpr int launches = 1000;
  const auto begin = std::chrono::steady_clock::now();
  const std::int64_t before = sleeps_of_streams();
  for (int i = 0; i < launches; ++i) {
    enqueue(stream, for_a_while);
    stream.synchronize();
  }
  const std::int64_t sleeps = sleeps_of_streams() - before;
  // Checks of the queue that the dozing thread makes by itself.
  const auto looks = (std::chrono::steady_clock::now() - begin) / 500us;
  CHECK(sleeps - looks < launches / 2);
}

TEST_CASE("a launch without a wait runs, even if all launches before it were followed by a wait") {
  for (int round = 0; round < 50; ++round) {
    Stream stream;
    launch_and_wait(stream, 400us);
    std::atomic<bool> ran{false};
    enqueue(stream, [&ran] { ran = true; });
    const bool asks = round % 2 == 0; // query() makes the thread start earlier
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (!(asks ? stream.query() : ran.load()) && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(10us);
    REQUIRE(ran);
  }
}

TEST_CASE("a stream can be destroyed while its thread dozes") {
  for (int round = 0; round < 50; ++round) {
    int n = 0;
    {
      Stream stream;
      launch_and_wait(stream, 400us);
      if (round % 2) enqueue(stream, [&n] { ++n; });
    }
    REQUIRE(n == round % 2);
  }
}

TEST_CASE("a warm enqueue does not allocate") {
  Stream stream;
  std::atomic<int> n{0};
  enqueue(stream, [&n] { ++n; });
  stream.synchronize();
  long before = allocation_count();
  for (int i = 0; i < 1000; ++i)
    enqueue(stream, [&n] { ++n; }, {.small = i % 2 == 0});
  stream.synchronize();
  long after = allocation_count(); // read it before the next macro of Catch, which allocates
  CHECK(after == before);
  CHECK(n == 1001);
}

TEST_CASE("an error stays until it is cleared") {
  Stream stream;
  int ran = 0;
  Gate gate;
  stream.host_function(Gate::pass, &gate);
  stream.host_function([](void*) { throw UserError("row 3 is out of range"); }, nullptr);
  enqueue(stream, [&ran] { ++ran; }); // discarded, because it depends on the command that failed
  Event event;
  event.record(stream);
  gate.open = true;
  event.synchronize(); // events complete nonetheless
  CHECK_THROWS_WITH(stream.synchronize(), "row 3 is out of range");
  CHECK_THROWS_AS(stream.synchronize(), UserError);
  CHECK_THROWS_AS(enqueue(stream, [&ran] { ++ran; }), UserError);
  CHECK_THROWS_AS(event.record(stream), UserError);
  CHECK(stream.failed());
  CHECK(ran == 0);
  stream.clear_error();
  CHECK_FALSE(stream.failed());
  enqueue(stream, [&ran] { ++ran; });
  stream.synchronize();
  CHECK(ran == 1);
}

TEST_CASE("an error of a small command is reported later, like any other") {
  Stream stream;
  CHECK_NOTHROW(enqueue(stream, [] { throw TargetError("no"); }, {.small = true}));
  CHECK_THROWS_AS(stream.synchronize(), TargetError);
  stream.clear_error();
}

TEST_CASE("discarded commands may release what they own") {
  static std::atomic<int> released;
  released = 0;
  Stream stream;
  Gate gate;
  stream.host_function(Gate::pass, &gate);
  stream.host_function([](void*) { throw UserError("x"); }, nullptr);
  auto release = [](void*, CommandAction action) {
    if (action == CommandAction::Discard) ++released;
  };
  for (int i = 0; i < 5; ++i)
    stream.enqueue(release, nullptr, 0);
  gate.open = true;
  CHECK_THROWS_AS(stream.synchronize(), UserError);
  CHECK(released == 5);
  stream.clear_error();
}

TEST_CASE("a stream destroyed with an error logs it") {
  LogCapture captured;
  ScopedOptions scope(Options{}); // independent of KILN_LOG
  {
    Stream stream;
    stream.host_function([](void*) { throw UserError("the fourth one failed"); }, nullptr);
  }
  REQUIRE(captured.lines().size() == 1);
  CHECK(captured.lines()[0] == "error: a stream was destroyed with an error: the fourth one failed");
}

TEST_CASE("a stream's error is logged only if it was not thrown") {
  LogCapture captured;
  ScopedOptions scope(Options{});
  auto fail = [](void*) { throw UserError("unhappy"); };
  {
    Stream synchronized, launched;
    synchronized.host_function(fail, nullptr);
    CHECK_THROWS_WITH(synchronized.synchronize(), "unhappy");
    launched.host_function(fail, nullptr);
    while (!launched.failed()) {
    }
    CHECK_THROWS_WITH(launched.host_function(fail, nullptr), "unhappy");
  }
  CHECK(captured.lines().empty());
  { // another error has not been thrown
    Stream stream;
    stream.host_function(fail, nullptr);
    CHECK_THROWS_WITH(stream.synchronize(), "unhappy");
    stream.clear_error();
    stream.host_function([](void*) { throw UserError("unhappy again"); }, nullptr);
  }
  REQUIRE(captured.lines().size() == 1);
  CHECK(captured.lines()[0] == "error: a stream was destroyed with an error: unhappy again");
}

TEST_CASE("a command that waits for its own stream is an error, not a deadlock") {
  Stream stream;
  stream.host_function([](void* s) { static_cast<Stream*>(s)->synchronize(); }, &stream);
  CHECK_THROWS_WITH(stream.synchronize(), Catch::Contains("synchronizes with its own stream"));
  stream.clear_error();
  auto flood = [](void* s) {
    for (int i = 0; i < 1000; ++i)
      static_cast<Stream*>(s)->host_function([](void*) {}, nullptr);
  };
  stream.host_function(flood, &stream);
  CHECK_THROWS_WITH(stream.synchronize(), Catch::Contains("queues more than 256 commands on its own stream"));
  stream.clear_error();
}

TEST_CASE("a command may launch on its own stream") {
  Stream stream;
  struct Chain {
    Stream* stream;
    int left;
    static void step(void* p) {
      auto* c = static_cast<Chain*>(p);
      if (--c->left > 0) c->stream->host_function(step, c);
    }
  } chain{&stream, 100};
  stream.host_function(Chain::step, &chain);
  while (true) {
    stream.synchronize();
    if (stream.query()) break;
  }
  CHECK(chain.left == 0);
}

TEST_CASE("the destructor waits for all commands") {
  std::atomic<int> n{0};
  {
    Stream stream;
    for (int i = 0; i < 50; ++i)
      enqueue(stream, [&n] {
        std::this_thread::sleep_for(100us);
        ++n;
      });
  }
  CHECK(n == 50);
}

TEST_CASE("a moved stream keeps its queue") {
  Stream a;
  std::atomic<int> n{0};
  enqueue(a, [&n] { ++n; });
  Stream b = std::move(a);
  enqueue(b, [&n] { ++n; });
  b.synchronize();
  CHECK(n == 2);
  CHECK_THROWS_WITH(a.synchronize(), Catch::Contains("moved from"));
  b = Stream();
  b.synchronize();
}

TEST_CASE("the default stream is one per device") {
  CHECK(&Stream::default_stream() == &Stream::default_stream(Device::cpu()));
  int n = 0;
  enqueue(Stream::default_stream(), [&n] { ++n; });
  Stream::default_stream().synchronize();
  CHECK(n == 1);
}

TEST_CASE("in a forked child, streams are empty and usable") {
  if (sanitized) return; // sanitizers do not allow threads in a child of a threaded process
  Stream stream;
  Gate gate;
  std::atomic<int> n{0};
  stream.host_function(Gate::pass, &gate);
  enqueue(stream, [&n] { n += 100; });
  Event event;
  event.record(stream);
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(20);
    event.synchronize(); // recorded in the parent, so the child does not wait for it
    for (int i = 0; i < 1000; ++i)
      enqueue(stream, [&n] { ++n; });
    stream.synchronize();
    _exit(n == 1000 && stream.query() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  gate.open = true;
  stream.synchronize();
  CHECK(n == 100);
}

TEST_CASE("if the system refuses threads, streams still work") {
  if (sanitized) return; // the shadow memory of sanitizers does not fit under such a limit
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(20);
    LogCapture captured;
    ScopedOptions scope(Options{});
    rlimit none{1 << 20, 1 << 20}; // no address space for the stack of another thread
    setrlimit(RLIMIT_AS, &none);
    std::atomic<int> n{0};
    {
      Stream streams[20]; // more streams than the C library keeps stacks of finished threads
      for (int i = 0; i < 10000; ++i)
        enqueue(streams[i % 20], [&n] { ++n; });
    }
    _exit(n == 10000 ? static_cast<int>(captured.lines().size()) : 99);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1); // exactly one warning
}
