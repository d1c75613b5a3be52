// Defines NamedScores, scores and masks of attention that callers choose by tensors instead of lambdas, for
// languages without lambdas of Kiln. They are lambdas of the library's own (hook.h).
#pragma once

#include <kiln/ops/attention_options.h>
#include <kiln/ops/detail/checks.h>

#include <cstdint>

namespace kiln::ops::detail {

// c_api.h says what they mean. Those that are not given have no effect and cost nothing.
struct NamedScores {
  Input alibi_slopes, bias, relative_bias;                     // are added to scores
  Input prefix_lengths, key_lengths, documents, key_documents; // hide keys
};

// The lambdas of a call with their tensors, which keeps them while the call is made.
class NamedHooks {
public:
  // Checks the tensors for these queries and keys. Throws UserError. With prefix_lengths, the lambda takes
  // the part of options.causal, which is set to false. `compute` is the dtype in which scores are computed.
  NamedHooks(const Checks& check, const NamedScores& named, const Array& q, const Array& k, DType compute,
             AttentionOptions& options);
  NamedHooks(const NamedHooks&) = delete;

  const AttentionHooks& hooks() const { return hooks_; }
  // Checks that the result of a call overlaps none of the tensors.
  void check_apart(const Checks& check, const Argument& out) const;

private:
  struct Views {
    static constexpr int most = 5;
    Input list[most];
    const char* names[most] = {};
    int count = 0;
    void add(const char* name, const Array& view) { names[count] = name, list[count++] = Input(view); }
  };
  void add_scores(const Checks& check, const NamedScores& named, const AttentionOptions& options);
  void add_masks(const Checks& check, const NamedScores& named, AttentionOptions& options);
  void add_positions(Views& views) const;

  std::int64_t batches_ = 1, heads_, queries_, keys_;
  DType compute_;
  Array scores_; // has the extents of the scores, for their shape; its elements are not used
  Views score_views_, mask_views_;
  AttentionHooks hooks_;
};

} // namespace kiln::ops::detail
