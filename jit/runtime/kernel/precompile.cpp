// Compiles kernels to cubins with ptxas, and stores them in the kernel cache.
#include <kiln/jit/runtime/kernel/precompile.h>

#include <kiln/jit/cache/disk_cache.h>
#include <kiln/jit/gpu/ptxas.h>
#include <kiln/jit/runtime/cuda/cubin.h>
#include <kiln/jit/runtime/kernel/repro.h>

namespace kiln {

namespace {

Precompiled precompile(const PrecompileRequest& request) {
  const cuda::Architecture arch = cuda::architecture_named(request.arch);
  const std::string& version = gpu::ptxas_version();
  if (version.empty())
    throw UserError("compiling for a GPU that is not here needs ptxas: " + gpu::why_no_ptxas());
  const Compilation c =
      lower(request.recorded, config_for(DeviceKind::Cuda, request.config), request.layouts);
  gpu::ptx_options(c.lowered->name, c.config); // UserError for a config that no thread block can have
  auto& disk = cache::DiskCache::standard();
  const cache::Key key = cuda::ptxas_key(c, arch, version);
  Precompiled result{.target = arch.binary, .config = c.config.to_string(), .bytes = 0, .was_there = false};
  KeptFiles kept(c, key);
  kept.write(c.keep.tile, ".kir", c.text);
  if (auto payload = disk.load(key); payload && !c.keep.generated()) {
    cuda::record_ptxas_version(version);
    result.bytes = static_cast<std::int64_t>(payload->size());
    result.was_there = true;
    return result;
  }
  gpu::Ptx ptx = cuda::compile_ptx(c, arch);
  cuda::keep_ptx(kept, c, ptx);
  std::string refusal;
  auto image = cuda::run_ptxas(ptx.text, arch, c.lowered->name, refusal);
  if (!image)
    throw TargetError("kernel " + c.lowered->name + ": ptxas " + version + " does not assemble it for " +
                      arch.binary + ":\n" + refusal + "the PTX is " +
                      save_repro(c.lowered->name, {{"kernel.ptx", ptx.text}, {"log.txt", refusal}}));
  kept.write(c.keep.ptx, ".ptx", ptx.text); // the PTX that ptxas accepted
  kept.write(c.keep.cubin, ".cubin", *image);
  const std::vector<char> payload = cuda::to_payload({ptx.shape, *image});
  disk.store(key, payload, {.kernel = c.lowered->name, .config = result.config, .target = arch.binary});
  if (!disk.load(key))
    throw UserError("kernel " + c.lowered->name + " was compiled for " + arch.binary +
                    " and could not be kept in " +
                    (disk.folder().empty() ? "a cache folder: there is none" : disk.folder().string()) +
                    "; set KILN_CACHE_DIR to a folder of your own");
  cuda::record_ptxas_version(version);
  result.bytes = static_cast<std::int64_t>(payload.size());
  return result;
}

} // namespace

Precompiled precompile_kernel(const PrecompileRequest& request) {
  try {
    return precompile(request);
  } catch (const UserError& e) {
    throw with_place(e, request.where, request.recorded.name);
  }
}

} // namespace kiln
