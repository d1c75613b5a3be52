// Makes the markdown table of benchmarks/README.md, which compares CPUs, from runs of bench_peers.
#pragma once

#include "result_file.h"

#include <string>
#include <vector>

namespace benchmarks {

// A line for each group of rows and number of threads, and a column for each CPU. A cell holds the
// geometric mean of the ratios to the best peer, and that of the shares of the limit. It shows both runs of
// a pair where they differ noticeably, and otherwise their mean.
std::string overview(const std::vector<RunsOnCpu>& cpus);

} // namespace benchmarks
