// Packs the arguments of an op's launch into the words that kernels take (dsl/ir/arguments.h).
#pragma once

#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/ops/detail/op_kernel.h>

#include <algorithm>

namespace kiln::ops::detail {

// The words of one launch, on the stack.
class OpWords {
public:
  explicit OpWords(const OpArguments& arguments) {
    std::uint64_t* to = first();
    for (const OpArgument& a : arguments) {
      if (a.array) {
        *to++ = reinterpret_cast<std::uintptr_t>(a.array->data);
        to = std::copy_n(a.array->extents, a.array->rank, to);
        to = std::copy_n(a.array->strides, a.array->rank, to);
      } else {
        *to++ = a.bits;
      }
    }
  }
  std::uint64_t* first() { return block_ + kiln::detail::launch_header_words; }
  const std::uint64_t* first() const { return block_ + kiln::detail::launch_header_words; }

private:
  static constexpr int max_words = OpArguments::max * (1 + 2 * max_rank);
  alignas(16) std::uint64_t block_[kiln::detail::launch_header_words + max_words + 1];
};

} // namespace kiln::ops::detail
