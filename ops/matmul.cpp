// Implements matrix products: the kernel with its epilogue, batches, checks, and the registrations for
// `kiln`.
#include <kiln/ops/matmul.h>

#include <kiln/jit/cli/support/registry.h>
#include <kiln/ops/detail/batches.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/erased_view.h>
#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/detail/known_config.h>
#include <kiln/ops/detail/matmul_kernel.h>
#include <kiln/ops/detail/split_matmul.h>
#include <kiln/ops/dims.h>

#include <array>
#include <optional>

namespace kiln::ops {
namespace {

using detail::ErasedView;
using detail::Handle;
using detail::OpVariant;

// The parameters are a, b, and those of MatmulResult.
template <class A, int Rank> void record_product(const OpVariant& v, const Handle* next) {
  const ErasedView<A, Rank> a(*next++), b(*next++);
  const detail::MatmulResult<A, Rank> result(v, next);
  expects(a.cols() == b.rows(), "a's columns and b's rows");
  expects(a.rows() == result.c().rows(), "a's rows and c's rows");
  expects(b.cols() == result.c().cols(), "b's columns and c's columns");
  const auto at = detail::ProgramTile<Rank>::of(result.c());
  result.store(for_range(BK, a.cols(), zeros<A>(BM, BN),
                         [&](auto k, auto sum) {
                           return detail::dot_erased(at.tile(a, at.m, k).load_as_stored(),
                                                     at.tile(b, k, at.n).load_as_stored(), sum,
                                                     result.dot_options());
                         }),
               at);
}

template <int Rank> void matmul_body(const OpVariant& v, const Handle* arguments) {
  detail::with_sum_type(v, [&]<class A>(A) { record_product<A, Rank>(v, arguments); });
}

} // namespace

namespace detail {
constinit const OpKernel matmul_kernel("matmul", matmul_body<2>);

std::shared_ptr<ir::Kernel> record_matmul(DType dtype, const Config& config) {
  return matmul_kernel.record(config, {dtype == DType::F64 ? DType::F64 : DType::F32, 0},
                              {reading(dtype, 2), reading(dtype, 2), writing(dtype, 2)});
}
} // namespace detail

namespace {

constinit const detail::OpKernel batched_kernel("matmul_batched", matmul_body<3>);

using Product = detail::MatmulCall;

// The names of the operands in errors.
struct Names {
  const char *op, *a, *b, *c;
};

bool is_small_integer(DType t) { return t == DType::I8 || t == DType::U8; }

void check_dtypes(const detail::Checks& check, const Names& names, const Product& p) {
  if (p.variant.compute == DType::I32) {
    check.that(p.a.dtype == p.b.dtype && is_small_integer(p.a.dtype),
               "a product of integers takes two tensors of i8 or two of u8; convert one of them");
    constexpr auto without_effect = detail::matmul_tf32 | detail::matmul_fixed_order;
    check.that((p.options & ~(detail::matmul_beta | without_effect)) == 0 && (p.beta == 0 || p.beta == 1),
               "a product of integers has no epilogue but beta = 1; compute it afterwards");
    return;
  }
  for (const auto& [name, array] :
       {std::pair(names.a, &p.a), std::pair(names.b, &p.b), std::pair(names.c, &p.c)})
    check.floats({name, *array});
}

// If all batches have the same b and the rows of the others continue from batch to batch, they are one
// matrix.
bool batch_is_rows(Product& p) {
  if (p.b.strides[0] != 0) return false;
  for (const Array* x : {&p.c, &p.a, &p.times, &p.residual})
    if (x->strides[0] != x->strides[1] * x->extents[1]) return false;
  for (Array* x : {&p.c, &p.a, &p.times, &p.residual})
    x->extents[0] *= x->extents[1], x->strides[0] = x->strides[1], x->extents[1] = 1;
  return true;
}

// The config that the tuner found, or that of matmul_config. In a fixed order, the step along K decides on the
// bits, so that it is always that of matmul_config, which depends on K and the dtype only; tiles and warps do
// not.
Config config_of(const detail::StreamAt& at, const Product& p, const detail::TunableLaunch& launch) {
  const int rows = p.c.rank - 2;
  const std::int64_t m = p.c.extents[rows], n = p.c.extents[rows + 1], k = p.a.extents[p.a.rank - 1];
  const bool fixed = launch.one_order;
  const std::optional<Config> known =
      rows == 0 ? detail::known_config(fixed ? "matmul_batch_invariant" : "matmul", at, {m, n, k}, launch)
                : detail::known_config(fixed ? "matmul_batched_batch_invariant" : "matmul_batched", at,
                                       {p.c.extents[0], m, n, k}, launch);
  if (known && !fixed) return *known;
  const Config usual = matmul_config(at.stream.device(), p.a.dtype, m, n, k);
  return known && known->get("BK") == usual.get("BK") ? *known : usual;
}

void launch_one_by_one(const Names& names, const detail::StreamAt& at, const Product& p);

void launch(const Names& names, const detail::StreamAt& at, const Product& p) {
  const int rows = p.c.rank - 2, columns = p.c.rank - 1;
  const std::int64_t m = p.c.extents[rows], n = p.c.extents[columns], k = p.a.extents[p.a.rank - 1];
  if (rows == 0 || p.has(detail::matmul_fixed_order)) {
    const std::int64_t part =
        detail::split_part(at.stream.device(), p.a.dtype, m, std::max(n, p.whole_columns), k, p.options);
    if (part != 0 && rows == 0) return detail::launch_split(names.op, at, p, part);
    if (part != 0) return launch_one_by_one(names, at, p);
  }
  detail::OpArguments list{p.a, p.b};
  p.add_result(list);
  const detail::OpKernel& kernel = rows == 0 ? detail::matmul_kernel : batched_kernel;
  const detail::TunableLaunch tunable{.kernel = kernel,
                                      .variant = p.variant,
                                      .arguments = list,
                                      .one_order = p.has(detail::matmul_fixed_order)};
  kernel.launch(at, config_of(at, p, tunable), p.variant, list);
}

// Each product of a batch has the same bits alone, where its K may be divided.
void launch_one_by_one(const Names& names, const detail::StreamAt& at, const Product& p) {
  Product one = p;
  for (Array* x : one.batched())
    detail::drop_axis(*x, 0);
  Product whole = p;
  const auto from = whole.batched(), to = one.batched();
  for (std::int64_t i = 0; i < p.c.extents[0]; ++i, ++one.first_batch) {
    launch(names, at, one);
    for (std::size_t x = 0; x < from.size(); ++x)
      detail::advance(*to[x], from[x]->strides[0]);
  }
}

void multiply(const Names& names, const detail::StreamAt& at, const Input& a, const Input& b, const Output& c,
              const Input& bias, const MatmulOptions& options, const detail::Hook* hook = nullptr,
              const Input* views = nullptr) {
  const detail::Checks check(names.op, at);
  check.activation(options.activation);
  const detail::Argument a_arg{names.a, a.array()}, b_arg{names.b, b.array()}, c_arg{names.c, c.array()};
  Product p{{options, bias, c, at.stream.device()}, a.array(), b.array(), {}, views};
  p.variant = {detail::compute_dtype({&p.a, &p.b, &p.c, &p.bias, &p.times, &p.residual}), p.options};
  p.variant.hook = hook;
  if (p.c.dtype == DType::I32 && !hook) p.variant.compute = DType::I32;

  for (const detail::Argument& argument : {a_arg, b_arg, c_arg})
    check.rank_at_least(argument, 2);
  check_dtypes(check, names, p);
  const auto rows = [](const Array& x) { return x.extents[x.rank - 2]; };
  const auto columns = [](const Array& x) { return x.extents[x.rank - 1]; };
  check.equal({names.a, "'s columns and ", names.b, "'s rows"}, columns(p.a), rows(p.b));
  check.equal({names.a, "'s rows and ", names.c, "'s rows"}, rows(p.a), rows(p.c));
  check.equal({names.b, "'s columns and ", names.c, "'s columns"}, columns(p.b), columns(p.c));
  check.writes(c_arg);
  check.apart(c_arg, a_arg);
  check.apart(c_arg, b_arg);
  p.check(check, c_arg, 1);
  check.that(options.whole_columns == 0 || options.whole_columns >= columns(p.c),
             "whole_columns is less than the number of columns of b, which are a part of them");
  detail::broadcast_batch(check, a_arg, p.a, c_arg);
  detail::broadcast_batch(check, b_arg, p.b, c_arg);

  if (hook) {
    check.that(p.variant.compute == hook->compute,
               "a and b are of f64 and c is not, for which an epilogue has no tiles of f64; pass c of f64");
    check.that(
        (p.options & ~(detail::matmul_tf32 | detail::matmul_fixed_order)) == 0,
        "an epilogue is given together with options that are part of it; of the options, only precision "
        "and batch_invariant may be given, so compute the others in the epilogue");
    check.that(hook->view_count <= 8, "an epilogue takes at most 8 tensors; merge some of them");
    for (int i = 0; i < hook->view_count; ++i)
      check.apart_or_same(c_arg, {"a tensor of the epilogue", views[i].array()});
  }
  if (p.c.rank == 2) return launch(names, at, p);
  if (p.c.size() == 0) return;
  const auto order =
      hook ? detail::MergeOrder::as_given : detail::MergeOrder::by_stride; // at.batch counts them
  const int batches = detail::merge_batches(names.op, {&p.c, &p.a, &p.b, &p.times, &p.residual}, 2, order);
  if (batches == 1 && !hook && (p.c.extents[0] == 1 || batch_is_rows(p))) {
    for (Array* x : p.batched())
      detail::drop_axis(*x, x != &p.b && x->extents[1] == 1 && x->extents[0] != 1 ? 1 : 0);
    return launch(names, at, p);
  }
  detail::launch_batches(p, 2, [&](const Product& part) { launch(names, at, part); });
}

} // namespace

void matmul(detail::StreamAt stream, const Input& a, const Input& b, const Output& c,
            const MatmulOptions& options) {
  multiply({"ops::matmul", "a", "b", "c"}, stream, a, b, c, options.bias, options);
}
void linear(detail::StreamAt stream, const Input& x, const Input& weight, const Input& bias, const Output& y,
            const MatmulOptions& options) {
  detail::Checks("ops::linear", stream)
      .that(!options.bias.given(), "the option bias is given, and linear has a parameter for it; pass the "
                                   "bias as the parameter");
  multiply({"ops::linear", "x", "weight", "y"}, stream, x, weight, y, bias, options);
}
void detail::matmul_with(StreamAt stream, const Input& a, const Input& b, const Output& c,
                         const MatmulOptions& options, const Hook& epilogue, const Input* views) {
  multiply({"ops::matmul", "a", "b", "c"}, stream, a, b, c, options.bias, options, &epilogue, views);
}

namespace {

const cli::KernelRegistration registered_matmul({
    .name = "matmul",
    .summary = "c = a b, f32",
    .record = [](const Config& config) { return detail::record_matmul(DType::F32, config); },
    .config = "BM=256,BN=256,BK=512",
    .sizes = "M=2048,N=2048,K=2048",
    .parameters = "a=M,K b=K,N c=M,N",
});
const cli::KernelRegistration registered_linear({
    .name = "linear",
    .summary = "y = silu(x weight + bias), bf16",
    .record =
        [](const Config& config) {
          constexpr auto t = DType::BF16;
          const auto options = detail::matmul_bias | static_cast<std::uint32_t>(Activation::silu);
          return detail::matmul_kernel.record(
              config, {DType::F32, options},
              {detail::reading(t, 2), detail::reading(t, 2), detail::reading(t, 1), detail::writing(t, 2)});
        },
    .config = "BM=256,BN=256,BK=512",
    .sizes = "M=512,N=4096,K=4096",
    .parameters = "x=M,K weight=K,N bias=N y=M,N",
});

} // namespace
} // namespace kiln::ops
