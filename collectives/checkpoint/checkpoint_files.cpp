// Implements the files of checkpoints.
#include <kiln/collectives/checkpoint/checkpoint_files.h>

#include <kiln/collectives/checkpoint/safetensors_header.h>
#include <kiln/dsl/error.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace kiln::collectives {

namespace fs = std::filesystem;

std::unique_ptr<NewFile> new_file(const std::string& path) {
  return std::make_unique<NewFile>(
      path,
      NewFile::Words{.fix = "; free space on the disk, or choose a folder that this process may write to"});
}

void sync_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

std::string index_path(const std::string& folder) { return folder + "/model.safetensors.index.json"; }

CheckpointIndex read_index(const std::string& path) {
  const char* fix = "; it is damaged or not the index of a model, so copy or download it again";
  std::ifstream file(path, std::ios::binary);
  std::error_code unknown;
  const auto size = fs::file_size(path, unknown);
  if (!file || unknown) throw UserError(path + " cannot be read; pass the folder of a checkpoint");
  if (size > static_cast<std::uintmax_t>(longest_safetensors_header))
    throw UserError(path + " has " + std::to_string(size) + " bytes" + fix);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const nlohmann::json json = parse_strict_json(path, text, fix);
  CheckpointIndex index;
  const auto map = json.find("weight_map"), metadata = json.find("metadata");
  if (map == json.end() || !map->is_object()) throw UserError(path + " has no weight_map" + fix);
  index.by_kiln = metadata != json.end() && metadata->is_object() && metadata->contains("kiln");
  for (const auto& [name, value] : map->items()) {
    const std::string file_name = value.is_string() ? value.get<std::string>() : std::string();
    if (file_name.empty() || file_name.find_first_of(std::string("/\0", 2)) != std::string::npos)
      throw UserError(path + ": the tensor " + quoted_name(name) + " is not mapped to a file name" + fix);
    index.files[name] = file_name;
  }
  return index;
}

std::string index_text(const CheckpointIndex& index, std::int64_t data_bytes) {
  const nlohmann::json json = {{"metadata", {{"total_size", data_bytes}, {"kiln", "1"}}},
                               {"weight_map", index.files}};
  return json.dump(2) + "\n";
}

std::string data_file_name(int generation, int rank, int ranks) {
  char text[80];
  const std::string version = generation > 1 ? "v" + std::to_string(generation) + "-" : "";
  std::snprintf(text, sizeof text, "model-%s%05d-of-%05d.safetensors", version.c_str(), rank + 1, ranks);
  return text;
}

namespace {

// The generation of a data file, also of an incomplete one; 0 of other files.
int generation_of(const std::string& name) {
  int generation = 1, rank = 0, ranks = 0;
  if (std::sscanf(name.c_str(), "model-v%9d-", &generation) != 1) generation = 1;
  const std::string begin = generation > 1 ? "model-v" + std::to_string(generation) + "-" : "model-";
  if (!name.starts_with(begin)) return 0;
  if (std::sscanf(name.c_str() + begin.size(), "%9d-of-%9d.safetensors", &rank, &ranks) != 2) return 0;
  const std::string whole = data_file_name(generation, rank - 1, ranks);
  return name == whole || name.starts_with(whole + ".new-") ? generation : 0;
}

} // namespace

int prepare_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error && !fs::is_directory(folder))
    throw UserError("the folder " + folder + " cannot be made: " + error.message() +
                    "; choose a place where this process may make folders");
  const bool saved = fs::exists(index_path(folder), error);
  if (fs::exists(folder + "/model.safetensors", error) || (saved && !read_index(index_path(folder)).by_kiln))
    throw UserError("the folder " + folder +
                    " has a model that Kiln did not write, which would be lost; choose another folder");
  int newest = 0;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error))
    newest = std::max(newest, generation_of(i->path().filename().string()));
  if (error) throw UserError(folder + " cannot be read: " + error.message() + "; choose another folder");
  return newest + 1;
}

void remove_old_files(const std::string& folder, int generation) {
  std::error_code ignored;
  std::vector<std::string> old;
  for (fs::directory_iterator i(folder, ignored), end; !ignored && i != end; i.increment(ignored))
    if (const int g = generation_of(i->path().filename().string()); g > 0 && g != generation)
      old.push_back(i->path().string());
  for (const std::string& path : old)
    fs::remove(path, ignored);
}

} // namespace kiln::collectives
