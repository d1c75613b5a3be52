// Sets an environment variable, and restores its former value when the object is destroyed.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace kiln::test {

class ScopedVariable {
public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~ScopedVariable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;

private:
  const char* name_;
  std::optional<std::string> before_;
};

} // namespace kiln::test
