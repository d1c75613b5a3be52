// Groups problem sizes into buckets; the problems of a bucket share one config, tuned for its largest size.
//
//   Bucketing buckets = Bucketing::hybrid();
//   buckets.size("K", BucketRule::exact).size("heads", BucketRule::exact);
//   buckets.apply({{{"M", 1000}, {"K", 4096}}, "f32"}); // M=1024, K=4096
//
// Powers of two alone are too coarse above 1024, where a kernel's tiles no longer divide sizes evenly, and
// with exact sizes tuning never ends; hybrid is a compromise. A Bucketing is a value that can be copied.
#pragma once

#include <kiln/autotune/space/space.h>
#include <kiln/dsl/api.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

KILN_API_BEGIN
namespace kiln::tune {

enum class BucketRule : std::uint8_t {
  exact,
  pow2,   // rounded up to a power of two
  hybrid, // powers of two to 256, multiples of 256 to 2048 and of 512 to 4096, powers of two above
};

// Returns the largest size of the bucket. Sizes below 2, and sizes whose bucket does not fit the type, are
// their own bucket.
std::int64_t bucket_of(std::int64_t size, BucketRule rule);

class Bucketing {
public:
  using Function = std::function<std::int64_t(std::int64_t)>;

  // `others` is the rule of sizes without one of their own.
  explicit Bucketing(BucketRule others = BucketRule::exact) : others_(others) {}
  static Bucketing exact() { return Bucketing(BucketRule::exact); }
  static Bucketing pow2() { return Bucketing(BucketRule::pow2); }
  static Bucketing hybrid() { return Bucketing(BucketRule::hybrid); }

  Bucketing& size(std::string name, BucketRule rule);
  // A custom rule, which should return the same size of a bucket for all sizes of that bucket. `label` is its
  // name in reports.
  Bucketing& size(std::string name, std::string label, Function function);

  Problem apply(const Problem& problem) const;

  // "hybrid", "M=pow2,K=exact,*=hybrid"; a function is shown as its label.
  std::string text() const;
  // Parses the result of text(). Returns nothing for other texts and for labels of functions.
  static std::optional<Bucketing> parse(std::string_view text);

private:
  struct Named {
    std::string name;
    BucketRule rule = BucketRule::exact;
    std::string label; // name of `function`
    Function function;
  };
  Named& named(std::string name);
  std::vector<Named> named_;
  BucketRule others_;
};

} // namespace kiln::tune
KILN_API_END
