// Implements random search without repetition.
#include "baselines.h"
#include "unseen.h"

namespace kiln::tune {

namespace {

class RandomSearch final : public Strategy {
public:
  explicit RandomSearch(SearchContext context) : random_(context.seed), unseen_(context.space) {}
  const char* name() const override { return "random"; }

  std::vector<Proposal> propose(std::size_t most) override {
    std::vector<Proposal> batch;
    unseen_.add_seeds(batch, most);
    while (batch.size() < most) {
      auto p = unseen_.draw(random_);
      if (!p) break;
      batch.push_back({std::move(*p), "random", 0});
    }
    return batch;
  }
  void observe(std::span<const Trial>) override {}

private:
  Random random_;
  Unseen unseen_;
};

} // namespace

std::unique_ptr<Strategy> make_random(SearchContext context) {
  return std::make_unique<RandomSearch>(std::move(context));
}

} // namespace kiln::tune
