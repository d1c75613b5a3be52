// Writes messages to stderr, one line each, filtered by KILN_LOG.
//
// Every function is thread-safe, and lines of several threads do not mix. While a LogCapture lives, it
// receives the messages instead of stderr, so that tests can read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

enum class LogLevel : std::uint8_t { Off, Error, Warning, Info, Debug };

// Whether messages of `level` are written. Check this before you build an expensive message.
bool log_enabled(LogLevel level);
void log(LogLevel level, std::string_view message);
inline void log_error(std::string_view message) { log(LogLevel::Error, message); }
inline void log_warning(std::string_view message) { log(LogLevel::Warning, message); }
inline void log_info(std::string_view message) { log(LogLevel::Info, message); }
inline void log_debug(std::string_view message) { log(LogLevel::Debug, message); }

// Writes a warning unless this process has written the same message before.
void log_warning_once(std::string_view message);

// While it lives, messages go into it instead of stderr, each as one line such as "warning: ...". If several
// live, the newest one receives the messages.
class LogCapture {
public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  std::vector<std::string> lines() const;

private:
  friend void log(LogLevel level, std::string_view message);
  std::vector<std::string> lines_;
  LogCapture* previous_;
};

} // namespace kiln
