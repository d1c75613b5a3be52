// Implements the collectives of communicators: each of them builds a schedule and says where its pieces are.
#include <kiln/collectives/arrays.h>
#include <kiln/collectives/communicator.h>
#include <kiln/collectives/gather_numbers.h>
#include <kiln/collectives/lanes.h>
#include <kiln/collectives/schedule/schedule_cache.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/copy.h>
#include <kiln/ops/detail/checks.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace kiln::collectives {
namespace {

using ops::Array, ops::Input, ops::Output;
using ops::detail::Argument, ops::detail::Checks, ops::detail::StreamAt;

// A contiguous tensor as rows.
struct Block {
  char* data = nullptr;
  DType dtype = DType::F32;
  std::int64_t rows = 0, elements = 0, bytes = 0; // elements and bytes of a row
  char* at(std::int64_t row) const { return data + row * bytes; }
};

Block block_of(const Checks& check, const Argument& argument) {
  const Array& a = argument.array;
  check.that(a.rank > 0 || a.data, (std::string(argument.name) + " is not given; pass a tensor").c_str());
  check.rank_at_least(argument, 1);
  check_contiguous(check, argument);
  std::int64_t elements = 1;
  for (int axis = 1; axis < a.rank; ++axis)
    elements *= a.extents[axis];
  return {static_cast<char*>(a.data), a.dtype, a.extents[0], elements, elements * size_of(a.dtype)};
}

void check_rank(const Checks& check, const char* name, int rank, int size) {
  check.that(rank >= 0 && rank < size, (std::string(name) + " is " + std::to_string(rank) +
                                        "; pass a rank from 0 to " + std::to_string(size - 1))
                                           .c_str());
}

void check_no_rows(const Checks& check, const CollectiveOptions& options) {
  check.that(options.rows.empty(),
             "options.rows has no meaning here; it is for all_gather and reduce_scatter");
}

Shards shards_of(const Checks& check, const CollectiveOptions& options, std::int64_t rows, int size) {
  if (options.rows.empty()) return Shards::even(rows, size);
  check.equal("the sizes of options.rows and of the communicator",
              static_cast<std::int64_t>(options.rows.size()), size);
  Shards shards(options.rows);
  check.equal("the sum of options.rows and the rows of the tensor", shards.rows(), rows);
  return shards;
}

CollectiveCall call_of(const char* name, const CollectiveOptions& options, const std::string& details,
                       std::shared_ptr<const PreparedSchedule> schedule) {
  CollectiveCall call{name, options.tag, details, std::move(schedule)};
  call.deadline = options.deadline;
  call.order = options.order;
  if (call.order == ReductionOrder::engine) call.details += ", in the engine's order";
  return call;
}

// The part of a call's details that compares tensors of equal sizes.
std::string row_size(const Block& block) { return ", rows of " + std::to_string(block.elements); }

void copy_rows(StreamAt stream, void* to, const void* from, std::int64_t bytes) {
  if (to != from && bytes > 0) copy(stream.stream, to, from, bytes);
}

} // namespace

// ---- moving rows ----

static CollectiveCall gather_call(StreamAt stream, const char* name, int rank, const Block& x, const Block& y,
                                  const Shards& shards, const CollectiveOptions& options,
                                  const std::string& details = {}) {
  if (shards.rows(rank).count() > 0)
    copy_rows(stream, y.at(shards.rows(rank).begin), x.data, shards.rows(rank).count() * y.bytes);
  CollectiveCall call =
      call_of(name, options, std::string(kiln::name(y.dtype)) + details,
              cached_schedule(direct_gather, shards, {.shard = y.bytes}, {.computes = false}));
  call.part.place = [y, shards](const Piece& p) -> void* { return y.at(shards.rows(p.chunk).begin); };
  return call;
}

Work Communicator::async_all_gather(At stream, const Input& x_, const Output& y_,
                                    const CollectiveOptions& options) {
  const Checks check("Communicator::all_gather", stream);
  const Block x = block_of(check, {"x", x_.array()}), y = block_of(check, {"y", y_.array()});
  const Shards shards = shards_of(check, options, y.rows, size());
  check.that(x.dtype == y.dtype, "x and y have different dtypes; a gather does not convert");
  check.equal("x's rows and this rank's rows of y", x.rows, shards.rows(rank()).count());
  check.that(x.elements == y.elements, "x and y differ in an extent other than the first");
  if (x.data != y.at(shards.rows(rank()).begin)) check.apart({"y", y_.array()}, {"x", x_.array()});
  CollectiveCall call = gather_call(stream, "all_gather", rank(), x, y, shards, options);
  stream.stream.synchronize();
  call.in_background = true;
  return start(std::move(call));
}

Work Communicator::async_broadcast(At stream, const Output& y_, int root, const CollectiveOptions& options) {
  const Checks check("Communicator::broadcast", stream);
  check_no_rows(check, options);
  const Block y = block_of(check, {"y", y_.array()});
  check_rank(check, "root", root, size());
  std::vector<std::int64_t> rows(static_cast<std::size_t>(size()));
  rows[static_cast<std::size_t>(root)] = y.rows;
  CollectiveCall call =
      gather_call(stream, "broadcast", rank(), y, y, Shards(rows), options, ", root " + std::to_string(root));
  stream.stream.synchronize();
  call.in_background = true;
  return start(std::move(call));
}

// ---- reductions ----

namespace {

// One part of a reduction: elements of the flat tensor, of which each rank owns some, and the memory for what
// other ranks send.
struct Sum {
  StreamAt stream;
  int rank, size;
  Reduction reduction;
  DType dtype;
  std::int64_t element_bytes;
  char *x, *y;                        // x has the elements of all shards; y those of `y_has`
  Shards shards;                      // in elements of this part, which begin at first_of[owner]
  std::vector<std::int64_t> first_of; // of each owner, in x
  std::int64_t y_first;               // the element of x that is the first of y
  char* slots = nullptr;              // [size - 1, slot_elements]
  std::int64_t slot_elements = 0;
  bool every_chunk = false; // slots have the chunks of all owners, and not of this rank only

  std::int64_t first(Chunk c) const { return first_of[static_cast<std::size_t>(c.owner)] + shards.offset(c); }
  std::int64_t in_slot(Chunk c) const { return every_chunk ? shards.rows(c).begin : shards.offset(c); }
  char* slot(int source) const {
    return slots + (source < rank ? source : source - 1) * slot_elements * element_bytes;
  }
  char* result(Chunk c) const { return y + (first(c) - y_first) * element_bytes; }

  void* place(const Piece& p) const {
    if (p.kind == Piece::Kind::sum) return result(p.chunk);
    if (p.source == rank) return x + first(p.chunk) * element_bytes;
    return slot(p.source) + in_slot(p.chunk) * element_bytes;
  }
  void run(const Step& step, Stream& on) const {
    const Chunk c = step.piece.chunk;
    const std::int64_t n = shards.rows(c).count();
    const Input own(contiguous_array(x + first(c) * element_bytes, dtype, {1, n}));
    Array slots_of_chunk = contiguous_array(slots + in_slot(c) * element_bytes, dtype, {size - 1, 1, n});
    slots_of_chunk.strides[0] = slot_elements;
    const Input others(slots_of_chunk);
    const Output out(contiguous_array(result(c), dtype, {1, n}));
    reduce_in_order(StreamAt(on, stream.site), {own, others, out, rank, reduction});
    on.synchronize();
  }
};

void check_reduction(const Checks& check, DType dtype, Reduction reduction) {
  check.that(is_float(dtype) || dtype == DType::I32,
             "only tensors of floats and of i32 are reduced; convert them");
  check.that(is_float(dtype) || reduction != Reduction::mean,
             "the mean of integers is not defined; use the sum");
  check.that(reduction <= Reduction::mean, "options.reduction is not a value of Reduction; pass one of them");
}

enum class Shots : std::uint8_t { scatter, two, one };

// Divides a reduction into parts whose slots fit the limit, and begins them; all but the last are complete
// when it returns.
Work start_reduction(Communicator& comm, Lanes& lanes, StreamAt stream, const char* name,
                     const CollectiveOptions& options, const Block& x, char* y, std::int64_t y_first,
                     const Shards& shards, Shots shots, const std::string& details = {}) {
  const std::int64_t element_bytes = size_of(x.dtype);
  std::int64_t largest = 0;
  for (int r = 0; r < shards.ranks(); ++r)
    largest = std::max(largest, shards.rows(r).count());
  if (shots == Shots::one) largest = shards.rows();
  const std::int64_t others = comm.size() - 1,
                     parts = std::clamp<std::int64_t>(
                         (largest * others * element_bytes + comm.workspace_limit() - 1) /
                             comm.workspace_limit(),
                         1, 1 << 20);
  const Shards divided = shards.in_chunks(static_cast<int>(parts));
  stream.stream.synchronize();
  Work last;
  for (int part = 0; part < static_cast<int>(parts); ++part) {
    last.wait();
    std::vector<std::int64_t> rows, first;
    for (int r = 0; r < shards.ranks(); ++r) {
      const Rows of = divided.rows(Chunk{r, part});
      rows.push_back(of.count()), first.push_back(of.begin);
    }
    const auto sum = std::make_shared<Sum>(Sum{stream, comm.rank(), comm.size(), options.reduction, x.dtype,
                                               element_bytes, x.data, y, Shards(rows), first, y_first});
    sum->every_chunk = shots == Shots::one;
    sum->slot_elements = sum->every_chunk ? sum->shards.rows() : sum->shards.rows(comm.rank()).count();
    const std::shared_ptr<Lane> lane = lanes.take(comm.device());
    sum->slots = static_cast<char*>(lane->memory(others * sum->slot_elements * element_bytes));
    const RowBytes bytes{.partial = element_bytes, .sum = element_bytes};
    const ScheduleOptions none{.computes = false};
    const ScheduleFunction build = shots == Shots::scatter ? direct_scatter
                                   : shots == Shots::two   ? two_shot_all_reduce
                                                           : one_shot_all_reduce;
    CollectiveCall call =
        call_of(name, options,
                std::string(kiln::name(x.dtype)) + ", " + name_of(options.reduction) + row_size(x) + details,
                cached_schedule(build, sum->shards, bytes, none));
    call.part.place = [sum](const Piece& p) { return sum->place(p); };
    call.part.run = [sum, lane](const Step& step) { sum->run(step, lane->stream); };
    call.in_background = true;
    last = comm.start(std::move(call));
  }
  return last;
}

Shards times(const Shards& shards, std::int64_t elements) {
  std::vector<std::int64_t> rows;
  for (int r = 0; r < shards.ranks(); ++r)
    rows.push_back(shards.rows(r).count() * elements);
  return Shards(rows);
}

} // namespace

Work Communicator::async_reduce_scatter(At stream, const Input& x_, const Output& y_,
                                        const CollectiveOptions& options) {
  const Checks check("Communicator::reduce_scatter", stream);
  const Block x = block_of(check, {"x", x_.array()}), y = block_of(check, {"y", y_.array()});
  const Shards shards = shards_of(check, options, x.rows, size());
  check.that(x.dtype == y.dtype, "x and y have different dtypes; a reduction does not convert");
  check_reduction(check, x.dtype, options.reduction);
  check.equal("y's rows and this rank's rows of x", y.rows, shards.rows(rank()).count());
  check.that(x.elements == y.elements || x_.array().size() == 0,
             "x and y differ in an extent other than the first");
  check.apart({"y", y_.array()}, {"x", x_.array()});
  const std::int64_t first = shards.rows(rank()).begin * x.elements;
  if (size() == 1) {
    copy_rows(stream, y.data, x.data, x.rows * x.bytes);
    stream.stream.synchronize();
    return {};
  }
  return start_reduction(*this, *lanes_, stream, "reduce_scatter", options, x, y.data, first,
                         times(shards, x.elements), Shots::scatter);
}

// One shot sends (P - 1) V bytes in one latency, two shots 2 (P - 1) / P V bytes in two. Each rank reads P V
// bytes for its sums with one shot, and V bytes with two. Threads without a link need some microseconds to
// notice that data has arrived, and memory has some 20 GB/s for each of them.
bool Communicator::prefers_one_shot(std::int64_t bytes) const {
  const EngineInfo info = engine();
  const double p = size(), beta = info.link.bytes_per_second > 0 ? 1e9 / info.link.bytes_per_second : 0.1,
               latency =
                   info.link.is_free() && !info.virtual_clock ? 5000 : static_cast<double>(info.link.latency),
               sent = (p - 1) * (1 - 2 / p) * beta, read = info.virtual_clock ? 0 : (p - 1) * 0.05;
  return latency > (sent + read) * static_cast<double>(bytes);
}

Work Communicator::async_all_reduce(At stream, const Input& x_, const Output& y_,
                                    const CollectiveOptions& options) {
  const Checks check("Communicator::all_reduce", stream);
  check_no_rows(check, options);
  const Block x = block_of(check, {"x", x_.array()}), y = block_of(check, {"y", y_.array()});
  check.that(x.dtype == y.dtype, "x and y have different dtypes; a reduction does not convert");
  check_reduction(check, x.dtype, options.reduction);
  check.same_extents({"x", x_.array()}, {"y", y_.array()});
  if (x.data != y.data) check.apart({"y", y_.array()}, {"x", x_.array()});
  if (size() == 1) {
    copy_rows(stream, y.data, x.data, x.rows * x.bytes);
    stream.stream.synchronize();
    return {};
  }
  const std::int64_t elements = x.rows * x.elements;
  if (!prefers_one_shot(x.rows * x.bytes))
    return start_reduction(*this, *lanes_, stream, "all_reduce", options, x, y.data, 0,
                           Shards::even(elements, size()), Shots::two);
  // With one shot, no rank owns a part, and the fewer pieces there are, the less there is to do.
  std::vector<std::int64_t> all_of_rank_0(static_cast<std::size_t>(size()));
  all_of_rank_0[0] = elements;
  return start_reduction(*this, *lanes_, stream, "all_reduce", options, x, y.data, 0,
                         Shards(std::move(all_of_rank_0)), Shots::one);
}

Work Communicator::async_reduce(At stream, const Input& x_, const Output& y_, int root,
                                const CollectiveOptions& options) {
  const Checks check("Communicator::reduce", stream);
  check_no_rows(check, options);
  const Block x = block_of(check, {"x", x_.array()});
  check_rank(check, "root", root, size());
  check_reduction(check, x.dtype, options.reduction);
  char* y = nullptr;
  if (rank() == root) {
    check.that(y_.given(), "the root has no y; pass a tensor with the extents of x");
    check.same_extents({"x", x_.array()}, {"y", y_.array()});
    y = block_of(check, {"y", y_.array()}).data;
    check.that(x.dtype == y_.array().dtype, "x and y have different dtypes; a reduction does not convert");
    if (x.data != y) check.apart({"y", y_.array()}, {"x", x_.array()});
  }
  if (size() == 1) {
    copy_rows(stream, y, x.data, x.rows * x.bytes);
    stream.stream.synchronize();
    return {};
  }
  std::vector<std::int64_t> rows(static_cast<std::size_t>(size()));
  rows[static_cast<std::size_t>(root)] = x.rows * x.elements;
  return start_reduction(*this, *lanes_, stream, "reduce", options, x, y, 0, Shards(rows), Shots::scatter,
                         ", root " + std::to_string(root));
}

// ---- all_to_all, send and recv ----

namespace {

std::vector<std::int64_t> begins_of(const std::vector<std::int64_t>& rows) {
  std::vector<std::int64_t> begins{0};
  for (std::int64_t r : rows)
    begins.push_back(begins.back() + r);
  return begins;
}

// Rank r's rows for rank q are rows_of[r * size + q].
Work start_all_to_all(Communicator& comm, StreamAt stream, const char* name, const CollectiveOptions& options,
                      const Block& x, const Block& y, const std::vector<std::int64_t>& rows_of) {
  const auto n = static_cast<std::size_t>(comm.size()), r = static_cast<std::size_t>(comm.rank());
  std::vector<std::int64_t> bytes, sends, receives;
  for (std::int64_t rows : rows_of)
    bytes.push_back(rows * y.bytes);
  for (std::size_t q = 0; q < n; ++q)
    sends.push_back(rows_of[r * n + q]), receives.push_back(rows_of[q * n + r]);
  const std::vector<std::int64_t> from = begins_of(sends), to = begins_of(receives);
  copy_rows(stream, y.at(to[r]), x.at(from[r]), sends[r] * x.bytes);
  stream.stream.synchronize();
  CollectiveCall call = call_of(name, options, std::string(kiln::name(y.dtype)) + row_size(y),
                                cached_all_to_all(comm.size(), bytes));
  call.part.place = [x, y, from, to, rank = comm.rank()](const Piece& p) -> void* {
    return p.source == rank ? x.at(from[static_cast<std::size_t>(p.chunk.owner)])
                            : y.at(to[static_cast<std::size_t>(p.source)]);
  };
  call.in_background = true;
  return comm.start(std::move(call));
}

} // namespace

Work Communicator::async_all_to_all(At stream, const Input& x_, const Output& y_,
                                    const CollectiveOptions& options) {
  const Checks check("Communicator::all_to_all", stream);
  check_no_rows(check, options);
  const Block x = block_of(check, {"x", x_.array()}), y = block_of(check, {"y", y_.array()});
  check.that(x.dtype == y.dtype, "x and y have different dtypes; all_to_all does not convert");
  check.same_extents({"x", x_.array()}, {"y", y_.array()});
  check.that(x.rows % size() == 0,
             "the rows of x cannot be divided evenly among the ranks; pass send_rows and receive_rows");
  check.apart({"y", y_.array()}, {"x", x_.array()});
  const auto n = static_cast<std::size_t>(size());
  return start_all_to_all(*this, stream, "all_to_all", options, x, y,
                          std::vector<std::int64_t>(n * n, x.rows / size()));
}

Work Communicator::async_all_to_all(At stream, const Input& x_, const std::vector<std::int64_t>& send_rows,
                                    const Output& y_, const std::vector<std::int64_t>& receive_rows,
                                    const CollectiveOptions& options) {
  const Checks check("Communicator::all_to_all", stream);
  check_no_rows(check, options);
  const Block x = block_of(check, {"x", x_.array()}), y = block_of(check, {"y", y_.array()});
  const auto n = static_cast<std::size_t>(size());
  check.that(x.dtype == y.dtype, "x and y have different dtypes; all_to_all does not convert");
  check.that(x.elements == y.elements, "x and y differ in an extent other than the first");
  check.equal("the sizes of send_rows and of the communicator", static_cast<std::int64_t>(send_rows.size()),
              size());
  check.equal("the sizes of receive_rows and of the communicator",
              static_cast<std::int64_t>(receive_rows.size()), size());
  for (const auto* list : {&send_rows, &receive_rows})
    check.that(std::all_of(list->begin(), list->end(), [](std::int64_t r) { return r >= 0; }),
               "send_rows or receive_rows has a negative number; pass 0 for no rows");
  check.equal("the sum of send_rows and x's rows", begins_of(send_rows).back(), x.rows);
  check.equal("the sum of receive_rows and y's rows", begins_of(receive_rows).back(), y.rows);
  check.apart({"y", y_.array()}, {"x", x_.array()});
  // All ranks exchange what they send and expect.
  std::vector<std::int64_t> own = send_rows, all(n * 2 * n);
  own.insert(own.end(), receive_rows.begin(), receive_rows.end());
  const std::int64_t row_bytes = 2 * size() * static_cast<std::int64_t>(sizeof(std::int64_t));
  gather_numbers(*this, "all_to_all", options, own.data(), all.data(), row_bytes);
  std::vector<std::int64_t> rows(n * n);
  for (std::size_t from = 0; from < n; ++from)
    for (std::size_t to = 0; to < n; ++to) {
      rows[from * n + to] = all[from * 2 * n + to];
      const std::int64_t expected = all[to * 2 * n + n + from];
      check.that(rows[from * n + to] == expected,
                 ("rank " + std::to_string(from) + " sends " + std::to_string(rows[from * n + to]) +
                  " rows to rank " + std::to_string(to) + ", which expects " + std::to_string(expected) +
                  "; pass equal numbers as send_rows and receive_rows")
                     .c_str());
    }
  return start_all_to_all(*this, stream, "all_to_all", options, x, y, rows);
}

Communicator& Communicator::pair(int from, int to) {
  std::unique_ptr<Communicator>& entry = pairs_[{from, to}];
  if (!entry)
    entry = subset({from, to}, (std::uint64_t{1} << 63) + static_cast<std::uint64_t>(from) * 65536 +
                                   static_cast<std::uint64_t>(to) + 1);
  return *entry;
}

Work Communicator::async_send(At stream, const Input& x_, int to, const CollectiveOptions& options) {
  const Checks check("Communicator::send", stream);
  const Block x = block_of(check, {"x", x_.array()});
  check_rank(check, "to", to, size());
  check.that(to != rank(), "the rank sends to itself; copy the tensor instead");
  return start_all_to_all(pair(rank(), to), stream, "send/recv", options, x,
                          {nullptr, x.dtype, 0, x.elements, x.bytes}, {0, x.rows, 0, 0});
}

Work Communicator::async_recv(At stream, const Output& y_, int from, const CollectiveOptions& options) {
  const Checks check("Communicator::recv", stream);
  const Block y = block_of(check, {"y", y_.array()});
  check_rank(check, "from", from, size());
  check.that(from != rank(), "the rank receives from itself; copy the tensor instead");
  return start_all_to_all(pair(from, rank()), stream, "send/recv", options,
                          {nullptr, y.dtype, 0, y.elements, y.bytes}, y, {0, y.rows, 0, 0});
}

// ---- calls that wait for their result ----

void Communicator::all_gather(At stream, const Input& x, const Output& y, const CollectiveOptions& options) {
  async_all_gather(stream, x, y, options).wait();
}
void Communicator::reduce_scatter(At stream, const Input& x, const Output& y,
                                  const CollectiveOptions& options) {
  async_reduce_scatter(stream, x, y, options).wait();
}
void Communicator::all_reduce(At stream, const Input& x, const Output& y, const CollectiveOptions& options) {
  async_all_reduce(stream, x, y, options).wait();
}
void Communicator::broadcast(At stream, const Output& y, int root, const CollectiveOptions& options) {
  async_broadcast(stream, y, root, options).wait();
}
void Communicator::all_to_all(At stream, const Input& x, const Output& y, const CollectiveOptions& options) {
  async_all_to_all(stream, x, y, options).wait();
}
void Communicator::reduce(At stream, const Input& x, const Output& y, int root,
                          const CollectiveOptions& options) {
  async_reduce(stream, x, y, root, options).wait();
}
void Communicator::all_to_all(At stream, const Input& x, const std::vector<std::int64_t>& send_rows,
                              const Output& y, const std::vector<std::int64_t>& receive_rows,
                              const CollectiveOptions& options) {
  async_all_to_all(stream, x, send_rows, y, receive_rows, options).wait();
}
void Communicator::send(At stream, const Input& x, int to, const CollectiveOptions& options) {
  async_send(stream, x, to, options).wait();
}
void Communicator::recv(At stream, const Output& y, int from, const CollectiveOptions& options) {
  async_recv(stream, y, from, options).wait();
}

} // namespace kiln::collectives
