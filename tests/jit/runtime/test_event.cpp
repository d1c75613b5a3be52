// Tests events: the order of streams, time, and waiting.
#include "stream_support.h"

#include <catch2/catch.hpp>
#include <kiln/jit/runtime/event.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using namespace kiln;
using namespace std::chrono_literals;
using test::enqueue;
using test::Gate;

TEST_CASE("an event orders two streams") {
  for (int round = 0; round < 50; ++round) {
    Stream producer, consumer;
    Gate gate;
    int value = 0, seen = -1; // only the event orders the accesses
    if (round % 2) producer.host_function(Gate::pass, &gate);
    enqueue(producer, [&value] { value = 42; });
    Event ready;
    ready.record(producer);
    consumer.wait(ready);
    enqueue(consumer, [&value, &seen] { seen = value; });
    gate.open = true;
    consumer.synchronize();
    REQUIRE(seen == 42);
  }
}

TEST_CASE("recording again does not affect a wait for an earlier record") {
  Stream slow, fast, waiter;
  Gate gate;
  Event event;
  slow.host_function(Gate::pass, &gate);
  event.record(slow);
  waiter.wait(event);
  std::atomic<bool> ran{false};
  enqueue(waiter, [&ran] { ran = true; });
  event.record(fast);
  event.synchronize();
  std::this_thread::sleep_for(5ms);
  CHECK_FALSE(ran);
  gate.open = true;
  waiter.synchronize();
  CHECK(ran);
}

TEST_CASE("events measure time") {
  Stream stream;
  Event begin, end, never;
  CHECK(never.query());
  never.synchronize();
  begin.record(stream);
  stream.host_function([](void*) { std::this_thread::sleep_for(5ms); }, nullptr);
  end.record(stream);
  end.synchronize();
  CHECK(end.elapsed_ms(begin) >= 5);
  CHECK(end.elapsed_ms(begin) < 5000);
  CHECK_THROWS_WITH(end.elapsed_ms(never),
                    Catch::Contains("not recorded or not done") && Catch::Contains(__FILE__));
}

TEST_CASE("an event may be destroyed while it is recorded") {
  Stream stream;
  Gate gate;
  stream.host_function(Gate::pass, &gate);
  {
    Event event;
    event.record(stream);
    Stream().wait(event.query() ? Event() : Event());
  }
  gate.open = true;
  stream.synchronize();
}

TEST_CASE("many threads wait for one event and one stream") {
  for (int round = 0; round < 20; ++round) {
    Stream stream;
    Gate gate;
    stream.host_function(Gate::pass, &gate);
    Event event;
    event.record(stream);
    std::atomic<int> through{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 6; ++i)
      threads.emplace_back([&, i] {
        if (i % 2)
          event.synchronize();
        else
          stream.synchronize();
        if (gate.open) ++through;
      });
    std::this_thread::sleep_for(500us);
    gate.open = true;
    threads.clear();
    REQUIRE(through == 6);
  }
}
