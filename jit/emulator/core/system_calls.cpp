// Executes vprintf and __assertfail, which a driver provides to kernels.
#include "system_calls.h"

#include "access.h"

#include <bit>
#include <cstdio>
#include <cstring>

namespace kiln::emulator {
namespace {

constexpr std::size_t longest = 4096; // characters of one printed line
constexpr std::size_t most_printed = std::size_t(16) << 20;

std::uint64_t parameter(const Warp& w, const Instruction& i, int lane, std::size_t n, std::size_t bytes) {
  const Frame& f = *w.frame();
  std::uint64_t v = 0;
  std::memcpy(&v,
              f.params.data() + static_cast<std::uint64_t>(lane) * f.function->param_bytes + w.extras(i)[n],
              bytes);
  return v;
}

// Reads `bytes` at a generic address for one lane.
bool fetch(Warp& w, const Instruction& i, int lane, std::uint64_t address, void* to, std::uint32_t bytes) {
  Located at;
  at.address[lane] = address;
  locate(w, i, Mask(1) << lane, ptx::Space::Generic, bytes, 1, AccessKind::Read, at);
  if (!at.lanes) return false;
  std::memcpy(to, at.host[lane], bytes);
  return true;
}

std::string text_at(Warp& w, const Instruction& i, int lane, std::uint64_t address) {
  std::string s;
  char c;
  while (s.size() < longest && fetch(w, i, lane, address + s.size(), &c, 1) && c)
    s += c;
  return s;
}

// Formats like printf, with arguments packed as in the ABI of variadic functions: each at a multiple of its
// size.
std::string formatted(Warp& w, const Instruction& i, int lane, const std::string& format,
                      std::uint64_t arguments) {
  std::string text;
  std::uint64_t offset = 0;
  auto next = [&](std::uint32_t bytes) {
    offset = (offset + bytes - 1) / bytes * bytes;
    std::uint64_t v = 0;
    fetch(w, i, lane, arguments + offset, &v, bytes);
    offset += bytes;
    return v;
  };
  for (std::size_t k = 0; k < format.size() && text.size() < longest;) {
    if (format[k] != '%') {
      text += format[k++];
      continue;
    }
    std::string spec = "%";
    std::size_t p = k + 1;
    while (p < format.size() && std::strchr("-+ #0", format[p]) && spec.size() < 8)
      spec += format[p++];
    for (int part = 0; part < 2; ++part) {
      if (part == 1) {
        if (p >= format.size() || format[p] != '.') break;
        spec += format[p++];
      }
      if (p < format.size() && format[p] == '*') {
        spec += std::to_string(static_cast<std::int32_t>(next(4)) % 1000);
        ++p;
      }
      std::size_t digits = 0;
      for (; p < format.size() && format[p] >= '0' && format[p] <= '9'; ++p)
        if (digits++ < 3) spec += format[p];
    }
    int longs = 0;
    while (p < format.size() && std::strchr("hlLjzt", format[p])) {
      longs += format[p] == 'l' || format[p] == 'j' || format[p] == 'z' || format[p] == 't';
      ++p;
    }
    const char kind = p < format.size() ? format[p] : '\0';
    char line[1200];
    if (kind == '%') {
      text += '%';
    } else if (kind && std::strchr("diouxXc", kind)) {
      const std::uint64_t v = longs ? next(8) : next(4);
      const bool is_signed = kind == 'd' || kind == 'i';
      if (kind == 'c')
        std::snprintf(line, sizeof line, (spec + kind).c_str(), static_cast<int>(v));
      else
        std::snprintf(line, sizeof line, (spec + "ll" + kind).c_str(),
                      is_signed && !longs ? static_cast<long long>(static_cast<std::int32_t>(v))
                                          : static_cast<long long>(v));
      text += line;
    } else if (kind && std::strchr("eEfFgGaA", kind)) {
      std::snprintf(line, sizeof line, (spec + kind).c_str(), std::bit_cast<double>(next(8)));
      text += line;
    } else if (kind == 'p') {
      std::snprintf(line, sizeof line, "0x%llx", static_cast<unsigned long long>(next(8)));
      text += line;
    } else if (kind == 's') {
      text += text_at(w, i, lane, next(8));
    } else {
      text += format.substr(k, p - k + 1);
    }
    k = p + 1;
  }
  return text;
}

void print(Warp& w, const Instruction& i, Mask m) { // extras: the result, then format and arguments
  for (Mask rest = m; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    std::string& printed = w.execution.report.printed;
    if (printed.size() > most_printed) continue;
    printed +=
        formatted(w, i, lane, text_at(w, i, lane, parameter(w, i, lane, 1, 8)), parameter(w, i, lane, 2, 8));
  }
}

// __assertfail(message, file, line, function, size of a character).
void assert_fail(Warp& w, const Instruction& i, Mask m) {
  const int lane = std::countr_zero(m);
  const std::string what = text_at(w, i, lane, parameter(w, i, lane, 0, 8)),
                    file = text_at(w, i, lane, parameter(w, i, lane, 1, 8)),
                    function = text_at(w, i, lane, parameter(w, i, lane, 3, 8));
  w.execution.add_finding(Fault::Assertion, w, i, lane,
                          "'" + what + "' failed at " + file + ":" +
                              std::to_string(parameter(w, i, lane, 2, 4)) + " in " + function,
                          static_cast<std::uint64_t>(std::popcount(m)));
  w.execution.report.finished = false;
  w.execution.stopped = true;
  w.yield();
}

} // namespace

Handler system_call(std::string_view name) {
  if (name == "vprintf") return print;
  if (name == "__assertfail") return assert_fail;
  return nullptr;
}

} // namespace kiln::emulator
