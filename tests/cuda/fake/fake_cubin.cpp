// Reads from cubins of ptxas what a launch needs: entry points, the sizes of their parameters, and required
// threads.
//
// A cubin is an ELF file. The section ".nv.info.NAME" describes the entry point NAME by attributes: a byte
// for the format, a byte for the kind, and two bytes for the value or, in format 4, for the length of the
// data that follows.
#include "fake_state.h"

#include <algorithm>
#include <cstring>
#include <elf.h>

namespace fake {

namespace {

constexpr unsigned char parameter = 0x17, required_threads = 0x10; // kinds of attributes
constexpr Elf64_Half cuda_machine = 190;

template <class T> T at(const void* bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(bytes) + offset, sizeof value);
  return value;
}

bool is_real_elf(const void* image) { // the fake driver's own images may be shorter than a header
  const auto* ident = static_cast<const char*>(image);
  return std::strncmp(ident, ELFMAG, SELFMAG) == 0 && ident[EI_CLASS] == ELFCLASS64 &&
         at<Elf64_Ehdr>(image, 0).e_machine == cuda_machine;
}

std::vector<Elf64_Shdr> sections_of(const void* image) {
  const auto header = at<Elf64_Ehdr>(image, 0);
  std::vector<Elf64_Shdr> sections;
  for (std::size_t i = 0; i < header.e_shnum; ++i)
    sections.push_back(at<Elf64_Shdr>(image, header.e_shoff + i * sizeof(Elf64_Shdr)));
  return sections;
}

void read_attributes(const std::string& info, Function& f) {
  for (std::size_t p = 0; p + 4 <= info.size();) {
    const auto format = at<unsigned char>(info.data(), p), kind = at<unsigned char>(info.data(), p + 1);
    const auto value = at<std::uint16_t>(info.data(), p + 2);
    p += 4;
    if (format != 4) continue;
    if (kind == parameter) { // index, ordinal, offset, and a word with the size in its upper 14 bits
      const std::size_t ordinal = at<std::uint16_t>(info.data(), p + 4);
      if (f.parameters.size() <= ordinal) f.parameters.resize(ordinal + 1);
      f.parameters[ordinal] = static_cast<int>(at<std::uint32_t>(info.data(), p + 8) >> 18);
    }
    if (kind == required_threads)
      f.required_threads =
          static_cast<int>(at<std::uint32_t>(info.data(), p) * at<std::uint32_t>(info.data(), p + 4) *
                           at<std::uint32_t>(info.data(), p + 8));
    p += value;
  }
}

} // namespace

std::string read_image(const void* image) {
  const auto* text = static_cast<const char*>(image);
  if (!is_real_elf(image)) return text;
  const auto header = at<Elf64_Ehdr>(image, 0);
  std::size_t end = header.e_shoff + header.e_shnum * sizeof(Elf64_Shdr);
  end = std::max<std::size_t>(end, header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr));
  for (const Elf64_Shdr& s : sections_of(image))
    if (s.sh_type != SHT_NOBITS) end = std::max<std::size_t>(end, s.sh_offset + s.sh_size);
  return std::string(text, end);
}

Result parse_elf(const std::string& image, Module& module) {
  if (image.size() < sizeof(Elf64_Ehdr) || !is_real_elf(image.data())) return Result::InvalidImage;
  const auto header = at<Elf64_Ehdr>(image.data(), 0);
  const auto built_for = static_cast<int>(header.e_flags >> 8 & 0xff); // in the form of ptxas 13
  if (built_for > State::get().setting("sm")) return Result::NoBinaryForGpu;
  const std::vector<Elf64_Shdr> sections = sections_of(image.data());
  const Elf64_Shdr& names = sections.at(header.e_shstrndx);
  auto whole = std::make_shared<const std::string>(image);
  for (const Elf64_Shdr& s : sections) {
    const std::string name = image.c_str() + names.sh_offset + s.sh_name;
    constexpr std::string_view prefix = ".nv.info.";
    if (!name.starts_with(prefix)) continue;
    auto f = std::make_unique<Function>();
    f->name = name.substr(prefix.size());
    f->image = whole;
    read_attributes(image.substr(s.sh_offset, s.sh_size), *f);
    module.functions.push_back(std::move(f));
  }
  return Result::Success;
}

} // namespace fake
