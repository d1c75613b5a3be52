// Computes a decoder block of Llama-3-8B: build/bin/llama_block [TOKENS CACHED]
//   or, for a model of other sizes: llama_block TOKENS CACHED HEADS KEY_HEADS WIDTH INTERMEDIATE
//   or, on several ranks: llama_block --tp RANKS [TOKENS HEADS KEY_HEADS WIDTH INTERMEDIATE]
//
// Computes one decoder block of Llama-3-8B at its real sizes with Kiln's ops: for many tokens at once (the
// prefill), and for one token with a cache of keys and values (decoding). Prints the share of the machine's
// peak for the first, and the bandwidth for the second. With --tp, computes both on one rank and on several,
// compares the results, and prints what is sent, how long that takes, and how much of it is hidden;
// KILN_SAMPLES_TRACE=FILE writes a trace of the prefill: a picture if FILE ends in .svg, or else a file for
// https://ui.perfetto.dev. KILN_SAMPLES_LINK=BYTES_PER_SECOND[,LATENCY] emulates a link between the ranks.
#include "llama_ranks.h"

using namespace kiln;

KILN_DIM(BLOCK);

namespace {

// The sizes of the model, which the command line may change.
std::int64_t heads = 32, key_heads = 8, width = 128, intermediate = 14336, hidden = heads * width;
constexpr double theta = 500000, eps = 1e-5;

// Uniform weights in [-scale, scale) by a kernel. The language's random numbers depend only on the seed and
// the index.
Tensor<float, 2> random_weights(Stream& stream, std::int64_t rows, std::int64_t columns) {
  static const auto fill =
      kernel("random_weights", [](View<float, 1> out, Scalar<std::uint64_t> seed, Scalar<float> scale) {
        auto [i] = program_tile(out, BLOCK);
        out.tile(i).store((rand(seed, i + arange(BLOCK)) * 2 - 1) * scale);
      });
  static std::uint64_t seed = 0;
  auto weights = Tensor<float, 2>::empty(stream.device(), {rows, columns});
  fill.launch(stream, samples::choose({BLOCK = 8192}, {BLOCK = 1024}),
              weights.view().reshape({rows * columns}), ++seed,
              static_cast<float>(std::sqrt(3.0 / static_cast<double>(rows))));
  stream.synchronize();
  return weights;
}

// The heads of [tokens, heads * width] as [1, heads, tokens, width].
TensorView<float, 4> heads_of(Tensor<float, 2>& x) {
  return x.view().reshape({1, x.extent(0), x.extent(1) / width, width}).permute({0, 2, 1, 3});
}

struct Weights {
  Tensor<float, 1> norm, mlp_norm;
  Tensor<float, 2> q, k, v, o, gate, up, down;
  explicit Weights(Stream& s)
      : norm(samples::random({hidden})), mlp_norm(samples::random({hidden})),
        q(random_weights(s, hidden, heads * width)), k(random_weights(s, hidden, key_heads * width)),
        v(random_weights(s, hidden, key_heads * width)), o(random_weights(s, heads * width, hidden)),
        gate(random_weights(s, hidden, intermediate)), up(random_weights(s, hidden, intermediate)),
        down(random_weights(s, intermediate, hidden)) {}
};

struct Cache {
  Tensor<float, 4> keys, values;   // [1, key heads, capacity, width]
  Tensor<std::int32_t, 1> lengths; // the number of tokens before the call
  ops::KeyValueCache cache() { return {.keys = keys, .values = values}; }
};

// The tensors between the ops, for some number of tokens.
struct Activations {
  Tensor<float, 2> normed, q, k, v, attended, sum, h;
  explicit Activations(std::int64_t tokens)
      : normed(samples::poisoned({tokens, hidden})), q(samples::poisoned({tokens, heads * width})),
        k(samples::poisoned({tokens, key_heads * width})), v(samples::poisoned({tokens, key_heads * width})),
        attended(samples::poisoned({tokens, heads * width})), sum(samples::poisoned({tokens, hidden})),
        h(samples::poisoned({tokens, intermediate})) {}
};

// y = block(x). Many tokens are the whole sequence; a single one sees the cache.
void run(Stream& s, const Weights& w, Activations& a, Cache& c, const Tensor<float, 2>& x,
         Tensor<float, 2>& y) {
  ops::rmsnorm(s, x, w.norm, a.normed, {.eps = eps});
  ops::matmul(s, a.normed, w.q, a.q);
  ops::matmul(s, a.normed, w.k, a.k);
  ops::matmul(s, a.normed, w.v, a.v);
  auto q = heads_of(a.q), attended = heads_of(a.attended);
  ops::cache_append(s, heads_of(a.k), heads_of(a.v), c.lengths, c.cache(),
                    {.rotary = ops::RotaryOptions{.theta = theta}, .q = q, .rotated_q = q});
  const std::int64_t tokens = x.extent(0);
  if (tokens > 1)
    ops::attention(s, q, c.keys.view().slice(2, 0, tokens), c.values.view().slice(2, 0, tokens), attended,
                   {.causal = true});
  else
    ops::attention_decode(s, q, c.cache(), c.lengths, attended, {.appended = 1});
  ops::matmul(s, a.attended, w.o, a.sum, {.residual = x});
  ops::rmsnorm(s, a.sum, w.mlp_norm, a.normed, {.eps = eps});
  ops::matmul(s, a.normed, w.up, a.h);
  ops::matmul(s, a.normed, w.gate, a.h, {.activation = ops::Activation::silu, .times = a.h});
  ops::matmul(s, a.h, w.down, y, {.residual = a.sum});
}

// --- The same in double precision --------------------------------------------------------------------------

using Doubles = std::vector<double>;

Doubles product(const Tensor<float, 2>& device_w, const Doubles& x) {
  const auto w = samples::on_host(device_w);
  Doubles y(static_cast<std::size_t>(w.extent(1)));
  const float* row = w.data();
  for (double factor : x)
    for (double& sum : y)
      sum += factor * *row++;
  return y;
}
Doubles norm(const Tensor<float, 1>& device_gamma, Doubles x) {
  const auto gamma = samples::on_host(device_gamma);
  double squares = 0;
  for (double element : x)
    squares += element * element;
  const double factor = 1 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] *= factor * gamma.data()[i];
  return x;
}
void rotate(Doubles& x, std::int64_t position) {
  const auto half = static_cast<std::size_t>(width / 2);
  for (std::size_t head = 0; head < x.size(); head += 2 * half)
    for (std::size_t j = 0; j < half; ++j) {
      const double angle = static_cast<double>(position) *
                           std::pow(theta, -static_cast<double>(j) / static_cast<double>(half));
      double &first = x[head + j], &second = x[head + j + half];
      const double rotated = first * std::cos(angle) - second * std::sin(angle);
      second = second * std::cos(angle) + first * std::sin(angle);
      first = rotated;
    }
}

// Compares one token's result, and its keys and values in the cache. The other keys and values that it sees
// are taken from the cache.
void compare(samples::Error& error, const Weights& w, const Cache& cache, const float* x, const float* y,
             std::int64_t position) {
  const auto keys = samples::on_host(cache.keys), values = samples::on_host(cache.values);
  const std::int64_t capacity = keys.extent(2);
  const Doubles in(x, x + hidden), normed = norm(w.norm, in);
  Doubles q = product(w.q, normed), k = product(w.k, normed), v = product(w.v, normed);
  rotate(q, position), rotate(k, position);
  for (std::int64_t i = 0; i < key_heads * width; ++i) {
    const std::int64_t at = (i / width * capacity + position) * width + i % width;
    error.add(keys.data()[at], k[static_cast<std::size_t>(i)]);
    error.add(values.data()[at], v[static_cast<std::size_t>(i)]);
  }
  Doubles attended(static_cast<std::size_t>(heads * width));
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::int64_t first = head / (heads / key_heads) * capacity * width;
    double *o = &attended[static_cast<std::size_t>(head * width)], total = 0;
    Doubles weights(static_cast<std::size_t>(position + 1));
    for (std::int64_t t = 0; t <= position; ++t) {
      double score = 0;
      for (std::int64_t e = 0; e < width; ++e)
        score += q[static_cast<std::size_t>(head * width + e)] * keys.data()[first + t * width + e];
      weights[static_cast<std::size_t>(t)] = score / std::sqrt(static_cast<double>(width));
    }
    const double most = *std::max_element(weights.begin(), weights.end());
    for (std::int64_t t = 0; t <= position; ++t) {
      const double weight = std::exp(weights[static_cast<std::size_t>(t)] - most);
      total += weight;
      for (std::int64_t e = 0; e < width; ++e)
        o[e] += weight * values.data()[first + t * width + e];
    }
    for (std::int64_t e = 0; e < width; ++e)
      o[e] /= total;
  }
  Doubles sum = product(w.o, attended);
  for (std::size_t i = 0; i < sum.size(); ++i)
    sum[i] += in[i];
  const Doubles second = norm(w.mlp_norm, sum), up = product(w.up, second);
  Doubles h = product(w.gate, second);
  for (std::size_t i = 0; i < h.size(); ++i)
    h[i] *= up[i] / (1 + std::exp(-h[i]));
  const Doubles down = product(w.down, h);
  for (std::size_t i = 0; i < down.size(); ++i)
    error.add(y[i], sum[i] + down[i]);
}

int on_ranks(int argc, char** argv) {
  const std::int64_t ranks = samples::number(argc, argv, 2, 2), tokens = samples::number(argc, argv, 3, 128);
  heads = samples::number(argc, argv, 4, heads), key_heads = samples::number(argc, argv, 5, key_heads);
  width = samples::number(argc, argv, 6, width), intermediate = samples::number(argc, argv, 7, intermediate);
  hidden = heads * width;
  Stream stream;
  const samples::BlockWeights weights{samples::random({hidden}),
                                      samples::random({hidden}),
                                      random_weights(stream, hidden, (heads + 2 * key_heads) * width),
                                      random_weights(stream, hidden, hidden),
                                      random_weights(stream, hidden, 2 * intermediate),
                                      random_weights(stream, intermediate, hidden)};
  const char* trace = std::getenv("KILN_SAMPLES_TRACE");
  return samples::compare_ranks(static_cast<int>(ranks), {heads, key_heads, width, intermediate, theta, eps},
                                weights, samples::random({tokens, hidden}), samples::random({1, hidden}),
                                trace ? trace : "");
}

} // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--tp") {
    try {
      return on_ranks(argc, argv);
    } catch (const std::exception& e) { // such as heads that the ranks cannot divide
      std::fprintf(stderr, "llama_block: %s\n", e.what());
      return 1;
    }
  }
  const std::int64_t tokens = samples::number(argc, argv, 1, 512),
                     cached = samples::number(argc, argv, 2, 4096);
  heads = samples::number(argc, argv, 3, heads), key_heads = samples::number(argc, argv, 4, key_heads);
  width = samples::number(argc, argv, 5, width), intermediate = samples::number(argc, argv, 6, intermediate);
  hidden = heads * width;
  Stream stream(samples::device());
  const Weights weights(stream);
  const auto parameters =
      static_cast<double>(hidden * (2 * heads * width + 2 * key_heads * width + 3 * intermediate));
  const auto new_cache = [&](std::int64_t tokens_before, std::int64_t capacity) {
    auto lengths = Tensor<std::int32_t, 1>::empty({1});
    lengths.fill(static_cast<std::int32_t>(tokens_before));
    return Cache{samples::random({1, key_heads, capacity, width}),
                 samples::random({1, key_heads, capacity, width}), samples::on_device(std::move(lengths))};
  };
  int failures = 0;
  {
    auto x = samples::random({tokens, hidden}), y = samples::poisoned({tokens, hidden});
    Activations between(tokens);
    Cache cache = new_cache(0, tokens);
    const double seconds =
        samples::median_seconds(stream, [&] { run(stream, weights, between, cache, x, y); });
    samples::Error error;
    const auto in = samples::on_host(x), out = samples::on_host(y);
    for (std::int64_t t : {std::int64_t{0}, tokens / 3, tokens - 1})
      compare(error, weights, cache, in.data() + t * hidden, out.data() + t * hidden, t);
    const double n = static_cast<double>(tokens);
    failures += samples::report("Llama-3-8B block, prefill of " + std::to_string(tokens), seconds,
                                {.flops = 2 * n * parameters + 2 * n * n * static_cast<double>(hidden)},
                                error.relative(), 1e-5);
  }
  {
    auto x = samples::random({1, hidden}), y = samples::poisoned({1, hidden});
    Activations between(1);
    Cache cache = new_cache(cached, cached + 1);
    const double seconds =
        samples::median_seconds(stream, [&] { run(stream, weights, between, cache, x, y); });
    samples::Error error;
    const auto in = samples::on_host(x), out = samples::on_host(y);
    compare(error, weights, cache, in.data(), out.data(), cached);
    const double bytes = 4 * (parameters + static_cast<double>(2 * key_heads * width * (cached + 1)));
    failures += samples::report("Llama-3-8B block, decode, " + std::to_string(cached) + " cached", seconds,
                                {.bytes = bytes}, error.relative(), 1e-5);
  }
  return failures != 0;
}
