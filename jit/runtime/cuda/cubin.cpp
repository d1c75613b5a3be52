// Compiles kernels for a GPU architecture, and makes the keys of their code in the cache.
#include <kiln/jit/runtime/cuda/cubin.h>

#include <kiln/dsl/ir/arguments.h>
#include <kiln/jit/base/log.h>
#include <kiln/jit/cache/disk_cache.h>
#include <kiln/jit/gpu/block_bound.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <sstream>

namespace kiln::cuda {

namespace {

constexpr std::int64_t parameter_bytes = 4352; // largest size of an entry point's parameters

struct PayloadHeader { // precedes the cubin
  std::int32_t warps, grid_rank;
  std::int64_t shared_bytes;
};

cache::KeyBuilder common_key(const Compilation& c, const Architecture& arch) {
  auto key = cache::KeyBuilder::versioned();
  key.add("cubin").add(c.text).add(c.config.to_string()).add(c.debug);
  key.add(arch.code).add(gpu::lowest_ptx(arch.code));
  return key;
}

cache::Key versions_key() {
  return cache::KeyBuilder().add("versions of ptxas that filled this cache").key();
}

// Whether version `a` is newer: "12.10.1" is newer than "12.9.88".
bool newer(const std::string& a, const std::string& b) {
  auto parts_of = [](std::string text) {
    std::replace(text.begin(), text.end(), '.', ' ');
    std::istringstream in(text);
    std::vector<int> parts;
    for (int n; in >> n;)
      parts.push_back(n);
    return parts;
  };
  return parts_of(a) > parts_of(b);
}

} // namespace

Architecture architecture_of(int sm) {
  const std::string own = "sm_" + std::to_string(sm);
  if (sm < 80)
    throw UserError("kernels run on NVIDIA GPUs of compute capability 8.0 or newer, and this one has " +
                    std::to_string(sm / 10) + "." + std::to_string(sm % 10) + "; use Device::cpu()");
  if (sm < 90) return {"sm_80", "sm_80"};
  if (sm == 90) return {"sm_90a", "sm_90a"};
  if (sm == 100) return {"sm_100a", "sm_100a"};
  return {"sm_80", own};
}

Architecture architecture_named(const std::string& name) {
  std::string digits = name.starts_with("sm_") ? name.substr(3) : "";
  const bool own = digits.ends_with('a');
  if (own) digits.pop_back();
  const bool number =
      digits.size() >= 2 && digits.size() <= 3 &&
      std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c); });
  if (!number) throw UserError("\"" + name + "\" is no GPU architecture; write sm_80, sm_90a or sm_100a");
  Architecture arch = architecture_of(std::stoi(digits));
  if (own != arch.code.ends_with('a'))
    throw UserError("Kiln knows the GPU architectures sm_80, sm_90a and sm_100a, not \"" + name + "\"");
  return arch;
}

std::vector<char> to_payload(const Cubin& cubin) {
  const PayloadHeader header{cubin.shape.warps, cubin.shape.grid_rank, cubin.shape.shared_bytes};
  std::vector<char> payload(sizeof header + cubin.image.size());
  std::memcpy(payload.data(), &header, sizeof header);
  std::memcpy(payload.data() + sizeof header, cubin.image.data(), cubin.image.size());
  return payload;
}

Cubin from_payload(std::span<const char> payload, const std::string& kernel) {
  PayloadHeader header;
  if (payload.size() <= sizeof header)
    throw TargetError("kernel " + kernel + ": the cached code is too short");
  std::memcpy(&header, payload.data(), sizeof header);
  Cubin cubin;
  cubin.shape = {.warps = header.warps, .grid_rank = header.grid_rank, .shared_bytes = header.shared_bytes};
  cubin.image.assign(payload.data() + sizeof header, payload.size() - sizeof header);
  return cubin;
}

gpu::Ptx compile_ptx(const Compilation& c, const Architecture& arch, bool line_info) {
  gpu::PtxOptions options = gpu::ptx_options(c.lowered->name, c.config);
  options.debug = c.debug;
  options.line_info = line_info;
  options.keep_llvm = c.keep.llvm;
  gpu::Ptx ptx = gpu::compile_to_ptx(*c.lowered, {arch.code}, options);
  const int words = ir::ArgumentLayout::of(*c.lowered).words + ptx.shape.grid_rank + 1;
  if (8 * std::int64_t{words} > parameter_bytes)
    throw UserError("kernel " + c.lowered->name + ": its parameters take " + std::to_string(8 * words) +
                    " bytes, and a GPU takes " + std::to_string(parameter_bytes) +
                    "; pass fewer views and scalars");
  return ptx;
}

void check_shared(const Compilation& c, std::int64_t bytes, const std::string& device, std::int64_t limit) {
  if (bytes > limit)
    throw UserError("kernel " + c.lowered->name + ": the tiles of the config {" + c.config.to_string() +
                    "} need " + std::to_string(bytes) + " bytes of shared memory, and " + device + " has " +
                    std::to_string(limit) + " for a block; choose smaller sizes");
}

void keep_ptx(const KeptFiles& kept, const Compilation& c, const gpu::Ptx& ptx) {
  kept.write(c.keep.llvm, ".ll", ptx.llvm);
  kept.write(c.keep.ptx, ".ptx", ptx.text);
}

cache::Key ptxas_key(const Compilation& c, const Architecture& arch, const std::string& ptxas_version) {
  return common_key(c, arch).add("ptxas").add(ptxas_version).add(arch.binary).key();
}

cache::Key driver_key(const Compilation& c, const Architecture& arch, int driver_version, int sm) {
  return common_key(c, arch).add("driver").add(driver_version).add(sm).key();
}

std::vector<std::string> recorded_ptxas_versions() {
  std::vector<std::string> versions;
  auto payload = cache::DiskCache::standard().load(versions_key());
  if (!payload) return versions;
  std::istringstream words(std::string(payload->begin(), payload->end()));
  for (std::string word; words >> word;)
    versions.push_back(word);
  std::sort(versions.begin(), versions.end(), newer);
  return versions;
}

// If two processes write the list at the same time, a version may be lost until its next cubin is stored.
void record_ptxas_version(const std::string& version) {
  std::vector<std::string> versions = recorded_ptxas_versions();
  if (std::find(versions.begin(), versions.end(), version) != versions.end()) return;
  versions.push_back(version);
  std::string text;
  for (const std::string& v : versions)
    text += v + "\n";
  cache::DiskCache::standard().store(versions_key(), text,
                                     {.kernel = "(versions of ptxas)", .config = {}, .target = {}});
}

std::optional<std::string> run_ptxas(std::string& ptx, const Architecture& arch, const std::string& kernel,
                                     std::string& refusal) {
  if (gpu::ptxas_version().empty()) return std::nullopt;
  gpu::Assembled made = gpu::assemble_either_way(ptx, arch.binary);
  if (!made.ok) {
    refusal = made.log;
    return std::nullopt;
  }
  if (gpu::has_complaint(made.log)) log_info("ptxas about kernel " + kernel + ": " + made.log);
  return std::string(made.cubin.begin(), made.cubin.end());
}

} // namespace kiln::cuda
