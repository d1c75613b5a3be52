// Tests the command `kiln records`.
#include <catch2/catch.hpp>

#include "records_support.h"

#include <kiln/dsl/error.h>
#include <kiln/jit/base/version.h>
#include <kiln/jit/cli/support/registry.h>

#include <cstdio>
#include <iostream>

#include <nlohmann/json.hpp>

using namespace records_test;

namespace {

struct Output {
  int code = -1;
  std::string text;
};

// Runs the command in a child whose output is a file.
Output records(std::vector<std::string> arguments) {
  const cli::Command* command = cli::find_command("records");
  REQUIRE(command);
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "output";
  arguments.insert(arguments.begin(), "records");
  std::cout.flush(); // else the child would print it again
  std::fflush(nullptr);
  const pid_t child = start([&] {
    if (!std::freopen(path.c_str(), "w", stdout) || dup2(fileno(stdout), 2) < 0) return 98;
    std::vector<char*> argv;
    for (std::string& argument : arguments)
      argv.push_back(argument.data());
    int code = 1;
    try {
      code = command->run(static_cast<int>(argv.size()), argv.data());
    } catch (const Error& error) {
      std::printf("error: %s\n", error.what());
    }
    std::fflush(stdout);
    return code;
  });
  const int code = exit_code_of(child);
  return {code, read_bytes(path)};
}

bool has(const Output& output, const std::string& text) {
  return output.text.find(text) != std::string::npos;
}

} // namespace

TEST_CASE("kiln records lists, shows, exports, imports, merges, prunes, verifies and explains", "[records]") {
  const TemporaryFolder folder;
  const std::string a = (folder.path() / "a").string(), b = (folder.path() / "b").string();
  const std::string file = (folder.path() / "records.jsonl").string(),
                    wisdom = (folder.path() / "w.json").string();
  const RecordKey key =
      make_key("matmul", {1, 2}, {3, 4}, {{{"M", 512}, {"N", 512}}, "f32.nn"}, Device::cpu());
  REQUIRE(exit_code_of(start([&] {
            RecordStore store(a);
            store.append(example_record(key, 2e-3, "BM=32,BN=32"));
            Record failed = example_record(key, 0, "BM=999");
            failed.result.status = Status::wrong_result;
            failed.result.error = "off by\x1b[31m one";
            store.append(failed);
            Record best = example_record(key, 1e-3, "BM=64,BN=64");
            best.confirmed = true;
            store.append(best);
            return store.publish_best(best) ? 0 : 1;
          })) == 0);

  Output out = records({"list", "--folder", a});
  CAPTURE(out.text);
  CHECK(out.code == 0);
  CHECK(has(out, "3 records of 1 problem"));
  CHECK(has(out, "matmul"));
  CHECK(has(out, "M=512,N=512 f32.nn"));
  CHECK(has(out, "BM=64,BN=64"));
  out = records({"list", "--folder", b});
  CHECK(out.code == 1);
  CHECK(has(out, "--folder " + b + ": there is no such folder"));
  out = records({"list", "--folder", a, "--json"});
  const auto json = nlohmann::json::parse(out.text);
  CHECK(json["records"] == 3);
  CHECK(json["questions"][0]["failed"] == 1);
  CHECK(json["questions"][0]["best"]["config"] == "BM=64,BN=64");
  CHECK(records({"list", "--folder", a, "--kernel", "softmax"}).text.find("0 records") != std::string::npos);

  out = records({"show", "matmul", "--all", "--folder", a});
  CHECK(out.code == 0);
  CHECK(has(out, "wrong result"));
  CHECK_FALSE(has(out, "\x1b"));
  CHECK(has(out, to_string(key.id())));
  CHECK(records({"show", to_string(key.id()).substr(0, 8), "--folder", a}).code == 0);
  out = records({"show", "softmax", "--folder", a});
  CHECK(out.code == 1);
  CHECK(has(out, "error: no record is of a kernel or key softmax"));

  CHECK(has(records({"export", file, "--folder", a}), "3 records"));
  CHECK(has(records({"import", file, "--folder", b}), "3 records added, 0 known before, 1 config faster"));
  CHECK(has(records({"import", file, "--folder", b}), "0 records added, 3 known before"));
  CHECK(has(records({"export", wisdom, "--wisdom", "--folder", a}), "1 config"));
  CHECK(read_wisdom_file(wisdom).records.size() == 1);
  CHECK(records({"export", "-", "--folder", a}).text == read_bytes(file));
  CHECK(records({"import", (folder.path() / "nothing").string(), "--folder", b}).code == 1);
  write_bytes(folder.path() / "garbage", "garbage\n");
  CHECK(records({"import", (folder.path() / "garbage").string(), "--folder", b}).code == 1);
  CHECK(has(records({"merge", a, "--folder", b}), "0 records added, 3 known before, 0 configs faster"));
  CHECK(records({"merge", (folder.path() / "nowhere").string(), "--folder", b}).code == 1);
  const std::string open = (folder.path() / "open").string();
  fs::create_directory(open);
  fs::permissions(open, fs::perms::all);
  CHECK(records({"merge", open, "--folder", b}).text ==
        "error: " + open +
            ": it contains no tuning records; give a file that `kiln records export` wrote, or a folder of "
            "records\n");
  fs::create_directory(open + "/rec");
  out = records({"merge", open, "--folder", b});
  CHECK(has(out, "run `chmod go-w '" + open + "'`; give a file that `kiln records export` wrote"));
  CHECK_FALSE(has(out, "KILN_CACHE_DIR"));

  out = records({"why", "matmul", "--shape", "M=512,N=512", "--folder", a});
  CHECK(out.code == 0);
  CHECK(has(out, "BM=64,BN=64 is used, from the database: it was confirmed"));
  CHECK(has(out, "3 trials of 3 configs, 1 wrong result"));
  const auto why = nlohmann::json::parse(
      records({"why", "matmul", "--shape", "M=500,N=500", "--folder", a, "--json"}).text);
  CHECK(why["trusted"] == false);
  CHECK(why["neighbours"].size() == 1);
  CHECK(records({"why", "softmax", "--shape", "M=1", "--folder", a}).code == 1);
  out = records({"why", "matmul", "--shape", "M=big", "--folder", a});
  CHECK(out.code == 1);
  CHECK(has(out, "--shape M=big: M is \"big\"; write a whole number from 0 to 2^63 - 1"));
  // As for `kiln tune`: the kind is that of the kernel's task, and the records have another.
  out = records({"why", "matmul", "--shape", "64x64x64", "--dtype", "bf16", "--folder", a});
  CHECK(has(out, "error: no record is of a kernel matmul for bf16.aligned.aligned.aligned"));
  CHECK(has(records({"why", "matmul", "--shape", "64x64", "--folder", a}), "matmul has 3 sizes: M, N, K"));
  // With the names of the sizes in the records.
  CHECK(records({"why", "matmul", "--shape", "512x512", "--kind", "f32.nn", "--folder", a}).text ==
        records({"why", "matmul", "--shape", "M=512,N=512", "--folder", a}).text);
  out = records({"why", "matmul", "--shape", "512", "--kind", "f32.nn", "--folder", a});
  CHECK(has(out, "--shape 512: matmul has 2 sizes: M, N; write all of them, separated by x, or NAME=SIZE"));
  out = records({"why", "mine", "--shape", "512", "--folder", a});
  CHECK(has(out, "contain a kernel mine with these sizes; give --plugin with the library"));
  out = records({"why", "mine", "--shape", "M=512", "--dtype", "f32", "--folder", a});
  CHECK(has(out, "mine is none of them; give --plugin with the library that registers it, or --kind, as in"));
  out = records({"why", "matmul", "--shape", "512x512", "--kind", "f32.nn", "--dtype", "f32", "--folder", a});
  CHECK(has(out, "error: --dtype and --kind both give the dtypes; leave one out"));
  out = records({"why", "mine", "--plugin", "./nothing.so", "--shape", "512", "--folder", a});
  CHECK(out.code == 1);
  CHECK(has(out, "--plugin ./nothing.so: "));

  CHECK(records({"verify", "--folder", a}).code == 0);
  const fs::path segment = files_of(a, ".jsonl").at(0);
  write_bytes(segment, read_bytes(segment) + "torn");
  out = records({"verify", "--folder", a});
  CHECK(out.code == 1);
  CHECK(has(out, "rec/matmul-"));
  CHECK(has(out, ":4: incomplete, or not a record"));
  CHECK(records({"verify", "--repair", "--folder", a}).code == 0);
  CHECK(records({"verify", "--folder", a}).code == 0);

  CHECK(has(records({"prune", "--keep", "1", "--folder", a}),
            "removed 2 records")); // the fastest is the newest
  CHECK(has(records({"prune", "--keep", "1", "--folder", a}), "removed 0 records"));
  CHECK(has(records({"prune", "--older-than", "1", "--folder", a}), "removed "));
  CHECK(has(records({"list", "--folder", a}), "0 records of 0 problems"));
  CHECK(records({"prune", "--older-than", "-1", "--folder", a}).code == 2);
}

TEST_CASE("kiln records list agrees with why on what is confirmed", "[records]") {
  const TemporaryFolder folder;
  const std::string a = (folder.path() / "a").string();
  const RecordKey key = make_key("matmul", {1, 2}, {3, 4}, {{{"M", 512}}, "f32.nn"}, Device::cpu());
  REQUIRE(exit_code_of(start([&] {
            RecordStore store(a);
            Record best = example_record(key, 1e-3, "BM=64");
            best.confirmed = true;
            return store.append(best) && store.publish_best(best) ? 0 : 1;
          })) == 0);
  write_bytes(files_of(fs::path(a) / "best", ".json").at(0), "damaged");
  CHECK(has(records({"why", "matmul", "--shape", "M=512", "--folder", a}), "it was confirmed"));
  CHECK(has(records({"list", "--folder", a}), "BM=64"));
  CHECK_FALSE(has(records({"list", "--folder", a}), "not confirmed"));
  CHECK_FALSE(has(records({"show", "matmul", "--folder", a}), "not confirmed"));
  // The result of an interrupted search, published or not.
  REQUIRE(exit_code_of(start(
              [&] { return RecordStore(a).publish_best(example_record(key, 1e-3, "BM=32")) ? 0 : 1; })) == 0);
  CHECK(has(records({"why", "matmul", "--shape", "M=512", "--folder", a}), "no tuning run was completed"));
  CHECK(has(records({"list", "--folder", a}), "BM=32 (not confirmed)"));
}

TEST_CASE("kiln records reports why a folder cannot be locked", "[records]") {
  const TemporaryFolder folder;
  const std::string a = (folder.path() / "a").string();
  REQUIRE(exit_code_of(start([&] { return RecordStore(a).append(example_record(example_key())) ? 0 : 1; })) ==
          0);
  const fs::path lock = fs::path(a) / "lock", segment = files_of(a, ".jsonl").at(0);
  fs::create_directory(lock); // a mode would not stop root
  Output out = records({"prune", "--keep", "1", "--folder", a});
  CHECK(out.code == 1);
  CHECK(out.text == "nothing was done: " + lock.string() + " cannot be locked: Is a directory\n");
  write_bytes(segment, read_bytes(segment) + "torn");
  out = records({"verify", "--repair", "--folder", a});
  CHECK(out.code == 1);
  CHECK(has(out, "damaged lines were not removed: " + lock.string() + " cannot be locked: Is a directory\n"));
  fs::remove(lock);
  CHECK(has(records({"prune", "--keep", "1", "--folder", a}), "kept 1 in 1 file"));
}

TEST_CASE("kiln records reports errors in its arguments", "[records]") {
  CHECK(records({}).code == 2);
  CHECK(records({"lsit"}).code == 2);
  CHECK(has(records({"lsit"}), "there is no subcommand \"lsit\"; choose list, show, export"));
  CHECK(records({"show"}).code == 2);
  CHECK(records({"list", "--frobnicate"}).code == 2);
  const Output help = records({"--help"});
  CHECK(help.code == 0);
  for (const char* command : {"list", "show", "export", "import", "merge", "prune", "verify", "why"})
    CHECK(has(help, std::string("  ") + command));
}
