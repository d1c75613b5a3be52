// Declares what the calls of attention and of its backward pass share: checks, options and arguments.
#pragma once

#include <kiln/ops/attention_options.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/known_config.h>
#include <kiln/ops/detail/op_kernel.h>

#include <algorithm>

namespace kiln::ops::detail {

// Throws UserError unless q, k, v and o, sinks and numbers of the options, and the lambdas fit each other.
void check_attention(const Checks& check, const Array& q, const Array& k, const Array& v, const Array& o,
                     const AttentionOptions& options);
// The same for log-sum-exps, of which there is one for each query.
void check_lse(const Checks& check, const Array& lse, const Array& q);
// Throw UserError if an output overlaps a tensor of the options that is read, or one that the lambdas read.
void check_apart_from_options(const Checks& check, const Argument& out, const AttentionOptions& options);
void check_apart_from_hooks(const Checks& check, const Argument& out, const AttentionHooks& hooks);

// The bits of attention_option that the options name, and the lambdas.
OpVariant attention_variant(const Checks& check, const AttentionOptions& options, DType compute,
                            const AttentionHooks& hooks);
// The arguments that AttentionGrid takes.
void add_offsets(OpArguments& list, const AttentionOptions& options);
// The arguments that AttentionScores takes. q has four axes.
void add_scores_arguments(OpArguments& list, const OpVariant& variant, const AttentionOptions& options,
                          const AttentionHooks& hooks, const Array& q, std::int64_t first_batch);

// What the host knows of ragged batches.
class RaggedBatches {
public:
  explicit RaggedBatches(const AttentionOptions& options) : offsets_(options.query_offsets) {}

  explicit operator bool() const { return offsets_.given(); }
  std::int64_t count() const { return offsets_.given() ? offsets_.array().extents[0] - 1 : 0; }
  // The average number of tokens of a sequence, or all tokens of a batch.
  std::int64_t average(std::int64_t tokens) const {
    return offsets_.given() ? (tokens + count() - 1) / std::max<std::int64_t>(count(), 1) : tokens;
  }
  // The grids of AttentionGrid for tiles of the queries or the keys, and for whole heads; empty for other
  // batches, where the kernels have grids of their own.
  GridRule tiles_of_queries(const Array& q) const {
    return rule({q.extents[1], q.extents[2], count()}, [](const std::int64_t* facts, const Config& config) {
      return Grid{facts[0], facts[1] / *config.get("QUERIES") + facts[2]};
    });
  }
  GridRule tiles_of_keys(const Array& k) const {
    return rule({k.extents[1], k.extents[2], count()}, [](const std::int64_t* facts, const Config& config) {
      return Grid{facts[0], facts[1] / *config.get("KEYS") + facts[2]};
    });
  }
  GridRule heads(const Array& k) const {
    return rule({count(), k.extents[1]},
                [](const std::int64_t* facts, const Config&) { return Grid{facts[0], facts[1]}; });
  }

private:
  GridRule rule(std::array<std::int64_t, 3> facts, decltype(GridRule::of) of) const {
    return offsets_.given() ? GridRule{of, facts} : GridRule{};
  }
  const Input& offsets_;
};

// An array with a further last axis of one element.
Array with_last_axis(Array a);

// The largest of the powers of 2 from 16 to `most` that is not above what covers `tokens`.
std::int64_t block_of_tokens(std::int64_t tokens, std::int64_t most);

} // namespace kiln::ops::detail
