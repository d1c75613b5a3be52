// Tests the errors of checkpoints: a rank that cannot write, a process that dies, and folders and tensors that
// do not fit.
#include "findings.h"
#include "temporary_folder.h"

#include <kiln/collectives/checkpoint/checkpoint.h>
#include <kiln/collectives/mlp.h>
#include <kiln/collectives/ranks.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include <sys/resource.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::collectives;
using Catch::Contains;
using test::Findings;
namespace fs = std::filesystem;

namespace {

// Saves a matrix of which all elements are `value`, by columns, and a vector.
void save(const std::string& folder, int ranks, float value, std::int64_t columns = 30) {
  run_ranks({.ranks = ranks}, [&](Communicator& comm) {
    Stream stream(comm.device());
    TensorParallel tp(comm);
    ColumnParallelLinear layer(tp, {.in = 8, .out = columns});
    const auto whole = test::full(8, columns, value);
    layer.load_full(stream, whole, {});
    CheckpointWriter writer(comm);
    writer.add("w", layer);
    writer.save(stream, folder);
  });
}
// The value that all elements of the saved matrix have.
float saved_value(const std::string& folder, std::int64_t columns = 30) {
  auto whole = test::full(8, columns, -1);
  Stream stream;
  Checkpoint(folder).load(stream, "w.weight", whole);
  for (float x : whole)
    if (std::memcmp(&x, whole.data(), sizeof x) != 0) return -2;
  return whole.data()[0];
}
std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename());
  return names;
}
const std::string index_name = "model.safetensors.index.json";

// Saves on three ranks, catches the error of each, and returns that of rank 0, which must be those of all. Rank
// 1 has a file of more than `bytes` bytes, and the others have small ones.
std::string save_fails(const std::string& folder, std::int64_t bytes = 4) {
  std::vector<std::string> errors(3);
  run_ranks({.ranks = 3}, [&](Communicator& comm) {
    Stream stream(comm.device());
    const auto small = test::full(8, 9.0f), large = test::full(bytes / 4, 9.0f);
    CheckpointWriter writer(comm);
    writer.add("small", small);
    writer.add("large", large);
    try {
      writer.save(stream, folder);
    } catch (const UserError& error) {
      errors[static_cast<std::size_t>(comm.rank())] = error.what();
    }
    comm.barrier(); // the communicator is usable
  });
  CHECK(errors[0] == errors[1]);
  CHECK(errors[0] == errors[2]);
  return errors[0];
}

} // namespace

TEST_CASE("a new checkpoint replaces the one in the folder, of any other number of ranks") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "deep" / "er";
  save(path, 4, 1);
  CHECK(names_in(path) == std::set<std::string>{"model-00001-of-00004.safetensors",
                                                "model-00002-of-00004.safetensors",
                                                "model-00003-of-00004.safetensors",
                                                "model-00004-of-00004.safetensors", index_name});
  save(path, 2, 2);
  CHECK(saved_value(path) == 2);
  CHECK(names_in(path) == std::set<std::string>{"model-v2-00001-of-00002.safetensors",
                                                "model-v2-00002-of-00002.safetensors", index_name});
  save(path, 2, 3);
  CHECK(saved_value(path) == 3);
  CHECK(names_in(path).size() == 3);
}

TEST_CASE("if one rank cannot write its file, all ranks report it and the old checkpoint stays") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path();
  save(path, 2, 1);
  const std::set<std::string> before = names_in(path);
  rlimit old{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{20000, old.rlim_max}; // of the size of a file: like a disk that is full
  REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  const std::string error = save_fails(path, 40000);
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  CHECK_THAT(error, Contains("test_checkpoint_faults.cpp") &&
                        Contains("CheckpointWriter::save: rank 1: " + path +
                                 "/model-v2-00002-of-00003.safetensors cannot be written: File too large; "
                                 "free space on the disk, or choose a folder that this process may"));
  CHECK(saved_value(path) == 1);
  CHECK(names_in(path) == before);
}

TEST_CASE("if the index cannot be written, all ranks report it and the old checkpoint stays") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path();
  save(path, 3, 1);
  const std::string obstacle = index_name + ".new-" + std::to_string(getpid());
  fs::create_directory(fs::path(path) / obstacle);
  const std::set<std::string> before = names_in(path);
  CHECK_THAT(save_fails(path), Contains("rank 0: " + path + "/" + index_name + " cannot be written: "));
  CHECK(saved_value(path) == 1);
  CHECK(names_in(path) == before);
  fs::remove(fs::path(path) / obstacle);
  save(path, 2, 5);
  CHECK(saved_value(path) == 5);
}

TEST_CASE("files of a save that died do not disturb, and the next save removes them") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path();
  save(path, 2, 1);
  for (const char* name : {"model-v2-00001-of-00002.safetensors", "model-v7-00002-of-00002.safetensors.new-1",
                           "model.safetensors.index.json.new-1", "model-notes.txt"})
    std::ofstream(fs::path(path) / name) << "torn";
  CHECK(saved_value(path) == 1);
  save(path, 1, 2);
  CHECK(saved_value(path) == 2);
  CHECK(names_in(path) == std::set<std::string>{"model-v8-00001-of-00001.safetensors", index_name,
                                                "model.safetensors.index.json.new-1", "model-notes.txt"});
}

TEST_CASE("a checkpoint does not replace a model of another program") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path();
  const std::string name = GENERATE(as<std::string>(), "model.safetensors", "model.safetensors.index.json");
  std::ofstream(fs::path(path) / name) << R"({"weight_map":{}})";
  CHECK_THAT(save_fails(path), Contains("rank 0: the folder " + path +
                                        " has a model that Kiln did not write, "
                                        "which would be lost; choose another "
                                        "folder"));
  CHECK(names_in(path) == std::set<std::string>{name});
}

TEST_CASE("ranks that add other tensors, or not all parts of one, get an error") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path();
  CHECK_THROWS_WITH(run_ranks({.ranks = 2},
                              [&](Communicator& comm) {
                                Stream stream(comm.device());
                                const auto x = test::full(4, 1.0f);
                                CheckpointWriter writer(comm);
                                writer.add(comm.rank() == 0 ? "x" : "y", x);
                                writer.save(stream, path);
                              }),
                    Contains("rank 1 has added other tensors than rank 0; add the same names"));
  CHECK_THROWS_WITH(run_ranks({.ranks = 2},
                              [&](Communicator& comm) {
                                Stream stream(comm.device());
                                const auto x = test::full(4, 1.0f);
                                CheckpointWriter writer(comm);
                                const std::int64_t begin = comm.rank() * 5;
                                writer.add("x", x, {.extents = {9}, .ranges = {{{begin, begin + 4}}}});
                                writer.save(stream, path);
                              }),
                    Contains("of the tensor 'x', indices 4 to 5 of axis 0 are in no file"));
  CHECK(names_in(path).empty());
  run_ranks({.ranks = 1}, [&](Communicator& comm) {
    CheckpointWriter writer(comm);
    const auto x = test::full(4, 1.0f);
    writer.add("x", x);
    CHECK_THROWS_WITH(writer.add("x", x), Contains("'x': it has been added before; choose another name"));
    CHECK_THROWS_WITH(writer.add("x.shard-1", x), Contains("this name has another meaning in the files"));
    CHECK_THROWS_WITH(writer.add("z", x, {.extents = {9}, .ranges = {{{0, 5}}}}),
                      Contains("a tensor of shape [4] cannot be this rank's part of one of shape [9]"));
    CHECK_THROWS_WITH(writer.add("z", x, {.extents = {9}, .ranges = {{{6, 10}}}}),
                      Contains("indices 6 to 10 are not in a tensor of shape [9]"));
    CHECK_THROWS_WITH(writer.add("z", x, {.extents = {9}, .axis = 1}),
                      Contains("a tensor of shape [9] cannot be divided along axis 1"));
    const auto matrix = test::full(4, 6, 1.0f);
    CHECK_THROWS_WITH(writer.add("z", matrix.view().slice(1, 0, 3)), Contains("is not contiguous"));
    const auto nothing = test::full(0, 6, 1.0f);
    CHECK_THROWS_WITH(writer.add("z", nothing), Contains("the whole tensor has no elements; leave it out"));
  });
}

TEST_CASE("tensors that do not fit are refused with the reason") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path();
  save(path, 2, 1);
  const Checkpoint checkpoint(path);
  Stream stream;
  auto turned = test::full(30, 8, 0), other = test::full(8, 31, 0);
  auto half = Tensor<bf16, 2>::empty({8, 30});
  CHECK_THROWS_WITH(checkpoint.load(stream, "w.weight", turned),
                    Contains("test_checkpoint_faults.cpp") &&
                        Contains("Checkpoint::load of the tensor 'w.weight' from " + path +
                                 ": its shape is [8, 30], and it must be [30, 8]; pass "
                                 "WeightLayout::out_in"));
  CHECK_THROWS_WITH(checkpoint.load(stream, "w.weight", other),
                    Contains("its shape is [8, 30], and it must be [8, 31]; load it into a layer or tensor"));
  CHECK_THROWS_WITH(checkpoint.load(stream, "w.weight", half),
                    Contains("its dtype is f32, and that of the tensor here bf16; make it with that dtype"));
  CHECK_THROWS_WITH(checkpoint.load(stream, "v.weight", other),
                    Contains(path + ": there is no tensor 'v.weight' among its 1; names() lists them"));
  CHECK_THROWS_WITH(Checkpoint(path + "/elsewhere"), Contains("/elsewhere has no checkpoint; pass a folder"));
  run_ranks({.ranks = 1}, [&](Communicator& comm) {
    TensorParallel tp(comm);
    ParallelMlp mlp(tp, {.width = 4, .hidden = 6});
    CHECK_THROWS_WITH(checkpoint.load_parts(stream, {"gate"}, mlp.up()),
                      Contains("there are 1 names for a layer of 2 parts; pass one for each"));
  });

  std::ofstream(fs::path(path) / "model.safetensors") << "x";
  CHECK_THROWS_WITH(Checkpoint(path), Contains("has both an index and model.safetensors"));
  fs::remove(fs::path(path) / "model.safetensors");
  fs::remove(fs::path(path) / "model-00002-of-00002.safetensors");
  CHECK_THROWS_WITH(Checkpoint(path), Contains("model-00002-of-00002.safetensors cannot be opened: No such"));
  CHECK_THROWS_WITH(checkpoint.load(stream, "w.weight", test::full(8, 30, 0).view()),
                    Contains("cannot be opened"));
}
