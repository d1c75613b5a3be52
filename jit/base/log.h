// The log: one line to stderr a message, filtered by KILN_LOG.
//
// Every function is thread-safe; a message is written whole. A sink installed with LogCapture sees
// the messages instead of stderr, which is how tests read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

enum class LogLevel : std::uint8_t { Off, Error, Warning, Info, Debug };

// True if messages of `level` are written; ask before building an expensive message.
bool log_enabled(LogLevel level);
void log(LogLevel level, std::string_view message);
inline void log_error(std::string_view message) { log(LogLevel::Error, message); }
inline void log_warning(std::string_view message) { log(LogLevel::Warning, message); }
inline void log_info(std::string_view message) { log(LogLevel::Info, message); }
inline void log_debug(std::string_view message) { log(LogLevel::Debug, message); }

// Writes a warning the first time this very message is given, and never again in this process.
void log_warning_once(std::string_view message);

// While it lives, messages go into it instead of stderr; "warning: ..." a line.
// Captures nest; the newest one receives.
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
