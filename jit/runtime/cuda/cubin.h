// From a lowered kernel to a cubin: PTX by LLVM, the rest by ptxas; and the keys of cubins in the cache on
// disk. Needs no driver and no GPU. Not for users.
//
// A cubin may come from ptxas, or from the driver's assembler where there is no ptxas. Its key names which:
// "ptxas 13.0.88", or the driver's version and the device. Cubins of any ptxas run wherever their
// architecture does, so a cache folder that was filled on one machine serves another without ptxas: the
// folder has an entry that lists the versions of ptxas that filled it.
#pragma once

#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/runtime/kernel/backend.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::cuda {

// What a device of compute capability `sm` (90 for 9.0) runs.
struct Architecture {
  std::string code;   // that PTX is written for: "sm_90a"
  std::string binary; // that ptxas assembles it for: code's own, or the device's where code is older
};
// 8.x: sm_80, whose cubins all of them run; 9.0: sm_90a; 10.0: sm_100a; any other: PTX for sm_80, which is
// assembled for the device. UserError below 8.0.
Architecture architecture_of(int sm);
// The same from a name, "sm_90a" or "sm_86". UserError for one that is none, and for one without the "a" of
// the code that Kiln writes, as "sm_90".
Architecture architecture_named(const std::string& name);

// A cubin, or PTX, with what a launch must know of it.
struct Cubin {
  gpu::KernelShape shape;
  std::string image;
};
std::vector<char> to_payload(const Cubin& cubin);
// TargetError if it is no payload.
Cubin from_payload(std::span<const char> payload, const std::string& kernel);

// UserError for what the target lacks or has too little of. `line_info`: with the lines of the user's source,
// which change no instruction.
gpu::Ptx compile_ptx(const Compilation& c, const Architecture& arch, bool line_info = false);
// The files of KILN_KEEP that every PTX has.
void keep_ptx(const KeptFiles& kept, const Compilation& c, const gpu::Ptx& ptx);
// UserError where a block needs more shared memory than this device has: the architecture's own limit was
// checked, and a device of its family may have less.
void check_shared(const Compilation& c, std::int64_t bytes, const std::string& device, std::int64_t limit);

cache::Key ptxas_key(const Compilation& c, const Architecture& arch, const std::string& ptxas_version);
cache::Key driver_key(const Compilation& c, const Architecture& arch, int driver_version, int sm);

// Versions of ptxas that have filled the cache folder, newest first, and another one.
std::vector<std::string> recorded_ptxas_versions();
void record_ptxas_version(const std::string& version);

// What ptxas makes of it; nothing if there is no ptxas. `refusal` gets its log if it refuses; `ptx` becomes
// what was assembled (gpu::assemble_either_way).
std::optional<std::string> run_ptxas(std::string& ptx, const Architecture& arch, const std::string& kernel,
                                     std::string& refusal);

} // namespace kiln::cuda
