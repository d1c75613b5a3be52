// What a tuning record is about: which kernel, problem, machine and compiler.
//
//   RecordKey key = make_key(*matmul.record({}), space, bucketing.apply(problem), device);
//
// The hard part says which records may be used for each other: one that differs in it is another question,
// whose answer is at most a first guess. The soft part names the tools and the product: a record whose soft
// part differs still answers, but the answer should be confirmed with a few trials, and is not forgotten.
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

// Versions of what compiled and ran the kernel. Empty: not known, or the device has no such thing.
struct ToolVersions {
  std::string
      product; // "NVIDIA H200", "AMD EPYC 9575F 64-Core Processor": only a name, two may be one silicon
  std::string driver; // "12.4": the CUDA that it supports
  std::string llvm;
  std::string ptxas;
  std::string kiln;
  bool operator==(const ToolVersions&) const = default;
};

struct RecordKey {
  std::string kernel;  // its name
  cache::Key ir;       // of its tile IR, recorded without a config
  cache::Key space;    // of the space's text
  Problem problem;     // sizes in buckets; `kind` holds dtypes, layouts and alignment
  std::string silicon; // see silicon_of
  std::string backend; // "cpu", "ptx", "emulated"
  int code_generation = 0;

  ToolVersions tools; // the soft part

  std::string bucketing; // text of the policy that made `problem`, for reports; neither hard nor soft

  // Of the hard part. Equal ids: the same question.
  cache::Key id() const;
};

cache::Key hash_of(const ir::Kernel& recorded);
inline cache::Key hash_of(const Space& space) { return cache::KeyBuilder().add(space.text()).key(); }

RecordKey make_key(const ir::Kernel& recorded, cache::Key space, Problem bucketed, Device device);
inline RecordKey make_key(const ir::Kernel& recorded, const Space& space, Problem bucketed, Device device) {
  return make_key(recorded, hash_of(space), std::move(bucketed), device);
}
// The same where the hashes are known already.
RecordKey make_key(std::string kernel, cache::Key ir, cache::Key space, Problem bucketed, Device device);

// What decides how fast code runs, from queried attributes and never from a product's name:
// "znver5:sse4.2+avx2:48K:1M:32M:16t", "sm_90:132sm:228K:50M:144G" (memory to one part in eight).
std::string silicon_of(const DeviceProperties& properties);
std::string backend_of(Device device);
ToolVersions tools_of(Device device);

// What of the hard part differs, as words for people: "silicon", "problem", "code generation".
std::vector<std::string> hard_differences(const RecordKey& a, const RecordKey& b);
// Of the soft part, with both values: "llvm 22.1.7, now 22.1.8". Unknown on either side is no difference.
std::vector<std::string> soft_differences(const ToolVersions& recorded, const ToolVersions& now);

// "M=512,N=512 f32.nn"
std::string text_of(const Problem& problem);

} // namespace tune
} // namespace kiln
