// Kernels on the CPU: object files, linked into the process.
#include <kiln/jit/runtime/backend.h>

#include <kiln/jit/cpu/compiler.h>
#include <kiln/jit/cpu/legality.h>

#include <cstring>

namespace kiln {
namespace {

// In the cache: the scratch size, then the object file.
std::vector<char> to_payload(const cpu::CompiledObject& object) {
  std::vector<char> payload(sizeof object.scratch_bytes + object.object.size());
  std::memcpy(payload.data(), &object.scratch_bytes, sizeof object.scratch_bytes);
  std::memcpy(payload.data() + sizeof object.scratch_bytes, object.object.data(), object.object.size());
  return payload;
}

class CpuBackend final : public Backend {
public:
  CpuBackend(const Compilation& c, Device device) : c_(c), device_(device), target_(cpu::host_target()) {
    cpu::check_legal(*c.lowered);
    key_ = cache::KeyBuilder::versioned()
               .add(c.text)
               .add(c.config.to_string())
               .add(target_.key())
               .add(c.debug)
               .key();
  }

  std::vector<cache::Key> keys() override { return {key_}; }

  void load(std::span<const char> payload, CompiledKernel& into) override {
    if (payload.size() < sizeof into.scratch_bytes)
      throw TargetError("kernel " + c_.lowered->name + ": the cached code is too short");
    std::memcpy(&into.scratch_bytes, payload.data(), sizeof into.scratch_bytes);
    link(payload.subspan(sizeof into.scratch_bytes), into);
  }

  StoredCode compile(CompiledKernel& into) override {
    cpu::CompiledObject object = cpu::compile(*c_.lowered, target_,
                                              {.debug = c_.debug,
                                               .line_info = c_.debug,
                                               .keep_llvm = c_.keep.llvm,
                                               .keep_assembly = c_.keep.assembly});
    std::int64_t limit = device_.limits().max_scratch_bytes;
    if (object.scratch_bytes > limit)
      throw UserError("kernel " + c_.lowered->name + ": the tiles of the config {" + c_.config.to_string() +
                      "} need " + std::to_string(object.scratch_bytes) + " bytes of scratch memory, and " +
                      to_string(device_) + " has " + std::to_string(limit) +
                      " for a program; choose smaller sizes");
    KeptFiles kept(c_, key_);
    kept.write(c_.keep.llvm, ".ll", object.llvm_after);
    kept.write(c_.keep.assembly, ".s", object.assembly);
    into.scratch_bytes = object.scratch_bytes;
    link(object.object, into);
    return {key_, to_payload(object), target_.cpu};
  }

private:
  void link(std::span<const char> object, CompiledKernel& into) const {
    // Debuggers and profilers show this name: variants of a kernel differ in it.
    std::string config = c_.config.to_string();
    into.macro = cpu::macro_tile(*c_.lowered);
    into.code = cpu::load_object(object, c_.lowered->name + (config.empty() ? "" : "[" + config + "]"));
  }

  const Compilation& c_;
  Device device_;
  const cpu::Target& target_;
  cache::Key key_;
};

} // namespace

std::unique_ptr<Backend> make_cpu_backend(const Compilation& c, Device device) {
  return std::make_unique<CpuBackend>(c, device);
}

} // namespace kiln
