// Which problems share a config: sizes that are close are tuned once, as the largest of their bucket.
//
//   Bucketing buckets = Bucketing::hybrid();
//   buckets.size("K", BucketRule::exact).size("heads", BucketRule::exact);
//   buckets.apply({{{"M", 1000}, {"K", 4096}}, "f32"}); // M=1024, K=4096
//
// Powers of two alone are too coarse above 1024, where a kernel's tiles no longer fill a size evenly, and
// exact sizes tune for ever; hybrid lies between. A value: copy it.
#pragma once

#include <kiln/autotune/space/space.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln::tune {

enum class BucketRule : std::uint8_t {
  exact,
  pow2,   // up to the next power of two
  hybrid, // powers of two to 256, steps of 256 to 2048, of 512 to 4096, powers of two above
};

// The bucket's largest size. Sizes below 2, and those whose bucket has no number, are their own.
std::int64_t bucket_of(std::int64_t size, BucketRule rule);

class Bucketing {
public:
  using Function = std::function<std::int64_t(std::int64_t)>;

  // Of sizes that have no rule of their own.
  explicit Bucketing(BucketRule others = BucketRule::exact) : others_(others) {}
  static Bucketing exact() { return Bucketing(BucketRule::exact); }
  static Bucketing pow2() { return Bucketing(BucketRule::pow2); }
  static Bucketing hybrid() { return Bucketing(BucketRule::hybrid); }

  Bucketing& size(std::string name, BucketRule rule);
  // A rule of the caller's, which should give one of the sizes of a bucket for all of them. `label` is what
  // reports call it.
  Bucketing& size(std::string name, std::string label, Function function);

  Problem apply(const Problem& problem) const;

  // "hybrid", "M=pow2,K=exact,*=hybrid"; a function is called by its label.
  std::string text() const;
  // The inverse; nothing for other texts, and for labels of functions.
  static std::optional<Bucketing> parse(std::string_view text);

private:
  struct Named {
    std::string name;
    BucketRule rule = BucketRule::exact;
    std::string label; // of a function
    Function function;
  };
  Named& named(std::string name);
  std::vector<Named> named_;
  BucketRule others_;
};

} // namespace kiln::tune
