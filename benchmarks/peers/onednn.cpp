// Calls oneDNN through its C++ interface, in versions 2 and 3.
#include "onednn.h"

#ifdef KILN_HAVE_ONEDNN

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <cstdlib>
#include <memory>
#include <unordered_map>

namespace benchmarks {
namespace {

using Memory = dnnl::memory;

struct Prepared {
  dnnl::stream stream;
  dnnl::primitive primitive;
  std::unordered_map<int, Memory> arguments;
};

Memory::desc description(std::int64_t rows, std::int64_t columns, Memory::data_type type, bool transposed) {
  return {{rows, columns}, type, transposed ? Memory::dims{1, rows} : Memory::dims{columns, 1}};
}

dnnl::matmul::primitive_desc primitive(const dnnl::engine& engine, const Memory::desc& a,
                                       const Memory::desc& b, const Memory::desc& c) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c};
#else
  return {dnnl::matmul::desc(a, b, c), engine};
#endif
}

} // namespace

std::string onednn_description() {
  const dnnl_version_t* version = dnnl_version();
  const char* threads = std::getenv("OMP_NUM_THREADS");
  auto isa = [] {
    switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41: return "sse4.1";
    case dnnl::cpu_isa::avx: return "avx";
    case dnnl::cpu_isa::avx2: return "avx2";
    case dnnl::cpu_isa::avx2_vnni: return "avx2 vnni";
    case dnnl::cpu_isa::avx512_core: return "avx512";
    case dnnl::cpu_isa::avx512_core_vnni: return "avx512 vnni";
    case dnnl::cpu_isa::avx512_core_bf16: return "avx512 bf16";
    default: return "newer";
    }
  }();
  return fmt::format("oneDNN {}.{}.{}, {} kernels, threads: {}", version->major, version->minor,
                     version->patch, isa, threads ? threads : "all");
}

std::function<void()> onednn_matmul(const OneDnnProduct& p, Weights weights) {
  using Type = Memory::data_type;
  Type in = p.dtype == kiln::DType::F32 ? Type::f32 : p.dtype == kiln::DType::BF16 ? Type::bf16 : Type::s8;
  Type out = in == Type::s8 ? Type::s32 : in;
  try {
    static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    auto a = description(p.m, p.k, in, p.transposed_a), b = description(p.k, p.n, in, p.transposed_b);
    auto c = description(p.m, p.n, out, false);
    bool pack = weights == Weights::packed_outside;
    auto chosen = primitive(engine, a, pack ? Memory::desc({p.k, p.n}, in, Memory::format_tag::any) : b, c);
    Memory given(b, engine, const_cast<void*>(p.b)), used = given;
    if (chosen.weights_desc() != b) {
      used = Memory(chosen.weights_desc(), engine);
      dnnl::reorder(given, used).execute(stream, given, used);
      stream.wait();
    }
    auto prepared =
        std::make_shared<Prepared>(Prepared{stream,
                                            dnnl::matmul(chosen),
                                            {{DNNL_ARG_SRC, Memory(a, engine, const_cast<void*>(p.a))},
                                             {DNNL_ARG_WEIGHTS, used},
                                             {DNNL_ARG_DST, Memory(c, engine, p.c)}}});
    return [prepared] {
      prepared->primitive.execute(prepared->stream, prepared->arguments);
      prepared->stream.wait();
    };
  } catch (const dnnl::error&) {
    return {}; // this CPU or version does not support the product
  }
}

} // namespace benchmarks

#else

namespace benchmarks {

std::string onednn_description() { return {}; }
std::function<void()> onednn_matmul(const OneDnnProduct&, Weights) { return {}; }

} // namespace benchmarks

#endif
