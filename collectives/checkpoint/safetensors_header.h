// Parses and writes the JSON headers of the safetensors format (safetensors.h).
#pragma once

#include <kiln/collectives/checkpoint/safetensors.h>

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <string_view>

namespace kiln::collectives {

struct SafetensorsHeader {
  std::map<std::string, SafetensorsFile::Tensor> tensors; // whose offsets are in the file
  std::map<std::string, std::string> metadata;
};

// Longer headers are refused. It is the limit of the format's reference implementation.
inline constexpr std::int64_t longest_safetensors_header = 100'000'000;

// Checks everything that safetensors.h says. `text` is the JSON, and `file_size` the size of the whole file,
// whose data begin after the header. The path is for errors.
SafetensorsHeader parse_safetensors_header(const std::string& path, std::string_view text,
                                           std::int64_t file_size);

// Returns the first bytes of a file with tensors of these sizes: the length and the header, padded so that
// the data begin at a multiple of 64 bytes. Offsets of the tensors count from the begin of the data.
std::string safetensors_header(const SafetensorsHeader& header);

// Parses JSON text, and refuses a key that occurs twice in an object and values that are nested deeper than
// four objects or arrays. `what` precedes the reason in errors, "PATH: the header"; `fix` follows it.
nlohmann::json parse_strict_json(const std::string& what, std::string_view text, const std::string& fix);

// A name from a file for an error: quoted, without control characters, and not longer than a line.
std::string quoted_name(std::string_view name);

// "F32" of DType::F32.
std::string_view safetensors_dtype(DType dtype);

} // namespace kiln::collectives
