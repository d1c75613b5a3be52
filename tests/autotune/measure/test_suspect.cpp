// Tests which arguments an error names as the probable cause of a crash or of an endless loop.
#include "measured.h"

#include <kiln/autotune/measure/suspect.h>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::tune;
using Catch::Contains;

namespace {

const auto gather =
    kernel("gather", [](View<const std::int32_t, 1> from, View<const float, 1> x, View<float, 1> y) {
      auto [i] = program_tile(y, BN);
      y.tile(i).store(raw::load(x.data() + cast<std::int64_t>(from.tile(i).load())));
    });

std::vector<Argument> arguments_with(const std::vector<std::int32_t>& from) {
  std::vector<Argument> arguments = {
      tensor_argument(DType::I32, {static_cast<std::int64_t>(from.size())}, true),
      tensor_argument(DType::F32, {4}, true), tensor_argument(DType::F32, {4}, false)};
  const auto bytes = std::make_shared<SharedBytes>(4 * from.size());
  std::memcpy(bytes->data(), from.data(), bytes->size());
  arguments[0].fill.kind = Fill::Kind::bytes;
  arguments[0].fill.bytes = bytes;
  return arguments;
}

} // namespace

TEST_CASE("given indices are suspected of a crash, with their range") {
  const auto recorded = gather.record({BN = 4});
  const auto arguments = arguments_with({3, -7, 100000, 2});
  CHECK_THAT(
      suspect_of(arguments, *recorded, Failing::crash),
      Contains("the probable cause is argument 1") &&
          Contains("(i32), whose contents were given (whole numbers from -7 to 100000) and decide where the "
                   "kernel reads or writes; check that all of them are inside the arrays"));
  CHECK(suspect_of(arguments, *recorded, Failing::other).empty());
}

TEST_CASE("made-up indices are suspected before given ones") {
  auto arguments = arguments_with({0, 1, 2, 3});
  arguments[0].fill = {};
  CHECK_THAT(suspect_of(arguments, *gather.record({BN = 4}), Failing::crash),
             Contains("argument 1") && Contains("are made up (whole numbers from 0 to 7)"));
}

TEST_CASE("the sizes of raw pointers are suspected of a crash") {
  const auto copies = kernel("copies by pointers", [](raw::Ptr<const float> x, raw::Ptr<float> y) {
    auto i = program_id(0) * dim_size(BN) + arange(BN);
    raw::store(y + i, raw::load(x + i));
  });
  std::vector<Argument> arguments(2);
  for (Argument& a : arguments)
    a.kind = Argument::Kind::pointer, a.bytes = 1000;
  const auto recorded = copies.record({BN = 4});
  CHECK_THAT(suspect_of(arguments, *recorded, Failing::crash),
             Contains("the probable cause is memory behind raw pointers: argument 1") &&
                 Contains("with 1000 bytes") && Contains("TunedOptions::pointer_bytes"));
  CHECK(suspect_of(arguments, *recorded, Failing::endless).empty());
}
