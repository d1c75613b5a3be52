// Implements the hooks: makes UserErrors from failed conditions, and text from values.
#include <kiln/jit/cpu/hooks.h>

#include <kiln/dsl/dtype.h>
#include <kiln/dsl/error.h>
#include <kiln/jit/base/sole_updates.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <utility>

namespace kiln::cpu {

namespace {

// The position of the element with row-major index `index`, as in "(0, 2)". Extents below 1 count as 1.
std::string position_text(std::int64_t index, std::int64_t rank, const std::int64_t* extents) {
  std::string text;
  for (std::int64_t axis = rank - 1; axis >= 0; --axis) {
    const std::int64_t extent = std::max<std::int64_t>(1, extents[axis]);
    text = std::to_string(axis == 0 ? index : index % extent) + (text.empty() ? "" : ", " + text);
    index /= extent;
  }
  return "(" + text + ")";
}

std::string program_text(const LaunchContext* context, std::int64_t program) {
  int rank = 1;
  for (int a = 1; a < 8; ++a)
    if (context->grid[a] > 1) rank = a + 1;
  return position_text(program, rank, context->grid);
}

template <class T> T read(const void* data, std::int64_t i) {
  T v;
  std::memcpy(&v, static_cast<const char*>(data) + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return v;
}

std::string element_text(std::int64_t dtype, const void* data, std::int64_t i) {
  if (dtype < 0) return fmt::format("{:#x}", read<std::uint64_t>(data, i));
  switch (static_cast<DType>(dtype)) {
  case DType::Bool: return read<std::uint8_t>(data, i) ? "true" : "false";
  case DType::I8: return std::to_string(read<std::int8_t>(data, i));
  case DType::I16: return std::to_string(read<std::int16_t>(data, i));
  case DType::I32: return std::to_string(read<std::int32_t>(data, i));
  case DType::I64: return std::to_string(read<std::int64_t>(data, i));
  case DType::U8: return std::to_string(read<std::uint8_t>(data, i));
  case DType::U16: return std::to_string(read<std::uint16_t>(data, i));
  case DType::U32: return std::to_string(read<std::uint32_t>(data, i));
  case DType::U64: return std::to_string(read<std::uint64_t>(data, i));
  case DType::F16: return fmt::format("{}", static_cast<float>(read<f16>(data, i)));
  case DType::BF16: return fmt::format("{}", static_cast<float>(read<bf16>(data, i)));
  case DType::F32: return fmt::format("{}", read<float>(data, i));
  case DType::F64: return fmt::format("{}", read<double>(data, i));
  case DType::F8E4M3: return fmt::format("{}", static_cast<float>(read<f8e4m3>(data, i)));
  case DType::F8E5M2: return fmt::format("{}", static_cast<float>(read<f8e5m2>(data, i)));
  }
  return "?";
}

std::string tile_text(std::int64_t dtype, std::int64_t rank, const std::int64_t* extents, const void* data,
                      std::int64_t& at) {
  if (rank == 0) return element_text(dtype, data, at++);
  std::string text = "[";
  for (std::int64_t i = 0; i < extents[0]; ++i)
    text += (i ? ", " : "") + tile_text(dtype, rank - 1, extents + 1, data, at);
  return text + "]";
}

} // namespace

extern "C" {

std::int32_t kiln_hook_assert(const LaunchContext* context, std::int64_t program,
                              const std::uint8_t* condition, std::int64_t rank, const std::int64_t* extents,
                              const char* file, std::int64_t line, const char* message, const char* relation,
                              std::int64_t dtype, const void* left, const void* right) {
  std::int64_t count = 1, first = 0;
  for (std::int64_t axis = 0; axis < rank; ++axis)
    count *= extents[axis];
  while (first < count && condition[first])
    ++first;
  if (first == count) return 0;
  auto* state = static_cast<LaunchState*>(context->launch);
  std::lock_guard lock(state->mutex);
  if (!state->error) {
    std::string where;
    if (count > 1)
      where = ", element " + (rank == 1 ? std::to_string(first) : position_text(first, rank, extents));
    std::string text = message;
    if (relation)
      text += (text.empty() ? "" : ": ") + element_text(dtype, left, first) + relation +
              element_text(dtype, right, first) + " is false";
    state->error = std::make_exception_ptr(
        UserError(SourceLocation(*file ? file : nullptr, static_cast<int>(line)),
                  "device_assert failed" + (text.empty() ? "" : ": " + text) + "; kernel " + state->kernel +
                      ", program " + program_text(context, program) + where));
  }
  std::atomic_ref(*context->stop).store(1, std::memory_order_relaxed);
  return 1;
}

void kiln_hook_print(const LaunchContext* context, std::int64_t program, const char* label,
                     std::int64_t dtype, std::int64_t rank, const std::int64_t* extents, const void* data,
                     std::int64_t ends_line) {
  thread_local std::string* begun = nullptr; // exists from the first value of a line to the last
  if (!begun) begun = new std::string(program_text(context, program) + " ");
  std::string& line = *begun;
  line += label;
  std::int64_t at = 0;
  if (data) line += tile_text(dtype, rank, extents, data, at);
  if (!ends_line) return;
  line += "\n";
  std::fputs(line.c_str(), stdout); // stdio locks the stream, so that lines stay whole
  std::fflush(stdout);
  delete std::exchange(begun, nullptr);
}

std::int32_t kiln_hook_begin_updates(const LaunchContext* context, std::int32_t ends) {
  return SoleUpdates::of_process().begin(ends && context->one_thread);
}

void kiln_hook_end_updates(std::int32_t sole) { SoleUpdates::of_process().end(sole != 0); }

} // extern "C"

} // namespace kiln::cpu
