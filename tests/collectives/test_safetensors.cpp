// Tests the reader of safetensors files with valid files, hostile ones, random damage, and files of a Python
// script.
#include "findings.h"
#include "left_out.h"
#include "temporary_folder.h"
#include "test_seed.h"

#include <kiln/collectives/checkpoint/checkpoint.h>
#include <kiln/collectives/checkpoint/safetensors.h>
#include <kiln/collectives/ranks.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

using namespace kiln;
using namespace kiln::collectives;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
std::string with_length(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

// The error for a file with this header and `bytes` bytes of data.
std::string error_of(const std::string& header, std::size_t bytes) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "x.safetensors";
  write_text(path, with_length(header, std::string(bytes, 'd')));
  try {
    const SafetensorsFile file(path);
  } catch (const UserError& error) {
    std::string text = error.what();
    REQUIRE(text.starts_with(path.string() + ": "));
    return text.substr(path.string().size() + 2);
  }
  return "";
}
constexpr const char* fix = "; it is damaged or not a safetensors file, so copy or download it again";

} // namespace

TEST_CASE("a safetensors file has its tensors, and bytes of their data can be read") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "x.safetensors";
  write_text(path, with_length(R"({"__metadata__":{"format":"pt"},)"
                               R"("b":{"dtype":"F4","shape":[3],"data_offsets":[14,16]},)"
                               R"("a":{"dtype":"I16","shape":[2,3],"data_offsets":[2,14]},)"
                               R"("empty":{"dtype":"F64","shape":[0,4],"data_offsets":[2,2]},)"
                               R"("scalar":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}}   )",
                               "abcdefghijklmnop"));
  const SafetensorsFile file(path);
  CHECK(file.tensors().size() == 4);
  CHECK(file.metadata().at("format") == "pt");
  CHECK(file.tensor("a").extents == std::vector<std::int64_t>{2, 3});
  CHECK(file.tensor("a").type == DType::I16);
  CHECK(file.tensor("scalar").extents.empty());
  CHECK(file.tensor("b").dtype == "F4");
  CHECK_FALSE(file.tensor("b").type.has_value());
  const auto data = file.open();
  char text[5] = {};
  data.read(file.tensor("a"), 8, text, 4);
  CHECK(std::string(text) == "klmn");
  CHECK_THROWS_WITH(data.read(file.tensor("a"), 9, text, 4),
                    Contains("4 bytes from byte 9 on are not part of a tensor of 12 bytes"));
  CHECK_THROWS_WITH(file.tensor("c"), Contains("there is no tensor 'c' among its 4; tensors() has"));
  CHECK_THROWS_WITH(
      Checkpoint(path).tensor("b"),
      Contains("the tensor 'b' has the dtype 'F4', which Kiln does not have; convert the file"));
  write_text(path, "short");
  CHECK_THROWS_WITH(file.open(), Contains("has been replaced since its header was read; open it again"));
  CHECK_THROWS_WITH(SafetensorsFile(folder.path()), Contains(" is not a file; pass the path of"));
}

TEST_CASE("damaged headers of safetensors files are refused with the reason") {
  const auto tensor = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  const auto one = [&](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"t":)" + tensor(dtype, shape, offsets) + "}";
  };
  const std::string begin = "the tensor 't'";
  CHECK(error_of(one("F32", "[2]", "[0,8]"), 8).empty());
  CHECK(error_of("[]", 0) == std::string("the header does not begin with '{'") + fix);
  CHECK_THAT(error_of("{\"t\":", 0), Contains("the header is not JSON (") && Contains(fix));
  CHECK_THAT(error_of("{\"\xff\":1}", 0), Contains("the header is not JSON ("));
  CHECK(error_of(R"({"t":{"a":{"b":[{"c":[]}]}}})", 0) ==
        std::string("the header nests values too deeply") + fix);
  CHECK_THAT(error_of(std::string(1000000, '['), 0), Contains("does not begin with"));
  CHECK_THAT(error_of("{\"t\":" + std::string(1000000, '['), 0), Contains("nests values too deeply"));
  CHECK(error_of(R"({"t":1})", 0) == begin + " is not described by an object" + fix);
  CHECK(error_of(R"({"t":{"shape":[],"data_offsets":[0,0]}})", 0) == begin + " has no dtype" + fix);
  CHECK(error_of(one("F32", "2", "[0,8]"), 8) == begin + " has no shape" + fix);
  CHECK(error_of(one("F32", "[2]", "[0]"), 8) == begin + " has no data offsets" + fix);
  for (const char* extent : {"-1", "1.0", "\"2\"", "9223372036854775808", "1e400", "null"})
    CHECK_THAT(error_of(one("F32", "[" + std::string(extent) + "]", "[0,8]"), 8),
               Contains(" has an extent that is not a number of elements") || Contains("is not JSON"));
  CHECK(error_of(one("F32", "[4294967296,4294967296]", "[0,8]"), 8) ==
        begin + " has a shape with more elements than 64 bits can count" + fix);
  CHECK_THAT(error_of(one("F32", "[4611686018427387904]", "[0,8]"), 8), Contains("do not need"));
  CHECK(error_of(one("F32", "[2]", "[8,0]"), 8) ==
        begin + " has data offsets that are not a range of bytes" + fix);
  CHECK_THAT(error_of(one("F32", "[2]", "[-8,0]"), 8), Contains("not a range of bytes"));
  CHECK(error_of(one("F32", "[2]", "[0,8]"), 7) ==
        begin + " ends at byte 8 of the data, of which there are 7" + fix);
  CHECK(error_of(one("F32", "[2]", "[0,9]"), 9) ==
        begin + " has 9 bytes of data, which its shape and dtype (2 elements of 'F32') do not need" + fix);
  CHECK(error_of(one("F32", "[2]", "[0,8]"), 9) ==
        std::string("the last 1 bytes of the file belong to no tensor") + fix);
  CHECK(error_of(one("F32", "[2]", "[1,9]"), 9) ==
        std::string("the data before the tensor 't' belong to no tensor") + fix);
  CHECK(error_of(R"({"t":)" + tensor("U8", "[4]", "[0,4]") + R"(,"u":)" + tensor("U8", "[4]", "[3,7]") + "}",
                 7) == std::string("the data of the tensors 't' and 'u' overlap") + fix);
  CHECK(error_of(R"({"t":)" + tensor("U8", "[4]", "[0,4]") + R"(,"t":)" + tensor("U8", "[4]", "[0,4]") + "}",
                 4) == std::string("the header contains the name 't' twice") + fix);
  CHECK(error_of(R"({"__metadata__":{"a":1}})", 0) ==
        std::string("the entry 'a' of __metadata__ is not text") + fix);
  CHECK(error_of(R"({"__metadata__":[]})", 0) == std::string("__metadata__ is not an object") + fix);
  CHECK_THAT(error_of(R"({"a\nb)" + std::string(300, 'x') + R"(":1})", 0),
             Contains("the tensor 'a?bxxxx") && Contains("xxx...' is not described"));

  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "x.safetensors";
  write_text(path, "1234567");
  CHECK_THROWS_WITH(SafetensorsFile(path),
                    Contains("the file has 7 bytes, fewer than the length of its header"));
  write_text(path, std::string("\x03\0\0\0\0\0\0\0{}", 10));
  CHECK_THROWS_WITH(SafetensorsFile(path),
                    Contains("the header has 3 bytes, and the file 10; it is truncated"));
  write_text(path, std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10));
  CHECK_THROWS_WITH(SafetensorsFile(path), Contains("the header has 18446744073709551615 bytes, more than"));
}

TEST_CASE("randomly damaged files of a checkpoint are read or refused, and nothing else happens") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const test::TemporaryFolder folder;
  run_ranks({.ranks = 2}, [&](Communicator& comm) {
    Stream stream(comm.device());
    TensorParallel tp(comm);
    ColumnParallelLinear layer(tp, {.in = 3, .out = 10, .bias = true, .parts = {{6}, {4}}});
    layer.load_full(stream, test::full(3, 10, 1).view(), test::full(10, 2.0f).view());
    CheckpointWriter writer(comm);
    writer.add("layer", layer);
    writer.save(stream, folder.path());
  });
  std::vector<std::pair<fs::path, std::string>> files;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    files.emplace_back(entry.path(), read_text(entry.path()));
  REQUIRE(files.size() == 3);
  Stream stream;
  int read = 0, refused = 0;
  for (int round = 0; round < test::rounds(3000); ++round) {
    const auto& [path, right] = files[random() % files.size()];
    std::string text = right;
    switch (random() % 4) {
    case 0: text.resize(random() % text.size()); break;
    case 1: text.insert(random() % text.size(), text.substr(random() % text.size(), random() % 40)); break;
    default:
      for (auto count = random() % 3 + 1; count > 0; --count) {
        const char likely[] = "{}[]\",:0123456789-eE.\\";
        text[random() % text.size()] =
            static_cast<char>(random() % 2 == 0 ? random() : static_cast<unsigned>(likely[random() % 22]));
      }
    }
    write_text(path, text);
    try {
      const Checkpoint checkpoint(folder.path());
      for (const std::string& name : checkpoint.names())
        if (checkpoint.tensor(name).extents == std::vector<std::int64_t>{3, 10}) {
          auto weight = test::full(3, 10, 0);
          checkpoint.load(stream, name, weight);
        }
      ++read;
    } catch (const UserError& error) {
      ++refused;
      const std::string what = error.what();
      if (what.find("; ") == std::string::npos && what.find("cannot be opened") == std::string::npos)
        FAIL("no fix in: " << what);
    }
    write_text(path, right);
  }
  CHECK(read > 0); // changes of the data alone, for example
  CHECK(refused > read / 10);
}

TEST_CASE("a Python script reads checkpoints, and its files are read") {
  // Kiln itself needs no Python, so a machine may have none.
  if (std::system("python3 -c '' 2>/dev/null") != 0) {
    WARN("skipped: there is no python3");
    return;
  }
  const test::TemporaryFolder folder;
  const fs::path script = folder.path() / "script.py", saved = folder.path() / "saved",
                 whole = folder.path() / "whole.safetensors";
  // Joins the shards in the folder by their metadata, and writes all tensors to one file, matrices transposed.
  write_text(script, R"(
import json, pathlib, struct, sys
folder, out = map(pathlib.Path, sys.argv[1:])
index = json.loads((folder / "model.safetensors.index.json").read_text())
tensors = {}                                   # name: shape, values by index
for path in sorted(set(index["weight_map"].values())):
    data = (folder / path).read_bytes()
    length, = struct.unpack("<Q", data[:8])
    assert (8 + length) % 64 == 0
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__")
    assert metadata["format"] == "pt"
    for name, entry in header.items():
        assert index["weight_map"][name] == path and entry["dtype"] == "F32"
        begin, end = entry["data_offsets"]
        values = struct.unpack(f"<{(end - begin) // 4}f", data[8 + length + begin:8 + length + end])
        shape = entry["shape"]
        place = json.loads(metadata.get(name, "null")) or {
            "tensor": name, "shape": shape, "axis": 0, "ranges": [[0, shape[0]]]}
        _, all_values = tensors.setdefault(place["tensor"], (place["shape"], {}))
        along = [i for begin, end in place["ranges"] for i in range(begin, end)]
        columns = shape[1] if len(shape) == 2 else 1
        for k, value in enumerate(values):
            i, j = divmod(k, columns)
            at = (along[i], j) if place["axis"] == 0 else (i, along[j])
            assert at not in all_values
            all_values[at] = value
header, body = {"__metadata__": {"format": "pt"}}, b""
for name, (shape, values) in tensors.items():
    order = sorted(values, key=lambda at: (at[1], at[0])) if len(shape) == 2 else sorted(values)
    data = struct.pack(f"<{len(order)}f", *(values[at] for at in order))
    header[name] = {"dtype": "F32", "shape": shape[::-1], "data_offsets": [len(body), len(body) + len(data)]}
    body += data
text = json.dumps(header).encode()
out.write_bytes(struct.pack("<Q", len(text)) + text + body)
)");
  auto weight = test::full(5, 17, 0);
  auto bias = test::full(17, 0.0f);
  for (std::int64_t i = 0; i < weight.size(); ++i)
    weight.data()[i] = static_cast<float>(i) / 3;
  for (std::int64_t i = 0; i < 17; ++i)
    bias.data()[i] = static_cast<float>(-i);
  const LinearShape shape{.in = 5, .out = 17, .bias = true, .parts = {{11}, {6, 2}}};
  run_ranks({.ranks = 3}, [&](Communicator& comm) {
    Stream stream(comm.device());
    TensorParallel tp(comm);
    ColumnParallelLinear layer(tp, shape);
    layer.load_full(stream, weight, bias);
    CheckpointWriter writer(comm);
    writer.add("layer", layer);
    writer.save(stream, saved);
  });
  REQUIRE(std::system(("python3 '" + script.string() + "' '" + saved.string() + "' '" + whole.string() + "'")
                          .c_str()) == 0);
  test::Findings found;
  run_ranks({.ranks = 2}, [&](Communicator& comm) {
    Stream stream(comm.device());
    TensorParallel tp(comm);
    ColumnParallelLinear loaded(tp, shape);
    Checkpoint(whole).load(stream, "layer", loaded, {.layout = WeightLayout::out_in});
    auto all = test::full(5, 17, -1);
    auto all_bias = test::full(17, -1.0f);
    loaded.gather_full(stream, all, all_bias);
    found.require(std::memcmp(all.data(), weight.data(), 5 * 17 * 4) == 0, "weight");
    found.require(std::memcmp(all_bias.data(), bias.data(), 17 * 4) == 0, "bias");
  });
  CHECK(found.list() == test::nothing_wrong);
}
