// Implements products that are computed chunk by chunk while other chunks are sent.
#include <kiln/collectives/tensor_parallel.h>

#include <kiln/collectives/arrays.h>
#include <kiln/collectives/plan_store.h>
#include <kiln/collectives/product_configs.h>
#include <kiln/jit/runtime/copy.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/workspace.h>
#include <kiln/ops/matmul.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace kiln::collectives {
namespace {

using ops::Array, ops::Input, ops::Output;
using ops::detail::Argument, ops::detail::Checks, ops::detail::Workspace;

const char* call_name(ProductKind kind) {
  switch (kind) {
  case ProductKind::gather_matmul: return "TensorParallel::gather_matmul";
  case ProductKind::matmul_reduce_scatter: return "TensorParallel::matmul_reduce_scatter";
  case ProductKind::matmul_all_reduce: return "TensorParallel::matmul_all_reduce";
  }
  return "";
}

} // namespace

struct TensorParallel::Arguments {
  ProductKind kind;
  At stream;
  const Input &a, &b;
  const Output& c;
  Output gathered;
  const ParallelMatmulOptions& options;
};

// One call: its arguments, and where the pieces of its schedules are.
class TensorParallel::Product {
public:
  Product(Communicator& comm, const Arguments& x)
      : comm_(comm), stream_(x.stream), options_(x.options), a_(x.a.array()), b_(x.b.array()),
        c_(x.c.array()), gathered_(x.gathered.array()), normed_(x.options.norm.y.array()) {
    const ProductKind kind = x.kind;
    const ParallelMatmulOptions& options = x.options;
    const Checks check(call_name(kind), stream_);
    for (const Argument& argument : {Argument{"a", a_}, {"b", b_}, {"c", c_}}) {
      check.rank(argument, 2);
      check.floats(argument);
    }
    const bool gathers = kind == ProductKind::gather_matmul;
    check.equal("a's columns and b's rows", a_.extents[1], b_.extents[0]);
    check.equal("b's columns and c's columns", b_.extents[1], c_.extents[1]);
    const std::int64_t rows = gathers ? c_.extents[0] : a_.extents[0];
    if (!options.rows.empty()) {
      check.equal("the sizes of options.rows and of the communicator",
                  static_cast<std::int64_t>(options.rows.size()), comm.size());
      shape_.shards = Shards(options.rows);
      check.equal("the sum of options.rows and the rows of the product", shape_.shards.rows(), rows);
    } else {
      shape_.shards = Shards::even(rows, comm.size());
    }
    const std::int64_t own = shape_.shards.rows(comm.rank()).count();
    if (gathers) {
      check.equal("a's rows and this rank's rows of c", a_.extents[0], own);
      check.rank({"gathered", gathered_}, 2);
      check.equal("gathered's rows and c's rows", gathered_.extents[0], rows);
      check.equal("gathered's columns and a's columns", gathered_.extents[1], a_.extents[1]);
      check.that(gathered_.dtype == a_.dtype,
                 "gathered and a have different dtypes; a gather does not convert");
      check.that(!options.residual.given(), "gather_matmul has no residual; add it after the product");
      check.that(!options.norm.y.given(), "gather_matmul has no norm; it is for sums over ranks");
      check_contiguous(check, {"a", a_}), check_contiguous(check, {"gathered", gathered_});
      check.apart({"gathered", gathered_}, {"c", c_});
      check.apart({"gathered", gathered_}, {"b", b_});
      if (!owns_place()) check.apart({"gathered", gathered_}, {"a", a_});
    } else {
      check.equal(kind == ProductKind::matmul_all_reduce ? "c's rows and a's rows"
                                                         : "c's rows and this rank's rows of a",
                  c_.extents[0], kind == ProductKind::matmul_all_reduce ? rows : own);
      check.that(options.activation == ops::Activation::none,
                 "only gather_matmul has an activation; apply it to the sum");
      check_contiguous(check, {"c", c_});
      if (options.residual.given()) {
        check.floats({"residual", options.residual.array()});
        check.same_extents({"residual", options.residual.array()}, {"c", c_});
        check_contiguous(check, {"residual", options.residual.array()});
      }
      if (options.residual.given()) check.apart_or_same({"c", c_}, {"residual", options.residual.array()});
    }
    check.apart({"c", c_}, {"a", a_});
    check.apart({"c", c_}, {"b", b_});
    if (options.bias.given()) {
      check.apart({"c", c_}, {"bias", options.bias.array()});
      check.rank({"bias", options.bias.array()}, 1);
      check.floats({"bias", options.bias.array()});
      check.equal("bias's size and c's columns", options.bias.array().extents[0], c_.extents[1]);
    }
    if (options.norm.y.given()) check_norm(check);
    shape_.kind = kind;
    shape_.norm = options.norm.y.given();
    // What ranks have different sizes of is planned with one size.
    const auto share = [&](std::int64_t whole, std::int64_t own_part) {
      return whole > 0 ? (whole + comm.size() - 1) / comm.size() : own_part;
    };
    if (gathers) whole_columns_ = options.whole_columns ? options.whole_columns : b_.extents[1] * comm.size();
    shape_.n = gathers ? share(options.whole_columns, b_.extents[1]) : b_.extents[1];
    shape_.k = gathers ? b_.extents[0] : share(options.whole_depth, b_.extents[0]);
    shape_.a = a_.dtype, shape_.c = c_.dtype;
    const DType widest = a_.dtype == DType::F64 || b_.dtype == DType::F64 ? DType::F64 : DType::F32;
    shape_.partial = options.partial.value_or(widest);
    check.that(is_float(shape_.partial), "options.partial is not a float dtype; leave it out, or pass one");
  }

  const ProductShape& shape() const { return shape_; }

  // From now on, results are written to memory that the call does not use: c may be its residual.
  void write_to_scratch() {
    scratch_ = Buffer(comm_.device(), std::max<std::int64_t>(c_.size() * size_of(c_.dtype), 1));
    c_.data = scratch_.data();
    c_.strides[0] = c_.extents[1], c_.strides[1] = 1;
    if (!shape_.norm) return;
    normed_scratch_ =
        Buffer(comm_.device(), std::max<std::int64_t>(normed_.size() * size_of(normed_.dtype), 1));
    normed_.data = normed_scratch_.data();
    normed_.strides[0] = normed_.extents[1], normed_.strides[1] = 1;
  }

  void run(const std::shared_ptr<const PreparedSchedule>& schedule) {
    allocate();
    CollectiveCall call{name_of(shape_.kind), options_.tag, details(), schedule};
    call.deadline = options_.deadline;
    call.part.place = [this](const Piece& p) { return place(p); };
    call.part.run = [this](const Step& step) { run(step); };
    call.cost = cost_of(shape_, comm_.engine().machine, *schedule);
    schedule_ = schedule;
    chunks_ = schedule->shards;
    if (gathers() && !owns_place()) copy_own_rows();
    stream_.stream.synchronize();
    comm_.execute(std::move(call));
  }
  // The local product of so many rows.
  void compute(std::int64_t rows) {
    allocate();
    multiply_first(rows);
    stream_.stream.synchronize();
  }
  std::vector<Plan::Product> configs_of(const Schedule& schedule) {
    allocate();
    return configs_of_products(
        rows_of_products(schedule), [&](std::int64_t rows) { multiply_first(rows); },
        [&](std::int64_t rows) {
          return ops::matmul_config(comm_.device(), a_.dtype, rows, b_.extents[1], b_.extents[0]);
        });
  }
  // Distinguishes products with other kernels. Equal on all ranks, if they have matrices of the same kind.
  std::string variant() const {
    const auto kind = [](const Array& x) {
      return std::string(" ") + std::string(name(x.dtype)) + (x.strides[1] == 1 ? "" : " transposed");
    };
    return details() + kind(a_) + kind(b_);
  }

private:
  void check_norm(const Checks& check) const {
    const NormOfSum& norm = options_.norm;
    check.rank({"norm.y", normed_}, 2);
    check.floats({"norm.y", normed_});
    check.same_extents({"c", c_}, {"norm.y", normed_});
    check.writes({"norm.y", normed_});
    for (const Argument& other : {Argument{"a", a_}, {"b", b_}, {"c", c_}})
      check.apart({"norm.y", normed_}, other);
    const auto apart = [&](const char* name, const Input& other) {
      if (other.given()) check.apart({"norm.y", normed_}, {name, other.array()});
    };
    apart("bias", options_.bias), apart("residual", options_.residual), apart("norm.gamma", norm.gamma);
    if (!norm.gamma.given()) return;
    check.rank({"norm.gamma", norm.gamma.array()}, 1);
    check.floats({"norm.gamma", norm.gamma.array()});
    check.equal("norm.gamma's size and c's columns", norm.gamma.array().extents[0], c_.extents[1]);
    check.apart({"c", c_}, {"norm.gamma", norm.gamma.array()});
  }

  bool gathers() const { return shape_.kind == ProductKind::gather_matmul; }
  bool every_rank_has_sums() const { return shape_.kind == ProductKind::matmul_all_reduce; }
  bool owns_place() const { return a_.data == part_of(gathered_, 0, shape_.shards.rows(comm_.rank())).data; }
  void copy_own_rows() {
    const Array place = part_of(gathered_, 0, shape_.shards.rows(comm_.rank()));
    copy(stream_.stream, place.data, a_.data, a_.size() * size_of(a_.dtype));
  }

  // What all ranks must pass alike.
  std::string details() const {
    std::string text = shape_.text();
    if (options_.bias.given()) text += " with bias";
    if (options_.residual.given()) text += " with residual";
    if (shape_.norm) {
      char epsilon[48];
      std::snprintf(epsilon, sizeof epsilon, " of epsilon %.17g", options_.norm.eps);
      text += epsilon;
    }
    if (options_.activation != ops::Activation::none)
      text += std::string(" with ") + ops::name(options_.activation);
    return text;
  }

  // This rank's products, and what other ranks send: [ranks - 1, rows, n].
  void allocate() {
    if (gathers() || workspace_) return;
    const std::int64_t rows = shape_.shards.rows(), others = comm_.size() - 1,
                       slot = every_rank_has_sums() ? rows : shape_.shards.rows(comm_.rank()).count();
    workspace_.emplace(stream_, Workspace::bytes(shape_.partial, rows * shape_.n) +
                                    Workspace::bytes(shape_.partial, others * slot * shape_.n));
    partial_ = workspace_->take(shape_.partial, {rows, shape_.n}).array();
    slots_ = workspace_->take(shape_.partial, {others, slot, shape_.n}).array();
  }

  // The row of a chunk in the memory for what one rank sends: there is room for all rows, or for one's own.
  std::int64_t row_in_slot(Chunk c) const {
    return every_rank_has_sums() ? chunks_.rows(c).begin : chunks_.offset(c);
  }
  // c has all rows, or this rank's.
  Rows rows_in_c(Chunk c) const {
    const std::int64_t begin = every_rank_has_sums() ? chunks_.rows(c).begin : chunks_.offset(c);
    return {begin, begin + chunks_.rows(c).count()};
  }

  void* place(const Piece& p) const {
    switch (p.kind) {
    case Piece::Kind::shard: return part_of(gathered_, 0, chunks_.rows(p.chunk)).data;
    case Piece::Kind::sum: return part_of(c_, 0, rows_in_c(p.chunk)).data;
    case Piece::Kind::partial: break;
    }
    if (p.source == comm_.rank()) return part_of(partial_, 0, chunks_.rows(p.chunk)).data;
    const std::int64_t slot = p.source < comm_.rank() ? p.source : p.source - 1;
    return static_cast<char*>(slots_.data) +
           (slot * slots_.strides[0] + row_in_slot(p.chunk) * shape_.n) * size_of(shape_.partial);
  }

  void multiply_first(std::int64_t rows) {
    const Rows first{0, std::min(rows, shape_.shards.rows())};
    multiply(gathers() ? gathered_ : a_, first, gathers() ? c_ : partial_, gathers());
  }

  void multiply(const Array& a, Rows rows, const Array& c, bool epilogue) {
    ops::MatmulOptions options{.batch_invariant = true};
    options.whole_columns = whole_columns_;
    if (epilogue) options.activation = options_.activation, options.bias = options_.bias;
    ops::matmul(stream_, Input(part_of(a, 0, rows)), Input(b_), Output(part_of(c, 0, rows)), options);
  }

  void run(const Step& step) {
    if (step.piece.kind == Piece::Kind::sum) {
      if (step.kind == Step::Kind::reduce)
        reduce(step.piece.chunk);
      else
        normalise(stream_, Input(part_of(c_, 0, rows_in_c(step.piece.chunk))), norm_of(step.piece.chunk));
    } else {
      const Rows rows = schedule_->rows(step);
      if (gathers())
        multiply(gathered_, rows, c_, true);
      else
        multiply(a_, rows, partial_, false);
    }
    stream_.stream.synchronize();
  }

  void reduce(Chunk chunk) {
    const Rows to = rows_in_c(chunk);
    Array others = slots_;
    others.data = static_cast<char*>(slots_.data) + row_in_slot(chunk) * shape_.n * size_of(shape_.partial);
    others.extents[1] = to.count();
    const Input own(part_of(partial_, 0, chunks_.rows(chunk))), sent(others);
    const Output c(part_of(c_, 0, to));
    ReduceArguments arguments{own, sent, c, comm_.rank()};
    arguments.bias = options_.bias;
    if (options_.residual.given()) arguments.residual = Input(part_of(options_.residual.array(), 0, to));
    arguments.norm = norm_of(chunk);
    reduce_in_order(stream_, arguments);
  }

  NormOfSum norm_of(Chunk chunk) const {
    NormOfSum norm = options_.norm;
    if (shape_.norm) norm.y = Output(part_of(normed_, 0, rows_in_c(chunk)));
    return norm;
  }

  Communicator& comm_;
  const At stream_;
  const ParallelMatmulOptions& options_;
  const Array a_, b_;
  Array c_;
  const Array gathered_;
  Array normed_;
  Buffer scratch_, normed_scratch_;
  ProductShape shape_;
  std::int64_t whole_columns_ = 0; // of gather_matmul; for the bits of one rank
  std::optional<Workspace> workspace_;
  Array partial_, slots_;
  std::shared_ptr<const PreparedSchedule> schedule_;
  Shards chunks_{{0}};
};

const Plan& TensorParallel::plan(const Arguments& arguments, const Product& asked) {
  static const bool searches = tune::default_mode() == tune::Mode::tune; // as for all ops
  const ProductShape& shape = asked.shape();
  std::optional<Product> product; // if anything is computed
  const auto trial = [&]() -> Product& {
    if (!product) product.emplace(comm_, arguments).write_to_scratch();
    return *product;
  };
  const auto compute = [&](std::int64_t rows) { trial().compute(rows); };
  auto known = plans_.find(shape.text());
  const bool is_new = known == plans_.end();
  // Another epilogue or layout of the same shape has configs of its own.
  const bool prepares = searches && prepared_.insert(asked.variant()).second;
  if (!is_new && !prepares) return known->second;
  const EngineInfo engine = comm_.engine();
  if (is_new) {
    Plan plan;
    if (options_.measure && options_.overlap && !options_.force && !engine.virtual_clock)
      plan = plan_by_mode(comm_, shape, {compute, [&](const auto& schedule) { trial().run(schedule); }},
                          options_.mode ? *options_.mode : default_plan_mode());
    else
      plan = plan_by_forecast(shape, engine.link, engine.machine);
    if (!options_.overlap) plan.choose(0), plan.origin = Plan::Origin::options;
    if (options_.force)
      for (std::size_t i = 0; i < plan.options.size(); ++i)
        if (plan.options[i].candidate == *options_.force) plan.choose(i), plan.origin = Plan::Origin::options;
    known = plans_.emplace(shape.text(), std::move(plan)).first;
  }
  Plan& plan = known->second;
  if (prepares) prepare_products(comm_, rows_of_products(*plan.schedule), compute);
  if (is_new && !engine.virtual_clock) plan.products = Product(comm_, arguments).configs_of(*plan.schedule);
  return plan;
}

const Plan& TensorParallel::plan(const Arguments& arguments) {
  return plan(arguments, Product(comm_, arguments));
}

void TensorParallel::run(const Arguments& arguments) {
  Product product(comm_, arguments);
  product.run(plan(arguments, product).schedule);
}

void TensorParallel::gather_matmul(At stream, const Input& a, const Input& b, const Output& c,
                                   const Output& gathered, const ParallelMatmulOptions& options) {
  run({ProductKind::gather_matmul, stream, a, b, c, gathered, options});
}
void TensorParallel::matmul_reduce_scatter(At stream, const Input& a, const Input& b, const Output& c,
                                           const ParallelMatmulOptions& options) {
  run({ProductKind::matmul_reduce_scatter, stream, a, b, c, {}, options});
}
void TensorParallel::matmul_all_reduce(At stream, const Input& a, const Input& b, const Output& c,
                                       const ParallelMatmulOptions& options) {
  run({ProductKind::matmul_all_reduce, stream, a, b, c, {}, options});
}

const Plan& TensorParallel::plan_gather_matmul(At stream, const Input& a, const Input& b, const Output& c,
                                               const Output& gathered, const ParallelMatmulOptions& options) {
  return plan({ProductKind::gather_matmul, stream, a, b, c, gathered, options});
}
const Plan& TensorParallel::plan_matmul_reduce_scatter(At stream, const Input& a, const Input& b,
                                                       const Output& c,
                                                       const ParallelMatmulOptions& options) {
  return plan({ProductKind::matmul_reduce_scatter, stream, a, b, c, {}, options});
}
const Plan& TensorParallel::plan_matmul_all_reduce(At stream, const Input& a, const Input& b, const Output& c,
                                                   const ParallelMatmulOptions& options) {
  return plan({ProductKind::matmul_all_reduce, stream, a, b, c, {}, options});
}

std::string TensorParallel::summary() const {
  const auto overlapping =
      std::count_if(plans_.begin(), plans_.end(), [](const auto& entry) { return entry.second.overlaps(); });
  std::string text =
      std::to_string(overlapping) + " of " + std::to_string(plans_.size()) + " products overlap\n";
  for (const auto& [shape, plan] : plans_) {
    text += "  " + shape + ": " + plan.choice().candidate.text();
    char share[64];
    std::snprintf(share, sizeof share, ", %.0f %% hidden", 100 * plan.hidden);
    text += plan.overlaps() ? share : comm_.size() == 1 ? ", nothing to send" : ", none was faster";
    text += " (" + plan.origin_text() + ")\n";
  }
  return text;
}

} // namespace kiln::collectives
