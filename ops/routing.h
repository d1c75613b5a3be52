// Declares the routing of tokens to experts, for mixtures of experts.
//
//   ops::route_topk(stream, logits, experts, weights, {.renormalise = true});
//   ops::group_by_expert(stream, experts, offsets, order, place);
//   ops::permute_rows(stream, x, order, grouped, {.slots = k});                  // the rows of each expert
//   ops::grouped_matmul(stream, grouped, up, offsets, hidden, ...);              // grouped_matmul.h
//   ops::grouped_matmul(stream, hidden, down, offsets, results);
//   ops::combine_rows(stream, results, place, weights, y);
//
// Each of T tokens is sent to k of E experts: it has k slots, each with one expert. This makes T * k pairs of
// a token and a slot; pair t * k + s is slot s of token t. Everything is computed by sorting, without atomic
// operations, so that results are the same from run to run. Strides are arbitrary, each float tensor has a
// float dtype of its own, and indices are of i32 or i64.
//
// Errors: the functions throw UserError if extents or dtypes do not match, if an output overlaps another
// argument, or if several of its indices refer to the same element. They return when the work is queued on
// the stream, and are thread-safe.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/stream_at.h>

KILN_API_BEGIN
namespace kiln::ops {

enum class RouterScores : std::uint8_t { softmax, sigmoid };

struct RouteOptions {
  RouterScores scores = RouterScores::softmax; // computed from the logits of all experts of a token
  bool renormalise = false;                    // divides the weights of a token by their sum
  double scale = 1;                            // multiplies the weights
  Input bias = {}; // [E], of floats; added to the scores for the choice of experts, but not to the weights
};

// Chooses for each token the k experts with the largest logits (with a bias: the largest sums of score and
// bias), in descending order; of equal ones the expert with the smaller number comes first. logits is [T, E],
// `experts`, of i32 or i64, and `weights` are [T, k]; k is at most E, and E is at most 4096. The weights are
// the scores of the chosen experts.
void route_topk(detail::StreamAt stream, const Input& logits, const Output& experts, const Output& weights,
                const RouteOptions& options = {});

// Sorts the pairs by their experts. `experts` [T, k] is read; offsets [E + 1], order [T * k] and place [T, k]
// are written. Afterwards the pairs of expert e are order[offsets[e]], ..., order[offsets[e + 1] - 1], in
// ascending order, and place[t, s] is the index of pair t * k + s in `order`. A pair whose expert is not one
// of 0, ..., E - 1 is left out: its place is -1, and the elements of `order` from offsets[E] on are -1. So a
// process that holds only the experts from `first` on passes experts - first. E is at most 4096, and T * k is
// below 2^31.
void group_by_expert(detail::StreamAt stream, const Input& experts, const Output& offsets,
                     const Output& order, const Output& place);

struct PermuteOptions {
  std::int64_t slots = 1; // k, the number of slots of each token
};
// Computes y[i] = x[order[i] / slots], and zeros where order[i] is negative. x is [T, N], order is [R], and y
// is [R, N]. The gradient with respect to x is combine_rows of the gradient with respect to y, with `place`
// and without weights. With KILN_DEBUG=1 an index of T * slots or more is an error of the stream; otherwise
// it gives zeros.
void permute_rows(detail::StreamAt stream, const Input& x, const Input& order, const Output& y,
                  const PermuteOptions& options = {});

// Computes y[t] = the sum of weights[t, s] * rows[place[t, s]] over s = 0, 1, ..., in this order and in f32
// (f64 if a tensor is of f64). Terms whose place is negative are left out. rows is [R, N], place is [T, k],
// and y is [T, N]. weights is [T, k], or `{}`, which stands for ones. With KILN_DEBUG=1 a place of R or more
// is an error of the stream; otherwise its term is left out, too.
void combine_rows(detail::StreamAt stream, const Input& rows, const Input& place, const Input& weights,
                  const Output& y);

} // namespace kiln::ops
KILN_API_END
