// Compiles a lowered kernel to PTX and a cubin, and makes the keys of cubins in the kernel cache. Needs no
// driver and no GPU. Internal.
//
// A cubin comes from ptxas, or from the driver's assembler if there is no ptxas. Its key contains which:
// "ptxas 13.0.88", or the driver's version and the device. A cubin from any version of ptxas runs on its
// architecture, so a cache folder that was filled on one machine can be used on another without ptxas. For
// this, an entry in the folder lists the versions of ptxas that have filled it.
#pragma once

#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/runtime/kernel/backend.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::cuda {

// The code that a device of some compute capability runs.
struct Architecture {
  std::string code;   // what the PTX is written for: "sm_90a"
  std::string binary; // what ptxas assembles it for: `code` or, if newer, the device
};
// For compute capability `sm` (90 means 9.0). 8.x: sm_80, whose cubins run on all of them; 9.0: sm_90a; 10.0:
// sm_100a; others: PTX for sm_80, assembled for the device. UserError below 8.0.
Architecture architecture_of(int sm);
// The same for a name, such as "sm_90a" or "sm_86". UserError for an unknown name, and for a name that lacks
// the "a" of the code that Kiln generates, such as "sm_90".
Architecture architecture_named(const std::string& name);

// A cubin or PTX, with what a launch needs to know about it.
struct Cubin {
  gpu::KernelShape shape;
  std::string image;
};
std::vector<char> to_payload(const Cubin& cubin);
// TargetError if the bytes are not such a payload.
Cubin from_payload(std::span<const char> payload, const std::string& kernel);

// UserError for what the target lacks or has too little of. `line_info` adds the lines of the user's source,
// which does not change instructions.
gpu::Ptx compile_ptx(const Compilation& c, const Architecture& arch, bool line_info = false);
// Writes the files of KILN_KEEP that do not depend on the assembler.
void keep_ptx(const KeptFiles& kept, const Compilation& c, const gpu::Ptx& ptx);
// UserError if a block needs more shared memory than this device has. The limit of the architecture is
// checked elsewhere; a device of its family may have less.
void check_shared(const Compilation& c, std::int64_t bytes, const std::string& device, std::int64_t limit);

cache::Key ptxas_key(const Compilation& c, const Architecture& arch, const std::string& ptxas_version);
cache::Key driver_key(const Compilation& c, const Architecture& arch, int driver_version, int sm);

// The versions of ptxas that have filled the cache folder, newest first; and adds one.
std::vector<std::string> recorded_ptxas_versions();
void record_ptxas_version(const std::string& version);

// Assembles PTX with ptxas; nothing if there is no ptxas or it rejects the code, when `refusal` gets its log.
// `ptx` becomes the text that was assembled (see gpu::assemble_either_way).
std::optional<std::string> run_ptxas(std::string& ptx, const Architecture& arch, const std::string& kernel,
                                     std::string& refusal);

} // namespace kiln::cuda
