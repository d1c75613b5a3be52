// Computes an expression over whole tensors with one kernel: build/bin/02_fused_expression [ROWS COLUMNS]
//
// Computes out = relu(x * scale + bias) + residual over whole tensors. `assign` compiles the expression to
// one kernel, which reads each operand once and stores no intermediate results. Operands broadcast as in
// NumPy: bias is one row.
#include "support.h"

using namespace kiln;

int main(int argc, char** argv) {
  std::int64_t rows = samples::number(argc, argv, 1, 4096), cols = samples::number(argc, argv, 2, 4099);
  auto x = samples::random({rows, cols}), residual = samples::random({rows, cols});
  auto bias = samples::random({cols});
  auto out = samples::poisoned({rows, cols});
  float scale = 1.5f; // an argument of the launch: another value needs no new code
  Stream stream(samples::device());

  double seconds =
      samples::median_seconds(stream, [&] { assign(stream, out, relu(x * scale + bias) + residual); });

  samples::Error error;
  auto host_x = samples::on_host(x), host_residual = samples::on_host(residual),
       result = samples::on_host(out);
  auto host_bias = samples::on_host(bias);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) {
      std::int64_t i = r * cols + c;
      double biased = double{host_x.data()[i]} * scale + host_bias.data()[c];
      error.add(result.data()[i], std::max(biased, 0.0) + host_residual.data()[i]);
    }
  double bytes = 3.0 * 4 * static_cast<double>(rows * cols);
  return samples::report("relu(x * scale + bias) + residual, " + std::to_string(rows) + " x " +
                             std::to_string(cols),
                         seconds, {.bytes = bytes}, error.relative());
}
