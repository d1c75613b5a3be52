// Implements the fake driver's assembler, which only finds the entry points of PTX text and their parameters.
//
// A comment in the PTX sets attributes of its kernels: "// regs=64 maxthreads=512 shared=1024 local=16". Text
// with "SYNTAX ERROR" does not assemble. The fake driver's own cubins are PTX after a mark.
#include "fake_state.h"

#include <cstdio>
#include <cstring>

namespace fake {

namespace {

constexpr std::string_view magic = "\x7f"
                                   "ELFFAKE ";

int number_after(const std::string& text, const char* key, int otherwise) {
  auto found = text.find(key);
  return found == std::string::npos ? otherwise : std::atoi(text.c_str() + found + std::strlen(key));
}

void write_log(char* errors, std::size_t bytes, const std::string& text) {
  if (errors && bytes) std::snprintf(errors, bytes, "%s", text.c_str());
}

// The size of ".u64", ".b8" or ".f32" after ".param".
int bytes_of_type(const std::string& text, std::size_t at) {
  auto digits = text.find_first_of("0123456789", at);
  return std::atoi(text.c_str() + digits) / 8;
}

void find_entries(const std::string& text, Module& module) {
  auto whole = std::make_shared<const std::string>(text);
  for (auto at = text.find(".entry "); at != std::string::npos; at = text.find(".entry ", at + 1)) {
    auto open = text.find('(', at), close = text.find(')', at), body = text.find('{', close);
    auto f = std::make_unique<Function>();
    f->name = text.substr(at + 7, open - at - 7);
    f->image = whole;
    for (auto p = text.find(".param", open); p < close; p = text.find(".param", p + 1))
      f->parameters.push_back(bytes_of_type(text, p));
    if (auto required = text.find(".reqntid ", close); required < body)
      f->required_threads = std::atoi(text.c_str() + required + 9);
    f->registers = number_after(text, "regs=", 32);
    f->max_threads = number_after(text, "maxthreads=", 1024);
    f->static_shared = number_after(text, "shared=", 0);
    f->local = number_after(text, "local=", 0);
    const int way = text.find(".minnctapersm 1", close) < body ? 1 : 2;
    if (State::get().setting("spills") & way) f->local = 64;
    module.functions.push_back(std::move(f));
  }
}

} // namespace

Result parse_image(const std::string& image, Module& module, char* errors, std::size_t error_bytes) {
  if (image.starts_with("\x7f"
                        "ELF")) {
    if (!image.starts_with(magic)) return parse_elf(image, module);
    if (number_after(image, "sm_", 0) > State::get().setting("sm")) return Result::NoBinaryForGpu;
    find_entries(image.substr(magic.size()), module);
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
  find_entries(image, module);
  return Result::Success;
}

std::string to_cubin(const std::string& ptx) { return std::string(magic) + ptx; }

} // namespace fake
