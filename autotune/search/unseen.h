// Members of a space that were not proposed yet: what every strategy draws from.
#pragma once

#include <kiln/autotune/search/strategy.h>

#include <unordered_set>

namespace kiln::tune {

class Unseen {
public:
  explicit Unseen(BoundSpace& space) : space_(space) {}

  // True the first time for each member; false for points proposed before, and for those that are no members.
  bool take(const Point& point);
  bool contains(const Point& point) const { return !seen_.contains(point) && space_.contains(point); }
  bool proposed(const Point& point) const { return seen_.contains(point); }
  std::size_t count() const { return seen_.size(); } // of those that were taken

  // One of them at random, taken. Nothing if there are no more, or none was found.
  std::optional<Point> draw(Random& random);
  // Adds the space's seeds that are not taken yet.
  void add_seeds(std::vector<Proposal>& to, std::size_t most);

private:
  BoundSpace& space_;
  std::unordered_set<Point, PointHash> seen_;
  std::vector<std::uint32_t> rest_; // of the members in points(), where they are few: first those not drawn
  bool listed_ = false;
};

} // namespace kiln::tune
