// Implements products of groups of rows, and their gradient with respect to the matrices of the groups.
#include <kiln/ops/grouped_matmul.h>

#include <kiln/jit/cli/support/registry.h>
#include <kiln/ops/detail/groups.h>
#include <kiln/ops/detail/heuristics.h>
#include <kiln/ops/detail/known_config.h>
#include <kiln/ops/detail/product.h>

#include <algorithm>
#include <optional>

namespace kiln::ops {
namespace {

using detail::ErasedView;
using detail::GroupOffsets;
using detail::Handle;
using detail::OpVariant;

constexpr const char* wrong_offsets =
    "offsets decrease or leave the rows; pass offsets that ops::group_by_expert computed";

// The parameters are a, b, offsets, and those of the epilogue. The grid is the tiles of columns, and the
// tiles of rows (groups.h), which vary faster: neighbouring programs read the same columns of b.
void grouped_body(const OpVariant& v, const Handle* next) {
  detail::with_compute_type(v, [&]<class A>(A) {
    ErasedView<A, 2> a(*next++);
    ErasedView<A, 3> b(*next++);
    const GroupOffsets groups(*next++, a.rows());
    const detail::ProductEpilogue<A, 2, 2> epilogue(v, next);
    expects(a.cols() == b.rows(), "a's columns and b's rows");
    expects(a.rows() == epilogue.c.rows(), "a's rows and c's rows");
    expects(b.cols() == epilogue.c.cols(), "b's columns and c's columns");
    expects(b.extent(0) == groups.count(), "b's matrices and the groups of offsets");

    const Scalar<std::int64_t> number = program_id(1);
    const Offset<BN> n = program_id(0) * BN;
    if_then((program_id(0) == 0) & (number < groups.count()), [&] { groups.check(number, wrong_offsets); });
    const Scalar<std::int64_t> group = groups.group_of(number, value(BM));
    const Scalar<std::int64_t> begin = groups.begin(group), end = groups.end(group);
    // Tiles that precede those of group 0 belong to no group. They and those behind the last row of a group
    // have no products, and store no rows.
    const Scalar<std::int64_t> tile = number - groups.first_tile(group, value(BM));
    const Scalar<std::int64_t> row = max(begin + tile * value(BM), 0);
    const Scalar<bool> used = (tile >= 0) & (row < end);
    const Offset<BM> m = offset(BM, row);
    // Rows of a behind those of the group are read as well: they only change sums that are not stored.
    auto sum = for_range(BK, where(used, a.cols(), 0), zeros<A>(BM, BN), [&](auto k, auto sum) {
      return detail::dot_erased(a.tile(m, k).load_as_stored(), b.tile(group, k, n).load_as_stored(), sum,
                                epilogue.dot_options());
    });
    const Scalar<std::int64_t> last = where(used, end, 0);
    const auto place = [&](const ErasedView<A, 2>& x) { return x.slice(0, 0, last).tile(m, n); };
    place(epilogue.c)
        .store(epilogue.finished(sum, [&](const auto& bias) { return bias.tile(group, n); }, place));
  });
}

// The parameters are a, dc, offsets, db, alpha, beta. A program computes a tile of db for one group.
void backward_b_body(const OpVariant& v, const Handle* next) {
  detail::with_compute_type(v, [&]<class A>(A) {
    ErasedView<A, 2> a(*next++), dc(*next++);
    const GroupOffsets groups(*next++, a.rows());
    ErasedView<A, 3> db(*next++);
    expects(a.rows() == dc.rows(), "a's rows and dc's rows");
    expects(a.cols() == db.rows(), "a's columns and db's rows");
    expects(dc.cols() == db.cols(), "dc's columns and db's columns");
    expects(db.extent(0) == groups.count(), "db's matrices and the groups of offsets");

    auto [group, m, n] = program_tile(db.view(), each, BM, BN);
    if_then((m == 0) & (n == 0), [&, group = group] { groups.check(group, wrong_offsets); });
    const Scalar<std::int64_t> begin = groups.begin(group), end = groups.end(group);
    const auto add = [&, m = m, n = n](const auto& x, const auto& y, auto row, auto sum) {
      return detail::dot_erased(trans(x.tile(row, m).load_as_stored()), y.tile(row, n).load_as_stored(), sum);
    };
    // Loads of whole steps need no mask.
    const Scalar<std::int64_t> whole = begin + max(end - begin, 0) / value(BK) * value(BK);
    auto most = for_range(BK, range(begin, whole), zeros<A>(BM, BN),
                          [&](auto row, auto sum) { return add(a, dc, row, sum); });
    Tile t = for_range(BK, range(whole, end), most, [&](auto row, auto sum) {
      return add(a.slice(0, 0, end), dc.slice(0, 0, end), row, sum);
    });
    if (v.options & detail::matmul_alpha) t = t * Scalar<A>(*next++);
    if (v.options & detail::matmul_beta) t = t + Scalar<A>(*next++) * db.tile(group, m, n).load();
    db.tile(group, m, n).store(t);
  });
}

constinit const detail::OpKernel grouped_kernel("grouped_matmul", grouped_body);
constinit const detail::OpKernel backward_b_kernel("grouped_matmul_backward_b", backward_b_body);

} // namespace

// The host does not know how many rows a group has. Heuristic for CPUs:
//
// 1. Tiles have as many rows as groups have on average, or twice as many if those are few, since a group of
//    several tiles reads its matrix several times; but a single row if most groups have none or one.
// 2. The fewer rows, the wider a tile, so that b is read in long runs: 8 groups of one row with 1024 x 4096
//    matrices of f32 take 15.2 ms with 64 columns, 9.3 with 1024, and 7.0 with 4096 (one thread of Granite
//    Rapids). Tiles are narrower where threads would have less than four each.
Config detail::grouped_matmul_config(Device device, DType dtype, std::int64_t rows, std::int64_t n,
                                     std::int64_t k, std::int64_t groups) {
  const std::int64_t average = (rows + groups - 1) / groups;
  const std::int64_t m = rows * 4 <= groups ? 1 : average <= 4 ? 2 * average : average;
  const Config config = matmul_config(device, dtype, m, n, k);
  if (!device.is_cpu()) return config;
  const std::int64_t bm = *config.get("BM"), tiles = (rows + bm - 1) / bm,
                     programs = 4 * std::max(1, device.properties().num_threads);
  std::int64_t bn = 64;
  const std::int64_t widest = std::clamp<std::int64_t>(16384 / bm, 256, 4096);
  while (bn < std::min(widest, n) && (n + 2 * bn - 1) / (2 * bn) * tiles >= programs)
    bn *= 2;
  return {BM = bm, BN = bn, BK = *config.get("BK")};
}

// Heuristic for CPUs: steps of one row, which are combined to one product and need no mask for a last step:
// 8 groups of 4 rows with 1024 x 4096 results of f32 take 21 ms, and with steps of 16 rows 33 ms. Wide tiles
// are faster for bf16: with 1024 rows in 8 groups of 1024 x 1024 results, 6.7 ms instead of 9.3 with 128
// columns (one thread of Granite Rapids).
Config detail::grouped_backward_b_config(Device device, DType dtype, std::int64_t rows, std::int64_t n,
                                         std::int64_t k, std::int64_t groups) {
  if (device.is_cpu()) return {BM = 64, BN = n > 256 ? 512 : n > 64 ? 256 : 64, BK = 1};
  return matmul_config(device, dtype, k, n, rows / groups);
}

namespace {

void check_offsets(const detail::Checks& check, const Array& offsets, std::int64_t groups, const char* of) {
  check.rank({"offsets", offsets}, 1);
  check.that(offsets.dtype == DType::I32 || offsets.dtype == DType::I64,
             "offsets are of neither i32 nor i64; pass integers of one of these dtypes");
  check.equal({"offsets' size and one more than the matrices of ", of, "", ""}, offsets.extents[0],
              groups + 1);
}

} // namespace

void grouped_matmul(detail::StreamAt stream, const Input& a_, const Input& b_, const Input& offsets_,
                    const Output& c_, const MatmulOptions& options) {
  const detail::Checks check("ops::grouped_matmul", stream);
  check.activation(options.activation);
  const Array &a = a_.array(), &b = b_.array(), &offsets = offsets_.array(), &c = c_.array();
  const detail::EpilogueArguments epilogue(options, options.bias, c_, stream.stream.device());
  const std::int64_t groups = b.extents[0], rows = c.extents[0], n = c.extents[1];
  for (const detail::Argument& argument : {detail::Argument{"a", a}, {"c", c}}) {
    check.rank(argument, 2);
    check.floats(argument);
  }
  check.rank({"b", b}, 3);
  check.floats({"b", b});
  check_offsets(check, offsets, groups, "b");
  check.equal("a's columns and b's rows", a.extents[1], b.extents[1]);
  check.equal("a's rows and c's rows", a.extents[0], rows);
  check.equal("b's columns and c's columns", b.extents[2], n);
  check.writes({"c", c});
  for (const detail::Argument& argument : {detail::Argument{"a", a}, {"b", b}, {"offsets", offsets}})
    check.apart({"c", c}, argument);
  epilogue.check(check, {"c", c}, 2);
  if (options.bias.given())
    check.equal("bias's rows and b's matrices", options.bias.array().extents[0], groups);
  if (c.size() == 0 || groups == 0) return;

  const OpVariant variant{
      detail::compute_dtype({&a, &b, &c, &epilogue.bias, &epilogue.times, &epilogue.residual}),
      epilogue.options};
  detail::OpArguments list{a, b, offsets};
  epilogue.add_to(list, variant.compute);
  const std::int64_t k = a.extents[1];
  const detail::GridRule rule{[](const std::int64_t* facts, const Config& config) {
                                const std::int64_t bm = *config.get("BM"), bn = *config.get("BN");
                                return Grid{(facts[1] + bn - 1) / bn, facts[0] / bm + facts[2]};
                              },
                              {rows, n, groups}};
  std::optional<Config> config;
  // Configs that were tuned differ between numbers of rows, also in the step of K.
  if (!epilogue.has(detail::matmul_fixed_order))
    config = detail::known_config("grouped_matmul", stream, {rows, n, k, groups},
                                  {grouped_kernel, variant, list, nullptr, rule});
  if (!config) config = detail::grouped_matmul_config(stream.stream.device(), a.dtype, rows, n, k, groups);
  const Grid grid = rule.grid(*config);
  grouped_kernel.launch(stream, *config, variant, list, &grid);
}

void grouped_matmul_backward_b(detail::StreamAt stream, const Input& a_, const Input& dc_,
                               const Input& offsets_, const Output& db_,
                               const GroupedBackwardOptions& options) {
  const detail::Checks check("ops::grouped_matmul_backward_b", stream);
  const Array &a = a_.array(), &dc = dc_.array(), &offsets = offsets_.array(), &db = db_.array();
  for (const detail::Argument& argument : {detail::Argument{"a", a}, {"dc", dc}}) {
    check.rank(argument, 2);
    check.floats(argument);
  }
  check.rank({"db", db}, 3);
  check.floats({"db", db});
  check_offsets(check, offsets, db.extents[0], "db");
  check.equal("a's rows and dc's rows", a.extents[0], dc.extents[0]);
  check.equal("a's columns and db's rows", a.extents[1], db.extents[1]);
  check.equal("dc's columns and db's columns", dc.extents[1], db.extents[2]);
  check.writes({"db", db});
  for (const detail::Argument& argument : {detail::Argument{"a", a}, {"dc", dc}, {"offsets", offsets}})
    check.apart({"db", db}, argument);

  const OpVariant variant{detail::compute_dtype({&a, &dc, &db}),
                          (options.alpha != 1 ? detail::matmul_alpha : 0) |
                              (options.beta != 0 ? detail::matmul_beta : 0)};
  detail::OpArguments list{a, dc, offsets, db};
  list.add_if(options.alpha != 1, {variant.compute, options.alpha});
  list.add_if(options.beta != 0, {variant.compute, options.beta});
  const std::int64_t rows = a.extents[0], k = db.extents[1], n = db.extents[2],
                     groups = std::max<std::int64_t>(db.extents[0], 1);
  auto config = detail::known_config("grouped_matmul_backward_b", stream, {rows, n, k, groups},
                                     {backward_b_kernel, variant, list});
  if (!config)
    config = detail::grouped_backward_b_config(stream.stream.device(), a.dtype, rows, n, k, groups);
  backward_b_kernel.launch(stream, *config, variant, list);
}

namespace {

const cli::KernelRegistration registered_grouped({
    .name = "grouped_matmul",
    .summary = "products of groups of rows, each with its matrix, bf16",
    .record =
        [](const Config& config) {
          constexpr auto t = DType::BF16;
          return grouped_kernel.record(config, {DType::F32, 0},
                                       {detail::reading(t, 2), detail::reading(t, 3),
                                        detail::reading(DType::I32, 1), detail::writing(t, 2)});
        },
    .config = "BM=64,BN=256,BK=512",
    .sizes = "M=1024,N=2048,K=1024,GROUPS=8,OFFSETS=9",
    .parameters = "a=M,K b=GROUPS,K,N offsets=OFFSETS c=M,N",
    .grid = "8x24",
});

} // namespace
} // namespace kiln::ops
