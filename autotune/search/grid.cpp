// Implements a grid search from coarse to fine.
//
// It visits members in the order of the knobs' values, halves first, then quarters, so that any number of
// trials covers the space evenly.
#include "baselines.h"
#include "unseen.h"

#include <algorithm>
#include <bit>

namespace kiln::tune {

namespace {

class GridSearch final : public Strategy {
public:
  explicit GridSearch(SearchContext context) : space_(context.space), unseen_(context.space) {
    // If a space is too large to list, a sorted sample of it is the grid.
    if (const auto* all = space_.points(most_listed)) {
      grid_ = *all;
    } else {
      Random random(context.seed);
      while (grid_.size() < most_listed / 16) {
        auto p = space_.sample(random);
        if (!p) break;
        grid_.push_back(std::move(*p));
      }
    }
    std::sort(grid_.begin(), grid_.end());
    grid_.erase(std::unique(grid_.begin(), grid_.end()), grid_.end());
    // The seed shifts the coarse positions, so that runs differ.
    offset_ = grid_.empty() ? 0 : Random(context.seed).below(grid_.size());
    bits_ = std::bit_width(grid_.size());
  }
  const char* name() const override { return "grid"; }

  std::vector<Proposal> propose(std::size_t most) override {
    std::vector<Proposal> batch;
    unseen_.add_seeds(batch, most);
    for (; batch.size() < most && (next_ >> bits_) == 0; ++next_) {
      const std::size_t at = reversed(next_);
      if (at >= grid_.size()) continue;
      const Point& p = grid_[(at + offset_) % grid_.size()];
      if (unseen_.take(p)) batch.push_back({p, "grid", 0});
    }
    return batch;
  }
  void observe(std::span<const Trial>) override {}

private:
  static constexpr std::size_t most_listed = 1u << 18;

  std::size_t reversed(std::size_t number) const {
    std::size_t result = 0;
    for (int b = 0; b < bits_; ++b)
      result |= (number >> b & 1) << (bits_ - 1 - b);
    return result;
  }

  BoundSpace& space_;
  Unseen unseen_;
  std::vector<Point> grid_;
  std::size_t offset_ = 0, next_ = 0;
  int bits_ = 0;
};

} // namespace

std::unique_ptr<Strategy> make_grid(SearchContext context) {
  return std::make_unique<GridSearch>(std::move(context));
}

} // namespace kiln::tune
