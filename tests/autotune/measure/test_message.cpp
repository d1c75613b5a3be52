// Tests the messages between the tuner and its processes, and the memory plan of a launch.
#include <kiln/autotune/measure/memory_plan.h>
#include <kiln/autotune/measure/message.h>
#include <kiln/dsl/ir/parser.h>

#include <catch2/catch.hpp>

#include "test_seed.h"

#include <limits>
#include <random>

#include <sys/socket.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::tune;

namespace {

struct Sockets {
  Sockets() { REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0); }
  ~Sockets() {
    close(ends[0]);
    close(ends[1]);
  }
  int ends[2];
};

} // namespace

TEST_CASE("measurements and arguments are preserved by messages, with infinities and bytes") {
  Measurement m;
  m.status = Status::wrong_result;
  m.error = "element 3 is \xC3\xA9";
  m.seconds = 1e-300;
  m.high = std::numeric_limits<double>::infinity();
  m.launches = 7;
  m.facts = {{"registers", 255}, {"spill_bytes", -0.0}};
  const Measurement m2 = measurement_from(tune::Message::from_cbor(tune::Message::to_cbor(to_message(m))));
  CHECK(m2.status == m.status);
  CHECK(m2.error == m.error);
  CHECK(m2.seconds == m.seconds);
  CHECK(m2.high == m.high);
  CHECK(m2.launches == 7);
  CHECK(m2.facts == m.facts);

  Argument a;
  a.dtype = DType::BF16;
  a.readonly = true;
  a.extents = {3, 0, std::numeric_limits<std::int64_t>::max()};
  a.strides = {-5, 1, 0};
  a.word = ~std::uint64_t{0};
  a.address = std::uint64_t{1} << 63;
  a.pinned = 2;
  const auto given = std::make_shared<SharedBytes>(4);
  std::memcpy(given->data(), "\0\xff\n\r", 4);
  a.fill = {Fill::Kind::bytes, -3, 9, given, 1};
  const Argument b =
      argument_from(tune::Message::from_cbor(tune::Message::to_cbor(to_message(a, given->descriptor()))));
  CHECK(b.dtype == a.dtype);
  CHECK(b.readonly);
  CHECK(b.extents == a.extents);
  CHECK(b.strides == a.strides);
  CHECK(b.word == a.word);
  CHECK(b.address == a.address);
  CHECK(b.pinned == 2);
  REQUIRE(b.fill.bytes);
  CHECK(b.fill.bytes->size() == 4);
  CHECK(std::memcmp(b.fill.bytes->data(), given->data(), 4) == 0);
  CHECK(b.fill.first == 1);
  CHECK(b.fill.least == -3);
}

TEST_CASE("messages are reassembled from pieces of any size, and garbage is not a message") {
  const auto seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  Sockets s;
  const tune::Message large{{"text", std::string(50'000, 'x')}}, small{{"a", 1}};
  REQUIRE(send_message(s.ends[0], large, 1));
  REQUIRE(send_message(s.ends[0], small, 1));
  MessageReader reader;
  std::vector<tune::Message> got;
  while (got.size() < 2) {
    char buffer[4000];
    const ssize_t count = recv(s.ends[1], buffer, 1 + random() % sizeof buffer, 0);
    REQUIRE(count > 0);
    reader.add(buffer, static_cast<std::size_t>(count));
    while (auto message = reader.next())
      got.push_back(*message);
  }
  CHECK(got[0] == large);
  CHECK(got[1] == small);

  for (int round = 0; round < 200; ++round) {
    MessageReader garbage;
    std::string bytes(4 + random() % 60, '\0');
    for (char& c : bytes)
      c = static_cast<char>(random());
    if (round % 2)
      bytes.replace(0, 4, std::string{static_cast<char>(bytes.size() - 4), 0, 0, 0}); // a valid length
    garbage.add(bytes.data(), bytes.size());
    if (garbage.next()) CHECK(round % 2 == 1); // an object by chance; it must not crash
  }
  close(s.ends[0]);
  s.ends[0] = -1;
  CHECK(!send_message(s.ends[1], small, 1)); // the other end is closed
  CHECK(!receive_message(s.ends[1]));
}

TEST_CASE("a memory plan gives the blocks that are read, written and shared") {
  const auto kernel = ir::parse(
      R"(kernel @k(%x: view<const f32, 1>, %out: view<f32, 1>, %both: view<f32, 1>, %s: i32) grid [(out, 0, 8)] {
  %0 = program_tile %out {dims = [8]} : i64
  %1 = view_load %x, %0 {axes = [0]} : tile<8 x f32>
  %2 = view_load %both, %0 {axes = [0]} : tile<8 x f32>
  %3 = add %1, %2 : tile<8 x f32>
  view_store %out, %3, %0 {axes = [0]}
  view_store %both, %3, %0 {axes = [0]}
})");
  std::vector<Argument> arguments{tensor_argument(DType::F32, {100}, true),
                                  tensor_argument(DType::F32, {100}, false),
                                  tensor_argument(DType::F32, {100}, false), scalar_argument(DType::I32, -2)};
  MemoryPlan plan = plan_memory(arguments, *kernel);
  REQUIRE(plan.blocks.size() == 3);
  auto block = [&](std::size_t i) { return plan.blocks[static_cast<std::size_t>(plan.places[i].block)]; };
  CHECK((block(0).read && !block(0).written));
  CHECK((!block(1).read && block(1).written));
  CHECK((block(2).read && block(2).written));
  CHECK(plan.places[3].block == -1);
  CHECK(plan.words(arguments, {0x1000, 0x2000, 0x3000}).back() == 0xFFFFFFFEu);

  // x and out overlap by half, and x runs backwards.
  arguments[0].address = 0x10000 + 4 * 99;
  arguments[0].strides = {-1};
  arguments[1].address = 0x10000 + 4 * 50;
  plan = plan_memory(arguments, *kernel);
  REQUIRE(plan.blocks.size() == 2);
  CHECK(plan.places[0].block == plan.places[1].block);
  CHECK(block(0).bytes == 4 * 150);
  CHECK((block(0).read && block(0).written));
  CHECK(plan.places[0].data == 4 * 99);
  CHECK(plan.places[1].data == 4 * 50);

  arguments[2].extents = {std::int64_t{1} << 62};
  CHECK_THROWS_WITH(plan_memory(arguments, *kernel),
                    Catch::Contains("argument 3 of the measured launch needs offsets"));
}
