// Loads a rank's part of the tensors of a checkpoint.
#include <kiln/collectives/checkpoint/checkpoint.h>

#include <kiln/collectives/checkpoint/checkpoint_files.h>
#include <kiln/collectives/checkpoint/piece_copy.h>
#include <kiln/collectives/checkpoint/safetensors_header.h>
#include <kiln/collectives/checkpoint/shard_checks.h>
#include <kiln/collectives/checkpoint/whole_tensors.h>
#include <kiln/dsl/error.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <utility>

namespace kiln::collectives {

namespace fs = std::filesystem;

struct Checkpoint::State {
  std::string path;
  OpenFiles open;
  std::map<std::string, WholeTensor> tensors;
  std::atomic<std::int64_t> bytes_read = 0;

  const WholeTensor& at(const std::string& name) const {
    const auto found = tensors.find(name);
    if (found != tensors.end()) return found->second;
    throw UserError(path + ": there is no tensor " + quoted_name(name) + " among its " +
                    std::to_string(tensors.size()) + "; names() lists them");
  }
};

namespace {

std::vector<std::string> all_names(const SafetensorsFile& file) {
  std::vector<std::string> names;
  for (const auto& entry : file.tensors())
    names.push_back(entry.first);
  return names;
}

OpenFiles open_files(const std::string& path) {
  OpenFiles open;
  std::error_code ignored;
  const bool folder = fs::is_directory(path, ignored);
  const std::string index = index_path(path), single = folder ? path + "/model.safetensors" : path;
  const bool has_index = folder && fs::exists(index, ignored), has_single = fs::exists(single, ignored);
  if (folder && has_index && has_single)
    throw UserError(path + " has both an index and model.safetensors; pass the path of the latter, or remove "
                           "one of them");
  if (!has_index && !has_single)
    throw UserError(path + " has no checkpoint; pass a folder with model.safetensors.index.json or "
                           "model.safetensors, or the path of a safetensors file");
  if (!has_index) {
    open.files.emplace_back(single);
    open.names.push_back(all_names(open.files.back()));
    return open;
  }
  std::map<std::string, std::vector<std::string>> names_of; // of each file
  for (const auto& [name, file] : read_index(index).files)
    names_of[file].push_back(name);
  for (auto& [file, names] : names_of) {
    open.files.emplace_back(path + "/" + file);
    open.names.push_back(std::move(names));
  }
  return open;
}

// The indices that two ranges have in common; none if end <= begin.
Rows common(Rows a, Rows b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

// Calls body(box) for the parts of a piece that a shard has, in the matrix of the whole tensor in the file.
template <class F>
void each_common_box(const WholeTensor& whole, const SavedPiece& piece, const TensorShard& shard,
                     const TensorPlace& own, const F& body) {
  const MatrixExtents matrix = as_matrix(whole.extents);
  const int axis = own.transposed ? 1 - shard.axis : shard.axis; // of the shard, in the file
  std::int64_t in_piece = 0;
  for (Rows saved : piece.ranges) {
    for (const TensorShard::Range& wanted : shard.ranges) {
      Rows box[2] = {{0, matrix.rows}, {0, matrix.columns}};
      box[whole.axis] = common(box[whole.axis], saved);
      box[axis] = common(box[axis], wanted.whole);
      if (box[0].count() <= 0 || box[1].count() <= 0) continue;
      PieceBox copied{
          {box[0].begin, box[1].begin}, {box[0].begin, box[1].begin}, box[0].count(), box[1].count()};
      copied.from[whole.axis] += in_piece - saved.begin;
      copied.to[axis] += wanted.own - wanted.whole.begin;
      body(copied);
    }
    in_piece += saved.count();
  }
}

} // namespace

Checkpoint::Checkpoint(const std::string& path) : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->open = open_files(path);
  state_->tensors = whole_tensors(state_->open);
}
Checkpoint::~Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& entry : state_->tensors)
    names.push_back(entry.first);
  return names;
}

Checkpoint::Tensor Checkpoint::tensor(const std::string& name) const {
  const WholeTensor& t = state_->at(name);
  if (!t.type)
    throw UserError(state_->path + ": the tensor " + quoted_name(name) + " has the dtype " +
                    quoted_name(t.dtype) + ", which Kiln does not have; convert the file");
  return {*t.type, t.extents};
}

std::int64_t Checkpoint::bytes_read() const { return state_->bytes_read; }

void Checkpoint::load(ops::detail::StreamAt stream, const std::string& name, const ops::Output& own_,
                      const TensorShard& shard, LoadOptions options) const {
  const ops::Array& own = own_.array();
  const std::string where = "Checkpoint::load of the tensor " + quoted_name(name) + " from " + state_->path;
  check_shard(where, own, shard);
  const WholeTensor& whole = state_->at(name);
  const Tensor found = tensor(name);
  const bool transposed = options.layout == WeightLayout::out_in && shard.extents.size() == 2;
  std::vector<std::int64_t> expected = shard.extents;
  if (transposed) std::swap(expected[0], expected[1]);
  if (found.extents != expected) {
    std::string fix = "; load it into a layer or tensor of that shape";
    if (expected.size() == 2 && expected[0] != expected[1] &&
        found.extents == std::vector{expected[1], expected[0]})
      fix = transposed ? "; pass WeightLayout::in_out" : "; pass WeightLayout::out_in";
    throw UserError(stream.site, where + ": its shape is " + shape_text(found.extents) + ", and it must be " +
                                     shape_text(expected) + fix);
  }
  if (found.dtype != own.dtype)
    throw UserError(stream.site, where + ": its dtype is " + std::string(kiln::name(found.dtype)) +
                                     ", and that of the tensor here " + std::string(kiln::name(own.dtype)) +
                                     "; make it with that dtype, or convert the file");
  stream.stream.synchronize(); // commands may use what is overwritten
  const TensorPlace place{own.data, as_matrix(extents_of(own)).columns, size_of(own.dtype), transposed};
  for (const SavedPiece& piece : whole.pieces) {
    std::optional<PieceReader> reader; // which opens the file
    each_common_box(whole, piece, shard, place, [&](const PieceBox& box) {
      if (!reader) reader.emplace(*piece.file, *piece.data);
      state_->bytes_read += reader->copy(stream.stream, box, place);
    });
  }
}

void Checkpoint::load(ops::detail::StreamAt stream, const std::string& name, const ops::Output& tensor,
                      LoadOptions options) const {
  TensorShard shard{.extents = extents_of(tensor.array())};
  if (!shard.extents.empty()) shard.ranges = {{{0, shard.extents[0]}}};
  load(stream, name, tensor, shard, options);
}

void Checkpoint::load(ops::detail::StreamAt stream, const std::string& name, ParallelLinear& layer,
                      LoadOptions options) const {
  load(stream, name + ".weight", layer.weight(), layer.weight_shard(), options);
  if (layer.shape().bias) load(stream, name + ".bias", layer.bias(), layer.bias_shard(), options);
}

void Checkpoint::load_parts(ops::detail::StreamAt stream, const std::vector<std::string>& names,
                            ParallelLinear& layer, LoadOptions options) const {
  if (static_cast<int>(names.size()) != layer.parts())
    throw UserError(stream.site, "Checkpoint::load_parts: there are " + std::to_string(names.size()) +
                                     " names for a layer of " + std::to_string(layer.parts()) +
                                     " parts; pass one for each");
  for (int part = 0; part < layer.parts(); ++part) {
    const std::string& name = names[static_cast<std::size_t>(part)];
    load(stream, name + ".weight", layer.weight(), layer.weight_shard(part), options);
    if (layer.shape().bias) load(stream, name + ".bias", layer.bias(), layer.bias_shard(part), options);
  }
}

} // namespace kiln::collectives
