// Saves the tensors of all ranks as a checkpoint.
#include <kiln/collectives/checkpoint/checkpoint.h>

#include <kiln/collectives/checkpoint/checkpoint_files.h>
#include <kiln/collectives/checkpoint/data_file.h>
#include <kiln/collectives/checkpoint/safetensors_header.h>
#include <kiln/collectives/checkpoint/shard_checks.h>
#include <kiln/collectives/checkpoint/whole_tensors.h>
#include <kiln/collectives/gather_numbers.h>
#include <kiln/dsl/error.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

namespace kiln::collectives {
namespace {

// The limit of the time that one rank may take longer than another to write its file.
constexpr Nanoseconds write_deadline = 3600ll * 1'000'000'000;

// What ranks exchange after each step.
struct StepReport {
  std::uint64_t hash = 0;
  std::int64_t generation = 0; // of rank 0
  char failure[496] = {};      // empty: none
};

StepReport report_of(const std::string& failure) {
  StepReport report;
  std::snprintf(report.failure, sizeof report.failure, "%s", failure.c_str());
  return report;
}

// Runs a step, and returns why it failed; empty if it did not.
template <class F> std::string failure_of(const F& step) {
  try {
    step();
    return {};
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) { // no memory, for example
    return std::string("the checkpoint cannot be saved: ") + error.what();
  }
}

// Returns the reports of all ranks, or throws on all of them if a step has failed on one.
std::vector<StepReport> exchange(Communicator& comm, const StepReport& own, const SourceLocation& site) {
  std::vector<StepReport> all(static_cast<std::size_t>(comm.size()));
  gather_numbers(comm, "save", {.tag = "checkpoint", .deadline = write_deadline}, &own, all.data(),
                 sizeof own);
  for (int r = 0; r < comm.size(); ++r)
    if (const StepReport& report = all[static_cast<std::size_t>(r)]; report.failure[0] != '\0')
      throw UserError(site, "CheckpointWriter::save: rank " + std::to_string(r) + ": " + report.failure);
  return all;
}

// Checks the new data files, makes the index name them, and removes those of an earlier checkpoint. If that
// fails, it removes the new ones.
void replace_index(const std::string& folder, int generation, int ranks) {
  const bool replaces = std::filesystem::exists(index_path(folder));
  std::vector<std::string> file_names;
  for (int r = 0; r < ranks; ++r)
    file_names.push_back(data_file_name(generation, r, ranks));
  OpenFiles open;
  CheckpointIndex index;
  std::int64_t bytes = 0;
  try {
    for (const std::string& file_name : file_names) {
      const SafetensorsFile& file = open.files.emplace_back(folder + "/" + file_name);
      std::vector<std::string>& names = open.names.emplace_back();
      for (const auto& [name, tensor] : file.tensors())
        names.push_back(name), index.files[name] = file_name, bytes += tensor.bytes;
    }
    whole_tensors(open); // checks that nothing is missing
    const std::unique_ptr<NewFile> file = new_file(index_path(folder));
    const std::string text = index_text(index, bytes);
    file->append(text.data(), static_cast<std::int64_t>(text.size()));
    file->finish();
    file->publish();
  } catch (...) {
    for (const std::string& file_name : file_names)
      std::remove((folder + "/" + file_name).c_str());
    throw;
  }
  sync_folder(folder);
  if (replaces) remove_old_files(folder, generation);
}

} // namespace

void CheckpointWriter::add(const std::string& name, const ParallelLinear& layer) {
  add(name + ".weight", ops::Input(layer.weight().array()), layer.weight_shard());
  if (layer.shape().bias) add(name + ".bias", ops::Input(layer.bias().array()), layer.bias_shard());
}

void CheckpointWriter::add_parts(const std::vector<std::string>& names, const ParallelLinear& layer) {
  if (static_cast<int>(names.size()) != layer.parts())
    throw UserError("CheckpointWriter::add_parts: there are " + std::to_string(names.size()) +
                    " names for a layer of " + std::to_string(layer.parts()) + " parts; pass one for each");
  for (int part = 0; part < layer.parts(); ++part) {
    const std::string& name = names[static_cast<std::size_t>(part)];
    add(name + ".weight", ops::Input(layer.weight().array()), layer.weight_shard(part));
    if (layer.shape().bias) add(name + ".bias", ops::Input(layer.bias().array()), layer.bias_shard(part));
  }
}

void CheckpointWriter::add(const std::string& name, const ops::Input& tensor) {
  TensorShard shard{.extents = extents_of(tensor.array())};
  if (!shard.extents.empty())
    shard.ranges = {{{0, shard.extents[0]}, 0, whole_++ % comm_.size() == comm_.rank()}};
  add(name, tensor, shard);
}

void CheckpointWriter::add(const std::string& name, const ops::Input& own, const TensorShard& shard) {
  const std::string where = "CheckpointWriter::add of the tensor " + quoted_name(name);
  check_shard(where, own.array(), shard);
  if (std::find(shard.extents.begin(), shard.extents.end(), 0) != shard.extents.end())
    throw UserError(where + ": the whole tensor has no elements; leave it out");
  if (name.empty() || name == "__metadata__" || name.find(shard_mark) != std::string::npos)
    throw UserError(where + ": this name has another meaning in the files; choose another one");
  for (const NamedShard& entry : entries_)
    if (entry.name == name) throw UserError(where + ": it has been added before; choose another name");
  entries_.push_back({name, own.array(), shard});
}

std::uint64_t CheckpointWriter::hash() const {
  std::uint64_t hash = 14695981039346656037u; // FNV-1a
  const auto add = [&hash](std::uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
  for (const NamedShard& entry : entries_) {
    for (char c : entry.name)
      add(static_cast<unsigned char>(c));
    add(256 + static_cast<std::uint64_t>(entry.own.dtype));
    for (std::int64_t n : entry.shard.extents)
      add(static_cast<std::uint64_t>(n));
    add(static_cast<std::uint64_t>(entry.shard.axis));
  }
  return hash;
}

void CheckpointWriter::save(ops::detail::StreamAt stream, const std::string& folder) const {
  const int rank = comm_.rank(), ranks = comm_.size();
  const SourceLocation site = stream.site;

  // Step 1: the names of the files.
  int generation = 0;
  StepReport begin = report_of(failure_of([&] {
    if (rank == 0) generation = prepare_folder(folder);
  }));
  begin.hash = hash(), begin.generation = generation;
  const std::vector<StepReport> begins = exchange(comm_, begin, site);
  generation = static_cast<int>(begins[0].generation);
  for (int r = 1; r < ranks; ++r)
    if (begins[static_cast<std::size_t>(r)].hash != begins[0].hash)
      throw UserError(site, "CheckpointWriter::save: rank " + std::to_string(r) +
                                " has added other tensors than rank 0; add the same names, dtypes and "
                                "whole shapes in the same order on all ranks");
  const auto path_of = [&](int r) { return folder + "/" + data_file_name(generation, r, ranks); };

  // Step 2: each rank writes a temporary file.
  std::unique_ptr<NewFile> file;
  exchange(comm_, report_of(failure_of([&] {
             file = new_file(path_of(rank));
             write_data_file(stream.stream, *file, entries_, rank, ranks);
             file->finish();
           })),
           site);

  // Step 3: all of them get their names, which no index names yet.
  const std::string failure = failure_of([&] {
    file->publish();
    sync_folder(folder);
  });
  try {
    exchange(comm_, report_of(failure), site);
  } catch (const UserError&) {
    std::remove(path_of(rank).c_str());
    throw;
  }

  // Step 4: rank 0 checks the files, and replaces the index. A rank that cannot know whether it has done so
  // leaves its file alone.
  exchange(comm_, report_of(failure_of([&] {
             if (rank == 0) replace_index(folder, generation, ranks);
           })),
           site);
}

} // namespace kiln::collectives
