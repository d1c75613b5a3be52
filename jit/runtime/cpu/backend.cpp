// Compiles kernels for the CPU to object files, and links them into the process.
#include <kiln/jit/runtime/kernel/backend.h>

#include <kiln/jit/base/log.h>
#include <kiln/jit/cpu/compiler.h>
#include <kiln/jit/cpu/legality.h>
#include <kiln/jit/cpu/object/stack_frame.h>
#include <kiln/jit/cpu/rewrite/lower_for_cpu.h>

#include <algorithm>
#include <cstring>

namespace kiln {
namespace {

using Objects = std::vector<std::span<const char>>;

// The payload in the cache: the scratch size, then the size and bytes of each object, the kernel's own first.
class Writer {
public:
  void number(std::int64_t value) { bytes({reinterpret_cast<const char*>(&value), sizeof value}); }
  void bytes(std::span<const char> b) { payload_.insert(payload_.end(), b.begin(), b.end()); }
  std::vector<char> take() { return std::move(payload_); }

private:
  std::vector<char> payload_;
};

class Reader {
public:
  Reader(std::span<const char> payload, const std::string& kernel) : rest_(payload), kernel_(kernel) {}
  bool at_end() const { return rest_.empty(); }
  std::int64_t number() {
    std::int64_t value = 0;
    std::memcpy(&value, bytes(sizeof value).data(), sizeof value);
    return value;
  }
  std::span<const char> bytes(std::int64_t count) {
    if (count < 0 || static_cast<std::uint64_t>(count) > rest_.size())
      throw TargetError("kernel " + kernel_ + ": the cached code is too short");
    auto taken = rest_.first(static_cast<std::size_t>(count));
    rest_ = rest_.subspan(static_cast<std::size_t>(count));
    return taken;
  }

private:
  std::span<const char> rest_;
  const std::string& kernel_;
};

Objects objects_of(const cpu::CompiledObject& compiled) {
  Objects all{compiled.object};
  all.insert(all.end(), compiled.routines.begin(), compiled.routines.end());
  return all;
}

std::vector<char> to_payload(const cpu::CompiledObject& compiled) {
  Writer writer;
  writer.number(compiled.scratch_bytes);
  for (std::span<const char> object : objects_of(compiled)) {
    writer.number(static_cast<std::int64_t>(object.size()));
    writer.bytes(object);
  }
  return writer.take();
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
    Reader reader(payload, c_.lowered->name);
    Objects objects;
    into.scratch_bytes = reader.number();
    do
      objects.push_back(reader.bytes(reader.number()));
    while (!reader.at_end());
    link(objects, into);
  }

  StoredCode compile(CompiledKernel& into) override {
    const bool looked_into = c_.debug || c_.keep.llvm || c_.keep.assembly;
    cpu::CompiledObject object = generate(!looked_into);
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
    try {
      link(objects_of(object), into);
    } catch (const cpu::NoExecutableMemory&) {
      throw;
    } catch (const TargetError& e) { // a cached routine is not what it should be
      if (object.routines.empty()) throw;
      log_warning("a kernel is compiled again without cached routines: " + std::string(e.what()));
      object = generate(false);
      link(objects_of(object), into);
    }
    return {key_, to_payload(object), target_.cpu};
  }

private:
  cpu::CompiledObject generate(bool share_routines) const {
    return cpu::compile(*c_.lowered, target_,
                        {.debug = c_.debug,
                         .line_info = c_.debug,
                         .keep_llvm = c_.keep.llvm,
                         .keep_assembly = c_.keep.assembly,
                         .share_routines = share_routines});
  }

  void link(const Objects& objects, CompiledKernel& into) const {
    // Debuggers and profilers show this name, which contains the config so that variants of a kernel differ.
    std::string config = c_.config.to_string();
    into.grouping = cpu::grouping_of(*c_.lowered, target_);
    into.code_bytes = 0;
    for (std::span<const char> object : objects)
      into.code_bytes += static_cast<std::int64_t>(object.size());
    std::int64_t of_routines = 0;
    for (std::span<const char> routine : std::span(objects).subspan(1))
      of_routines = std::max(of_routines, cpu::largest_stack_frame(routine));
    into.stack_bytes = cpu::largest_stack_frame(objects.front()) + of_routines;
    into.code = cpu::load_objects(objects, c_.lowered->name + (config.empty() ? "" : "[" + config + "]"));
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
