// Appends functions to the map that perf reads: one line "ADDRESS SIZE NAME" for each, in hexadecimal.
//
// Each process has its own file, which replaces a file that an earlier process of the same number left. It is
// opened without following links, since any user may write to /tmp.
#include <kiln/jit/cpu/object/perf_map.h>

#include <kiln/jit/base/log.h>
#include <kiln/jit/cpu/abi.h>

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
  std::uint64_t address = 0, size = 0; // the address is relative to its section
  std::string name;
  std::uint64_t section = 0;
};

// The functions of an object that are in the same section as an exported one, which comes first; empty if
// there is none. The addresses of other sections, such as that of rarely called functions, are not known
// here.
std::vector<Function> functions_of(std::span<const char> object) {
  auto file = llvm::object::ObjectFile::createELFObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(object.data(), object.size()), "kernel"));
  if (!file) {
    llvm::consumeError(file.takeError());
    return {};
  }
  std::vector<Function> functions;
  bool found = false;
  for (const llvm::object::ELFSymbolRef symbol :
       llvm::cast<llvm::object::ELFObjectFileBase>(**file).symbols()) {
    auto type = symbol.getType();
    auto name = symbol.getName();
    auto address = symbol.getAddress();
    auto flags = symbol.getFlags();
    auto section = symbol.getSection();
    if (!type || !name || !address || !flags || !section) {
      llvm::consumeError(type.takeError());
      llvm::consumeError(name.takeError());
      llvm::consumeError(address.takeError());
      llvm::consumeError(flags.takeError());
      llvm::consumeError(section.takeError());
      continue;
    }
    if (*type != llvm::object::SymbolRef::ST_Function || *section == (*file)->section_end()) continue;
    functions.push_back({*address, symbol.getSize(), name->str(), (*section)->getIndex()});
    const bool exported = (*flags & llvm::object::SymbolRef::SF_Global) != 0;
    if (exported && !found) std::swap(functions.front(), functions.back());
    found = found || exported;
  }
  if (!found) functions.clear();
  std::erase_if(functions, [&, of_exported = found ? functions.front().section : 0](const Function& f) {
    return f.section != of_exported;
  });
  return functions;
}

// The map of this process. A forked child has another number, and opens its own.
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

// perf reads a name up to the end of the line, so that control characters become spaces.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return text;
}

} // namespace

void add_to_perf_map(std::span<const char> object,
                     const std::function<std::uint64_t(const std::string&)>& address_of,
                     const std::string& name) {
  std::vector<Function> functions = functions_of(object);
  if (functions.empty()) return;
  const std::uint64_t base = address_of(functions.front().name) - functions.front().address;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  FILE* file = map_of_process();
  if (!file) return;
  for (const Function& f : functions) {
    std::string suffix = f.name == entry_name ? "" : ":" + f.name;
    std::fprintf(file, "%" PRIx64 " %" PRIx64 " kiln::%s\n", base + f.address, f.size,
                 one_line(name + suffix).c_str());
  }
  std::fflush(file);
}

} // namespace kiln::cpu
