// Edits the directives of an entry point in PTX text, and compares spills with and without the bound.
#include <kiln/jit/gpu/block_bound.h>

#include <regex>
#include <string_view>

namespace kiln::gpu {

std::string with_other_block_bound(const std::string& ptx) {
  constexpr std::string_view bound = "\n.minnctapersm 1\n", block = "\n.reqntid ";
  if (ptx.find("\n.maxnreg ") != std::string::npos) return "";
  std::string other = ptx;
  if (const auto at = ptx.find(bound); at != std::string::npos) return other.erase(at, bound.size() - 1);
  const auto at = ptx.find(block);
  if (at == std::string::npos) return "";
  return other.insert(ptx.find('\n', at + 1), bound.substr(0, bound.size() - 1));
}

std::int64_t spilled_bytes(const std::string& log) {
  static const std::regex spill("([0-9]+) bytes spill (stores|loads)");
  std::int64_t bytes = 0;
  for (std::sregex_iterator found(log.begin(), log.end(), spill), end; found != end; ++found)
    bytes += std::stoll((*found)[1]);
  return bytes;
}

Assembled assemble_either_way(std::string& ptx, const std::string& arch) {
  Assembled first = assemble(ptx, arch);
  if (!first.ok || spilled_bytes(first.log) == 0) return first;
  std::string other = with_other_block_bound(ptx);
  if (other.empty()) return first;
  Assembled second = assemble(other, arch);
  if (!second.ok || spilled_bytes(second.log) >= spilled_bytes(first.log)) return first;
  ptx = std::move(other);
  return second;
}

} // namespace kiln::gpu
