// Replaces the sizes in a launch's argument words.
#include <kiln/autotune/run/resize.h>

#include <kiln/dsl/ir/arguments.h>

#include <algorithm>
#include <optional>

namespace kiln::tune {

namespace {

class Resizing {
public:
  Resizing(const std::vector<int>& size_words, const Problem& before, const Problem& after)
      : size_words_(size_words), before_(before), after_(after) {
    bool same = before.sizes.size() == after.sizes.size() && before.sizes.size() == size_words.size();
    for (std::size_t i = 0; same && i < before.sizes.size(); ++i)
      same = before.sizes[i].first == after.sizes[i].first;
    if (!same)
      throw UserError("a problem with sizes " + before.to_string() + " cannot become " + after.to_string());
  }

  // Returns the new value of a word, which is an extent or an integer.
  std::uint64_t operator()(int word, std::uint64_t value) const {
    const auto own = std::find(size_words_.begin(), size_words_.end(), word);
    if (own != size_words_.end())
      return static_cast<std::uint64_t>(
          after_.sizes[static_cast<std::size_t>(own - size_words_.begin())].second);
    std::optional<std::int64_t> found;
    for (std::size_t i = 0; i < before_.sizes.size(); ++i) {
      if (static_cast<std::uint64_t>(before_.sizes[i].second) != value) continue;
      const std::int64_t next = after_.sizes[i].second;
      if (found && *found != next)
        throw UserError("an extent of " + std::to_string(value) + " may be any of several sizes of " +
                        before_.to_string());
      found = next;
    }
    return found ? static_cast<std::uint64_t>(*found) : value;
  }

private:
  const std::vector<int>& size_words_;
  const Problem &before_, &after_;
};

bool is_contiguous(const std::uint64_t* extents, const std::uint64_t* strides, int rank) {
  std::uint64_t stride = 1;
  for (int i = rank; i-- > 0;) {
    if (extents[i] > 1 && strides[i] != stride) return false;
    stride *= extents[i];
  }
  return true;
}

} // namespace

std::vector<std::uint64_t> resized_words(const ir::Kernel& kernel, std::vector<std::uint64_t> words,
                                         const std::vector<int>& size_words, const Problem& before,
                                         const Problem& after) {
  const Resizing resize(size_words, before, after);
  const auto layout = ir::ArgumentLayout::of(kernel);
  for (std::size_t p = 0; p < kernel.body.args.size(); ++p) {
    const ir::Type& type = kernel.body.args[p]->type;
    const int first = layout.first_word[p];
    if (!type.is_view()) {
      if (!type.pointer && is_integer(type.dtype)) {
        auto& word = words[static_cast<std::size_t>(first)];
        word = resize(first, word);
      }
      continue;
    }
    if (type.view_rank == 0) continue;
    const int extents_at = layout.extent_word(static_cast<int>(p), 0);
    std::uint64_t* extents = words.data() + extents_at;
    std::uint64_t* strides = extents + type.view_rank;
    const bool contiguous = is_contiguous(extents, strides, type.view_rank);
    for (int i = 0; i < type.view_rank; ++i)
      extents[i] = resize(extents_at + i, extents[i]);
    std::uint64_t stride = 1;
    for (int i = type.view_rank; contiguous && i-- > 0; stride *= extents[i])
      strides[i] = stride;
  }
  return words;
}

} // namespace kiln::tune
