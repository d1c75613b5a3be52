// Makes pages of cells when they are first accessed.
#include "shadow.h"

namespace kiln::emulator {

void Shadow::find(std::uint64_t number) {
  auto& page = pages_[number];
  if (!page) page = std::make_unique<Page>();
  last_number_ = number;
  last_ = page.get();
}

} // namespace kiln::emulator
