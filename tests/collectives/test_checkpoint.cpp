// Saves layers on one number of ranks and loads them on another, and compares them with load_full.
#include "findings.h"
#include "temporary_folder.h"
#include "test_seed.h"

#include <kiln/collectives/attention.h>
#include <kiln/collectives/checkpoint/checkpoint.h>
#include <kiln/collectives/checkpoint/safetensors.h>
#include <kiln/collectives/mlp.h>
#include <kiln/collectives/ranks.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>

using namespace kiln;
using namespace kiln::collectives;
using test::Findings;
namespace fs = std::filesystem;

namespace {

// Random bits, which need not be numbers.
template <class T> Tensor<T, 2> random_bits(std::mt19937_64& random, std::int64_t m, std::int64_t n) {
  auto t = Tensor<T, 2>::empty({m, n});
  auto* bytes = reinterpret_cast<unsigned char*>(t.data());
  for (std::int64_t i = 0; i < t.size() * static_cast<std::int64_t>(sizeof(T)); ++i)
    bytes[i] = static_cast<unsigned char>(random());
  return t;
}
template <class T> TensorView<const T, 1> as_vector(const Tensor<T, 2>& t) { return {t.data(), {t.size()}}; }

std::int64_t bytes_of(const ops::Output& x) { return x.array().size() * size_of(x.array().dtype); }
bool same_bits(const ops::Output& a, const ops::Output& b) {
  return bytes_of(a) == bytes_of(b) &&
         std::memcmp(a.array().data, b.array().data, static_cast<std::size_t>(bytes_of(a))) == 0;
}
void poison(const ops::Output& x) {
  std::memset(x.array().data, 0x5a, static_cast<std::size_t>(bytes_of(x)));
}

// The whole tensors of a small model, and its layers on a rank.
template <class T> struct Weights {
  static constexpr std::int64_t width = 24, hidden = 50, head_size = 4; // 3, 4 and 8 do not divide 50
  Weights(std::mt19937_64& random, std::int64_t kv)
      : kv_heads(kv), heads(kv == 1 ? 24 : 8), up(random_bits<T>(random, width, 2 * hidden)),
        up_bias(random_bits<T>(random, 1, 2 * hidden)), down(random_bits<T>(random, hidden, width)),
        down_bias(random_bits<T>(random, 1, width)),
        qkv(random_bits<T>(random, width, (heads + 2 * kv) * head_size)),
        out(random_bits<T>(random, heads * head_size, width)), norm(random_bits<T>(random, 1, width)) {}
  std::int64_t kv_heads, heads;
  Tensor<T, 2> up, up_bias, down, down_bias, qkv, out, norm;
};

template <class T> struct Layers {
  Layers(Communicator& comm, const Weights<T>& w)
      : tp(comm), mlp(tp, {.width = w.width, .hidden = w.hidden, .dtype = dtype_of<T>, .bias = true}),
        attention(tp, {.width = w.width,
                       .heads = w.heads,
                       .kv_heads = w.kv_heads,
                       .head_size = w.head_size,
                       .dtype = dtype_of<T>}),
        norm(Tensor<T, 1>::empty({w.width})) {
    for (const ops::Output& x : tensors())
      poison(x);
  }
  std::vector<ops::Output> tensors() {
    return {mlp.up().weight(),
            mlp.up().bias(),
            mlp.down().weight(),
            mlp.down().bias(),
            attention.qkv().weight(),
            attention.out().weight(),
            norm};
  }
  void load_full(Stream& stream, const Weights<T>& w) {
    mlp.up().load_full(stream, w.up, as_vector(w.up_bias));
    mlp.down().load_full(stream, w.down, as_vector(w.down_bias));
    attention.load_full(stream, w.qkv, w.out);
    std::copy(w.norm.begin(), w.norm.end(), norm.data());
  }
  void add_to(CheckpointWriter& writer) {
    writer.add("mlp.up", mlp.up());
    writer.add("norm.weight", norm);
    writer.add("mlp.down", mlp.down());
    writer.add_parts({"q", "k", "v"}, attention.qkv());
    writer.add("out", attention.out());
  }
  void load(Stream& stream, const Checkpoint& checkpoint) {
    checkpoint.load(stream, "mlp.up", mlp.up());
    checkpoint.load(stream, "norm.weight", norm);
    checkpoint.load(stream, "mlp.down", mlp.down());
    checkpoint.load_parts(stream, {"q", "k", "v"}, attention.qkv());
    checkpoint.load(stream, "out", attention.out());
  }
  std::int64_t bytes() {
    std::int64_t sum = 0;
    for (const ops::Output& x : tensors())
      sum += bytes_of(x);
    return sum;
  }
  TensorParallel tp;
  ParallelMlp mlp;
  ParallelAttention attention;
  Tensor<T, 1> norm;
};

RanksOptions virtual_ranks(int ranks) {
  return {
      .ranks = ranks, .clock = ClockKind::virtual_time, .link = {.bytes_per_second = 1e9, .latency = 100}};
}

template <class T> void save_and_load(std::int64_t kv_heads, const std::vector<int>& degrees) {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const Weights<T> weights(random, kv_heads);
  const test::TemporaryFolder folder;
  const auto path = [&](int ranks) { return (folder.path() / std::to_string(ranks)).string(); };
  Findings found;
  for (int ranks : degrees)
    run_ranks(virtual_ranks(ranks), [&](Communicator& comm) {
      Stream stream(comm.device());
      Layers<T> layers(comm, weights);
      CheckpointWriter writer(comm);
      layers.add_to(writer);
      layers.load_full(stream, weights); // after add, since the writer refers to the tensors
      writer.save(stream, path(ranks));
    });
  for (int to : degrees)
    run_ranks(virtual_ranks(to), [&](Communicator& comm) {
      Stream stream(comm.device());
      Layers<T> expected(comm, weights);
      expected.load_full(stream, weights);
      const std::vector<ops::Output> right = expected.tensors();
      for (int from : degrees) {
        Layers<T> layers(comm, weights);
        const Checkpoint checkpoint(path(from));
        layers.load(stream, checkpoint);
        const std::vector<ops::Output> loaded = layers.tensors();
        for (std::size_t i = 0; i < right.size(); ++i)
          found.require(same_bits(loaded[i], right[i]), "tensor " + std::to_string(i) + " from " +
                                                            std::to_string(from) + " to " +
                                                            std::to_string(to) + " ranks");
        found.require(checkpoint.bytes_read() == layers.bytes(), "each rank reads only its own bytes");
      }
    });
  CHECK(found.list() == test::nothing_wrong);

  // Everything is saved once.
  const std::int64_t all =
      (weights.up.size() + weights.up_bias.size() + weights.down.size() + weights.down_bias.size() +
       weights.qkv.size() + weights.out.size() + weights.norm.size()) *
      static_cast<std::int64_t>(sizeof(T));
  for (int ranks : degrees) {
    std::int64_t saved = 0;
    for (const auto& entry : fs::directory_iterator(path(ranks)))
      if (entry.path().extension() == ".safetensors") {
        const SafetensorsFile file(entry.path());
        for (const auto& tensor : file.tensors())
          saved += tensor.second.bytes;
      }
    CHECK(saved == all);
  }
}

} // namespace

TEST_CASE("a checkpoint of any number of ranks is loaded by any other, with heads of keys on all ranks") {
  save_and_load<float>(1, {1, 2, 3, 4, 8});
  save_and_load<bf16>(1, {1, 2, 3, 4, 8});
}

TEST_CASE("a checkpoint of any number of ranks is loaded by any other, with heads of keys on some ranks") {
  save_and_load<bf16>(2, {1, 2, 4, 8});
  save_and_load<float>(4, {1, 2, 4, 8});
}

TEST_CASE("a checkpoint of one rank has whole tensors with their own names") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "step-1";
  run_ranks({.ranks = 1}, [&](Communicator& comm) {
    Stream stream(comm.device());
    TensorParallel tp(comm);
    ParallelMlp mlp(tp, {.width = 4, .hidden = 6, .dtype = DType::BF16});
    CheckpointWriter writer(comm);
    writer.add("up", mlp.up());
    auto numbers = Tensor<double, 1>::empty({3});
    numbers.fill(1.5);
    writer.add("numbers", numbers);
    writer.save(stream, path);
  });
  const SafetensorsFile file(path + "/model-00001-of-00001.safetensors");
  CHECK(file.tensor("up.weight").extents == std::vector<std::int64_t>{4, 12});
  CHECK(file.tensor("up.weight").dtype == "BF16");
  CHECK(file.tensor("numbers").offset % 64 == 0); // larger elements come first
  CHECK(file.metadata().at("format") == "pt");
  CHECK(Checkpoint(path + "/model-00001-of-00001.safetensors").names() ==
        std::vector<std::string>{"numbers", "up.weight"});
}

TEST_CASE("shards of one layout are loaded in another, also by rows of a matrix that was saved by columns") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path();
  std::mt19937_64 random(1);
  const auto whole = random_bits<float>(random, 9, 11);
  auto turned = random_bits<float>(random, 11, 9);
  for (std::int64_t i = 0; i < 9; ++i)
    for (std::int64_t j = 0; j < 11; ++j)
      turned.view()(j, i) = whole.view()(i, j);
  Findings found;
  run_ranks(virtual_ranks(3), [&](Communicator& comm) {
    Stream stream(comm.device());
    TensorParallel tp(comm);
    ColumnParallelLinear columns(tp, {.in = 9, .out = 11});
    columns.load_full(stream, whole, {});
    CheckpointWriter writer(comm);
    writer.add("w", columns);
    writer.save(stream, path);
    const Checkpoint checkpoint(path);
    RowParallelLinear rows(tp, {.in = 9, .out = 11}), expected(tp, {.in = 9, .out = 11});
    expected.load_full(stream, whole, {});
    checkpoint.load(stream, "w", rows);
    found.require(same_bits(rows.weight(), expected.weight()), "rows");
    RowParallelLinear turned_rows(tp, {.in = 11, .out = 9}), turned_expected(tp, {.in = 11, .out = 9});
    turned_expected.load_full(stream, turned, {});
    checkpoint.load(stream, "w", turned_rows, {.layout = WeightLayout::out_in});
    found.require(same_bits(turned_rows.weight(), turned_expected.weight()), "transposed rows");
    auto all = test::full(9, 11, 0);
    checkpoint.load(stream, "w.weight", all);
    found.require(std::memcmp(all.data(), whole.data(), 9 * 11 * sizeof(float)) == 0, "the whole");
  });
  CHECK(found.list() == test::nothing_wrong);
}

TEST_CASE("weights of PyTorch's layout are loaded by parts, from several files") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const std::int64_t width = 70, heads = 8, kv_heads = 2, size = 16, queries = heads * size,
                     keys = kv_heads * size;
  const auto q = random_bits<bf16>(random, queries, width), k = random_bits<bf16>(random, keys, width),
             v = random_bits<bf16>(random, keys, width), o = random_bits<bf16>(random, width, queries);
  const test::TemporaryFolder folder;
  // Writes a file with two tensors.
  const auto write = [&](const char* file_name, const char* a, const Tensor<bf16, 2>& x, const char* b,
                         const Tensor<bf16, 2>& y) {
    const auto describe = [](const char* name, const Tensor<bf16, 2>& t, std::int64_t begin) {
      return "\"" + std::string(name) + R"(":{"dtype":"BF16","shape":[)" + std::to_string(t.extent(0)) + "," +
             std::to_string(t.extent(1)) + R"(],"data_offsets":[)" + std::to_string(begin) + "," +
             std::to_string(begin + 2 * t.size()) + "]}";
    };
    const std::string header = "{" + describe(b, y, 2 * x.size()) + "," + describe(a, x, 0) + "}";
    const std::uint64_t length = header.size();
    std::ofstream file(folder.path() / file_name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), 8) << header;
    file.write(reinterpret_cast<const char*>(x.data()), 2 * x.size());
    file.write(reinterpret_cast<const char*>(y.data()), 2 * y.size());
  };
  write("a.safetensors", "q.weight", q, "o.weight", o);
  write("b.safetensors", "v.weight", v, "k.weight", k);
  std::ofstream(folder.path() / "model.safetensors.index.json")
      << R"({"metadata":{"total_size":1},"weight_map":{"q.weight":"a.safetensors","o.weight":"a.safetensors",)"
      << R"("k.weight":"b.safetensors","v.weight":"b.safetensors"}})";
  const Checkpoint published(folder.path()); // of all ranks
  auto qkv = Tensor<bf16, 2>::empty({width, queries + 2 * keys}),
       out = Tensor<bf16, 2>::empty({queries, width});
  for (std::int64_t i = 0; i < width; ++i) {
    for (std::int64_t j = 0; j < queries; ++j)
      qkv.view()(i, j) = q.view()(j, i), out.view()(j, i) = o.view()(i, j);
    for (std::int64_t j = 0; j < keys; ++j)
      qkv.view()(i, queries + j) = k.view()(j, i), qkv.view()(i, queries + keys + j) = v.view()(j, i);
  }
  for (int ranks : {1, 2, 4, 8}) {
    Findings found;
    run_ranks(virtual_ranks(ranks), [&](Communicator& comm) {
      Stream stream(comm.device());
      TensorParallel tp(comm);
      const AttentionShape shape{
          .width = width, .heads = heads, .kv_heads = kv_heads, .head_size = size, .dtype = DType::BF16};
      ParallelAttention loaded(tp, shape), expected(tp, shape);
      expected.load_full(stream, qkv, out);
      published.load_parts(stream, {"q", "k", "v"}, loaded.qkv(), {.layout = WeightLayout::out_in});
      published.load(stream, "o", loaded.out(), {.layout = WeightLayout::out_in});
      found.require(same_bits(loaded.qkv().weight(), expected.qkv().weight()), "qkv");
      found.require(same_bits(loaded.out().weight(), expected.out().weight()), "out");
    });
    CHECK(found.list() == test::nothing_wrong);
  }
}

TEST_CASE("checkpoints of emulated GPUs are saved and loaded") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path();
  std::mt19937_64 random(1);
  const auto up = random_bits<float>(random, 12, 14), down = random_bits<float>(random, 7, 12);
  RanksOptions options{.ranks = 2};
  options.devices = {Device::emulated("sm_80"), Device::emulated("sm_80", {.ordinal = 1})};
  run_ranks(options, [&](Communicator& comm) {
    Stream stream(comm.device());
    TensorParallel tp(comm);
    ParallelMlp mlp(tp, {.width = 12, .hidden = 7});
    mlp.load_full(stream, up, down);
    CheckpointWriter writer(comm);
    writer.add("up", mlp.up());
    writer.add("down", mlp.down());
    writer.save(stream, path);
    ParallelMlp loaded(tp, {.width = 12, .hidden = 7}), transposed(tp, {.width = 12, .hidden = 7});
    const Checkpoint checkpoint(path);
    checkpoint.load(stream, "up", loaded.up());
    checkpoint.load(stream, "down", loaded.down());
    CheckpointWriter again(comm);
    again.add("up", loaded.up());
    again.add("down", loaded.down());
    again.save(stream, path);
  });
  const Checkpoint checkpoint(path);
  auto same_up = test::full(12, 14, 0), same_down = test::full(7, 12, 0), turned = test::full(12, 7, 0);
  Stream stream;
  checkpoint.load(stream, "up.weight", same_up);
  checkpoint.load(stream, "down.weight", same_down);
  checkpoint.load(stream, "down.weight", turned, {.layout = WeightLayout::out_in});
  CHECK(std::memcmp(same_up.data(), up.data(), 12 * 14 * sizeof(float)) == 0);
  CHECK(std::memcmp(same_down.data(), down.data(), 7 * 12 * sizeof(float)) == 0);
  CHECK(std::memcmp(&turned.view()(3, 5), &down.view()(5, 3), sizeof(float)) == 0);
}
