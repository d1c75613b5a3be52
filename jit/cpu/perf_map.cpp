// Appends to the map that perf reads: one line "ADDRESS SIZE NAME" for each function, in hexadecimal.
//
// The file belongs to the process: a fresh one replaces what another process of that number left. It is
// opened without following links, since anyone may write to /tmp.
#include <kiln/jit/cpu/perf_map.h>

#include <kiln/jit/runtime/log.h>

#include <llvm/Object/ELFObjectFile.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <unistd.h>
#include <utility>
#include <vector>

namespace kiln::cpu {

namespace {

struct Function {
  std::uint64_t address = 0, size = 0; // the address is within its section
  std::string name;
};

// The functions of the entry point's section, the entry point first; empty if it cannot be found.
std::vector<Function> functions_of(std::span<const char> object) {
  auto file = llvm::object::ObjectFile::createELFObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(object.data(), object.size()), "kernel"));
  if (!file) {
    llvm::consumeError(file.takeError());
    return {};
  }
  std::vector<Function> functions;
  for (const llvm::object::ELFSymbolRef symbol :
       llvm::cast<llvm::object::ELFObjectFileBase>(**file).symbols()) {
    auto type = symbol.getType();
    auto name = symbol.getName();
    auto address = symbol.getAddress();
    if (!type || !name || !address) {
      llvm::consumeError(type.takeError());
      llvm::consumeError(name.takeError());
      llvm::consumeError(address.takeError());
      continue;
    }
    if (*type != llvm::object::SymbolRef::ST_Function) continue;
    functions.push_back({*address, symbol.getSize(), name->str()});
    if (*name == entry_name) std::swap(functions.front(), functions.back());
  }
  if (!functions.empty() && functions.front().name != entry_name) functions.clear();
  return functions;
}

// Opened anew in a forked child, whose number is another.
FILE* map_of_process() {
  static FILE* file = nullptr;
  static pid_t owner = 0;
  if (owner == getpid()) return file;
  owner = getpid();
  std::string path = "/tmp/perf-" + std::to_string(owner) + ".map";
  unlink(path.c_str());
  int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  file = descriptor < 0 ? nullptr : fdopen(descriptor, "a");
  if (!file)
    log_warning_once("KILN_PERF: cannot write " + path + ": " + std::strerror(errno) +
                     "; perf will not name kernels");
  return file;
}

// perf ends a name at the line's end.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return text;
}

} // namespace

void add_to_perf_map(std::span<const char> object, EntryPoint entry, const std::string& name) {
  std::vector<Function> functions = functions_of(object);
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  FILE* file = map_of_process();
  if (!file) return;
  for (const Function& f : functions) {
    std::uint64_t address = reinterpret_cast<std::uint64_t>(entry) + (f.address - functions.front().address);
    std::string suffix = f.name == entry_name ? "" : ":" + f.name;
    std::fprintf(file, "%" PRIx64 " %" PRIx64 " kiln::%s\n", address, f.size,
                 one_line(name + suffix).c_str());
  }
  std::fflush(file);
}

} // namespace kiln::cpu
