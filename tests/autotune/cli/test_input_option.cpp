// Tests the contents that files and registrations give to parameters of `kiln tune`.
#include "autotune/own_cache.h"

#include <kiln/autotune/cli/input_option.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <cstring>
#include <fstream>

using namespace kiln;
using namespace kiln::tune;
using Catch::Matchers::Contains;

namespace {

KILN_DIM(BN);

const auto gather = kernel("gather of an input",
                           [](View<const std::int32_t, 1> from, View<const float, 1> x, View<float, 1> y) {
                             auto [i] = program_tile(y, BN);
                             y.tile(i).store(x.at(cast<std::int64_t>(from.tile(i).load())).load());
                           });

// Fills 32-bit integers with 0, 1, ..., after the seed.
void count_up(DType, const Problem&, std::uint64_t seed, std::span<unsigned char> elements) {
  for (std::size_t i = 0; i < elements.size() / 4; ++i) {
    const auto value = static_cast<std::int32_t>(seed + i);
    std::memcpy(&elements[4 * i], &value, 4);
  }
}

TunableKernel gather_of(std::vector<TunableInput> inputs) {
  return {
      .name = "gather of an input",
      .summary = "y[i] = x[from[i]]",
      .dtypes = {DType::F32},
      .record = [](DType, const Problem&, const Config& config) { return gather.record(config); },
      .space = [](DType, const Problem&, Device) { return Space().pow2(BN, 16, 64).seed({{"BN", 32}}); },
      .sizes = "N=4",
      .parameters = "from=N x=N y=N",
      .inputs = std::move(inputs),
  };
}

Task task_with(const TunableKernel& kernel, const std::vector<std::string>& inputs) {
  Task task = make_task(kernel, "", "", Device::cpu());
  give_inputs(task, kernel, inputs, 7);
  return task;
}

std::vector<std::int32_t> integers_of(const Task& task) {
  REQUIRE(task.contents.size() == 3);
  REQUIRE(task.contents[0]);
  std::vector<std::int32_t> values(task.contents[0]->size() / 4);
  std::memcpy(values.data(), task.contents[0]->data(), task.contents[0]->size());
  return values;
}

class InputFiles {
public:
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::string path = (folder_.path() / name).string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  // Writes what numpy.save writes.
  std::string write_npy(const std::string& name, const std::string& header,
                        const std::string& elements) const {
    std::string text = header + std::string(117 - header.size(), ' ') + "\n";
    return write(name, std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(text.size()) + '\0' + text +
                           elements);
  }

private:
  kiln::test::TemporaryFolder folder_;
};

std::string error_with(const TunableKernel& kernel, const std::vector<std::string>& inputs) {
  try {
    task_with(kernel, inputs);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

const std::string four_integers("\3\0\0\0\2\0\0\0\1\0\0\0\0\0\0\0", 16);

} // namespace

TEST_CASE("a registration's generator gives contents, and a file takes precedence") {
  const InputFiles files;
  const TunableKernel kernel = gather_of({{"from", count_up}});
  CHECK(integers_of(task_with(kernel, {})) == std::vector<std::int32_t>{7, 8, 9, 10});
  const std::vector<std::int32_t> reversed{3, 2, 1, 0};
  CHECK(integers_of(task_with(kernel, {"from=" + files.write("raw", four_integers)})) == reversed);
  const std::string npy =
      files.write_npy("from.npy", "{'descr': '<i4', 'fortran_order': False, 'shape': (4,), }", four_integers);
  CHECK(integers_of(task_with(gather_of({}), {"from=" + npy})) == reversed);
}

TEST_CASE("files that do not fit a parameter are rejected with the reason") {
  const InputFiles files;
  const auto error_of = [&](const std::string& input) { return error_with(gather_of({}), {input}); };
  const auto npy = [&](const std::string& header) {
    return "from=" + files.write_npy("a.npy", header, four_integers);
  };
  CHECK_THAT(error_of("from"),
             Contains("write NAME=FILE, with a parameter of gather of an input: from, x, y"));
  CHECK_THAT(error_of("to=a"), Contains("has no parameter \"to\"; it has from, x, y"));
  CHECK_THAT(error_of("from=/nowhere/a"), Contains("the file cannot be read"));
  CHECK_THAT(error_of("from=" + files.write("short", "abc")),
             Contains("has 3 bytes of elements, but the parameter, 4 of i32, has 16"));
  CHECK_THAT(error_of("from=" + files.write("b.npy", "abc")), Contains("is not a .npy file"));
  CHECK_THAT(error_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }")),
             Contains("holds <f4, but the parameter is i32"));
  CHECK_THAT(error_of(npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }")),
             Contains("has the shape 2 x 2, but the parameter has 4"));
  CHECK_THAT(error_of(npy("{'descr': '<i4', 'fortran_order': True, 'shape': (4,), }")),
             Contains("Fortran order"));
}

TEST_CASE("a folder, an endless device and a shape that is too large are rejected") {
  const InputFiles files;
  const auto error_of = [&](const std::string& input) { return error_with(gather_of({}), {input}); };
  CHECK_THAT(error_of("from=/tmp"),
             Contains("the file is a folder; name a file with the parameter's elements"));
  CHECK_THAT(error_of("from=/dev/zero"), Contains("has more than the 16 bytes of the parameter's elements"));
  const std::string npy = files.write_npy(
      "a.npy", "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,), }", four_integers);
  CHECK_THAT(error_of("from=" + npy), Contains("has an extent of 99999999999999999999, which is too large"));
}

TEST_CASE("contents that would have no effect, or are given twice, are rejected") {
  const InputFiles files;
  const std::string file = files.write("raw", four_integers);
  CHECK_THAT(error_with(gather_of({}), {"y=" + file}),
             Contains("writes parameter y but never reads it") && Contains("leave it out"));
  CHECK_THAT(error_with(gather_of({}), {"from=" + file, "from=" + file}),
             Contains("parameter from already has a file"));
  CHECK_THAT(error_with(gather_of({{"from", count_up}, {"from", count_up}}), {}),
             Contains("has two generators of parameter \"from\""));
}

TEST_CASE("a generator that throws or is null is named") {
  const auto throws = [](DType, const Problem&, std::uint64_t, std::span<unsigned char>) {
    throw std::runtime_error("no data");
  };
  const auto throws_a_number = [](DType, const Problem&, std::uint64_t, std::span<unsigned char>) {
    throw 3;
  };
  const std::string generator =
      "the registration of gather of an input: the generator of parameter \"from\" ";
  CHECK_THAT(error_with(gather_of({{"from", throws}}), {}),
             Contains(generator + "threw an exception: no data"));
  CHECK_THAT(error_with(gather_of({{"from", throws_a_number}}), {}),
             Contains(generator + "threw an exception that is not a std::exception"));
  CHECK_THAT(error_with(gather_of({{"from", nullptr}}), {}), Contains(generator + "is null"));
}
