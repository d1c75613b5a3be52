// Writes the data file of one rank: a safetensors file with its shards.
#pragma once

#include <kiln/collectives/checkpoint/checkpoint.h>
#include <kiln/collectives/checkpoint/checkpoint_files.h>

#include <vector>

namespace kiln::collectives {

void write_data_file(Stream& stream, NewFile& file, const std::vector<NamedShard>& tensors, int rank,
                     int ranks);

} // namespace kiln::collectives
