// Converts a shape, dtype and kind to a problem, with the registry or with records.
#include <kiln/autotune/cli/problem_option.h>

#include <kiln/autotune/records/why.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/autotune/space/shape.h>

#include <fmt/format.h>

namespace kiln::tune {
namespace {

// Gives sizes in order the names of a record's sizes.
Sizes sizes_as_recorded(const ProblemOptions& q, Database& database) {
  if (const auto newest = newest_key(database, q.kernel, q.kind, q.device))
    return sizes_in_order(q.shape, q.kernel, newest->problem.sizes);
  throw UserError(
      fmt::format("--shape {}: neither the records nor `kiln tune --list` contain a kernel {} with "
                  "these sizes; give --plugin with the library that registers it, or write "
                  "NAME=SIZE,...",
                  q.shape, q.kernel));
}

} // namespace

Problem problem_from_options(Database& database, const ProblemOptions& q) {
  if (!q.dtype.empty() && !q.kind.empty())
    throw UserError("--dtype and --kind both give the dtypes; leave one out");
  const TunableKernel* kernel = find_tunable(q.kernel);
  const bool named = has_names(q.shape);
  if (!q.dtype.empty() && !kernel)
    throw UserError("--dtype works only for kernels that `kiln tune --list` lists, but " + q.kernel +
                    " is none of them; give --plugin with the library that registers it, or --kind, as in "
                    "`kiln records list`");
  if (kernel && (!named || !q.dtype.empty()) && q.kind.empty())
    return make_task(*kernel, q.dtype, q.shape, q.device).recorded_problem();
  return {named ? named_sizes(q.shape) : sizes_as_recorded(q, database), q.kind};
}

} // namespace kiln::tune
