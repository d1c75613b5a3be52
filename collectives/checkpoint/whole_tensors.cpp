// Implements the search for whole tensors.
#include <kiln/collectives/checkpoint/whole_tensors.h>

#include <kiln/collectives/checkpoint/safetensors_header.h>
#include <kiln/dsl/error.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace kiln::collectives {
namespace {

constexpr const char* rewritten = "; the file is damaged, so copy or save the checkpoint again";

struct ShardPlace {
  std::string tensor;
  WholeTensor whole; // without pieces
  std::vector<Rows> ranges;
};

// Numbers of a JSON array, if it consists of numbers that std::int64_t can hold.
std::optional<std::vector<std::int64_t>> numbers_in(const nlohmann::json& json) {
  if (!json.is_array()) return {};
  std::vector<std::int64_t> numbers;
  for (const nlohmann::json& n : json) {
    if (!n.is_number_unsigned() || n.get<std::uint64_t>() >> 63 != 0) return {};
    numbers.push_back(n.get<std::int64_t>());
  }
  return numbers;
}

// Parses and checks what a file says about a shard.
ShardPlace parse_shard(const std::string& place, const std::string& text,
                       const SafetensorsFile::Tensor& data) {
  const auto refuse = [&](const std::string& what) { throw UserError(place + what + rewritten); };
  const nlohmann::json json = parse_strict_json(place, text, rewritten);
  const auto get = [&](const char* key) {
    return json.is_object() ? json.value(key, nlohmann::json()) : json;
  };
  ShardPlace shard;
  const nlohmann::json tensor = get("tensor"), axis = get("axis"), ranges = get("ranges");
  const auto extents = numbers_in(get("shape"));
  if (!tensor.is_string()) refuse(" does not name its whole tensor");
  shard.tensor = tensor.get<std::string>();
  if (!extents || extents->empty() || extents->size() != data.extents.size())
    refuse(" has no shape of the whole tensor, or one with another number of axes");
  if (!axis.is_number_unsigned() || axis.get<std::uint64_t>() > (extents->size() == 2 ? 1u : 0u))
    refuse(" has an axis along which tensors cannot be divided");
  shard.whole = {data.dtype, data.type, *extents, axis.get<int>(), {}};
  const auto along = static_cast<std::size_t>(shard.whole.axis);
  std::int64_t count = 0;
  for (const nlohmann::json& range : ranges) {
    const auto ends = numbers_in(range);
    if (!ends || ends->size() != 2 || (*ends)[0] >= (*ends)[1] || (*ends)[1] > (*extents)[along])
      refuse(" has a range of indices outside of the whole tensor");
    shard.ranges.push_back({(*ends)[0], (*ends)[1]});
    if (__builtin_add_overflow(count, shard.ranges.back().count(), &count))
      refuse(" has ranges with more indices than 64 bits can count");
  }
  std::vector<std::int64_t> expected = *extents;
  expected[along] = count;
  if (expected != data.extents) refuse(" does not have the shape of the ranges that it lists");
  return shard;
}

// The whole tensor of a file's tensor without metadata.
ShardPlace whole_in(const std::string& name, const SafetensorsFile::Tensor& data) {
  const std::int64_t rows = data.extents.empty() ? 1 : data.extents[0];
  return {name, {data.dtype, data.type, data.extents, 0, {}}, {{0, rows}}};
}

void check_complete(const std::string& name, const WholeTensor& t) {
  std::vector<std::pair<Rows, const SavedPiece*>> all;
  for (const SavedPiece& piece : t.pieces)
    for (Rows range : piece.ranges)
      all.emplace_back(range, &piece);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.begin, a.first.end) < std::pair(b.first.begin, b.first.end);
  });
  const std::int64_t count = t.extents.empty() ? 1 : t.extents[static_cast<std::size_t>(t.axis)];
  const std::string& path = t.pieces.front().file->path();
  std::int64_t next = 0;
  const auto missing = [&](std::int64_t end) {
    throw UserError(path + ": of the tensor " + quoted_name(name) + ", indices " + std::to_string(next) +
                    " to " + std::to_string(end) + " of axis " + std::to_string(t.axis) +
                    " are in no file; add the missing files, or save the checkpoint again");
  };
  for (const auto& [range, piece] : all) {
    if (range.begin < next)
      throw UserError(piece->file->path() + ": indices " + std::to_string(range.begin) + " to " +
                      std::to_string(std::min(range.end, next)) + " of the tensor " + quoted_name(name) +
                      " are in two shards; let only one rank save them");
    if (range.begin > next) missing(range.begin);
    next = range.end;
  }
  if (next < count) missing(count);
}

} // namespace

std::string shard_name(const std::string& tensor, int rank, int ranks) {
  char text[40];
  std::snprintf(text, sizeof text, "%s%05d-of-%05d", shard_mark, rank + 1, ranks);
  return tensor + text;
}

std::string shard_text(const std::string& tensor, const std::vector<std::int64_t>& extents, int axis,
                       const std::vector<Rows>& ranges) {
  nlohmann::json list = nlohmann::json::array();
  for (Rows range : ranges)
    list.push_back({range.begin, range.end});
  return nlohmann::json{{"tensor", tensor}, {"shape", extents}, {"axis", axis}, {"ranges", list}}.dump();
}

std::map<std::string, std::string> metadata_of_shards() { return {{"format", "pt"}, {"kiln", "1"}}; }

std::map<std::string, WholeTensor> whole_tensors(const OpenFiles& open) {
  std::map<std::string, WholeTensor> tensors;
  for (std::size_t f = 0; f < open.files.size(); ++f) {
    const SafetensorsFile& file = open.files[f];
    const auto version = file.metadata().find("kiln");
    const bool sharded = version != file.metadata().end();
    if (sharded && version->second != "1")
      throw UserError(file.path() + ": this version of Kiln cannot read checkpoints of version " +
                      quoted_name(version->second) + "; use the one that wrote it, or a newer one");
    for (const std::string& name : open.names[f]) {
      const SafetensorsFile::Tensor& data = file.tensor(name);
      const auto entry = file.metadata().find(name);
      const bool is_shard =
          sharded && entry != file.metadata().end() && name.find(shard_mark) != std::string::npos;
      const ShardPlace shard =
          is_shard ? parse_shard(file.path() + ": the shard " + quoted_name(name), entry->second, data)
                   : whole_in(name, data);
      auto [found, fresh] = tensors.try_emplace(shard.tensor, shard.whole);
      WholeTensor& whole = found->second;
      if (!fresh && (whole.dtype != data.dtype || whole.extents != shard.whole.extents ||
                     whole.axis != shard.whole.axis))
        throw UserError(file.path() + ": the shard " + quoted_name(name) + " of the tensor " +
                        quoted_name(shard.tensor) + " and that in " + whole.pieces.front().file->path() +
                        " have different dtypes, whole shapes or axes; do not mix files of checkpoints");
      whole.pieces.push_back({&file, &data, shard.ranges});
    }
  }
  for (const auto& [name, tensor] : tensors)
    check_complete(name, tensor);
  return tensors;
}

} // namespace kiln::collectives
