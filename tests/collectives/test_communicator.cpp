// Tests the collectives of ranks that are threads, on both clocks.
#include "findings.h"
#include "test_seed.h"

#include <kiln/collectives/ranks.h>
#include <kiln/collectives/symmetric_memory.h>
#include <kiln/jit/runtime/tensor.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <random>

using namespace kiln;
using namespace kiln::collectives;
using test::Findings;

namespace {

// Options of both clocks. Copies of the virtual one take time.
RanksOptions ranks_on(int ranks, ClockKind clock) {
  RanksOptions o{.ranks = ranks, .clock = clock};
  if (clock == ClockKind::virtual_time) o.link = {.bytes_per_second = 1e9, .latency = 500};
  return o;
}

template <class T> T number(std::mt19937_64& random) {
  const auto small = static_cast<std::int64_t>(random() % 2001) - 1000;
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(small);
  else
    return T(static_cast<float>(small) / 37.0f);
}

template <class T> Tensor<T, 2> random_matrix(std::uint64_t seed, std::int64_t rows, std::int64_t columns) {
  std::mt19937_64 random(seed);
  auto t = Tensor<T, 2>::empty({rows, columns});
  for (T& x : t)
    x = number<T>(random);
  return t;
}

template <class T> bool same(const Tensor<T, 2>& a, const Tensor<T, 2>& b) {
  return a.size() == b.size() &&
         (a.size() == 0 ||
          std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(T)) == 0);
}

// The reduction in the order of ranks, rounded once.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double,
                                std::conditional_t<std::is_integral_v<T>, std::uint32_t, float>>;
template <class T> Tensor<T, 2> reduced(const std::vector<Tensor<T, 2>>& of, Reduction how) {
  auto result = Tensor<T, 2>::empty({of[0].extent(0), of[0].extent(1)});
  for (std::int64_t i = 0; i < result.size(); ++i) {
    Wide<T> sum = static_cast<Wide<T>>(of[0].data()[i]);
    for (std::size_t r = 1; r < of.size(); ++r) {
      const auto x = static_cast<Wide<T>>(of[r].data()[i]);
      using S = std::conditional_t<std::is_integral_v<T>, std::int32_t, Wide<T>>;
      switch (how) {
      case Reduction::max: sum = static_cast<S>(x) > static_cast<S>(sum) ? x : sum; break;
      case Reduction::min: sum = static_cast<S>(x) < static_cast<S>(sum) ? x : sum; break;
      case Reduction::product: sum *= x; break;
      default: sum += x;
      }
    }
    if (how == Reduction::mean) sum /= static_cast<Wide<T>>(of.size());
    result.data()[i] = static_cast<T>(sum);
  }
  return result;
}

template <class T> void each_collective(Communicator& comm, std::uint64_t seed, Findings& found) {
  const int ranks = comm.size(), rank = comm.rank();
  std::mt19937_64 random(seed);
  Stream stream(comm.device());
  const auto columns = static_cast<std::int64_t>(1 + random() % 40),
             rows = static_cast<std::int64_t>(random() % 50);
  std::vector<std::int64_t> uneven;
  for (int r = 0; r < ranks; ++r)
    uneven.push_back(static_cast<std::int64_t>(random() % 9));
  for (const bool even : {true, false}) {
    const Shards shards = even ? Shards::even(rows, ranks) : Shards(uneven);
    CollectiveOptions options{.tag = "test"};
    if (!even) options.rows = uneven;
    std::vector<Tensor<T, 2>> parts, wholes;
    for (int r = 0; r < ranks; ++r) {
      parts.push_back(
          random_matrix<T>(seed + 10 + static_cast<std::uint64_t>(r), shards.rows(r).count(), columns));
      wholes.push_back(random_matrix<T>(seed + 90 + static_cast<std::uint64_t>(r), shards.rows(), columns));
    }
    const auto me = static_cast<std::size_t>(rank);
    auto gathered = Tensor<T, 2>::empty({shards.rows(), columns});
    gathered.fill(T(3));
    comm.all_gather(stream, parts[me], gathered, options);
    bool right = true;
    for (int r = 0; r < ranks; ++r)
      for (std::int64_t i = 0; i < shards.rows(r).count() * columns; ++i)
        right = right && std::memcmp(gathered.data() + shards.rows(r).begin * columns + i,
                                     parts[static_cast<std::size_t>(r)].data() + i, sizeof(T)) == 0;
    found.require(right, "all_gather");

    std::vector<Reduction> reductions{Reduction::sum, Reduction::max, Reduction::min, Reduction::product};
    if (!std::is_integral_v<T>) reductions.push_back(Reduction::mean);
    for (Reduction how : reductions) {
      options.reduction = how;
      const Tensor<T, 2> expected = reduced(wholes, how);
      auto mine = Tensor<T, 2>::empty({shards.rows(rank).count(), columns});
      mine.fill(T(3));
      comm.reduce_scatter(stream, wholes[me], mine, options);
      found.require(mine.size() == 0 ||
                        std::memcmp(mine.data(), expected.data() + shards.rows(rank).begin * columns,
                                    static_cast<std::size_t>(mine.size()) * sizeof(T)) == 0,
                    std::string("reduce_scatter, ") + name_of(how));
      auto all = Tensor<T, 2>::empty({shards.rows(), columns});
      all.fill(T(3));
      comm.all_reduce(stream, wholes[me], all, {.reduction = how});
      found.require(same(all, expected), std::string("all_reduce, ") + name_of(how));
      auto in_place = Tensor<T, 2>::empty({shards.rows(), columns});
      std::copy(wholes[me].begin(), wholes[me].end(), in_place.begin());
      comm.async_all_reduce(stream, in_place, in_place, {.reduction = how}).wait();
      found.require(same(in_place, expected), std::string("all_reduce in place, ") + name_of(how));
      const int root = ranks / 2;
      auto at_root = Tensor<T, 2>::empty({shards.rows(), columns});
      at_root.fill(T(3));
      comm.reduce(stream, wholes[me], at_root, root, {.reduction = how});
      if (rank == root) found.require(same(at_root, expected), std::string("reduce, ") + name_of(how));
    }
    const int root = ranks - 1;
    auto sent = Tensor<T, 2>::empty({shards.rows(), columns});
    std::copy(wholes[me].begin(), wholes[me].end(), sent.begin());
    comm.broadcast(stream, sent, root);
    found.require(same(sent, wholes.back()), "broadcast");
  }

  auto x = random_matrix<T>(seed + static_cast<std::uint64_t>(rank), 3 * ranks, columns);
  auto y = Tensor<T, 2>::empty({3 * ranks, columns});
  comm.all_to_all(stream, x, y);
  bool right = true;
  for (int r = 0; r < ranks; ++r) {
    const auto from = random_matrix<T>(seed + static_cast<std::uint64_t>(r), 3 * ranks, columns);
    right = right && std::memcmp(y.data() + r * 3 * columns, from.data() + rank * 3 * columns,
                                 static_cast<std::size_t>(3 * columns) * sizeof(T)) == 0;
  }
  found.require(right, "all_to_all");

  // Rank r sends (r + 2 q) % 4 rows to rank q.
  std::vector<std::int64_t> sends, receives;
  for (int q = 0; q < ranks; ++q)
    sends.push_back((rank + 2 * q) % 4), receives.push_back((q + 2 * rank) % 4);
  const auto sum = [](const std::vector<std::int64_t>& v) {
    return std::accumulate(v.begin(), v.end(), std::int64_t{0});
  };
  auto out = Tensor<T, 2>::empty({sum(sends), columns}), in = Tensor<T, 2>::empty({sum(receives), columns});
  out.fill(T(static_cast<float>(rank)));
  comm.all_to_all(stream, out, sends, in, receives);
  std::int64_t at = 0;
  right = true;
  for (int q = 0; q < ranks; ++q)
    for (std::int64_t i = 0; i < receives[static_cast<std::size_t>(q)]; ++i, ++at)
      right = right && in.view()(at, 0) == T(static_cast<float>(q));
  found.require(right, "ragged all_to_all");
  comm.barrier();
}

} // namespace

TEMPLATE_TEST_CASE("collectives on any number of ranks give the right bits, on both clocks", "", float,
                   double, bf16, std::int32_t) {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  for (int ranks : {1, 2, 3, 4, 8})
    for (ClockKind clock : {ClockKind::virtual_time, ClockKind::wall}) {
      INFO(ranks << " ranks");
      Findings found;
      RanksOptions options = ranks_on(ranks, clock);
      // A tiny workspace divides reductions into parts.
      if (seed % 2) options.workspace_bytes = 4096;
      run_ranks(options, [&](Communicator& comm) { each_collective<TestType>(comm, seed, found); });
      CHECK(found.list() == test::nothing_wrong);
    }
}

TEST_CASE("collectives work between emulated GPUs") {
  Findings found;
  RanksOptions options = ranks_on(2, ClockKind::virtual_time);
  options.devices = {Device::emulated("sm_80"), Device::emulated("sm_80", {.ordinal = 1})};
  run_ranks(options, [&](Communicator& comm) {
    Stream stream(comm.device());
    const auto rank = static_cast<float>(comm.rank());
    const auto host = test::full(100, rank + 1);
    auto x = host.to(comm.device());
    comm.all_reduce(stream, x, x);
    const auto sum = x.to(Device::cpu());
    found.require(std::all_of(sum.begin(), sum.end(), [](float v) { return v == 3; }), "all_reduce");
  });
  CHECK(found.list() == test::nothing_wrong);
}

TEST_CASE("ranks may share one emulated GPU") {
  Findings found;
  RanksOptions options = ranks_on(3, ClockKind::virtual_time);
  options.devices.assign(3, Device::emulated("sm_80"));
  run_ranks(options, [&](Communicator& comm) {
    Stream stream(comm.device());
    auto x = test::full(50, static_cast<float>(comm.rank() + 1)).to(comm.device());
    comm.all_reduce(stream, x, x);
    const auto sum = x.to(Device::cpu());
    found.require(std::all_of(sum.begin(), sum.end(), [](float v) { return v == 6; }), "all_reduce");
  });
  CHECK(found.list() == test::nothing_wrong);
}

TEST_CASE("sends arrive in their order, and between any ranks at once") {
  for (ClockKind clock : {ClockKind::virtual_time, ClockKind::wall}) {
    Findings found;
    run_ranks(ranks_on(4, clock), [&](Communicator& comm) {
      Stream stream;
      const int right = (comm.rank() + 1) % 4, left = (comm.rank() + 3) % 4;
      for (int round = 0; round < 3; ++round) {
        auto x = test::full(10, static_cast<float>(10 * round + comm.rank()));
        auto y = Tensor<float, 1>::zeros({10});
        Work sending = comm.async_send(stream, x, right);
        comm.recv(stream, y, left);
        sending.wait();
        found.require(y.view()(3) == static_cast<float>(10 * round + left), "recv");
      }
    });
    CHECK(found.list() == test::nothing_wrong);
  }
}

TEST_CASE("a split communicator has the ranks of one color, in the order of their keys") {
  Findings found;
  run_ranks(ranks_on(6, ClockKind::virtual_time), [&](Communicator& comm) {
    Stream stream;
    // Two rows of three ranks, in reverse order; then three columns of two.
    const auto row = comm.split(comm.rank() / 3, -comm.rank()), column = comm.split(comm.rank() % 3);
    found.require(row->size() == 3 && row->rank() == 2 - comm.rank() % 3, "the rank in a row");
    found.require(column->size() == 2 && column->rank() == comm.rank() / 3, "the rank in a column");
    auto x = test::full(5, static_cast<float>(comm.rank()));
    auto sum = Tensor<float, 1>::zeros({5});
    // The communicators' calls may be in progress at the same time.
    Work in_row = row->async_all_reduce(stream, x, sum);
    auto all = Tensor<float, 1>::zeros({2});
    auto mine = test::full(1, static_cast<float>(comm.rank()));
    column->all_gather(stream, mine, all);
    in_row.wait();
    found.require(sum.view()(0) == (comm.rank() < 3 ? 3.0f : 12.0f), "the sum of a row");
    found.require(all.view()(0) == static_cast<float>(comm.rank() % 3) &&
                      all.view()(1) == static_cast<float>(comm.rank() % 3 + 3),
                  "the gather of a column");
  });
  CHECK(found.list() == test::nothing_wrong);
}

TEST_CASE("puts into symmetric memory are counted for each sender") {
  for (ClockKind clock : {ClockKind::virtual_time, ClockKind::wall}) {
    Findings found;
    run_ranks(ranks_on(3, clock), [&](Communicator& comm) {
      const auto memory = comm.symmetric_memory(3 * sizeof(int));
      for (int round = 0; round < 4; ++round) {
        const int value = 100 * round + comm.rank();
        for (int to = 0; to < 3; ++to)
          if (to != comm.rank())
            memory->put(to, comm.rank() * static_cast<std::int64_t>(sizeof(int)), &value, sizeof value);
        for (int from = 0; from < 3; ++from) {
          if (from == comm.rank()) continue;
          memory->wait(from);
          found.require(static_cast<const int*>(memory->local())[from] == 100 * round + from, "what was put");
        }
        comm.barrier();
      }
      found.require(memory->peer(comm.rank()) == memory->local(), "the own address");
      try {
        memory->put(0, 8, memory->local(), 8);
        found.require(false, "a put beyond the end");
      } catch (const UserError&) {
      }
    });
    CHECK(found.list() == test::nothing_wrong);
  }
}

TEST_CASE("replicas that differ are found") {
  std::vector<std::string> errors(3);
  CHECK_THROWS_AS(run_ranks(ranks_on(3, ClockKind::virtual_time),
                            [&](Communicator& comm) {
                              Stream stream;
                              auto x = test::full(1000, 1.5f);
                              comm.check_replicas(stream, x, "weights");
                              if (comm.rank() == 2) x.view()(777) = 1.25f;
                              try {
                                comm.check_replicas(stream, x, "weights");
                              } catch (const CommError& e) {
                                errors[static_cast<std::size_t>(comm.rank())] = e.what();
                                CHECK(e.failed_rank() == 2);
                                throw;
                              }
                            }),
                  CommError);
  for (const std::string& e : errors)
    CHECK_THAT(e, Catch::Contains(
                      "check_replicas #0 [weights]: the contents differ from those of rank 0 on rank 2"));
}

TEST_CASE("wrong arguments of collectives are errors before anything is sent") {
  run_ranks({.ranks = 1}, [&](Communicator& comm) {
    Stream stream;
    auto x = Tensor<float, 2>::zeros({4, 6}), y = Tensor<float, 2>::zeros({4, 6}),
         narrow = Tensor<float, 2>::zeros({4, 5});
    auto other = Tensor<double, 2>::zeros({4, 6});
    auto ints = Tensor<std::int64_t, 1>::zeros({4});
    const auto error_of = [](const auto& call) {
      try {
        call();
      } catch (const UserError& e) {
        const std::string text = e.what();
        return text.substr(std::min(text.find("Communicator"), text.size()));
      }
      return std::string("none");
    };
    CHECK(error_of([&] { comm.all_gather(stream, x, narrow); }) ==
          "Communicator::all_gather: x and y differ in an extent other than the first");
    CHECK(error_of([&] { comm.all_gather(stream, x, other); }) ==
          "Communicator::all_gather: x and y have different dtypes; a gather does not convert");
    CHECK(error_of([&] { comm.all_reduce(stream, x.view().transpose(), y.view().transpose()); }) ==
          "Communicator::all_reduce: x is not contiguous; copy it to a contiguous tensor");
    CHECK(error_of([&] { comm.all_reduce(stream, ints, ints); }) ==
          "Communicator::all_reduce: only tensors of floats and of i32 are reduced; convert them");
    CHECK(error_of([&] { comm.broadcast(stream, x, 1); }) ==
          "Communicator::broadcast: root is 1; pass a rank from 0 to 0");
    CHECK(error_of([&] { comm.all_gather(stream, x, y, {.rows = {3}}); }) ==
          "Communicator::all_gather: the sum of options.rows and the rows of the tensor differ: 3 != 4; pass "
          "tensors "
          "whose extents match");
  });
  const auto refused = [](const RanksOptions& o) {
    try {
      run_ranks(o, [](Communicator&) {});
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  CHECK_THAT(refused({.ranks = 0}), Catch::Contains("0 ranks are not possible; pass a number from 1 to 64"));
  CHECK_THAT(refused({.ranks = 2, .link = {.edges = {{0, 2, 1e9, 0}}}}),
             Catch::Contains("the edge from rank 0 to rank 2"));
  CHECK_THAT(refused({.ranks = 2, .devices = {Device::cpu()}}), Catch::Contains("1 devices for 2 ranks"));
}

TEST_CASE("options and rows that differ between ranks are errors on all of them") {
  const auto error_of = [](const auto& call) {
    std::string text = "none";
    try {
      run_ranks(ranks_on(2, ClockKind::virtual_time), [&](Communicator& comm) {
        Stream stream;
        call(comm, stream);
      });
    } catch (const CommError& e) {
      text = e.what();
    }
    return text;
  };
  auto y = test::full(4, 1), z = test::full(4, 1);
  CHECK_THAT(error_of([&](Communicator& comm, Stream& s) {
               auto x = test::full(comm.rank() == 0 ? 0 : 4, 1);
               comm.all_reduce(s, x, x);
             }),
             Catch::Contains("of 4 rows") && Catch::Contains("0 rows"));
  CHECK_THAT(
      error_of([&](Communicator& comm, Stream& s) { comm.broadcast(s, comm.rank() ? y : z, comm.rank()); }),
      Catch::Contains("of f32, root 1 instead of f32, root 0") ||
          Catch::Contains("of f32, root 0 instead of f32, root 1"));
  CHECK_THAT(error_of([&](Communicator& comm, Stream& s) {
               auto five = test::full(5, 1);
               comm.rank() == 0 ? comm.send(s, y, 1) : comm.recv(s, five, 0);
             }),
             Catch::Contains("send/recv #0") && Catch::Contains("bytes instead of"));
  auto two_by_three = test::full(2, 3, 1), three_by_two = test::full(3, 2, 1);
  CHECK_THAT(error_of([&](Communicator& comm, Stream& s) {
               auto& x = comm.rank() == 0 ? two_by_three : three_by_two;
               comm.all_reduce(s, x, x);
             }),
             Catch::Contains("rows of 3") && Catch::Contains("rows of 2"));
  CHECK_THAT(error_of([&](Communicator& comm, Stream& s) {
               comm.rank() == 0 ? comm.send(s, two_by_three, 1) : comm.recv(s, three_by_two, 0);
             }),
             Catch::Contains("rows of 3") && Catch::Contains("rows of 2"));
  run_ranks({.ranks = 1}, [&](Communicator& comm) {
    Stream s;
    CHECK_THROWS_WITH(comm.all_reduce(s, y, y, {.rows = {4}}),
                      Catch::Contains("options.rows has no meaning here"));
    CHECK_THROWS_WITH(comm.all_gather(s, {}, y), Catch::Contains("x is not given; pass a tensor"));
    CHECK_THROWS_WITH(comm.all_gather(s, y, y, {.deadline = -1}),
                      Catch::Contains("the deadline is negative"));
  });
}

TEST_CASE("in a split, failed ranks have their numbers of run_ranks, and links their edges") {
  std::vector<int> failed(4, -2);
  CHECK_THROWS_AS(run_ranks({.ranks = 4,
                             .clock = ClockKind::virtual_time,
                             .link = {.bytes_per_second = 1e9, .edges = {{2, 3, 5e8, 7}, {0, 1, 1e6, 9}}}},
                            [&](Communicator& comm) {
                              Stream stream;
                              const auto pair = comm.split(comm.rank() / 2);
                              const auto edges = pair->engine().link.edges;
                              const bool upper = comm.rank() >= 2;
                              const bool right = edges.size() == 1 && edges[0].from == 0 &&
                                                 edges[0].to == 1 && edges[0].latency == (upper ? 7 : 9);
                              auto x = test::full(10, upper && comm.rank() == 3 ? 2.0f : 1.0f);
                              try {
                                pair->check_replicas(stream, x);
                              } catch (const CommError& e) {
                                failed[static_cast<std::size_t>(comm.rank())] = right ? e.failed_rank() : -3;
                                throw;
                              }
                            }),
                  CommError);
  CHECK(failed == std::vector<int>{-2, -2, 3, 3});
}
