// Implements the kernels of the backward pass of attention.
//
// This is the algorithm of Dao, "FlashAttention-2" (arXiv 2307.08691), without atomic operations: the weights
// are computed twice, by a kernel whose programs own keys (dk and dv) and by one whose programs own queries
// (dq), or once, by a kernel whose programs own key heads with all their keys and queries. With weights p,
// their gradients dp and ds = p * (dp - delta), the sum delta of p * dp over the keys of a query is that of
// dout * o over the width, which a kernel of its own computes first.
#include <kiln/ops/detail/attention_gradients.h>

#include <kiln/ops/detail/attention_scores.h>

#include <optional>

namespace kiln::ops::detail {
namespace {

namespace option = attention_option;
constexpr const char* op_name = "ops::attention_backward";

template <class V> std::optional<V> take(const OpVariant& v, std::uint32_t option, const Handle*& next) {
  return v.options & option ? std::optional<V>(V(*next++)) : std::nullopt;
}

void delta_body(const OpVariant& v, const Handle* next) {
  with_compute_type(v, [&]<class A>(A) {
    const ErasedView<A, 4> dout(*next++), o(*next++), delta(*next++);
    auto [batch, head, m] = program_tile(dout.view(), each, each, QUERIES);
    const auto e = offset(VALUES, 0);
    const auto one = offset(1_c, 0);
    Tile sums = sum(dout.tile(batch, head, m, e).load() * o.tile(batch, head, m, e).load(), VALUES, keep);
    delta.tile(batch, head, m, one).store(sums);
    if (!(v.options & option::sinks)) return;
    const ErasedView<A, 1> sinks(*next++);
    const ErasedView<A, 4> lse(*next++), parts(*next++);
    // A sink's value is zero, so that the gradient of its weight is, too.
    Tile weight = exp(sinks.at(head).load() - lse.tile(batch, head, m, one).load());
    parts.tile(batch, head, m, one).store(-(weight * sums));
  });
}

void sinks_body(const OpVariant& v, const Handle* next) {
  with_compute_type(v, [&]<class A>(A) {
    ErasedView<A, 4> parts(*next++);
    const ErasedView<A, 1> dsinks(*next++);
    if (v.options & option::ragged) { // tokens that belong to no sequence have no parts
      const GroupOffsets queries(*next++, parts.extent(2));
      parts = parts.slice(2, queries.begin(0), queries.begin(queries.count()));
    }
    auto [head] = program_tile(dsinks.view(), each);
    auto sums = for_range(Scalar<std::int64_t>(0), parts.extent(0), Scalar<std::int64_t>(1),
                          zeros<A>(QUERIES, 1_c), [&, head = head](auto batch, auto sums) {
                            return for_range(QUERIES, parts.extent(2), sums, [&](auto m, auto sums) {
                              return sums + parts.tile(batch, head, m, offset(1_c, 0)).load();
                            });
                          });
    dsinks.at(head).store(sum(sums));
  });
}

// The first parameters of the kernels that compute gradients.
template <class A> struct AttentionBackward {
  using Number = Scalar<std::int64_t>;
  using Scores = AttentionScores<A>;
  using Sums = typename Scores::Sums;
  template <class S> using Stored = StoredTile<S>;

  explicit AttentionBackward(const Handle*& next)
      : dout(*next++), q(*next++), k(*next++), v(*next++), lse(*next++), delta(*next++) {
    expects(q.extent(3) == dim_size(WIDTH), "q's width and WIDTH");
    expects(v.extent(3) == dim_size(VALUES), "v's width and VALUES");
  }

  // The offsets of ragged batches follow the kernel's own parameters.
  AttentionGrid grid(const OpVariant& variant, const Handle*& next) const {
    return AttentionGrid((variant.options & option::ragged) != 0, q.extent(2), k.extent(2), next);
  }
  // The parts of the arrays that belong to a sequence.
  void limit_to(const AttentionSequence& sequence) {
    for (ErasedView<A, 4>* x : {&dout, &q, &lse, &delta})
      *x = sequence.queries(*x);
    k = sequence.keys(k), v = sequence.keys(v);
  }

  // The head of k and v that serves a head of q, and how many heads of q each of them serves.
  Number group() const { return q.extent(1) / k.extent(1); }

  auto queries_at(const AttentionBlock& at) const {
    return q.tile(at.batch, at.head, at.m, offset(WIDTH, 0)).load_as_stored();
  }
  auto dout_at(const AttentionBlock& at) const {
    return dout.tile(at.batch, at.head, at.m, offset(VALUES, 0)).load_as_stored();
  }
  auto keys_at(const AttentionBlock& at, const Number& key_head) const {
    return k.tile(at.batch, key_head, at.n, offset(WIDTH, 0)).load_as_stored();
  }
  auto values_at(const AttentionBlock& at, const Number& key_head) const {
    return v.tile(at.batch, key_head, at.n, offset(VALUES, 0)).load_as_stored();
  }

  // The weights of a block after dropout, and the gradients of its products. Where a lambda has an infinite
  // derivative, it is excluded by the mask a second time.
  template <class Queries, class Keys, class Values, class Dout>
  auto block(const Scores& scores, const AttentionBlock& at, bool masked, Sums sums, const Queries& queries,
             const Keys& keys, const Values& values, const Dout& gradients) const {
    const auto one = offset(1_c, 0);
    Tile<A, QUERIES, KEYS> products = scores.products(queries, keys), s = scores.score(products, at);
    Tile total = lse.tile(at.batch, at.head, at.m, one).load();
    Tile shift = where(total == Scores::hidden, A(0), total);
    Tile<A, QUERIES, KEYS> seen = s;
    if (masked) seen = where(scores.visible(at, sums), s, Scores::hidden);
    Tile<A, QUERIES, KEYS> weights = exp(seen - shift);
    Tile<A, QUERIES, KEYS> dkept =
        dot_erased(gradients, trans(values), zeros<A>(QUERIES, KEYS), scores.dot_options());
    Tile<A, QUERIES, KEYS> dweights = scores.dropped(dkept, at);
    Tile<A, QUERIES, KEYS> ds = weights * (dweights - delta.tile(at.batch, at.head, at.m, one).load());
    Tile<A, QUERIES, KEYS> dproducts = scores.gradient(products, s, ds);
    if (masked && scores.has_lambda()) dproducts = where(scores.visible(at, sums), dproducts, A(0));
    return state(scores.dropped(weights, at), dproducts);
  }

  ErasedView<A, 4> dout, q, k, v, lse, delta;
};

// The gradients to which a block of keys adds. The sums for dq are in the workspace.
template <class A> struct KeyGradients {
  std::optional<ErasedView<A, 4>> dk, dv, dq_sums;
};

// Computes dk and dv of a block of keys of a key head, and adds its part to the sums for dq; each of them may
// be left out. The sums of dk and dv are transposed, because a product reads the block of scores, its second
// factor, as it is.
template <class A>
void add_block_of_keys(const AttentionBackward<A>& p, const AttentionScores<A>& scores,
                       const KeyGradients<A>& to, const Scalar<std::int64_t>& batch,
                       const Scalar<std::int64_t>& key_head, const Offset<KEYS>& n) {
  using Number = Scalar<std::int64_t>;
  using Sums = typename AttentionScores<A>::Sums;
  const Sums along = to.dq_sums ? Sums::over_both : Sums::over_queries;
  const auto keys = p.k.tile(batch, key_head, n, offset(WIDTH, 0)).load_as_stored();
  const auto values = p.v.tile(batch, key_head, n, offset(VALUES, 0)).load_as_stored();
  Number group = p.group();
  auto [dk_sums, dv_sums] = for_range(
      Number(0), group, Number(1), state(zeros<A>(WIDTH, KEYS), zeros<A>(VALUES, KEYS)),
      [&](auto i, auto dk_sums, auto dv_sums) {
        Number head = key_head * group + i;
        const auto block = [&](const auto& m) { return AttentionBlock{batch, head, offset(QUERIES, m), n}; };
        const auto visible = [&](const auto& m) { return scores.visible(block(m), along); };
        auto [begin, end] = scores.visited(p.q.extent(2), dim_size(QUERIES), visible);
        return for_range(
            QUERIES, range(begin, end), state(dk_sums, dv_sums), [&](auto m, auto dk_sums, auto dv_sums) {
              const auto add = [&](bool masked) {
                const AttentionBlock at = block(m);
                const auto queries = p.queries_at(at);
                const auto dout = p.dout_at(at);
                auto [weights, ds] = p.block(scores, at, masked, along, queries, keys, values, dout);
                Tile<A, WIDTH, KEYS> dk_next = dk_sums;
                Tile<A, VALUES, KEYS> dv_next = dv_sums;
                if (to.dv)
                  dv_next = dot_erased(trans(dout), stored_as(p.dout.dtype(), weights), dv_sums,
                                       scores.dot_options());
                if (to.dk)
                  dk_next =
                      dot_erased(trans(queries), stored_as(p.q.dtype(), ds), dk_sums, scores.dot_options());
                if (to.dq_sums) {
                  const auto sums = to.dq_sums->tile(batch, head, at.m, offset(WIDTH, 0));
                  sums.store(dot_erased(stored_as(p.k.dtype(), ds), keys, sums.load(), scores.dot_options()));
                }
                return state(dk_next, dv_next);
              };
              return scores.add_visible(visible(m), add, state(dk_sums, dv_sums));
            });
      });
  if (to.dk) to.dk->tile(batch, key_head, n, offset(WIDTH, 0)).store(trans(dk_sums * scores.scale()));
  if (to.dv) to.dv->tile(batch, key_head, n, offset(VALUES, 0)).store(trans(dv_sums));
}

// dk and dv of a block of keys.
void keys_body(const OpVariant& v, const Handle* next) {
  with_compute_type(v, [&]<class A>(A) {
    AttentionBackward<A> p(next);
    KeyGradients<A> to{take<ErasedView<A, 4>>(v, attention_has_dk, next),
                       take<ErasedView<A, 4>>(v, attention_has_dv, next), std::nullopt};
    const AttentionGrid grid = p.grid(v, next);
    const auto [batch, key_head, n, sequence] = grid.tile_of_keys(p.k);
    const AttentionScores<A> scores(v, op_name, p.q, p.k, sequence, next);
    p.limit_to(sequence);
    if (to.dk) to.dk = sequence.keys(*to.dk);
    if (to.dv) to.dv = sequence.keys(*to.dv);
    add_block_of_keys(p, scores, to, batch, key_head, n);
  });
}

// All gradients of a key head and of the heads of q that it serves.
void heads_body(const OpVariant& v, const Handle* next) {
  with_compute_type(v, [&]<class A>(A) {
    using Number = Scalar<std::int64_t>;
    AttentionBackward<A> p(next);
    ErasedView<A, 4> dk(*next++), dv(*next++), dq(*next++), dq_sums(*next++);
    const AttentionGrid grid = p.grid(v, next);
    const auto [batch, key_head, first, sequence] = grid.whole_head(p.k);
    const AttentionScores<A> scores(v, op_name, p.q, p.k, sequence, next);
    p.limit_to(sequence);
    dk = sequence.keys(dk), dv = sequence.keys(dv);
    dq = sequence.queries(dq), dq_sums = sequence.queries(dq_sums);
    const auto for_queries = [&, batch = batch, key_head = key_head](const auto& body) {
      for_range(key_head * p.group(), (key_head + 1) * p.group(), Number(1), [&](auto head) {
        for_range(QUERIES, p.q.extent(2), [&](auto m) {
          body(dq_sums.tile(batch, head, m, offset(WIDTH, 0)), dq.tile(batch, head, m, offset(WIDTH, 0)));
        });
      });
    };
    for_queries([](const auto& sums, const auto&) { sums.store(zeros<A>(QUERIES, WIDTH)); });
    for_range(KEYS, p.k.extent(2), [&, batch = batch, key_head = key_head](auto n) {
      add_block_of_keys(p, scores, {dk, dv, dq_sums}, batch, key_head, n);
    });
    for_queries([&](const auto& sums, const auto& to) { to.store(sums.load() * scores.scale()); });
  });
}

// dq of a block of queries.
void queries_body(const OpVariant& v, const Handle* next) {
  with_compute_type(v, [&]<class A>(A) {
    AttentionBackward<A> p(next);
    ErasedView<A, 4> dq(*next++);
    using Scores = AttentionScores<A>;
    const AttentionGrid grid = p.grid(v, next);
    const auto [batch, head, m, sequence] = grid.tile_of_queries(p.q);
    const Scores scores(v, op_name, p.q, p.k, sequence, next);
    p.limit_to(sequence);
    dq = sequence.queries(dq);
    Scalar<std::int64_t> key_head = head / p.group();
    const auto queries = p.q.tile(batch, head, m, offset(WIDTH, 0)).load_as_stored();
    const auto dout = p.dout.tile(batch, head, m, offset(VALUES, 0)).load_as_stored();
    const auto block = [&, batch = batch, head = head, m = m](const auto& n) {
      return AttentionBlock{batch, head, m, offset(KEYS, n)};
    };
    const auto visible = [&](const auto& n) { return scores.visible(block(n), Scores::Sums::over_keys); };
    auto [begin, end] = scores.visited(p.k.extent(2), dim_size(KEYS), visible);
    auto sums = for_range(KEYS, range(begin, end), zeros<A>(QUERIES, WIDTH), [&](auto n, auto sums) {
      const auto add = [&](bool masked) {
        const AttentionBlock at = block(n);
        const auto keys = p.keys_at(at, key_head);
        auto [weights, ds] = p.block(scores, at, masked, Scores::Sums::over_keys, queries, keys,
                                     p.values_at(at, key_head), dout);
        return Tile<A, QUERIES, WIDTH>(
            dot_erased(stored_as(p.k.dtype(), ds), keys, sums, scores.dot_options()));
      };
      return scores.add_visible(visible(n), add, sums);
    });
    dq.tile(batch, head, m, offset(WIDTH, 0)).store(sums * scores.scale());
  });
}

} // namespace

constinit const OpKernel attention_delta_kernel("attention_backward_delta", delta_body);
constinit const OpKernel attention_sinks_kernel("attention_backward_sinks", sinks_body);
constinit const OpKernel attention_keys_kernel("attention_backward_keys", keys_body);
constinit const OpKernel attention_queries_kernel("attention_backward_queries", queries_body);
constinit const OpKernel attention_heads_kernel("attention_backward_heads", heads_body);

} // namespace kiln::ops::detail
