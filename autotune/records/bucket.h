// Groups problem sizes into buckets; the problems of a bucket share one config, tuned for its largest size.
//
//   Bucketing buckets = Bucketing::hybrid();
//   buckets.size("K", BucketRule::exact).size("heads", BucketRule::exact);
//   buckets.apply({{{"M", 1000}, {"K", 4096}}, "f32"}); // M=1024, K=4096
//
// BucketRule::pow2 is too coarse above 1024, where the tiles of a kernel no longer divide sizes evenly. With
// BucketRule::exact, every new size has to be tuned. BucketRule::hybrid is a compromise. A Bucketing is a
// value that can be copied.
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
  exact,  // each size is its own bucket
  pow2,   // rounded up to a power of two
  hybrid, // powers of two to 256, multiples of 256 to 2048 and of 512 to 4096, powers of two above
};

// Returns the largest size of the bucket that `size` is in. A size below 2 is its own bucket, and so is a
// size whose bucket would not fit the type.
std::int64_t bucket_of(std::int64_t size, BucketRule rule);

class Bucketing {
public:
  using Function = std::function<std::int64_t(std::int64_t)>;

  // `others` is the rule for all sizes that have no rule of their own.
  explicit Bucketing(BucketRule others = BucketRule::exact) : others_(others) {}
  static Bucketing exact() { return Bucketing(BucketRule::exact); }
  static Bucketing pow2() { return Bucketing(BucketRule::pow2); }
  static Bucketing hybrid() { return Bucketing(BucketRule::hybrid); }

  // Sets the rule for the size of this name.
  Bucketing& size(std::string name, BucketRule rule);
  // Sets a custom rule: `function` maps a size to the size that stands for its bucket. It should return the
  // same result for all sizes of one bucket. `label` is its name in reports.
  Bucketing& size(std::string name, std::string label, Function function);

  // Returns the problem with each size replaced by that of its bucket.
  Problem apply(const Problem& problem) const;

  // Returns the rules as text, such as "hybrid" or "M=pow2,K=exact,*=hybrid"; a custom rule is shown as its
  // label.
  std::string text() const;
  // Parses the result of text(). Returns nothing for text of another form, or if it contains the label of a
  // custom rule, because its function is not in the text.
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
