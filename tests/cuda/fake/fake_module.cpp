// The fake driver's assembler: finds entries in PTX text and in cubins of its own, and nothing else.
//
// A comment of the PTX may say what becomes of its kernels: "// regs=64 maxthreads=512 shared=1024 local=16".
// Every parameter counts as 8 bytes. Text with "SYNTAX ERROR" does not assemble.
#include "fake_state.h"

#include <cstdio>
#include <cstring>

namespace fake {

namespace {

constexpr char magic[] = "\x7f"
                         "ELFFAKE ";

int number_after(const std::string& text, const char* key, int otherwise) {
  auto found = text.find(key);
  return found == std::string::npos ? otherwise : std::atoi(text.c_str() + found + std::strlen(key));
}

void write_log(char* errors, std::size_t bytes, const std::string& text) {
  if (errors && bytes) std::snprintf(errors, bytes, "%s", text.c_str());
}

void read_attributes(const std::string& text, Function& f) {
  f.registers = number_after(text, "regs=", 32);
  f.max_threads = number_after(text, "maxthreads=", 1024);
  f.static_shared = number_after(text, "shared=", 0);
  f.local = number_after(text, "local=", 0);
}

} // namespace

Result parse_image(const std::string& image, Module& module, char* errors, std::size_t error_bytes) {
  auto add = [&](std::string name, int parameters) {
    auto f = std::make_unique<Function>();
    f->name = std::move(name);
    f->parameters = parameters;
    read_attributes(image, *f);
    module.functions.push_back(std::move(f));
  };
  if (image.starts_with("\x7f"
                        "ELF")) {
    if (!image.starts_with(magic)) return Result::InvalidImage;
    if (number_after(image, "sm_", 0) > State::get().setting("sm")) return Result::NoBinaryForGpu;
    for (auto at = image.find("entry="); at != std::string::npos; at = image.find("entry=", at + 1)) {
      auto colon = image.find(':', at);
      add(image.substr(at + 6, colon - at - 6), std::atoi(image.c_str() + colon + 1));
    }
    return Result::Success;
  }
  auto version = image.find(".version ");
  if (version == std::string::npos) return Result::InvalidImage;
  int major = 0, minor = 0;
  std::sscanf(image.c_str() + version, ".version %d.%d", &major, &minor);
  if (10 * major + minor > State::get().setting("ptx")) {
    write_log(errors, error_bytes, "ptxas application ptx input, line 1; fatal   : Unsupported .version\n");
    return Result::UnsupportedPtxVersion;
  }
  if (image.find("SYNTAX ERROR") != std::string::npos) {
    write_log(errors, error_bytes,
              "ptxas application ptx input, line 4; error   : syntax error near 'SYNTAX'\n");
    return Result::InvalidPtx;
  }
  for (auto at = image.find(".entry "); at != std::string::npos; at = image.find(".entry ", at + 1)) {
    auto open = image.find('(', at), close = image.find(')', at);
    int parameters = 0;
    for (auto p = image.find(".param", open); p < close; p = image.find(".param", p + 1))
      ++parameters;
    add(image.substr(at + 7, open - at - 7), parameters);
  }
  return Result::Success;
}

std::string to_cubin(const Module& module) {
  std::string text = magic;
  for (const auto& f : module.functions)
    text += "entry=" + f->name + ":" + std::to_string(f->parameters) +
            " regs=" + std::to_string(f->registers) + " maxthreads=" + std::to_string(f->max_threads) +
            " shared=" + std::to_string(f->static_shared) + " local=" + std::to_string(f->local) + " ";
  return text;
}

} // namespace fake
