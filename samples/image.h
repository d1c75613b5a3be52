// Reads and writes gray images as tensors of numbers from 0 to 1, with the stb library.
#pragma once

#include <kiln/kiln.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#define STBI_ONLY_PNG
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

namespace samples {

inline kiln::Tensor<float, 2> read_image(const char* path) {
  int width = 0, height = 0, channels = 0;
  stbi_uc* pixels = stbi_load(path, &width, &height, &channels, 1);
  if (!pixels) {
    std::fprintf(stderr, "%s: %s; give the path of a PNG file\n", path, stbi_failure_reason());
    std::exit(2);
  }
  auto image = kiln::Tensor<float, 2>::empty({height, width});
  for (std::int64_t i = 0; i < image.size(); ++i)
    image.data()[i] = static_cast<float>(pixels[i]) / 255;
  stbi_image_free(pixels);
  return image;
}

inline void write_image(const char* path, const kiln::Tensor<float, 2>& image) {
  std::vector<unsigned char> pixels;
  for (float x : image)
    pixels.push_back(static_cast<unsigned char>(std::lround(x * 255)));
  int width = static_cast<int>(image.extent(1)), height = static_cast<int>(image.extent(0));
  if (!stbi_write_png(path, width, height, 1, pixels.data(), width)) {
    std::fprintf(stderr, "%s cannot be written\n", path);
    std::exit(1);
  }
}

} // namespace samples
