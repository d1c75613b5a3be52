// Adds up lanes by halving the number of vectors: two vectors become one that holds the partial sums of both.
#include <kiln/jit/emit/lane_sums.h>

#include <kiln/dsl/error.h>

#include <algorithm>
#include <bit>

namespace kiln::emit {

namespace {

// The lanes of two vectors x and y, one after the other, whose sums become one vector.
struct Pairs {
  std::vector<int> first, second;
};

// Interleaves blocks of `block` lanes of x and y within groups of `group` lanes, which is one instruction on
// most processors: the blocks of the lower halves of the groups, and those of the upper halves.
Pairs within_groups(int lanes, int group, int block) {
  Pairs pairs;
  for (int lane = 0; lane < lanes; ++lane) {
    const int in_group = lane % group, number = in_group / block;
    const int from = lane - in_group + number / 2 * block + in_group % block + (number % 2 ? lanes : 0);
    pairs.first.push_back(from);
    pairs.second.push_back(from + group / 2);
  }
  return pairs;
}

// The even groups of x and y, and the odd ones.
Pairs of_groups(int lanes, int group) {
  Pairs pairs;
  for (int lane = 0; lane < lanes; ++lane) {
    const int from = 2 * (lane - lane % group) + lane % group;
    pairs.first.push_back(from);
    pairs.second.push_back(from + group);
  }
  return pairs;
}

void halve(IRBuilder& b, Values& vectors, const Pairs& pairs) {
  Values sums;
  for (std::size_t i = 0; i < vectors.size(); i += 2) {
    llvm::Value *x = vectors[i], *y = vectors[std::min(i + 1, vectors.size() - 1)];
    sums.push_back(
        b.CreateFAdd(b.CreateShuffleVector(x, y, pairs.first), b.CreateShuffleVector(x, y, pairs.second)));
  }
  vectors = std::move(sums);
}

} // namespace

llvm::Value* lane_sums(IRBuilder& b, Values vectors) {
  const int lanes = lanes_of(vectors[0]);
  internal_check(std::has_single_bit(static_cast<unsigned>(lanes)) &&
                     vectors.size() <= static_cast<std::size_t>(lanes),
                 "the lanes of more vectors than a vector has lanes");
  constexpr int shuffled_bits = 128;
  const auto bits = static_cast<int>(vectors[0]->getType()->getScalarSizeInBits());
  const int group = std::min(lanes, shuffled_bits / bits);
  for (int block = 1; block < group; block *= 2)
    halve(b, vectors, within_groups(lanes, group, block));
  for (int groups = lanes / group; groups > 1; groups /= 2)
    halve(b, vectors, of_groups(lanes, group));
  return vectors[0];
}

} // namespace kiln::emit
