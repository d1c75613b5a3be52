// Implements the fake driver's entry points for modules, functions and the linker.
#include "entry.h"

#include <algorithm>
#include <memory>

using namespace fake;
using namespace kiln::cuda;

namespace {
// Finds the buffer for error messages among the options.
void find_error_log(unsigned count, JitOption* names, void** values, char*& errors, std::size_t& bytes) {
  for (unsigned i = 0; i < count; ++i) {
    if (names[i] == JitOption::ErrorLogBuffer) errors = static_cast<char*>(values[i]);
    if (names[i] == JitOption::ErrorLogBufferSizeBytes) bytes = reinterpret_cast<std::size_t>(values[i]);
  }
}
} // namespace

FAKE_ENTRY cuModuleLoadDataEx(ModuleHandle* handle, const void* image, unsigned count, JitOption* names,
                              void** values) {
  ENTER(true);
  char* errors = nullptr;
  std::size_t bytes = 0;
  find_error_log(count, names, values, errors, bytes);
  auto module = std::make_unique<fake::Module>();
  module->context = current();
  Result result = parse_image(read_image(image), *module, errors, bytes);
  if (result != Result::Success) return result;
  *handle = reinterpret_cast<ModuleHandle>(module.release());
  state().count("modules", 1, *handle);
  return Result::Success;
}

FAKE_ENTRY cuModuleUnload(ModuleHandle handle) {
  ENTER(true);
  delete reinterpret_cast<fake::Module*>(handle);
  state().count("modules", -1, handle);
  return Result::Success;
}

FAKE_ENTRY cuModuleGetFunction(FunctionHandle* function, ModuleHandle module, const char* name) {
  ENTER(true);
  for (const auto& f : reinterpret_cast<fake::Module*>(module)->functions)
    if (f->name == name) {
      *function = reinterpret_cast<FunctionHandle>(f.get());
      return Result::Success;
    }
  return Result::NotFound;
}

FAKE_ENTRY cuFuncGetAttribute(int* value, FunctionAttribute attribute, FunctionHandle function) {
  ENTER(true);
  auto& f = *reinterpret_cast<fake::Function*>(function);
  switch (attribute) {
  case FunctionAttribute::MaxThreadsPerBlock: *value = f.max_threads; break;
  case FunctionAttribute::SharedSizeBytes: *value = f.static_shared; break;
  case FunctionAttribute::LocalSizeBytes: *value = f.local; break;
  case FunctionAttribute::NumRegs: *value = f.registers; break;
  default: return Result::InvalidValue;
  }
  return Result::Success;
}

FAKE_ENTRY cuFuncSetAttribute(FunctionHandle function, FunctionAttribute attribute, int value) {
  ENTER(true);
  auto& f = *reinterpret_cast<fake::Function*>(function);
  if (attribute == FunctionAttribute::MaxDynamicSharedSizeBytes) {
    if (value + f.static_shared > 227 << 10) return Result::InvalidValue;
    f.dynamic_shared = value + f.static_shared;
  } else if (attribute == FunctionAttribute::NonPortableClusterSizeAllowed) {
    f.large_clusters = value != 0;
  } else {
    return Result::InvalidValue;
  }
  return Result::Success;
}

FAKE_ENTRY cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, FunctionHandle, int threads,
                                                       std::size_t shared_bytes) {
  ENTER(true);
  *blocks = std::min(2048 / threads, shared_bytes ? static_cast<int>((228u << 10) / shared_bytes) : 32);
  return Result::Success;
}

FAKE_ENTRY cuLinkCreate_v2(unsigned count, JitOption* names, void** values, LinkHandle* handle) {
  ENTER(true);
  auto* link = new Link;
  find_error_log(count, names, values, link->errors, link->error_bytes);
  *handle = reinterpret_cast<LinkHandle>(link);
  state().count("links", 1, *handle);
  return Result::Success;
}

FAKE_ENTRY cuLinkAddData_v2(LinkHandle handle, int, void* data, std::size_t, const char*, unsigned,
                            JitOption*, void**) {
  ENTER(true);
  auto& link = *reinterpret_cast<Link*>(handle);
  fake::Module module{current(), {}};
  Result result = parse_image(static_cast<const char*>(data), module, link.errors, link.error_bytes);
  if (result == Result::Success) link.cubin = to_cubin(static_cast<const char*>(data));
  return result;
}

FAKE_ENTRY cuLinkComplete(LinkHandle handle, void** cubin, std::size_t* bytes) {
  ENTER(true);
  auto& link = *reinterpret_cast<Link*>(handle);
  *cubin = link.cubin.data();
  *bytes = link.cubin.size();
  return Result::Success;
}

FAKE_ENTRY cuLinkDestroy(LinkHandle handle) {
  ENTER(true);
  delete reinterpret_cast<Link*>(handle);
  state().count("links", -1, handle);
  return Result::Success;
}
