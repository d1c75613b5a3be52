// Records how far the elements of an output move when the inputs move by a rounding error.
//
// Two configs that are both right differ by rounding errors, and what these do to an element depends on the
// element: a sum of large terms that nearly cancel moves by much more than its value suggests, and the mean
// of a column by much less than the largest element of the array. The reference therefore runs a few times on
// inputs that are perturbed (perturb.h), and the largest change of each element, its spread, is kept.
//
// Some changes are rare and large instead: where a float decides between two values (a comparison, a
// rounding to an integer, the index of a maximum), a few elements jump and others stay exactly equal. In
// another config, other elements jump. These are counted, so that a comparison may accept as many.
#pragma once

#include <kiln/dsl/dtype.h>

#include <cstddef>
#include <span>
#include <vector>

namespace kiln::tune {

class Motion {
public:
  Motion() = default;
  // The spreads of an output with this many elements start at zero.
  Motion(DType dtype, std::size_t elements) : dtype_(dtype), spread_(elements) {}

  // Adds a run of the reference on perturbed inputs: `values` are those of the run on the original inputs,
  // and `moved` those of this one. `unwritten` says which elements the former did not write (empty: it wrote
  // all), and `poisoned` is the pattern before the latter (empty: the output has contents before a launch).
  // An element that is finite or written in one of the two runs alone moves by infinity, so that it is not
  // compared.
  void add(std::span<const unsigned char> values, std::span<const unsigned char> moved,
           const std::vector<bool>& unwritten, std::span<const unsigned char> poisoned);
  // Ends the recording: computes the medians and the number of jumps. `floor(r)` is the rounding error of an
  // element whose value is r.
  void settle(std::span<const unsigned char> values);

  bool known() const { return runs_ > 0; }
  int runs() const { return runs_; }
  float spread(std::size_t i) const { return spread_[i]; }
  // The median spread of the elements whose magnitude is in [2^k, 2^(k+1)) with that of `value`.
  double median_near(double value) const;
  double typical() const { return typical_; }         // that of the floats that move but do not jump
  double moved_share() const { return moved_share_; } // the largest share of elements that move in a run
  double jump_share() const { return jump_share_; }   // the share of elements that jump in any run
  double largest_jump() const { return largest_jump_; }
  double largest_move() const; // of finite elements
  // Floats of a kernel that rounds or compares floats: the largest move when the inputs move much further.
  // Few elements may differ by twice as much, even if none jumped.
  double step = 0;
  // Integers: an element changed when all float inputs changed by several percent.
  bool from_floats = false;

private:
  DType dtype_ = DType::F32;
  int runs_ = 0;
  std::vector<float> spread_;
  std::vector<double> medians_; // by binade
  double typical_ = 0, moved_share_ = 0, jump_share_ = 0, largest_jump_ = 0;
};

} // namespace kiln::tune
