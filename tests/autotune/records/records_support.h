// Provides temporary folders, random records and child processes for the tests of records.
#pragma once

#include "test_seed.h"

#include "temporary_folder.h"

#include <kiln/autotune/records/database.h>
#include <kiln/jit/base/log.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace records_test {

namespace fs = std::filesystem;
using namespace kiln;
using namespace kiln::tune;
using kiln::test::fresh_seed;

using kiln::test::TemporaryFolder;

inline std::string read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void write_bytes(const fs::path& path, std::string_view bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

inline RecordKey example_key(std::int64_t m = 512, std::string kernel = "matmul") {
  RecordKey key;
  key.kernel = std::move(kernel);
  key.ir = {1, 2};
  key.space = {3, 4};
  key.problem = {{{"M", m}, {"N", 512}, {"K", 512}}, "f32.nn"};
  key.silicon = "znver5:avx2+fma+avx512f:48K:1M:32M:2t";
  key.backend = "cpu";
  key.code_generation = 33;
  key.tools = {.product = "AMD EPYC",
               .driver = "",
               .llvm = "22.1.8",
               .ptxas = "",
               .kiln = "0.1.0",
               .verification = tune::verification_version};
  key.bucketing = "hybrid";
  return key;
}

inline Record example_record(const RecordKey& key, double seconds = 1e-3,
                             std::string config = "BM=64,BN=64") {
  Record record;
  record.key = std::make_shared<const RecordKey>(key);
  record.config = std::move(config);
  record.result.seconds = seconds;
  record.result.low = seconds * 0.99;
  record.result.high = seconds * 1.01;
  record.result.launches = 24;
  record.source = "model";
  record.session = "5e55104";
  record.trial = 17;
  record.time = 1'766'000'000'000;
  return record;
}

inline std::string random_text(std::mt19937_64& random, std::size_t most) {
  std::string text(random() % (most + 1), ' ');
  for (char& c : text)
    c = static_cast<char>(random());
  return text;
}

inline double random_seconds(std::mt19937_64& random) {
  return std::ldexp(static_cast<double>(random() >> 11), -static_cast<int>(random() % 90));
}

// Returns all files below the folder whose names have this ending.
inline std::vector<fs::path> files_of(const fs::path& folder, const std::string& ending) {
  std::vector<fs::path> found;
  if (!fs::exists(folder)) return found;
  for (const auto& file : fs::recursive_directory_iterator(folder))
    if (file.is_regular_file() && file.path().string().ends_with(ending)) found.push_back(file.path());
  std::sort(found.begin(), found.end());
  return found;
}

template <typename Body> pid_t start(Body body) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child != 0) return child;
  int code = 99;
  try {
    code = body();
  } catch (...) {
  }
  _exit(code);
}
inline int exit_code_of(pid_t child) {
  int status = -1;
  if (waitpid(child, &status, 0) != child) throw std::runtime_error("waitpid failed");
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

} // namespace records_test
