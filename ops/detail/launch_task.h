// Makes a task for the tuner from a launch of an op, whose lambdas and options need not be registered.
#pragma once

#include <kiln/autotune/run/task.h>
#include <kiln/ops/detail/known_config.h>
#include <kiln/ops/detail/op_words.h>

namespace kiln::tune {
struct TunableKernel;
}

namespace kiln::ops::detail {

// A launch with what identifies its problem.
struct DescribedLaunch {
  DescribedLaunch(const StreamAt& at, const TunableLaunch& launch);

  const TunableLaunch& launch;
  const StreamAt& at;
  OpWords words;
  const kiln::detail::KernelHandle& kernel; // of kernels on rows, the one for whole rows
  std::uint64_t layouts;                    // the layout classes of the views, as bits
};

// The task of searching a config for the launch in the space of the registered kernel.
tune::Task task_of(const DescribedLaunch& launch, const tune::TunableKernel& tunable,
                   std::initializer_list<std::int64_t> sizes);
// The hash of the tile IR that identifies the task's records, which is kept for each kernel.
cache::Key ir_of(const DescribedLaunch& launch, const tune::Task& task);

} // namespace kiln::ops::detail
