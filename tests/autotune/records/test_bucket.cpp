// Tests the buckets of problem sizes.
#include <catch2/catch.hpp>

#include "records_support.h"

#include <kiln/autotune/records/bucket.h>

#include <set>

using namespace records_test;

TEST_CASE("hybrid buckets are fine for medium sizes and coarse for others", "[records]") {
  const auto hybrid = [](std::int64_t n) { return bucket_of(n, BucketRule::hybrid); };
  CHECK(hybrid(1) == 1);
  CHECK(hybrid(3) == 4);
  CHECK(hybrid(129) == 256);
  CHECK(hybrid(256) == 256);
  CHECK(hybrid(257) == 512);
  CHECK(hybrid(1025) == 1280);
  CHECK(hybrid(2048) == 2048);
  CHECK(hybrid(2049) == 2560);
  CHECK(hybrid(4096) == 4096);
  CHECK(hybrid(4097) == 8192);
  std::set<std::int64_t> buckets;
  for (std::int64_t n = 1; n <= 8192; ++n)
    buckets.insert(hybrid(n));
  CHECK(buckets.size() == 9 + 7 + 4 + 1);
}

TEST_CASE("a bucket is at least each of its sizes and less than twice as large", "[records]") {
  const auto seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20000; ++i) {
    const std::int64_t size = static_cast<std::int64_t>(random() >> random() % 64);
    for (const BucketRule rule : {BucketRule::exact, BucketRule::pow2, BucketRule::hybrid}) {
      const std::int64_t bucket = bucket_of(size, rule);
      CAPTURE(size, bucket, static_cast<int>(rule));
      CHECK(bucket >= size);
      CHECK(bucket_of(bucket, rule) == bucket);
      if (size > 0 && size < INT64_MAX / 2) CHECK(bucket < 2 * size);
    }
  }
  for (const std::int64_t size : {INT64_MIN, std::int64_t{-5}, std::int64_t{0}, INT64_MAX})
    CHECK(bucket_of(size, BucketRule::hybrid) == size);
}

TEST_CASE("sizes can have separate rules", "[records]") {
  Bucketing buckets = Bucketing::hybrid();
  buckets.size("K", BucketRule::exact).size("batch", "sevens", [](std::int64_t n) {
    return (n + 6) / 7 * 7;
  });
  const Problem bucketed = buckets.apply({{{"M", 1000}, {"K", 1000}, {"batch", 8}}, "f32"});
  CHECK(bucketed == Problem{{{"M", 1024}, {"K", 1000}, {"batch", 14}}, "f32"});
  CHECK(buckets.text() == "K=exact,batch=sevens,*=hybrid");
  CHECK_FALSE(Bucketing::parse(buckets.text())); // the text does not define "sevens"
  buckets.size("batch", BucketRule::pow2);
  const auto parsed = Bucketing::parse(buckets.text());
  REQUIRE(parsed);
  CHECK(parsed->text() == "K=exact,batch=pow2,*=hybrid");
  CHECK(parsed->apply({{{"batch", 9}}, ""}) == Problem{{{"batch", 16}}, ""});
  CHECK(Bucketing::parse("pow2")->text() == "pow2");
  CHECK_FALSE(Bucketing::parse("quadratic"));
  CHECK_FALSE(Bucketing::parse(""));
}
