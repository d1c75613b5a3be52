// Reads the sections that LLVM writes: for each function its address, and the bytes of its frame as ULEB128.
#include <kiln/jit/cpu/object/stack_frame.h>

#include <algorithm>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/DataExtractor.h>

namespace kiln::cpu {

std::int64_t largest_stack_frame(std::span<const char> object) {
  auto file = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(object.data(), object.size()), "kernel"));
  if (!file) {
    llvm::consumeError(file.takeError());
    return 0;
  }
  std::uint64_t largest = 0;
  for (const llvm::object::SectionRef& section : (*file)->sections()) {
    auto name = section.getName();
    auto contents = section.getContents();
    if (name && contents && *name == ".stack_sizes") {
      llvm::DataExtractor data(*contents, (*file)->isLittleEndian(), (*file)->getBytesInAddress());
      llvm::DataExtractor::Cursor at(0);
      while (at && !data.eof(at)) {
        data.getAddress(at);
        const std::uint64_t frame = data.getULEB128(at);
        if (at) largest = std::max(largest, frame);
      }
      llvm::consumeError(at.takeError());
    }
    if (!name) llvm::consumeError(name.takeError());
    if (!contents) llvm::consumeError(contents.takeError());
  }
  return static_cast<std::int64_t>(largest);
}

} // namespace kiln::cpu
