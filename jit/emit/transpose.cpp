// Transposes by swapping blocks of lanes first and then interleaving lanes within blocks.
#include <kiln/jit/emit/transpose.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include <kiln/dsl/error.h>

namespace kiln::emit {

namespace {

using Lanes = std::vector<int>; // numbers of lanes in two vectors, one after the other

// Swaps the upper right and the lower left block of each square of 2 `block` lanes.
void swap_blocks(IRBuilder& b, Values& rows, int block) {
  const int n = static_cast<int>(rows.size()), lanes = lanes_of(rows[0]);
  Lanes upper, lower;
  for (int lane = 0; lane < lanes; ++lane) {
    const bool left = (lane & block) == 0;
    upper.push_back(left ? lane : lanes + lane - block);
    lower.push_back(left ? lane + block : lanes + lane);
  }
  for (int i = 0; i < n; ++i) {
    if ((i & block) != 0) continue;
    llvm::Value *&x = rows[static_cast<std::size_t>(i)], *&y = rows[static_cast<std::size_t>(i + block)];
    llvm::Value* first = b.CreateShuffleVector(x, y, upper);
    y = b.CreateShuffleVector(x, y, lower);
    x = first;
  }
}

// Interleaves the halves of groups of lanes, in each pair of rows that are `distance` apart.
void interleave_halves(IRBuilder& b, Values& rows, int group, int distance) {
  const int n = static_cast<int>(rows.size());
  Lanes low, high;
  for (int lane = 0; lane < n; ++lane) {
    const int of_group = lane % group;
    const int from = lane - of_group + of_group / 2 + (of_group % 2 == 0 ? 0 : n);
    low.push_back(from);
    high.push_back(from + group / 2);
  }
  for (int i = 0; i < n; ++i) {
    if ((i & distance) != 0) continue;
    llvm::Value *&x = rows[static_cast<std::size_t>(i)], *&y = rows[static_cast<std::size_t>(i + distance)];
    llvm::Value* first = b.CreateShuffleVector(x, y, low);
    y = b.CreateShuffleVector(x, y, high);
    x = first;
  }
}

} // namespace

Values transposed(IRBuilder& b, Values rows, int block_bits) {
  const int n = static_cast<int>(rows.size());
  internal_check(std::has_single_bit(rows.size()) && lanes_of(rows[0]) == n,
                 "a matrix to transpose is not square");
  const auto bits = static_cast<int>(rows[0]->getType()->getScalarSizeInBits());
  const int group = std::min(n, block_bits / bits);
  for (int block = n / 2; block >= group; block /= 2)
    swap_blocks(b, rows, block);
  for (int distance = group / 2; distance >= 1; distance /= 2)
    interleave_halves(b, rows, group, distance);
  return rows;
}

Values transposed_squares(IRBuilder& b, Values rows) {
  const auto n = static_cast<int>(rows.size());
  internal_check(std::has_single_bit(rows.size()) && lanes_of(rows[0]) % n == 0,
                 "vectors to transpose do not consist of squares");
  for (int block = n / 2; block >= 1; block /= 2)
    swap_blocks(b, rows, block);
  return rows;
}

namespace {

struct Place {
  int vector, lane;
};

// The vector whose lanes are at the given places, from as many shuffles of two vectors as there are vectors,
// less one.
llvm::Value* gathered(IRBuilder& b, const Values& vectors, const std::vector<Place>& places) {
  llvm::Value* all = nullptr;
  Lanes order(places.size(), llvm::PoisonMaskElem);
  const auto lanes = static_cast<int>(places.size());
  for (int v = 0; v < static_cast<int>(vectors.size()); ++v) {
    const auto here = [&](const Place& place) { return place.vector == v; };
    if (std::none_of(places.begin(), places.end(), here)) continue;
    for (std::size_t i = 0; i < places.size(); ++i)
      if (here(places[i])) order[i] = all ? lanes + places[i].lane : places[i].lane;
    llvm::Value* next = vectors[static_cast<std::size_t>(v)];
    all = all ? b.CreateShuffleVector(all, next, order) : b.CreateShuffleVector(next, order);
    for (std::size_t i = 0; i < places.size(); ++i)
      if (order[i] != llvm::PoisonMaskElem) order[i] = static_cast<int>(i);
  }
  return all;
}

} // namespace

Values deinterleaved(IRBuilder& b, const Values& rows) {
  const int n = static_cast<int>(rows.size()), lanes = lanes_of(rows[0]);
  Values columns;
  for (int c = 0; c < n; ++c) {
    std::vector<Place> places;
    for (int i = 0; i < lanes; ++i)
      places.push_back({(i * n + c) / lanes, (i * n + c) % lanes});
    columns.push_back(gathered(b, rows, places));
  }
  return columns;
}

Values interleaved(IRBuilder& b, const Values& columns) {
  const int n = static_cast<int>(columns.size()), lanes = lanes_of(columns[0]);
  Values rows;
  for (int k = 0; k < n; ++k) {
    std::vector<Place> places;
    for (int i = k * lanes; i < (k + 1) * lanes; ++i)
      places.push_back({i % n, i / n});
    rows.push_back(gathered(b, columns, places));
  }
  return rows;
}

llvm::Value* joined(IRBuilder& b, Values vectors) {
  for (; vectors.size() > 1; vectors.resize(vectors.size() / 2))
    for (std::size_t k = 0; k < vectors.size() / 2; ++k) {
      Lanes order(2 * static_cast<std::size_t>(lanes_of(vectors[2 * k])));
      std::iota(order.begin(), order.end(), 0);
      vectors[k] = b.CreateShuffleVector(vectors[2 * k], vectors[2 * k + 1], order);
    }
  return vectors[0];
}

} // namespace kiln::emit
