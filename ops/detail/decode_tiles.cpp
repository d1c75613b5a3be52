// Contains the heuristic for the tiles of attention_decode.
#include <kiln/ops/detail/decode_tiles.h>

#include <algorithm>

namespace kiln::ops::detail {

DecodeTiles decode_tiles(Device device, std::int64_t group, std::int64_t queries, bool batch_invariant) {
  DecodeTiles t{};
  t.queries = batch_invariant ? 1 : std::min<std::int64_t>(queries, 16);
  t.group = std::min(group, std::max<std::int64_t>(1, 64 / t.queries));
  t.keys = !device.is_cpu() ? 32 : t.group * t.queries > 4 ? 128 : 64;
  t.part = device.is_cpu() ? 512 : 256;
  return t;
}

} // namespace kiln::ops::detail
