// Formats and prints the progress line of tuning runs.
#include <kiln/autotune/cli/progress.h>

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace kiln::tune {

namespace {

constexpr double seconds_a_line = 2; // if the output is not a terminal

constexpr std::size_t least_config = 12; // the least number of characters of a config to show

// Returns one column less than the terminal has, since a full line would wrap and could not be rewritten.
std::size_t columns_of(std::FILE* terminal) {
  winsize size{};
  const bool known = ioctl(fileno(terminal), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return (known ? size.ws_col : 80) - 1u;
}

const Trial* best_of(const SearchResult& result) {
  const Trial* best = nullptr;
  for (const Trial& trial : result.trials)
    if (trial.result.ok() && (!best || trial.result.seconds < best->result.seconds)) best = &trial;
  return best;
}

// Estimates the time left at the current pace, within the budget.
double seconds_left(const SearchResult& r, const Budget& budget) {
  double left = budget.seconds > 0 ? budget.seconds - r.seconds : INFINITY;
  if (budget.trials > 0 && !r.trials.empty()) {
    const double each = r.seconds / static_cast<double>(r.trials.size());
    left = std::min(left, each * (budget.trials - static_cast<double>(r.trials.size())));
  }
  return std::max(0.0, left);
}

} // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 1e-6) return fmt::format("{:.0f} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string rate_text(double rate) {
  return rate < 1e12 ? fmt::format("{:.0f} GFLOP/s", rate * 1e-9)
                     : fmt::format("{:.1f} TFLOP/s", rate * 1e-12);
}

std::string share_of_bound(double bound, double seconds) {
  if (seconds < bound) return "faster than the model's bound";
  return fmt::format("{:.0f} % of the bound", 100 * bound / seconds);
}

std::string failures_text(const SearchResult& result) {
  std::map<Status, int> kinds;
  for (const Trial& trial : result.trials)
    if (!trial.result.ok()) ++kinds[trial.result.status];
  std::string text;
  for (const auto& [status, count] : kinds)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name(status));
  return text;
}

ProgressLine::ProgressLine(std::string title, const Budget& budget, double flops, std::FILE* out)
    : title_(std::move(title)), budget_(budget), flops_(flops), out_(out), terminal_(isatty(fileno(out))) {}

std::string ProgressLine::text(const std::string& title, const SearchResult& r, const BoundSpace& space,
                               const Budget& budget, double bound, double flops, std::size_t columns) {
  std::string text = fmt::format("{}  [{:>3}/{}]", title, r.trials.size(), budget.trials), config, end;
  if (const Trial* best = best_of(r)) {
    text += fmt::format("  best {}", duration_text(best->result.seconds));
    if (flops > 0) text += ", " + rate_text(flops / best->result.seconds);
    if (bound > 0) text += ", " + share_of_bound(bound, best->result.seconds);
    config = "  {" + space.text(best->point) + "}";
  } else {
    text += "  nothing worked yet";
  }
  if (const std::string failures = failures_text(r); !failures.empty()) end += "  failed: " + failures;
  end += fmt::format("  {:.0f} s, at most {:.0f} s left", r.seconds, seconds_left(r, budget));
  const std::size_t others = text.size() + end.size();
  if (others + config.size() > columns)
    config = others + least_config < columns ? config.substr(0, columns - others - 4) + "...}" : "";
  return (text + config + end).substr(0, columns);
}

void ProgressLine::show(const SearchResult& r, const BoundSpace& space, double bound) {
  if (!terminal_ && r.seconds < shown_at_ + seconds_a_line) return;
  shown_at_ = r.seconds;
  const std::size_t columns = terminal_ ? columns_of(out_) : std::string::npos;
  print(text(title_, r, space, budget_, bound, flops_, columns));
}

void ProgressLine::say(const std::string& what) {
  const std::string line = title_ + "  " + what;
  print(terminal_ ? line.substr(0, columns_of(out_)) : line);
}

void ProgressLine::print(const std::string& line) {
  if (terminal_) {
    fmt::print(out_, "\r{:<{}}", line, std::min(width_, columns_of(out_)));
    width_ = line.size();
  } else {
    fmt::print(out_, "{}\n", line);
  }
  std::fflush(out_);
}

void ProgressLine::finish() {
  if (terminal_ && width_ > 0) fmt::print(out_, "\n");
  width_ = 0;
}

} // namespace kiln::tune
