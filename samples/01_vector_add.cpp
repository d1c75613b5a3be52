// Adds two vectors with a first kernel: build/bin/01_vector_add [N]
//
// Computes out = x + y with a first kernel. A kernel is a lambda whose parameters are views. The lambda runs
// once, when the kernel is first launched: Kiln records the operations on tiles, compiles them for the CPU of
// this machine, and keeps the code on disk.
#include "support.h"

using namespace kiln;

KILN_DIM(BLOCK); // a dimension of tiles: a type for the C++ compiler; the launch gives its size

const auto add = kernel("add", [](View<const float, 1> x, View<const float, 1> y, View<float, 1> out) {
  expects(x.size() == out.size(), "x's and out's sizes"); // checked at each launch
  expects(y.size() == out.size(), "y's and out's sizes");
  auto [i] = program_tile(out, BLOCK);                    // each program computes one tile of out
  out.tile(i).store(x.tile(i).load() + y.tile(i).load()); // the last tile is cut off where the views end
});

int main(int argc, char** argv) {
  std::int64_t n = samples::number(argc, argv, 1, 32'000'001);
  auto x = samples::random({n}), y = samples::random({n}), out = samples::poisoned({n});
  Stream stream(samples::device()); // the CPU, unless KILN_SAMPLES_DEVICE names another
  Config config = samples::choose({BLOCK = 4096}, {BLOCK = 1024});

  double seconds = samples::median_seconds(stream, [&] { add.launch(stream, config, x, y, out); });

  samples::Error error;
  auto host_x = samples::on_host(x), host_y = samples::on_host(y), result = samples::on_host(out);
  for (std::int64_t i = 0; i < n; ++i)
    error.add(result.data()[i], double{host_x.data()[i]} + double{host_y.data()[i]});
  samples::interpret(error, add, config, out, x, y, out);
  double bytes = 3.0 * 4 * static_cast<double>(n);
  return samples::report("vector add of " + std::to_string(n), seconds, {.bytes = bytes}, error.relative());
}
