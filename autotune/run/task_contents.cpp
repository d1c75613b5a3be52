// Chooses the arguments whose contents are copied, and queues the copies.
#include <kiln/autotune/run/task_contents.h>

#include <kiln/autotune/run/task_workload.h>
#include <kiln/autotune/run/tuner.h>
#include <kiln/jit/base/log.h>
#include <kiln/jit/cli/support/text.h>
#include <kiln/jit/passes/parameter_uses.h>
#include <kiln/jit/runtime/copy.h>
#include <kiln/jit/runtime/rehearsing.h>

#include <algorithm>
#include <tuple>

namespace kiln::tune {

namespace {

struct Wanted {
  std::size_t argument;
  const void* from;
  std::int64_t bytes;
};

} // namespace

TaskContents copy_contents(const Task& task, Stream& stream, Copied which, std::int64_t most_bytes) {
  const auto recorded = task.canonical();
  const std::vector<passes::ParameterUse> uses = passes::parameter_uses(*recorded);
  const std::vector<Argument> arguments = arguments_of(task);
  std::vector<Wanted> wanted;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Argument& a = arguments[i];
    if (a.address == 0 || kiln::detail::is_stand_in(a.address) || !(a.readonly || uses[i].read)) continue;
    if (which == Copied::integers && !is_integer(a.dtype)) continue;
    const ByteRange range = bytes_of(a, i);
    if (range.high > range.low)
      wanted.push_back({i, reinterpret_cast<const char*>(a.address) + range.low, range.high - range.low});
  }
  const auto rank = [&](const Wanted& w) {
    return std::tuple(!is_integer(arguments[w.argument].dtype), w.bytes, w.argument);
  };
  std::sort(wanted.begin(), wanted.end(),
            [&](const Wanted& a, const Wanted& b) { return rank(a) < rank(b); });
  TaskContents contents;
  contents.of.resize(arguments.size());
  std::int64_t copied = 0;
  for (const Wanted& w : wanted) {
    const auto same = std::find_if(wanted.begin(), wanted.end(), [&](const Wanted& other) {
      return other.from == w.from && other.bytes == w.bytes && contents.of[other.argument];
    });
    if (same != wanted.end()) {
      contents.of[w.argument] = contents.of[same->argument];
      continue;
    }
    if (w.bytes > most_bytes - copied) {
      contents.made_up.push_back("argument " + std::to_string(w.argument + 1) + " (" +
                                 std::string(kiln::name(arguments[w.argument].dtype)) + ", " +
                                 cli::bytes_text(static_cast<double>(w.bytes)) + ")");
      continue;
    }
    copied += w.bytes;
    const auto bytes = std::make_shared<SharedBytes>(static_cast<std::size_t>(w.bytes));
    copy(stream, bytes->data(), w.from, w.bytes);
    contents.of[w.argument] = bytes;
  }
  return contents;
}

void take_contents(Task& task, Stream& stream, const TuneOptions& options) {
  TaskContents contents = copy_contents(task, stream, Copied::all, options.contents_bytes);
  stream.synchronize();
  task.contents = std::move(contents.of);
  if (contents.made_up.empty()) return;
  std::string text = "made-up contents are used for ";
  for (std::size_t i = 0; i < contents.made_up.size(); ++i)
    text += (i ? " and " : "") + contents.made_up[i];
  text += ", which " + std::string(contents.made_up.size() == 1 ? "exceeds" : "exceed") + " the " +
          cli::bytes_text(static_cast<double>(options.contents_bytes)) +
          " of contents that are copied; raise TuneOptions::contents_bytes if they matter";
  if (options.announce)
    options.announce(text);
  else
    log_warning("tuning " + task.kernel + ": " + text);
}

} // namespace kiln::tune
