// Defines the objects behind the fake driver's handles.
#pragma once

#include "fake_control.h"

#include <kiln/jit/runtime/cuda/api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace fake {

using kiln::cuda::Result;

inline constexpr int most_devices = 32;

struct Context {
  int device = 0;
  std::atomic<int> lost{0}; // the code of the sticky error, or 0
};

// Memory that was allocated while a graph was captured. It exists until the graph and its instances are
// destroyed. An address is used again within the graph after its memory has been freed.
struct GraphMemory {
  struct Block {
    void* data;
    std::size_t bytes;
    bool used;
  };
  std::vector<Block> blocks;
  int instances = 0; // at most one, as for the CUDA driver
  bool launched = false;

  GraphMemory() = default;
  GraphMemory(const GraphMemory&) = delete;
  ~GraphMemory();
  void* allocate(int device, std::size_t bytes);
  Block* find(const void* data);
  bool all_freed() const;
};

// Runs commands in order on its own thread, or records them.
class Stream {
public:
  explicit Stream(Context& c);
  ~Stream();
  void push(std::function<void()> command);
  void wait();
  bool idle();

  Context& context;
  std::atomic<bool> capturing{false};
  std::vector<std::function<void()>> captured;
  std::shared_ptr<GraphMemory> captured_memory;

private:
  void work();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> commands_;
  bool busy_ = false, stop_ = false;
  std::thread thread_;
};

// Each record is a new version; a thread waits for one version.
struct Event {
  std::mutex mutex;
  std::condition_variable changed;
  long recorded = 0, completed = 0;
  std::chrono::steady_clock::time_point time;
};

struct Graph {
  std::vector<std::function<void()>> commands;
  Context* context;
  std::shared_ptr<GraphMemory> memory;
};

struct Function {
  std::string name;
  std::vector<int> parameters; // the size of each
  std::shared_ptr<const std::string> image;
  int required_threads = 0; // 0: any number
  int registers = 32, max_threads = 1024, static_shared = 0, local = 0;
  int dynamic_shared = 48 << 10; // what launches may use without opting in
  bool large_clusters = false;
};

struct Module {
  Context* context;
  std::vector<std::unique_ptr<Function>> functions;
};

struct Link {
  char* errors = nullptr;
  std::size_t error_bytes = 0;
  std::string cubin;
};

struct Pool {
  int device;
  std::atomic<long long> used{0}, cached{0};
};

struct Block {
  std::size_t bytes;
  int device; // -1 for pinned host memory
  Pool* pool;
  void* base;
};

struct State {
  std::mutex mutex; // guards all members except atomics
  bool initialised = false;
  std::map<std::string, long long> settings;
  std::map<std::string, std::vector<std::pair<int, int>>> failures; // function -> remaining calls, code
  std::set<std::string> hidden;
  std::map<std::string, long long> calls;
  std::map<std::string, long long> live;
  std::vector<FakeLaunch> launches;
  std::atomic<bool> swallow{false};
  int (*execute)(const FakeExecution*) = nullptr;
  void* execute_context = nullptr;
  std::mutex streams_mutex;  // held while the streams are waited for; locked last
  std::set<Stream*> streams; // the streams that exist
  std::map<std::uintptr_t, Block> blocks;
  long long device_bytes[most_devices] = {};
  long long damaged = 0;
  Context contexts[most_devices];
  std::unique_ptr<Stream> default_streams[most_devices];

  State();
  static State& get();
  long long setting(const std::string& name);
  // Call with 1 when an object is made and with -1 when it is destroyed. Objects of lost devices are kept
  // until the end.
  void count(const char* kind, int by, const void* object);
  std::set<const void*> held;
};

// The first statement of each entry point: counts the call, injects failures, and checks that the driver is
// initialised and, if necessary, that a context is current and not lost.
Result enter(const char* symbol, bool needs_context);
Context* current();
// The contexts of the calling thread. Never destroyed, because static objects destroy kernels after
// thread-local objects are gone.
struct ContextStack {
  Context* items[64];
  int count;
};
ContextStack& context_stack();

// Allocates memory with guard bytes on both sides. Null if the device is full.
void* allocate(int device, std::size_t bytes, Pool* pool);
bool release(void* pointer); // false if it is not a block
// False if the range begins in a block and extends beyond it.
bool in_bounds(const void* pointer, std::size_t bytes);
long long damaged_guards();

void set_defaults(State& state);
void apply_environment(State& state);

// Reads PTX, a cubin of the fake driver, or a cubin of ptxas. Writes a log on failure.
Result parse_image(const std::string& image, Module& module, char* errors, std::size_t error_bytes);
// The fake driver's cubin of PTX that parse_image has accepted.
std::string to_cubin(const std::string& ptx);
// Reads the bytes at `image`. PTX ends at a zero byte; a cubin has its own length.
std::string read_image(const void* image);
// Reads the functions of a cubin of ptxas.
Result parse_elf(const std::string& image, Module& module);

} // namespace fake

#define FAKE_ENTRY extern "C" __attribute__((visibility("default"))) Result
