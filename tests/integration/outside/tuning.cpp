// Calls the functions that the tuner's public headers declare, so that the program links only if the library
// exports them.
#include "tuning.h"

#include <kiln/kiln.h>

#include <memory>
#include <string>
#include <vector>

using namespace kiln;

KILN_DIM(BT);

namespace {

const auto twice = kernel("twice", [](View<const float, 1> x, View<float, 1> y) {
  auto [i] = program_tile(y, BT);
  y.tile(i).store(x.tile(i).load() * 2.0f);
});

tune::Space space_of_tiles() {
  tune::Space space;
  space.pow2(BT, 64, 256).range("unroll", 1, 2).oneof(num_warps, {4, 8}).oneof("order", {"rows", "columns"});
  space.knob({.name = "stages", .values = {2, 3}});
  space.require("tiles fit",
                [](const tune::Choice& c, const tune::Problem& p) { return c[BT] <= 2 * p["N"]; });
  space.implies(
      "rows are not unrolled", [](const tune::Choice& c) { return c.label("order") == "rows"; },
      [](const tune::Choice& c) { return c["unroll"] == 1; });
  space.keeps_order({"unroll", num_warps, "stages"});
  space.seed({{"BT", 64}}).seed({BT = 128}).seed_near({BT = 200}).seed(tune::Point{1, 0, 0, 0, 0});
  return space;
}

const char* check_space() {
  const tune::Space space = space_of_tiles();
  tune::BoundSpace bound(space, {.sizes = {{"N", 64}}, .kind = "f32"}, Device::cpu());
  const tune::Point seed = bound.seeds().at(0), too_large = {2, 0, 0, 0, 0};
  if (bound.config(seed).get("BT") != 64 || bound.value(seed, 0) != 64) return "the config of a point";
  if (bound.text(seed) != "BT=64,unroll=1,num_warps=4,order=rows,stages=2") return "the text of a point";
  if (bound.point(bound.config(seed)) != seed) return "the point of a config";
  if (!bound.contains(seed) || bound.contains(too_large)) return "the membership of a point";
  if (bound.refused_by(too_large) != "tiles fit") return "the rule that rejects a point";
  if (bound.what_refuses().find("tiles fit") == std::string::npos) return "the rules that reject most points";
  // 2 tiles, 2 numbers of warps and 2 of stages, with three combinations of the unroll factor and the order
  bool exact = false;
  if (bound.size(&exact) != 24 || !exact || bound.points()->size() != 24) return "the number of points";
  tune::Random random(1);
  if (const auto sample = bound.sample(random); !sample || !bound.contains(*sample)) return "a random point";
  if (bound.neighbours(seed).size() != 4) return "the neighbours of a point";

  tune::Space one = space;
  one.only({seed}).only_one_order();
  if (one.text() == space.text() || one.knobs().at(0).text(1) != "128") return "the text of a space";
  return bound.problem().to_string() == "N=64 f32" && bound.problem().find("M") == std::nullopt ? nullptr
                                                                                                : "a problem";
}

const char* check_result() {
  tune::Tuning tuning;
  tuning.space =
      std::make_shared<tune::BoundSpace>(space_of_tiles(), tune::Problem{{{"N", 4096}}, ""}, Device::cpu());
  tuning.search.trials = {{.point = {0, 0, 0, 0, 0}, .result = {.seconds = 2}},
                          {.point = {1, 0, 0, 0, 0}, .result = {.seconds = 1}}};
  if (tuning.found() || tuning.of({2, 0, 0, 0, 0})) return "a result without a winner";
  tuning.search.best = tuning.search.trials[1].point;
  if (tuning.config().get("BT") != 128) return "the winner's config";
  const tune::Measurement* winner = tuning.of(*tuning.search.best);
  if (!winner || !winner->ok() || winner->seconds != 1) return "the winner's measurement";
  if (tuning.search.is_confirmed(*tuning.search.best)) return "the confirmed points";
  return std::string(tune::name(tune::Status::wrong_result)) == "wrong result" ? nullptr : "a status";
}

const char* check_modes() {
  if (tune::parse_mode(tune::name(tune::Mode::pinned), "here") != tune::Mode::pinned) return "a mode";
  if (tune::bucket_of(1000, tune::BucketRule::pow2) != 1024) return "a bucket";
  auto buckets = tune::Bucketing::hybrid().size("K", tune::BucketRule::exact);
  if (buckets.apply({{{"M", 1000}, {"K", 1000}}, ""})["M"] != 1024) return "the bucket of a problem";
  const auto parsed = tune::Bucketing::parse(buckets.text());
  if (!parsed || parsed->text() != buckets.text()) return "the text of a bucketing";
  buckets.size("N", "all", [](std::int64_t) { return std::int64_t{1}; });
  return tune::interruptions() == 0 ? nullptr : "the number of interruptions";
}

const char* check_launch() {
  const auto tuned_twice = tuned(twice, space_of_tiles(), {.key = {{"N", 0}}, .mode = tune::Mode::off});
  std::vector<float> x(1000, 3), y(1000);
  Stream stream;
  const tune::Picked picked = tuned_twice.pick(stream, TensorView(x), TensorView(y));
  if (picked.source != "the seed" || picked.config.get("BT") != 64) return "the picked config";
  tuned_twice.launch(stream, TensorView(x), TensorView(y));
  stream.synchronize();
  for (const float value : y)
    if (value != 6) return "the result of a tuned kernel";
  return nullptr;
}

// Never runs: these functions measure, read and write files, or end the searches of the process.
void link_only() {
  const auto tuned_twice = tuned(twice, space_of_tiles());
  std::vector<float> x(1000), y(1000);
  Stream stream;
  tune::TuneOptions options{.effort = tune::quick};
  options.progress = [](const tune::SearchResult& so_far) { return so_far.trials.empty(); };
  const tune::Tuning tuning = tuned_twice.tune(stream, options, TensorView(x), TensorView(y));
  tuned_twice.launch(stream, Grid{1}, TensorView(x), TensorView(y));
  tune::export_wisdom(tuning.strategy);
  tune::add_wisdom(tuning.strategy);
  tune::interrupt_tuning();
  if (tune::default_mode() == tune::Mode::off) options.seed = 1;
}

} // namespace

const char* check_tuning() {
  if (tune::interruptions() < 0) link_only();
  for (const auto check : {check_space, check_result, check_modes, check_launch})
    if (const char* wrong = check()) return wrong;
  return nullptr;
}
