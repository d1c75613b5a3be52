// Names, writes and replaces the files of a checkpoint in a folder, so that there is a whole one at any time.
//
// The data files of a checkpoint have names that no earlier one in the folder has: model-00001-of-00002 of
// the first save, and model-v2-00001-of-00002 and so on of later ones. The index names the files that count,
// and is replaced last, by a rename.
#pragma once

#include <kiln/jit/base/new_file.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace kiln::collectives {

// A file of a checkpoint, with errors that say what to do.
std::unique_ptr<NewFile> new_file(const std::string& path);

// Writes the names of files in a folder to the disk, if its file system can do so.
void sync_folder(const std::string& folder);

struct CheckpointIndex {
  bool by_kiln = false;
  std::map<std::string, std::string> files; // tensor -> name of a file in the same folder
};

std::string index_path(const std::string& folder);
// UserError if the file cannot be read or is not such an index.
CheckpointIndex read_index(const std::string& path);
std::string index_text(const CheckpointIndex& index, std::int64_t data_bytes);

// model-00002-of-00004.safetensors, of rank 1 in the first generation.
std::string data_file_name(int generation, int rank, int ranks);

// Makes the folder unless it exists, and returns the generation of a new checkpoint in it. UserError if there
// is a model that Kiln did not write.
int prepare_folder(const std::string& folder);
// Removes the data files of other generations, as far as possible.
void remove_old_files(const std::string& folder, int generation);

} // namespace kiln::collectives
