// Implements a set of hashes in a single array, for the ids of a hundred thousand records.
#pragma once

#include <kiln/jit/cache/hash.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

namespace kiln::tune {

class IdSet {
public:
  void reserve(std::size_t count) {
    if (count * 2 > slots_.size()) grow(std::bit_ceil(std::max<std::size_t>(count * 2, 64)));
  }
  // Returns true if the id was not in the set.
  bool insert(const cache::Key& id) {
    if (id == cache::Key{}) return !std::exchange(has_zero_, true);
    reserve(count_ + 1);
    cache::Key& slot = find(id);
    if (slot == id) return false;
    slot = id;
    ++count_;
    return true;
  }
  bool contains(const cache::Key& id) {
    if (id == cache::Key{}) return has_zero_;
    return !slots_.empty() && find(id) == id;
  }
  std::size_t size() const { return count_ + has_zero_; }

private:
  // Returns the id's slot, or the empty slot where it would be. At most half of the slots are used.
  cache::Key& find(const cache::Key& id) {
    std::size_t at = id.high & (slots_.size() - 1); // hashes are already well distributed
    while (!(slots_[at] == cache::Key{}) && !(slots_[at] == id))
      at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }
  void grow(std::size_t size) {
    std::vector<cache::Key> old(size);
    old.swap(slots_);
    for (const cache::Key& id : old)
      if (!(id == cache::Key{})) find(id) = id;
  }

  std::vector<cache::Key> slots_; // empty slots are zero
  std::size_t count_ = 0;
  bool has_zero_ = false;
};

} // namespace kiln::tune
