// Holds the table of PTX versions, from the release notes of the PTX ISA.
#include <kiln/jit/runtime/cuda/ptx_version.h>

#include <charconv>

namespace kiln::cuda {

namespace {

struct Row {
  int cuda, ptx;
};
constexpr Row rows[] = {{12000, 80}, {12010, 81}, {12020, 82}, {12030, 83}, {12040, 84}, {12050, 85},
                        {12070, 86}, {12080, 87}, {12090, 88}, {13000, 90}, {13010, 91}};

} // namespace

int newest_ptx_of_driver(int cuda_version) {
  if (cuda_version >= std::end(rows)[-1].cuda + 10) return 0;
  int newest = 0;
  for (const Row& row : rows)
    if (row.cuda <= cuda_version) newest = row.ptx;
  return newest;
}

int oldest_driver_for_ptx(int ptx_version) {
  for (const Row& row : rows)
    if (row.ptx >= ptx_version) return row.cuda;
  return 0;
}

int ptx_version_of(std::string_view ptx) {
  std::size_t line = 0;
  while (line < ptx.size()) {
    std::size_t end = ptx.find('\n', line);
    std::string_view text = ptx.substr(line, end == ptx.npos ? ptx.npos : end - line);
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    if (text.starts_with(".version")) {
      text.remove_prefix(8);
      text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
      int major = 0, minor = 0;
      const char* stop = text.data() + text.size();
      auto first = std::from_chars(text.data(), stop, major);
      if (first.ec != std::errc() || first.ptr == stop || *first.ptr != '.') return 0;
      if (std::from_chars(first.ptr + 1, stop, minor).ec != std::errc()) return 0;
      return 10 * major + minor;
    }
    if (end == ptx.npos) break;
    line = end + 1;
  }
  return 0;
}

std::string ptx_version_text(int v) { return std::to_string(v / 10) + "." + std::to_string(v % 10); }

} // namespace kiln::cuda
