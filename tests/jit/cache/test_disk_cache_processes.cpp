// Tests many processes that use one cache folder at once, some of which are killed, and sweeps meanwhile.
#include <catch2/catch.hpp>

#include "disk_cache_support.h"
#include "test_seed.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <set>

#include <sys/wait.h>

using namespace disk_cache_test;

namespace {

enum ExitCode { fine = 0, wrong_payload = 1, warned = 2, other = 3 };

// The payload of a key: up to 30 KB that the key alone determines.
std::vector<char> payload_of(const Key& key) {
  std::mt19937_64 random(key.low ^ key.high);
  std::vector<char> bytes(random() % 30'000);
  for (char& byte : bytes)
    byte = static_cast<char>(random());
  return bytes;
}

template <typename Body> pid_t start(Body body) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child != 0) return child;
  int code = other;
  try {
    code = body();
  } catch (...) {
  }
  _exit(code);
}

// One process's use of the cache: it loads all keys in random order, stores those that are missing, and
// sometimes stores a key again.
int use_cache(const fs::path& folder, const std::vector<Key>& keys, Limits limits, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  bool any_warning = false;
  DiskCache cache(folder, limits);
  cache.set_warning_handler([&](std::string_view) { any_warning = true; });
  std::vector<Key> order = keys;
  std::shuffle(order.begin(), order.end(), random);
  for (const Key& key : order) {
    const std::vector<char> right = payload_of(key);
    const auto loaded = cache.load(key);
    if (loaded && *loaded != right) return wrong_payload;
    if (!loaded || random() % 4 == 0) cache.store(key, right, matmul);
  }
  return any_warning ? warned : fine;
}

std::vector<fs::path> leftovers_in(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& file : fs::directory_iterator(folder))
    if (is_temporary_file(file.path().filename().string())) found.push_back(file.path());
  return found;
}

} // namespace

TEST_CASE("64 processes store and load the same 200 keys while some are killed", "[cache]") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const TemporaryFolder parent;
  const fs::path folder = parent.path() / "made" / "by" / "all";
  std::vector<Key> keys;
  for (int i = 0; i < 200; ++i)
    keys.push_back(random_key(random));

  std::vector<pid_t> running;
  for (int i = 0; i < 64; ++i)
    running.push_back(start([&, child_seed = random()] { return use_cache(folder, keys, {}, child_seed); }));
  int killed = 0, ended = 0, bad = 0;
  const auto reap = [&](pid_t pid) {
    int status = 0;
    if (waitpid(pid, &status, 0) != pid) FAIL("waitpid failed");
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
      ++killed;
    else
      ++ended, bad += status != 0;
  };
  std::set<pid_t> victims;
  for (int i = 0; i < 24; ++i) {
    usleep(static_cast<useconds_t>(random() % 20'000));
    std::swap(running[random() % running.size()], running.back());
    kill(running.back(), SIGKILL);
    reap(running.back());
    running.pop_back();
  }
  for (pid_t pid : running)
    reap(pid);
  CAPTURE(killed);
  CHECK(bad == 0);
  CHECK(killed > 0);
  CHECK(killed + ended == 64);

  RecordingCache after(folder);
  for (const VerifiedEntry& entry : after.cache.verify(BadEntries::keep)) {
    CAPTURE(to_string(entry.key));
    CHECK(entry.problem.empty());
  }
  int wrong = 0;
  for (const Key& key : keys)
    if (const auto loaded = after.cache.load(key)) wrong += *loaded != payload_of(key);
  CHECK(wrong == 0);
  CHECK(after.cache.stats().hits ==
        (ended > 0 ? 200 : after.cache.stats().hits)); // a process that was not killed has stored them all
  CHECK(after.warnings.empty());

  const std::vector<fs::path> leftovers = leftovers_in(folder);
  CHECK(static_cast<int>(leftovers.size()) <= killed);
  for (const fs::path& file : leftovers)
    set_age(file, 3600);
  CHECK(after.cache.sweep_now().leftovers_removed == leftovers.size());
  CHECK(leftovers_in(folder).empty());
  CHECK(after.cache.verify(BadEntries::keep).size() == after.cache.stats().hits);
}

TEST_CASE("concurrent sweeps do not harm each other, readers or writers", "[cache]") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const TemporaryFolder folder;
  std::vector<Key> keys;
  for (int i = 0; i < 60; ++i)
    keys.push_back(random_key(random));
  // About a third of the entries fits, and every store sweeps.
  const Limits limits = {
      .bytes = 300'000, .sweep_interval = std::chrono::seconds(0), .touch_after = std::chrono::seconds(0)};
  std::vector<pid_t> running;
  for (int i = 0; i < 2; ++i)
    running.push_back(start([&] {
      DiskCache cache(folder.path(), limits);
      for (int round = 0; round < 100; ++round)
        cache.sweep_now(), usleep(200);
      return fine;
    }));
  running.push_back(start([&] {
    DiskCache cache(folder.path(), limits);
    for (int round = 0; round < 20; ++round)
      cache.clear(), usleep(3000);
    return fine;
  }));
  for (int i = 0; i < 6; ++i)
    running.push_back(
        start([&, child_seed = random()] { return use_cache(folder.path(), keys, limits, child_seed); }));
  for (pid_t pid : running) {
    int status = -1;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(status == 0);
  }
  RecordingCache after(folder.path(), limits);
  CHECK(after.cache.sweep_now().bytes_left <= limits.bytes);
  for (const VerifiedEntry& entry : after.cache.verify(BadEntries::keep))
    CHECK(entry.problem.empty());
  CHECK(leftovers_in(folder.path()).empty());
}

TEST_CASE("a sweep removes temporary files of dead processes and keeps those of living ones", "[cache]") {
  const TemporaryFolder folder;
  RecordingCache recording(folder.path());
  recording.cache.store({1, 1}, std::string("code"), matmul);

  // A process that is killed while it writes leaves a temporary file. This loop tries until one does.
  std::string name;
  for (int attempt = 0; attempt < 1000 && name.empty(); ++attempt) {
    const pid_t child = start([&] {
      DiskCache cache(folder.path());
      for (;;)
        cache.store({2, 2}, std::string(1 << 20, 'x'), matmul);
      return fine;
    });
    const int longer = 1 + attempt / 50; // on machines where a process takes longer to start
    usleep(static_cast<useconds_t>((1000 + attempt * 37 % 5000) * longer));
    kill(child, SIGKILL);
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    if (const auto found = leftovers_in(folder.path()); !found.empty())
      name = found.front().filename().string();
  }
  REQUIRE_FALSE(name.empty());
  const fs::path dead = folder.path() / name;
  // The name is kiln-tmp.SPACE.PID.COUNTER.
  const std::size_t space_end = name.find('.', name.find('.') + 1);
  const fs::path living = folder.path() / (name.substr(0, space_end + 1) + std::to_string(getpid()) + ".7");
  const fs::path elsewhere = folder.path() / ("kiln-tmp.0123456789abcdef." + name.substr(space_end + 1));
  write_file(living, "half an entry");
  write_file(elsewhere, "half an entry of another machine");
  const auto present = [&] {
    std::string text;
    for (const fs::path& path : {dead, living, elsewhere})
      text += fs::exists(path) ? 'x' : '-';
    return text;
  };
  recording.cache.sweep_now();
  CHECK(present() == "xxx"); // all three are new
  for (const fs::path& path : {dead, living, elsewhere})
    set_age(path, 3600);
  recording.cache.sweep_now();
  CHECK(present() == "-xx");
  for (const fs::path& path : {living, elsewhere})
    set_age(path, 25 * 3600);
  recording.cache.clear();
  CHECK(present() == "---");
}
