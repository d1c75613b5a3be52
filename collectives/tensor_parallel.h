// Declares TensorParallel, which computes matrix products while it sends their operands or results.
//
//   TensorParallel tp(comm);
//   tp.gather_matmul(stream, x, w, y, gathered);      // gathered = all ranks' rows of x; y = (gathered w)
//   tp.matmul_reduce_scatter(stream, h, v, z);        // z = this rank's rows of the sum over ranks of (h v)
//   tp.matmul_all_reduce(stream, h, v, z);            // z = the sum over ranks of (h v)
//   std::cout << tp.summary();                        // which products overlap, and why the others do not
//
// A TensorParallel object refers to a communicator, which must outlive it. It plans each shape of product
// (plan.h) at its first call, or when the plan function is called: on the wall clock by measurement, so that
// the first call takes longer, unless an earlier process has stored the plan, and on the virtual clock by
// forecasts. All ranks must make the same calls in the same order, with the same options and with matrices
// that are transposed on all ranks or on none.
//
// The results have the same bits with every schedule and chunk size, in every run. Those of gather_matmul are
// the bits of a batch-invariant product on one rank (whole_columns in ops/matmul_options.h). A sum over
// ranks is computed as by a Communicator: each rank contributes its product in f32 (or in the dtype
// `partial`), and the contributions are added in the order of ranks, and rounded once. bias and residual are
// added once, after the sum. With `norm`, each chunk of the result is also normalised (RMSNorm) as soon as it
// is complete, so that the residual stream of a transformer needs no separate pass.
//
// Matrices have float dtypes, and are on the communicator's device. a and gathered of gather_matmul, and c
// and residual of the other two, are contiguous. Results must not overlap inputs, except that c may be
// residual. `own rows` is the number of rows of this rank: of options.rows, or as communicator.h says. The
// calls block until the results are in memory. Errors are those of ops::matmul and of communicators. Not
// thread-safe.
#pragma once

#include <kiln/autotune/mode.h>
#include <kiln/collectives/plan.h>
#include <kiln/dsl/api.h>
#include <kiln/ops/activation.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

KILN_API_BEGIN
namespace kiln::collectives {

struct ParallelMatmulOptions {
  ops::Activation activation = ops::Activation::none; // only for gather_matmul
  ops::Input bias = {};                               // [n]
  ops::Input residual = {};                           // with the extents of c; not for gather_matmul
  NormOfSum norm = {};                                // not for gather_matmul
  // Totals over all ranks: of the columns of b, for gather_matmul (see MatmulOptions), and of the depth k,
  // for the other two. Required if b's columns, or k, differ between ranks. 0: all ranks have equally many.
  std::int64_t whole_columns = 0, whole_depth = 0;
  // The dtype in which ranks send their contributions to sums; default: f32, or f64 if an input is of f64.
  std::optional<DType> partial = {};
  std::vector<std::int64_t> rows = {}; // the number of rows of each rank; empty: divided evenly
  std::string tag = {};                // names the call in errors and traces
  Nanoseconds deadline = 0;            // of each wait for another rank; 0: RanksOptions::deadline
};

class TensorParallel {
public:
  struct Options {
    bool measure = true; // false: plan by forecasts alone, with the communicator's models of link and machine
    bool overlap = true; // false: always the serial schedule
    // If given: use this schedule for products that have it, and plan the others by forecasts.
    std::optional<Candidate> force = {};
    // Where plans that may be measured come from (plan.h); default: the mode of KILN_TUNE, or else `tune`.
    std::optional<tune::Mode> mode = {};
  };
  explicit TensorParallel(Communicator& comm) : TensorParallel(comm, Options()) {}
  TensorParallel(Communicator& comm, Options options) : comm_(comm), options_(options) {}
  TensorParallel(const TensorParallel&) = delete;

  Communicator& communicator() const { return comm_; }

  using At = ops::detail::StreamAt;
  using Input = ops::Input;
  using Output = ops::Output;

  // Gathers the rows of all ranks' a in `gathered`, and computes c = activation((gathered b) + bias).
  // a [own rows, k], b [k, n], c [rows, n], gathered [rows, k], of a's dtype. a may be this rank's slice of
  // gathered.
  void gather_matmul(At stream, const Input& a, const Input& b, const Output& c, const Output& gathered,
                     const ParallelMatmulOptions& options = {});
  // Computes c = this rank's rows of (sum over ranks of (a b)) + bias + residual. a [rows, k], b [k, n],
  // c [own rows, n].
  void matmul_reduce_scatter(At stream, const Input& a, const Input& b, const Output& c,
                             const ParallelMatmulOptions& options = {});
  // Computes c = (sum over ranks of (a b)) + bias + residual on every rank. a [rows, k], b [k, n],
  // c [rows, n].
  void matmul_all_reduce(At stream, const Input& a, const Input& b, const Output& c,
                         const ParallelMatmulOptions& options = {});

  // Plans a product in advance; all ranks must call it, with the arguments of the later call. On the wall
  // clock this runs the product several times. The contents of the tensors do not matter; gathered is
  // overwritten, and c is not. The reference stays valid as long as this object.
  const Plan& plan_gather_matmul(At stream, const Input& a, const Input& b, const Output& c,
                                 const Output& gathered, const ParallelMatmulOptions& options = {});
  const Plan& plan_matmul_reduce_scatter(At stream, const Input& a, const Input& b, const Output& c,
                                         const ParallelMatmulOptions& options = {});
  const Plan& plan_matmul_all_reduce(At stream, const Input& a, const Input& b, const Output& c,
                                     const ParallelMatmulOptions& options = {});

  // The plans made so far; the key is ProductShape::text(). References stay valid as long as this object.
  const std::map<std::string, Plan>& plans() const { return plans_; }
  // How many products overlap, and why the others do not, in a few lines.
  std::string summary() const;

private:
  struct Arguments;
  class Product;
  const Plan& plan(const Arguments& arguments, const Product& product);
  const Plan& plan(const Arguments& arguments);
  void run(const Arguments& arguments);

  Communicator& comm_;
  const Options options_;
  std::map<std::string, Plan> plans_;
  std::set<std::string> prepared_; // products whose configs were searched, with KILN_TUNE=tune
};

} // namespace kiln::collectives
KILN_API_END
