// Collects the logs of the driver's assembler, and throws errors that contain them. Internal.
#pragma once

#include <kiln/jit/runtime/cuda/module.h>

#include <string>
#include <string_view>
#include <vector>

namespace kiln::cuda {

// Log buffers, and the options that pass them to cuModuleLoadDataEx and cuLinkCreate. Must outlive these
// calls.
class JitLog {
public:
  JitLog();
  JitLog(const JitLog&) = delete;
  JitLog& operator=(const JitLog&) = delete;

  static constexpr unsigned count = 5;
  JitOption* names() { return names_; }
  void** values() { return values_; }
  std::string_view errors() const { return errors_.data(); }
  std::string_view info() const { return info_.data(); }

private:
  std::vector<char> errors_, info_;
  JitOption names_[count];
  void* values_[count];
};

// Throws for an image that the driver rejected: a sticky error as such, a UserError for PTX that is too new,
// and otherwise a TargetError with the log and, if wanted, a repro folder.
[[noreturn]] void refuse_image(DeviceState& device, Result result, const char* call, std::string_view image,
                               std::string_view name, const JitLog& log, OnRefusal on_refusal);

bool is_ptx(std::string_view image);

} // namespace kiln::cuda
