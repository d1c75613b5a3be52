// Passes host commands to the driver, and runs or discards them.
#include <kiln/jit/runtime/cuda/host_commands.h>

#include <cstring>

namespace kiln::cuda {

namespace {

thread_local const HostCommands* running = nullptr;

} // namespace

struct HostCommands::Command {
  std::shared_ptr<HostCommands> owner;
  CommandFn fn;
  std::unique_ptr<unsigned char[]> payload; // new[] aligns to 16 bytes
};

bool HostCommands::runs_here() const { return running == this; }

bool HostCommands::take(Command* command) {
  std::lock_guard lock(mutex_);
  return std::erase(pending_, command) == 1;
}

void HostCommands::enqueue(DeviceState& device, StreamHandle stream, CommandFn fn, const void* payload,
                           std::size_t bytes, const LaunchHistory& suspects) {
  error_.check();
  auto command = std::make_unique<Command>();
  command->owner = shared_from_this();
  command->fn = fn;
  command->payload = std::make_unique<unsigned char[]>(bytes ? bytes : 1);
  if (bytes) std::memcpy(command->payload.get(), payload, bytes);
  {
    std::lock_guard lock(mutex_);
    pending_.push_back(command.get());
  }
  Result result = device.driver().cuLaunchHostFunc(stream, run, command.get());
  if (result == Result::Success) {
    command.release(); // run() owns it now
    return;
  }
  if (!take(command.get())) { // discarded meanwhile, because the device failed
    command.release();
    return;
  }
  device.check(result, "cuLaunchHostFunc", &suspects);
}

void HostCommands::run(void* argument) noexcept {
  auto* command = static_cast<Command*>(argument);
  if (!command->owner->take(command)) return; // discarded: see discard_all()
  std::unique_ptr<Command> owned(command);
  InHostFunction mark;
  std::shared_ptr<HostCommands> self = command->owner;
  self->call(*command, self->error_.failed() ? CommandAction::Discard : CommandAction::Run);
}

void HostCommands::call(Command& command, CommandAction action) noexcept {
  const HostCommands* outer = running;
  running = this;
  try {
    command.fn(command.payload.get(), action);
  } catch (...) {
    if (action == CommandAction::Run) error_.keep(std::current_exception());
  }
  running = outer;
}

void HostCommands::discard_all() noexcept {
  std::vector<Command*> commands;
  {
    std::lock_guard lock(mutex_);
    commands.swap(pending_);
  }
  // The Command objects are never freed, because the driver may still call run() with them. They are a few
  // bytes each, and a device fails at most once.
  static std::mutex graveyard_mutex;
  static auto* graveyard = new std::vector<Command*>;
  for (Command* command : commands) {
    call(*command, CommandAction::Discard);
    command->payload.reset();
    try {
      std::lock_guard lock(graveyard_mutex);
      graveyard->push_back(command);
    } catch (...) { // no memory to remember it
    }
  }
}

} // namespace kiln::cuda
