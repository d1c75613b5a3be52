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
//
// If many jump, there are two possible reasons. Either the values are fine, such as 10^5 times a logarithm
// that is rounded to integers: then most elements move further when the inputs move further, or they move by
// the rounding errors inside of the kernel alone. Or the inputs lie exactly on decisions, such as whole
// numbers that are rounded down: then neither is so, and since right configs decide as the reference does,
// only a small share may jump.
//
// The changes of the terms of a short sum often cancel, so that an element does not move in any run although
// another order of its terms changes it. How many elements do so is estimated from those that move in one and
// in two of the runs only.
#pragma once

#include <kiln/dsl/dtype.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kiln::tune {

class Motion {
public:
  Motion() = default;
  // The spreads of an output with this many elements start at zero.
  Motion(DType dtype, std::size_t elements);

  // The values of a run on perturbed inputs next to those on the original inputs. `unwritten` says which
  // elements the latter did not write, and `moved_unwritten` which the former did not (empty: all are
  // written).
  struct Run {
    std::span<const unsigned char> values, moved;
    const std::vector<bool>& unwritten;
    const std::vector<bool>& moved_unwritten;
  };
  // Adds a run of the reference on inputs that moved by one rounding error. An element that is finite or
  // written in one of the two runs alone moves by infinity, so that it is not compared.
  void add(const Run& run);
  // The same for a run on the original inputs, whose results may differ because the order of atomics does.
  void add_repeat(const Run& run);
  // Adds a run on inputs that moved `times` as far: counts the elements that jump in it.
  void add_further(const Run& run, double times);
  // Returns whether so many elements jump that the reason matters, and adds a run on the original inputs, in
  // which only the rounding errors inside of the kernel differ.
  bool is_unclear() const;
  void add_internal(const Run& run);
  // Adds a run in which only rounding errors of the size of the kernel's own change a coarser output, and
  // counts the elements that move.
  void add_rounding(const Run& run);
  // Ends the recording: computes medians and counts jumps.
  void settle(std::span<const unsigned char> values);
  // Adds a run like those of add() to an output whose recording has ended: spreads that were too small by
  // chance grow. Medians and jumps stay as they are. Only for floats and for integers that are as fine.
  bool can_be_finer() const;
  void add_finer(const Run& run);

  bool known() const { return runs_ > 0; } // there was a run on perturbed inputs
  bool has_spreads() const { return elements_ > 0; }
  int runs() const { return runs_; }
  double spread(std::size_t i) const { return wide_.empty() ? narrow_[i] : wide_[i]; }
  // The median spread of the elements whose magnitude is in [2^k, 2^(k+1)) with that of `value`.
  double median_near(double value) const;
  bool varies() const { return varies_; }     // a run on the original inputs was unlike another
  double typical() const { return typical_; } // that of the floats that move but do not jump
  bool moves() const { return moves_; }       // at least one element does
  // The number of elements that jump in any run of the first kind, and of integers that change; the number in
  // the run on inputs that move further; and the largest finite jump in these runs.
  std::size_t jumps() const { return jumps_; }
  std::size_t further_jumps() const { return further_jumps_; }
  double largest_jump() const { return largest_jump_; }
  // The number of elements that moved in a run of add_rounding(), if there was one.
  std::optional<std::size_t> moved_by_rounding() const { return moved_by_rounding_; }
  // An estimate of how many of the elements that moved in no run did not move by chance only.
  double unmoved_by_chance() const { return unmoved_by_chance_; }
  // The inputs lie exactly on decisions.
  bool on_ties() const { return on_ties_; }
  // Integers: an element changed when all float inputs changed by several percent.
  bool from_floats = false;

private:
  // The movement of a run: the sum of what elements move relative to their magnitude, for those that move
  // much further than their own rounding error. An element counts at most 1.
  double movement_of(const Run& run) const;
  void keep_spreads(const Run& run);
  void find_medians(std::span<const unsigned char> values);
  void estimate_unmoved(std::span<const unsigned char> values);
  bool jumps_by(double distance, double value) const;
  void raise_spread(std::size_t i, double distance);
  bool is_large(double distance, double magnitude) const;

  DType dtype_ = DType::F32;
  int runs_ = 0;
  std::vector<float> narrow_; // spreads; of dtypes of 8 bytes they are doubles
  std::vector<double> wide_;
  std::vector<std::uint8_t> moves_of_; // in how many runs on perturbed inputs each element moved
  std::vector<double> medians_;        // by binade
  double typical_ = 0, largest_jump_ = 0, unmoved_by_chance_ = 0;
  double movement_ = 0; // of all runs of the first kind together
  std::optional<double> further_movement_, internal_movement_;
  std::optional<std::size_t> moved_by_rounding_;
  std::size_t elements_ = 0, jumps_ = 0, further_jumps_ = 0;
  std::size_t large_ = 0; // moves in the runs of the first kind that are much larger than a rounding error
  bool moves_ = false, varies_ = false, on_ties_ = false;
};

} // namespace kiln::tune
