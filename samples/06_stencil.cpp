// Sharpens a photograph with a stencil: build/bin/06_stencil [IN.png OUT.png [ROWS COLUMNS]]
//
// Sharpens a photograph with a stencil: it adds the difference between the image and its 5 x 5 binomial blur.
// An offset plus an integer is an offset, so a tile's neighbours are tiles too. At the border they extend
// beyond the view, where loads read zero. The C++ loops run while the kernel is recorded: it has 25 loads and
// no loop.
#include "image.h"
#include "support.h"

using namespace kiln;

KILN_DIM(BM);
KILN_DIM(BN);

constexpr float binomial[] = {1.f / 16, 4.f / 16, 6.f / 16, 4.f / 16, 1.f / 16};

const auto sharpen = kernel("sharpen", [](View<const float, 2> in, View<float, 2> out, Scalar<float> amount) {
  auto [y, x] = program_tile(out, BM, BN);
  Tile blurred = zeros<float>(BM, BN), weight = zeros<float>(BM, BN);
  for (int dy = -2; dy <= 2; ++dy)
    for (int dx = -2; dx <= 2; ++dx) {
      float w = binomial[dy + 2] * binomial[dx + 2];
      auto neighbour = in.tile(y + dy, x + dx);
      blurred = blurred + neighbour.load() * w;           // outside reads as zero ...
      weight = weight + where(neighbour.mask(), w, 0.0f); // ... and has no weight
    }
  Tile centre = in.tile(y, x).load();
  out.tile(y, x).store(clamp(centre + amount * (centre - blurred / weight), 0.0f, 1.0f));
});

// The same in double precision, one pixel at a time.
double exact(const Tensor<float, 2>& in, std::int64_t y, std::int64_t x, double amount) {
  std::int64_t rows = in.extent(0), cols = in.extent(1);
  double blurred = 0, weight = 0;
  for (std::int64_t i = std::max<std::int64_t>(y - 2, 0); i <= std::min(y + 2, rows - 1); ++i)
    for (std::int64_t j = std::max<std::int64_t>(x - 2, 0); j <= std::min(x + 2, cols - 1); ++j) {
      double w = double{binomial[i - y + 2]} * binomial[j - x + 2];
      weight += w, blurred += w * in.data()[i * cols + j];
    }
  double centre = in.data()[y * cols + x];
  return std::clamp(centre + amount * (centre - blurred / weight), 0.0, 1.0);
}

int main(int argc, char** argv) {
  auto photograph =
      samples::on_device(samples::read_image(argc > 1 ? argv[1] : KILN_SAMPLES_DIR "/data/camera.png"));
  std::int64_t rows = std::min(photograph.extent(0), samples::number(argc, argv, 3, photograph.extent(0)));
  std::int64_t cols = std::min(photograph.extent(1), samples::number(argc, argv, 4, photograph.extent(1)));
  auto in = samples::poisoned({rows, cols});
  auto out = samples::poisoned({rows, cols});
  float amount = 2.0f;
  Stream stream(samples::device());
  Config config = samples::choose({BM = 16, BN = 128}, {BM = 8, BN = 128});
  assign(stream, in, photograph.view().slice(0, 0, rows).slice(1, 0, cols)); // the upper left part

  double seconds = samples::median_seconds(stream, [&] { sharpen.launch(stream, config, in, out, amount); });

  samples::Error error;
  auto host_in = samples::on_host(in), result = samples::on_host(out);
  for (std::int64_t y = 0; y < rows; ++y)
    for (std::int64_t x = 0; x < cols; ++x)
      error.add(result.data()[y * cols + x], exact(host_in, y, x, amount));
  samples::interpret(error, sharpen, config, out, in, out, amount);
  const char* path = argc > 2 ? argv[2] : "sharpened.png";
  samples::write_image(path, result);
  std::printf("%s -> %s\n", argc > 1 ? argv[1] : "the photograph", path);
  double bytes = 2.0 * 4 * static_cast<double>(rows * cols);
  return samples::report("stencil of " + std::to_string(rows) + " x " + std::to_string(cols), seconds,
                         {.bytes = bytes}, error.relative());
}
