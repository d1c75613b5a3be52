// Sorts the elements of outputs.
#include <kiln/autotune/measure/sorted.h>

#include <kiln/autotune/measure/decoder.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace kiln::tune {

void sort_elements(std::vector<unsigned char>& values, DType dtype,
                   const std::vector<unsigned char>& poisoned) {
  const auto size = static_cast<std::size_t>(size_of(dtype));
  const Decoder decode(dtype);
  struct Element {
    double value;
    std::uint64_t bits;
    bool operator<(const Element& other) const {
      if (std::isnan(value) != std::isnan(other.value)) return std::isnan(other.value);
      return value != other.value && !std::isnan(value) ? value < other.value : bits < other.bits;
    }
  };
  std::vector<Element> elements;
  for (std::size_t at = 0; at < values.size(); at += size) {
    if (!poisoned.empty() && std::memcmp(&values[at], &poisoned[at], size) == 0) continue;
    Element e{decode(&values[at]), 0};
    std::memcpy(&e.bits, &values[at], size);
    elements.push_back(e);
  }
  std::sort(elements.begin(), elements.end());
  if (!poisoned.empty()) values = poisoned;
  for (std::size_t i = 0; i < elements.size(); ++i)
    std::memcpy(&values[i * size], &elements[i].bits, size);
}

} // namespace kiln::tune
