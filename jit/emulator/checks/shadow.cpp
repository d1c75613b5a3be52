// Pages of cells, made when they are first touched.
#include "shadow.h"

namespace kiln::emulator {

void Shadow::find(std::uint64_t number) {
  auto& page = pages_[number];
  if (!page) page = std::make_unique<Page>();
  last_number_ = number;
  last_ = page.get();
}

} // namespace kiln::emulator
