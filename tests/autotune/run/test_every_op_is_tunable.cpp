// Tests that ops look up the configs of the spaces that are registered for them, and that these spaces begin
// with a config that works, for sizes of all kinds.
#include "autotune/own_cache.h"
#include "autotune/publish_best.h"

#include <kiln/autotune/records/database.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/autotune/run/task.h>
#include <kiln/jit/runtime/rehearsal.h>
#include <kiln/jit/runtime/tensor.h>
#include <kiln/ops/detail/call_task.h>
#include <kiln/ops/elementwise.h>
#include <kiln/ops/grouped_matmul.h>
#include <kiln/ops/kv_cache.h>
#include <kiln/ops/norm.h>
#include <kiln/ops/rotary.h>
#include <kiln/ops/routing.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>

using namespace kiln;
using test::publish_best;

namespace {

using Extents = std::initializer_list<std::int64_t>;
Array f32(Extents extents) { return ops::detail::stand_in_array(DType::F32, extents); }
ops::Input in(Extents extents) { return ops::Input(ops::detail::stand_in_array(DType::F32, extents)); }
ops::Output out(Extents extents) { return ops::Output(ops::detail::stand_in_array(DType::F32, extents)); }
ops::Input indices(Extents extents) { return ops::Input(ops::detail::stand_in_array(DType::I32, extents)); }

// The config of the launch of this kernel.
Config launched(const std::string& kernel, const std::function<void(Stream&)>& call) {
  Stream stream;
  const Rehearsal r = rehearse([&] { call(stream); });
  const auto found = std::find_if(r.launches.begin(), r.launches.end(),
                                  [&](const auto& launch) { return launch.kernel == kernel; });
  REQUIRE(found != r.launches.end());
  return found->config;
}

} // namespace
