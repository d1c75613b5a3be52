// Declares products that are computed while their operands or results are sent.
//
//   TensorParallel tp(comm);
//   tp.gather_matmul(stream, x, w, y, gathered);      // gathered = the rows of all ranks' x, y = gathered w
//   tp.matmul_reduce_scatter(stream, h, v, z);        // z = this rank's rows of the sum over ranks of h v
//   tp.matmul_all_reduce(stream, h, v, z);            // z = the sum over ranks of h v
//   std::cout << tp.summary();                        // which products overlap, and why the others do not
//
// A TensorParallel object belongs to a communicator. It plans each product (plan.h) at its first call, or
// when the plan function is called: on the wall clock by measurement, so that the first call takes longer,
// unless an earlier process has stored the plan, and on the virtual clock by the forecast. All ranks make the
// same calls.
//
// The results have the same bits by every schedule and chunking, in every run. Those of gather_matmul are the
// bits of a product on one rank, if whole_columns is given: the options of matmul explain it. Sums over ranks
// are as those of a communicator: each rank contributes its product in f32 (or in the dtype `partial`), and
// the sums are made in the order of ranks, and rounded once. bias and residual are added once, after the
// sum. With `norm`, each chunk of the result is also normalised as soon as it is there, so that the residual
// stream of a transformer needs no pass of its own. All ranks give the same options.
//
// Tensors are of floats. The calls block until the results are in memory. Errors are those of ops::matmul and
// of communicators. Not thread-safe.
#pragma once

#include <kiln/autotune/mode.h>
#include <kiln/collectives/plan.h>
#include <kiln/dsl/api.h>
#include <kiln/ops/activation.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

KILN_API_BEGIN
namespace kiln::collectives {

struct ParallelMatmulOptions {
  ops::Activation activation = ops::Activation::none; // of gather_matmul
  ops::Input bias = {};                               // [n]
  ops::Input residual = {};                           // with the extents of c; not of gather_matmul
  NormOfSum norm = {};                                // not of gather_matmul
  // Totals over all ranks: of the columns of b, for gather_matmul (see MatmulOptions), and of the depth k,
  // for the other two. Needed if b's columns, or k, differ between ranks. 0: they are equal.
  std::int64_t whole_columns = 0, whole_depth = 0;
  // The dtype in which what ranks contribute to sums is sent; default: f32, or f64 if an input is of f64.
  std::optional<DType> partial = {};
  std::vector<std::int64_t> rows = {}; // of each rank; empty: divided evenly
  std::string tag = {};
  Nanoseconds deadline = 0;
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

  // a [own rows, k], b [k, n], c [rows, n], gathered [rows, k]: gets the rows of all ranks' a, and has its
  // dtype. a may be this rank's slice of gathered. Computes c = activation(gathered b + bias).
  void gather_matmul(At stream, const Input& a, const Input& b, const Output& c, const Output& gathered,
                     const ParallelMatmulOptions& options = {});
  // a [rows, k], b [k, n], c [own rows, n]. Computes this rank's rows of (sum over ranks of a b) + bias +
  // residual.
  void matmul_reduce_scatter(At stream, const Input& a, const Input& b, const Output& c,
                             const ParallelMatmulOptions& options = {});
  // Computes the whole sum on every rank: c is [rows, n].
  void matmul_all_reduce(At stream, const Input& a, const Input& b, const Output& c,
                         const ParallelMatmulOptions& options = {});

  // Plans a product without computing it; all ranks call it. On the wall clock, the product is timed with the
  // arguments of the later call, whose contents do not matter; gathered is overwritten, and c is not.
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
  const Plan& plan(const Arguments& arguments, const ProductShape& shape);
  const Plan& plan(const Arguments& arguments);
  void run(const Arguments& arguments);

  Communicator& comm_;
  const Options options_;
  std::map<std::string, Plan> plans_;
};

} // namespace kiln::collectives
KILN_API_END
