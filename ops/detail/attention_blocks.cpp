// Counts the blocks of scores that attention computes and skips, with a kernel that computes nothing else.
#include <kiln/ops/detail/attention_blocks.h>

#include <kiln/ops/detail/attention_scores.h>

#include <vector>

namespace kiln::ops::detail {
namespace {

// The parameters are q, k, the numbers of whole and of masked blocks for each block of queries, and those of
// AttentionScores.
void blocks_body(const OpVariant& v, const Handle* next) {
  with_compute_type(v, [&]<class A>(A) {
    using Number = Scalar<std::int64_t>;
    using Scores = AttentionScores<A>;
    const ErasedView<A, 4> q(*next++), k(*next++);
    const ErasedView<std::int64_t, 2> counts(*next++);
    const Scores scores(v, "ops::attention", q, k, {}, next);
    auto [batch, head, m] = program_tile(q.view(), each, each, QUERIES);
    const auto visible = [&, batch = batch, head = head, m = m](const auto& n) {
      return scores.visible({batch, head, m, offset(KEYS, n)}, Scores::Sums::over_keys);
    };
    auto [begin, end] = scores.visited(k.extent(2), dim_size(KEYS), visible);
    auto [whole, masked] =
        for_range(KEYS, range(begin, end), state(Number(0), Number(0)), [&](auto n, auto whole, auto masked) {
          const auto add = [&](bool with_mask) {
            return with_mask ? state(Number(whole), Number(masked + 1))
                             : state(Number(whole + 1), Number(masked));
          };
          return scores.add_visible(visible(n), add, state(whole, masked));
        });
    const Number row = m / dim_size(QUERIES);
    counts.at(row, 0).store(whole);
    counts.at(row, 1).store(masked);
  });
}

std::int64_t blocks(std::int64_t tokens, std::int64_t size) { return (tokens + size - 1) / size; }

constinit const OpKernel blocks_kernel("attention_blocks", blocks_body);

} // namespace

std::int64_t attention_blocks_of(const Config& config, std::int64_t queries, std::int64_t keys) {
  return blocks(queries, *config.get("QUERIES")) * blocks(keys, *config.get("KEYS"));
}

AttentionBlocks count_attention_blocks(const OpVariant& variant, const Config& config, std::int64_t queries,
                                       std::int64_t keys) {
  const std::int64_t rows = blocks(queries, *config.get("QUERIES"));
  float unread = 0; // of q and k, only the extents count
  const auto tokens = [&](std::int64_t n) {
    return Array{&unread, DType::F32, true, 4, {1, 1, n, 1}, {0, 0, 0, 0}};
  };
  std::vector<std::int64_t> counts(static_cast<std::size_t>(2 * rows));
  const Array q = tokens(queries), k = tokens(keys),
              to{counts.data(), DType::I64, false, 2, {rows, 2}, {2, 1}};
  const Config sizes{QUERIES = *config.get("QUERIES"), KEYS = *config.get("KEYS")};
  blocks_kernel.interpret(sizes, variant, {q, k, to, {variant.compute, 1.0}, std::int64_t{0}});
  AttentionBlocks sums;
  for (std::size_t i = 0; i < counts.size(); i += 2)
    sums.whole += counts[i], sums.masked += counts[i + 1];
  sums.skipped = attention_blocks_of(config, queries, keys) - sums.whole - sums.masked;
  return sums;
}

} // namespace kiln::ops::detail
