// Tests that searches in the background stay bounded, however many problems a program has.
#include "autotune/own_cache.h"
#include "autotune/row_sums.h"
#include "scoped_variable.h"

#include <kiln/autotune/run/background.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/jit/base/log.h>

#include <atomic>
#include <thread>

using namespace kiln;
using namespace kiln::test;

namespace {

const std::thread::id main_thread = std::this_thread::get_id();
std::atomic<bool> gate_open{true};

const auto copies = kernel("copies, in the background", [](View<const float, 1> x, View<float, 1> y) {
  auto [i] = program_tile(y, BN);
  y.tile(i).store(x.tile(i).load());
});

const tune::TunableKernel waiting{
    .name = "copies, in the background",
    .summary = "y = x; a search waits until the gate opens",
    .dtypes = {DType::F32},
    .record =
        [](DType, const tune::Problem&, const Config& config) {
          while (std::this_thread::get_id() != main_thread && !gate_open)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return copies.record(config);
        },
    .space = [](DType, const tune::Problem&,
                Device) { return tune::Space().pow2(BN, 16, 64).seed({{"BN", 32}}); },
    .sizes = "N=100",
    .parameters = "x=N y=N",
};

bool add(std::int64_t size) {
  return tune::search_in_background(tune::make_task(waiting, "", "N=" + std::to_string(size), Device::cpu()),
                                    {{"BN", 32}}, {}, [](const Config&) {});
}

} // namespace

TEST_CASE("sizes of one bucket are searched once, and problems beyond the queue's length are left out") {
  const OwnCache cache;
  const ScopedVariable command("KILN_COMMAND", "/nowhere/kiln"); // searches end at once
  const LogCapture log;
  tune::finish_background();
  const tune::BackgroundCounts before = tune::background_counts();
  gate_open = false;
  for (std::int64_t size = 1025; size <= 1280; ++size)
    CHECK(add(size));
  CHECK(tune::background_counts().searched == before.searched + 1);
  std::size_t accepted = 0;
  for (std::int64_t size = std::int64_t{1} << 13, i = 0; i < 46; size *= 2, ++i)
    accepted += add(size);
  for (int i = 0; i < 46; ++i)
    accepted += add(i * 3 + 7); // sizes up to 145
  const tune::BackgroundCounts full = tune::background_counts();
  CHECK(full.queued <= tune::most_queued);
  CHECK(accepted <= 92);
  CHECK(full.left_out > before.left_out);
  CHECK_FALSE(tune::background_has_room());
  gate_open = true;
  tune::finish_background();
  CHECK(tune::background_has_room());
  CHECK(tune::background_counts().queued == 0);
}
