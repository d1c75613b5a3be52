// Makes an error from a failure of the driver's assembler.
#include <kiln/jit/runtime/cuda/jit_log.h>

#include <kiln/jit/base/log.h>
#include <kiln/jit/runtime/cuda/ptx_version.h>
#include <kiln/jit/runtime/kernel/repro.h>

namespace kiln::cuda {

namespace {

constexpr std::size_t log_bytes = 16 << 10;

std::string trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
    text.remove_suffix(1);
  return std::string(text);
}

// Converts a number for option values, which the driver passes as pointers.
void* number(std::size_t n) { return reinterpret_cast<void*>(n); }

} // namespace

JitLog::JitLog() : errors_(log_bytes), info_(log_bytes) {
  using O = JitOption;
  const JitOption names[] = {O::ErrorLogBuffer, O::ErrorLogBufferSizeBytes, O::InfoLogBuffer,
                             O::InfoLogBufferSizeBytes, O::LogVerbose};
  void* values[] = {errors_.data(), number(log_bytes - 1), info_.data(), number(log_bytes - 1), number(1)};
  for (unsigned i = 0; i < count; ++i)
    names_[i] = names[i], values_[i] = values[i];
}

bool is_ptx(std::string_view image) {
  return !image.starts_with("\x7f"
                            "ELF");
}

void refuse_image(DeviceState& device, Result result, const char* call, std::string_view image,
                  std::string_view name, const JitLog& log, OnRefusal on_refusal) {
  if (is_sticky(result)) device.check(result, call);
  std::string what = "kernel \"" + std::string(name) + "\" on " + device.name();
  const bool ptx = is_ptx(image);
  if (ptx && result == Result::UnsupportedPtxVersion)
    throw UserError(what + ": its PTX is of version " + ptx_version_text(ptx_version_of(image)) +
                    ", which the NVIDIA driver (CUDA " + version_text(device.driver().version) +
                    ") does not read; update the driver");
  std::string errors = trimmed(log.errors());
  std::string sm = std::to_string(device.properties().sm);
  what += " (sm_" + sm + "): " + call + ": " + device.driver().describe(result) +
          (errors.empty() ? "; the driver's log is empty" : "; the driver's log:\n" + errors + "\n");
  if (on_refusal == OnRefusal::Report) throw TargetError(what);
  std::string file = ptx ? "kernel.ptx" : "kernel.cubin";
  std::string summary = std::string(call) + ": " + device.driver().describe(result) +
                        "\ndevice: " + device.properties().name + ", sm_" + sm + ", driver for CUDA " +
                        version_text(device.driver().version) + "\n" +
                        (ptx ? "try: ptxas -v kernel.ptx -o kernel.cubin with --gpu-name as .target says\n"
                             : "try: cuobjdump -all kernel.cubin\n") +
                        "errors:\n" + errors + "\ninformation:\n" + trimmed(log.info()) + "\n";
  std::string saved = save_repro(name, {{file, image}, {"log.txt", summary}});
  throw TargetError(what + (errors.empty() ? "; " : "") + (ptx ? "the PTX is " : "the cubin is ") + saved);
}

} // namespace kiln::cuda
