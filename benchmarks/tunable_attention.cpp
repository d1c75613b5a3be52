// Registers the benchmarks' attention kernel for `kiln tune`, as a plug-in.
//
//   build/bin/kiln tune --plugin build/lib/libtunable_attention.so plain_attention --shape H=8,T=2048,D=64
#include "attention.h"

#include <kiln/autotune/run/registry.h>
#include <kiln/dsl/ir/ir.h>

namespace benchmarks {
namespace {

using kiln::Config;
using kiln::DType;
using namespace kiln::tune;

std::shared_ptr<kiln::ir::Kernel> record(DType dtype, const Problem&, const Config& config) {
  return dtype == DType::BF16 ? attention_kernel<kiln::bf16>(false).record(config)
                              : attention_kernel<float>(false).record(config);
}

Space space(DType, const Problem& p, kiln::Device device) {
  Space space;
  space.pow2(QUERIES, 8, 512).pow2(KEYS, 16, 512).oneof(WIDTH, {p["D"]});
  if (!device.is_cpu()) space.oneof(kiln::num_warps, {1, 2, 4, 8});
  space.require("tiles are not much larger than the tokens", [](const Choice& c, const Problem& p) {
    return (c[QUERIES] <= 128 || c[QUERIES] < 2 * p["T"]) && (c[KEYS] <= 64 || c[KEYS] < 2 * p["T"]);
  });
  space.keeps_order({QUERIES}).seed_near(attention_config(device, p["D"], p["T"], false));
  return space;
}

const TunableRegistration registration({
    .name = "plain_attention",
    .summary = "softmax(q k^T * scale) v for each head",
    .dtypes = {DType::F32, DType::BF16},
    .record = record,
    .space = space,
    .sizes = "H=8,T=1024,D=64",
    .parameters = "q=H,T,D k=H,T,D v=H,T,D o=H,T,D scale=0.125",
});

} // namespace
} // namespace benchmarks
