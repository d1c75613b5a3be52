// Implements rotary embedding: the kernel, checks and batches.
#include <kiln/ops/rotary.h>

#include <kiln/ops/detail/batches.h>
#include <kiln/ops/detail/heuristics.h>
#include <kiln/ops/detail/known_config.h>
#include <kiln/ops/detail/rotation.h>

#include <algorithm>
#include <array>

namespace kiln::ops {
namespace {

using detail::ErasedView;
using detail::Handle;
using detail::HEADS, detail::TOKENS, detail::PAIRS;
using detail::OpVariant;

// Options of the kernel besides rotary_tables. With shared_positions, they are the same for all heads.
constexpr std::uint32_t has_rest = 2, has_positions = 4, shared_positions = 8;

// The parameters are the first and second elements of x's pairs, x's other elements, the same of y,
// positions, those of Rotation, and the offset, of which some are optional. The arrays have four axes:
// batches, heads, tokens and the elements.
template <class A> class Rotary {
public:
  Rotary(const OpVariant& v, const Handle* next)
      : options_(v.options), x1_(*next++), x2_(*next++), x_rest_(take<ErasedView<A, 4>>(has_rest, next)),
        y1_(*next++), y2_(*next++), y_rest_(take<ErasedView<A, 4>>(has_rest, next)),
        positions_(take<ErasedView<std::int64_t, 4>>(has_positions, next)), rotation_(v, next),
        offset_(*next) {}

  void record() const {
    auto [batch, heads, tokens] = program_tile(x1_.view(), each, HEADS, TOKENS);
    if (options_ & has_positions && !(options_ & shared_positions))
      rotate(batch, heads, tokens, positions_->tile(batch, heads, tokens, offset(1_c, 0)).load());
    else if (options_ & has_positions)
      rotate(batch, heads, tokens, expand<0>(positions_->tile(batch, 0, tokens, offset(1_c, 0)).load()));
    else
      rotate(batch, heads, tokens, expand<0>(expand<1>(tokens + arange(TOKENS))));
  }

private:
  template <class V> std::optional<V> take(std::uint32_t option, const Handle*& next) const {
    return options_ & option ? std::optional<V>(V(*next++)) : std::nullopt;
  }

  template <class P>
  void rotate(const Scalar<std::int64_t>& batch, const Offset<HEADS>& heads, const Offset<TOKENS>& tokens,
              const P& positions) const {
    auto [c, s] = rotation_.angles(positions + offset_);
    const auto d = offset(PAIRS, 0);
    Tile x = x1_.tile(batch, heads, tokens, d).load(), y = x2_.tile(batch, heads, tokens, d).load();
    y1_.tile(batch, heads, tokens, d).store(x * c - y * s);
    y2_.tile(batch, heads, tokens, d).store(y * c + x * s);
    if (x_rest_)
      for_range(PAIRS, x_rest_->extent(3), [&](auto e) {
        y_rest_->tile(batch, heads, tokens, e).store(x_rest_->tile(batch, heads, tokens, e).load());
      });
  }

  const std::uint32_t options_;
  ErasedView<A, 4> x1_, x2_;
  std::optional<ErasedView<A, 4>> x_rest_;
  ErasedView<A, 4> y1_, y2_;
  std::optional<ErasedView<A, 4>> y_rest_;
  std::optional<ErasedView<std::int64_t, 4>> positions_;
  detail::Rotation<A> rotation_;
  Scalar<std::int64_t> offset_;
};

void rotary_body(const OpVariant& v, const Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) { Rotary<A>(v, arguments).record(); });
}

constinit const detail::OpKernel rotary_kernel("rotary", rotary_body);

} // namespace

// A heuristic. The heads of a token share sines and cosines, which cost more than the rotation.
Config detail::rotary_config(Device device, std::int64_t heads, std::int64_t tokens, std::int64_t pairs) {
  const std::int64_t most = device.is_cpu() ? 1 << 14 : 1 << 11, most_heads = device.is_cpu() ? 32 : 4;
  const auto grown = [&](std::int64_t others, std::int64_t wanted, std::int64_t limit) {
    std::int64_t n = 1;
    while (n < wanted && n < limit && 2 * n * others <= most)
      n *= 2;
    return n;
  };
  const std::int64_t width = std::max<std::int64_t>(pairs, 1), of_heads = grown(width, heads, most_heads);
  return {HEADS = of_heads, TOKENS = grown(of_heads * width, tokens, most), PAIRS = width};
}

namespace {

// A call after the checks. The arrays have four axes or more.
struct RotaryCall {
  detail::RotaryParts x, y;
  Array positions;
  OpVariant variant;
  const RotaryOptions& options;
  std::int64_t width;
  double direction;
  std::int64_t first_batch = 0;

  std::array<Array*, 7> batched() {
    return {&x.first, &x.second, &x.rest, &y.first, &y.second, &y.rest, &positions};
  }
};

void launch_rotary(const detail::StreamAt& at, const RotaryCall& c) {
  OpVariant variant = c.variant;
  if (variant.options & has_positions && (c.positions.strides[1] == 0 || c.positions.extents[1] == 1))
    variant.options |= shared_positions;
  const bool rest = variant.options & has_rest;
  detail::OpArguments list{c.x.first, c.x.second};
  list.add_if(rest, c.x.rest);
  list.add(c.y.first);
  list.add(c.y.second);
  list.add_if(rest, c.y.rest);
  list.add_if(variant.options & has_positions, c.positions);
  detail::add_rotation(list, c.options, c.width, variant.compute, c.direction);
  list.add(c.options.offset);
  const std::int64_t* const extents = c.x.first.extents;
  auto config = detail::known_config("rotary", at, {extents[0], extents[1], extents[2], 2 * extents[3]},
                                     {rotary_kernel, variant, list});
  if (!config) config = detail::rotary_config(at.stream.device(), extents[1], extents[2], extents[3]);
  rotary_kernel.launch(at, *config, variant, list);
}

bool is_same_layout(const Array& x, const Array& y) {
  return x.data == y.data && x.dtype == y.dtype &&
         std::equal(x.strides, x.strides + x.rank, y.strides, y.strides + y.rank);
}

struct RotaryNames {
  const char *op, *x, *y;
};

void rotate(const RotaryNames& names, const detail::StreamAt& at, const Input& in, const Output& out,
            const RotaryOptions& options, double direction) {
  const detail::Checks check(names.op, at);
  Array x = in.array(), y = out.array();
  const detail::Argument x_argument{names.x, in.array()}, y_argument{names.y, out.array()};
  check.tensor(x_argument, 1);
  check.tensor(y_argument, 1);
  check.same_extents(x_argument, y_argument);
  const std::int64_t width = detail::check_rotary(check, options, x.extents[x.rank - 1]);
  check.writes(y_argument);
  check.apart_or_same(y_argument, x_argument);
  for (const auto& [name, input] : {std::pair("cos", &options.cos), std::pair("sin", &options.sin),
                                    std::pair("positions", &options.positions)})
    if (input->given()) check.apart(y_argument, {name, input->array()});

  if (x.rank < 2) detail::pad_rank(x, 2), detail::pad_rank(y, 2);
  Array positions = x;
  positions.extents[x.rank - 1] = 1;
  if (options.positions.given()) {
    Array given = options.positions.array(), rows = x;
    check.integers({"positions", given});
    --rows.rank;
    check.broadcasts({"positions", given}, {"x without its last axis", rows});
    detail::pad_rank(given, rows.rank);
    positions = given;
    for (int i = 0; i < rows.rank; ++i)
      if (given.extents[i] != rows.extents[i])
        positions.extents[i] = rows.extents[i], positions.strides[i] = 0;
    positions.extents[rows.rank] = 1, positions.strides[rows.rank] = 1;
    ++positions.rank;
  }
  if (x.size() == 0) return;
  const bool rest = width < x.extents[x.rank - 1] && !is_same_layout(x, y);
  RotaryCall c{detail::split_heads(x, options.pairs, width),
               detail::split_heads(y, options.pairs, width),
               positions,
               {detail::compute_dtype({&x, &y, &options.cos.array(), &options.sin.array()}),
                detail::rotation_options(options) | (rest ? has_rest : 0) |
                    (options.positions.given() ? has_positions : 0)},
               options,
               width,
               direction};
  for (Array* a : c.batched())
    if (a->rank < 4) detail::pad_rank(*a, 4);
  detail::merge_batches(
      names.op, {&c.y.first, &c.y.second, &c.y.rest, &c.x.first, &c.x.second, &c.x.rest, &c.positions}, 3,
      detail::MergeOrder::by_stride);
  detail::launch_batches(c, 3, [&](const RotaryCall& part) { launch_rotary(at, part); });
}

} // namespace

void rotary(detail::StreamAt stream, const Input& x, const Output& y, const RotaryOptions& options) {
  rotate({"ops::rotary", "x", "y"}, stream, x, y, options, 1);
}
void rotary_backward(detail::StreamAt stream, const Input& dy, const Output& dx,
                     const RotaryOptions& options) {
  rotate({"ops::rotary_backward", "dy", "dx"}, stream, dy, dx, options, -1);
}

} // namespace kiln::ops
