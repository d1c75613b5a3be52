// Identifies what a tuning record is about: kernel, problem, machine and compiler.
//
//   RecordKey key = make_key(*matmul.record({}), space, bucketing.apply(problem), device);
//
// The hard part determines which records are interchangeable. A record whose hard part differs belongs to
// another key, and is at most a starting point. The soft part names the tool versions and the product. A
// record whose soft part differs is still used, but should be confirmed with a few trials; it is not
// discarded.
#pragma once

#include <kiln/autotune/space/space.h>
#include <kiln/jit/cache/hash.h>

#include <string>
#include <vector>

namespace kiln {
namespace ir {
struct Kernel;
}

namespace tune {

// Versions of what compiled and ran the kernel. An empty string means unknown or not applicable.
struct ToolVersions {
  std::string product; // "NVIDIA H200", "AMD EPYC 9575F 64-Core Processor"; a name, not the silicon
  std::string driver;  // "12.4": the CUDA version that it supports
  std::string llvm;
  std::string ptxas;
  std::string kiln;
  int verification = 0; // how it was checked: see verification_version; 0: before that was recorded
  bool operator==(const ToolVersions&) const = default;
};

// Counts the rules by which tuning runs accept a config as right. It rises when they become stricter. A
// config that older rules accepted may be wrong, so launches do not use it; tuning runs try it first, and
// mode `online` and `tune` search again.
inline constexpr int verification_version = 6;

struct RecordKey {
  std::string kernel;  // the kernel's name
  cache::Key ir;       // hash of its tile IR, recorded without a config
  cache::Key space;    // hash of the space's text
  Problem problem;     // sizes after bucketing; `kind` holds dtypes, layouts and alignment; the caller's key
  std::string silicon; // see silicon_of
  std::string backend; // "cpu", "ptx", "emulated"
  int code_generation = 0;

  ToolVersions tools; // the soft part

  std::string bucketing; // text of the policy that made `problem`, for reports; not part of the key

  // Hash of the hard part. Equal ids mean equal hard parts.
  cache::Key id() const;
};

cache::Key hash_of(const ir::Kernel& recorded);
inline cache::Key hash_of(const Space& space) { return cache::KeyBuilder().add(space.text()).key(); }

RecordKey make_key(const ir::Kernel& recorded, cache::Key space, Problem bucketed, Device device);
inline RecordKey make_key(const ir::Kernel& recorded, const Space& space, Problem bucketed, Device device) {
  return make_key(recorded, hash_of(space), std::move(bucketed), device);
}
// The same for known hashes.
RecordKey make_key(std::string kernel, cache::Key ir, cache::Key space, Problem bucketed, Device device);

// Describes what determines the speed of code, from queried attributes and never from a product's name:
// "znver5:sse4.2+avx2:48K:1M:32M:16t", "sm_90:132sm:228K:50M:144G" (memory rounded to one part in eight).
std::string silicon_of(const DeviceProperties& properties);
std::string backend_of(Device device);
ToolVersions tools_of(Device device);

// Names the parts of the hard part that differ, for messages: "silicon", "sizes", "code generation".
std::vector<std::string> hard_differences(const RecordKey& a, const RecordKey& b);
// Describes differences of the soft part with both values: "llvm 22.1.7, now 22.1.8". Unknown values are not
// compared.
std::vector<std::string> soft_differences(const ToolVersions& recorded, const ToolVersions& now);

// "M=512,N=512 f32.nn", and the caller's key in quotes
std::string text_of(const Problem& problem);

} // namespace tune
} // namespace kiln
