// Simulates lanes, warps and shared memory of a block, which execute plans of conversions and reductions.
//
// A register of a thread holds a number of up to 8 bytes. For each access of a warp, shared memory counts the
// passes that the hardware needs: it serves 8, 16 or 32 lanes at a time (with 16, 8 or fewer bytes each), and
// two different words of one bank take two passes.
#pragma once

#include <catch2/catch.hpp>
#include <kiln/jit/gpu/exchange/conversion.h>
#include <kiln/jit/gpu/layout/layouts.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <vector>

namespace simulated {

using namespace kiln::gpu;

// [warp][lane][register]
using Thread = std::vector<std::uint64_t>;
using Warp = std::vector<Thread>;
using Block = std::vector<Warp>;

inline std::uint32_t count(const LinearLayout& layout, const char* in) {
  return std::uint32_t{1} << layout.in_bits(in);
}

inline Block empty_block(const LinearLayout& layout, std::uint64_t value = 0) {
  return Block(count(layout, in_warp),
               Warp(count(layout, in_lane), Thread(count(layout, in_register), value)));
}

// The flattened element at a place of a layout that has the dimensions register, lane and warp in this order.
inline std::uint64_t element_at(const LinearLayout& layout, std::uint32_t r, std::uint32_t lane,
                                std::uint32_t warp) {
  const int lane_at = layout.in_bits(in_register), warp_at = lane_at + layout.in_bits(in_lane);
  return layout.apply(std::uint64_t{r} | std::uint64_t{lane} << lane_at | std::uint64_t{warp} << warp_at);
}

// Distributes the values of a tile as a layout says.
inline Block spread(const LinearLayout& layout, const std::vector<std::uint64_t>& tile) {
  Block block = empty_block(layout);
  for (std::uint32_t w = 0; w < block.size(); ++w)
    for (std::uint32_t l = 0; l < block[w].size(); ++l)
      for (std::uint32_t r = 0; r < block[w][l].size(); ++r)
        block[w][l][r] = tile[element_at(layout, r, l, w)];
  return block;
}

// Like REQUIRE, but fast enough for the innermost loops.
inline void require(bool ok, const char* what) {
  if (!ok) FAIL(what);
}

class SharedMemory {
public:
  SharedMemory(std::int64_t size)
      : bytes_(static_cast<std::size_t>(size)), writer_(bytes_.size(), unwritten) {}

  struct Request {
    std::uint32_t lane, address;
  };
  // Counts the conflicts of one instruction of a warp, in which each lane accesses `width` bytes.
  void account(const std::vector<Request>& requests, std::uint32_t width) {
    std::map<std::uint32_t, std::map<std::uint32_t, std::set<std::uint32_t>>> words; // phase, bank
    const std::uint32_t together = width == 16 ? 8 : width == 8 ? 16 : 32;
    for (const auto& [lane, address] : requests) {
      require(address % width == 0, "an access is aligned");
      require(address + width <= bytes_.size(), "an access lies inside of the scratch memory");
      for (std::uint32_t word = address / 4; word <= (address + width - 1) / 4; ++word)
        words[lane / together][word % 32].insert(word);
    }
    for (const auto& [phase, banks] : words) {
      std::size_t passes = 0;
      for (const auto& [bank, rows] : banks)
        passes = std::max(passes, rows.size());
      conflicts += passes - 1;
    }
  }
  // Records which warp wrote, so that a second write of an element, and a read without a barrier, are found.
  void store(std::uint32_t address, const void* data, std::size_t size, int warp) {
    for (std::size_t i = 0; i < size; ++i)
      require(writer_[address + i] == unwritten, "an element is stored once");
    std::memcpy(&bytes_[address], data, size);
    std::fill_n(writer_.begin() + address, size, warp);
  }
  void load(std::uint32_t address, void* data, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
      require(writer_[address + i] != unwritten, "what is loaded was stored");
    std::memcpy(data, &bytes_[address], size);
  }
  int writer(std::uint32_t address) const { return writer_[address]; }

  std::size_t conflicts = 0; // the passes beyond the first one, of all accesses together

private:
  static constexpr int unwritten = -1;
  std::vector<unsigned char> bytes_;
  std::vector<int> writer_;
};

inline Block execute(const Nothing&, const Block& source, const LinearLayout&, int, std::size_t&) {
  return source;
}

inline Block execute(const RegisterMoves& plan, const Block& source, const LinearLayout& to, int,
                     std::size_t&) {
  Block result = empty_block(to);
  for (std::size_t w = 0; w < source.size(); ++w)
    for (std::size_t l = 0; l < source[w].size(); ++l)
      for (std::size_t r = 0; r < result[w][l].size(); ++r)
        result[w][l][r] = source[w][l].at(static_cast<std::size_t>(plan.source.at(r)));
  return result;
}

inline Block execute(const WarpShuffles& plan, const Block& source, const LinearLayout& to, int,
                     std::size_t&) {
  Block result = empty_block(to);
  for (std::uint32_t w = 0; w < source.size(); ++w) {
    const auto lanes = static_cast<std::uint32_t>(source[w].size());
    std::vector<Thread> got(lanes, Thread(plan.steps.size()));
    for (std::size_t s = 0; s < plan.steps.size(); ++s) {
      const auto& step = plan.steps[s];
      Thread offer;
      for (std::uint32_t l = 0; l < lanes; ++l)
        offer.push_back(source[w][l].at(static_cast<std::uint32_t>(step.offered) ^ plan.source_flip(l, w)));
      for (std::uint32_t l = 0; l < lanes; ++l) {
        const std::uint32_t from = plan.source_lane(l, w) ^ static_cast<std::uint32_t>(step.lane_flip);
        if (!step.moves) require(from == l, "a step that stays reads its own lane");
        got[l][s] = offer.at(from);
      }
    }
    for (std::uint32_t l = 0; l < lanes; ++l)
      for (std::size_t r = 0; r < result[w][l].size(); ++r) {
        const std::uint32_t slot = static_cast<std::uint32_t>(plan.slot_of.at(r)) ^ plan.slot_flip(l, w);
        result[w][l][r] = got[l].at(slot * static_cast<std::uint32_t>(plan.rounds) + plan.kept_round(l, w));
      }
  }
  return result;
}

inline Block execute(const SharedExchange& plan, const Block& source, const LinearLayout& to,
                     int element_bytes, std::size_t& conflicts) {
  Block result = empty_block(to, ~std::uint64_t{0});
  const auto size = static_cast<std::uint32_t>(element_bytes);
  const auto passes = static_cast<std::size_t>(plan.passes);
  require(plan.stores.size() % passes == 0 && plan.loads.size() % passes == 0, "passes are equal");
  auto part_of = [&](const std::vector<SharedExchange::Access>& all, std::size_t pass) {
    return std::span(all).subspan(pass * (all.size() / passes), all.size() / passes);
  };
  auto store = [&](SharedMemory& memory, std::size_t pass, std::uint32_t w) {
    if (w & plan.silent.warps) return;
    for (const auto& access : part_of(plan.stores, pass)) {
      require(access.registers.size() == static_cast<std::size_t>(plan.store_elements),
              "a store has its width");
      std::vector<SharedMemory::Request> requests;
      for (std::uint32_t l = 0; l < source[w].size(); ++l) {
        if (l & plan.silent.lanes) continue;
        const std::uint32_t address = plan.store_offset(l, w) ^ access.offset;
        requests.push_back({l, address});
        for (std::uint32_t p = 0; p < access.registers.size(); ++p) {
          const auto r = static_cast<std::size_t>(access.registers.at(p));
          memory.store(address + p * size, &source[w][l].at(r), size, static_cast<int>(w));
        }
      }
      memory.account(requests, size * static_cast<std::uint32_t>(plan.store_elements));
    }
  };
  auto load = [&](SharedMemory& memory, std::size_t pass, std::uint32_t w) {
    for (const auto& access : part_of(plan.loads, pass)) {
      require(access.registers.size() == static_cast<std::size_t>(plan.load_elements),
              "a load has its width");
      std::vector<SharedMemory::Request> requests;
      for (std::uint32_t l = 0; l < result[w].size(); ++l) {
        const std::uint32_t address = plan.load_offset(l, w) ^ access.offset;
        requests.push_back({l, address});
        for (std::uint32_t p = 0; p < access.registers.size(); ++p) {
          const auto r = static_cast<std::size_t>(access.registers.at(p));
          std::uint64_t value = 0;
          memory.load(address + p * size, &value, size);
          if (plan.within_warp)
            require(memory.writer(address + p * size) == static_cast<int>(w),
                    "in an exchange within warps, a warp loads what it stored");
          result[w][l].at(r) = value;
        }
      }
      memory.account(requests, size * static_cast<std::uint32_t>(plan.load_elements));
    }
  };
  const auto warps = static_cast<std::uint32_t>(source.size());
  for (std::size_t pass = 0; pass < passes; ++pass) {
    SharedMemory memory(plan.bytes);
    for (std::uint32_t w = 0; w < warps; ++w) {
      store(memory, pass, w);
      // In an exchange within warps, a warp may load before the other warps have stored.
      if (plan.within_warp) load(memory, pass, w);
    }
    for (std::uint32_t w = 0; w < warps && !plan.within_warp; ++w)
      load(memory, pass, w);
    conflicts += memory.conflicts;
  }
  for (Warp& warp : result)
    for (Thread& thread : warp)
      for (std::size_t r = 0; r < thread.size(); ++r)
        thread[r] = thread.at(static_cast<std::size_t>(plan.copy_of.at(r)));
  return result;
}

inline Block execute(const Conversion& plan, const Block& source, const LinearLayout& to, int element_bytes,
                     std::size_t& conflicts) {
  return std::visit([&](const auto& p) { return execute(p, source, to, element_bytes, conflicts); }, plan);
}

// Random layouts.

// A layout of the dimensions register, lane and warp with random bases, which reaches all elements of `outs`
// and has `copy_bits` more input bits than that takes.
inline LinearLayout random_layout(std::mt19937_64& random, const LinearLayout::Dims& outs, int lanes,
                                  int warps, int copy_bits) {
  int tile_bits = 0;
  for (const auto& d : outs)
    tile_bits += d.bits;
  const int registers = std::max(0, tile_bits + copy_bits - lanes - warps);
  const auto bits = static_cast<std::size_t>(registers + lanes + warps);
  for (;;) {
    std::vector<std::uint64_t> columns;
    for (std::size_t i = 0; i < bits; ++i)
      columns.push_back(random() & ((std::uint64_t{1} << tile_bits) - 1));
    LinearLayout layout({{in_register, registers}, {in_lane, lanes}, {in_warp, warps}}, outs, columns);
    if (layout.is_surjective()) return layout;
  }
}

// Each bit of an element is one bit of a place, in random order, and surplus bits of places map to zero, as
// in usual layouts.
inline LinearLayout random_permutation(std::mt19937_64& random, const LinearLayout::Dims& outs, int lanes,
                                       int warps, int copy_bits) {
  int tile_bits = 0;
  for (const auto& d : outs)
    tile_bits += d.bits;
  const int registers = std::max(0, tile_bits + copy_bits - lanes - warps);
  std::vector<std::uint64_t> columns(static_cast<std::size_t>(registers + lanes + warps), 0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(tile_bits); ++i)
    columns[i] = std::uint64_t{1} << i;
  std::shuffle(columns.begin(), columns.end(), random);
  return LinearLayout({{in_register, registers}, {in_lane, lanes}, {in_warp, warps}}, outs, columns);
}

// A layout of one of these kinds, of a tile of up to three axes on up to eight warps.
inline LinearLayout random_tile_layout(std::mt19937_64& random) {
  LinearLayout::Dims outs;
  const int rank = 1 + static_cast<int>(random() % 3);
  for (int axis = 0; axis < rank; ++axis)
    outs.push_back({axis_name(axis), static_cast<int>(random() % (rank == 1 ? 10 : 5))});
  const int warps = static_cast<int>(random() % 4), copies = static_cast<int>(random() % 4);
  return random() % 2 ? random_layout(random, outs, lane_bits, warps, copies)
                      : random_permutation(random, outs, lane_bits, warps, copies);
}

inline std::vector<std::uint64_t> random_tile(std::mt19937_64& random, int tile_bits, int element_bytes) {
  std::vector<std::uint64_t> tile(std::size_t{1} << tile_bits);
  for (auto& v : tile)
    v = random() >> (64 - 8 * element_bytes);
  return tile;
}

} // namespace simulated
