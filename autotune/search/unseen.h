// Draws members of a space that were not proposed before.
#pragma once

#include <kiln/autotune/search/strategy.h>

#include <unordered_set>

namespace kiln::tune {

class Unseen {
public:
  explicit Unseen(BoundSpace& space) : space_(space) {}

  // Returns true the first time for each member; false for points proposed before and for points that are not
  // members.
  bool take(const Point& point);
  bool contains(const Point& point) const { return !seen_.contains(point) && space_.contains(point); }
  bool proposed(const Point& point) const { return seen_.contains(point); }
  std::size_t count() const { return seen_.size(); } // number of taken points

  // Takes a random member. Returns nothing if there are no more, or none was found.
  std::optional<Point> draw(Random& random);
  // Takes the space's remaining seeds, and appends them.
  void add_seeds(std::vector<Proposal>& to, std::size_t most);

private:
  BoundSpace& space_;
  std::unordered_set<Point, PointHash> seen_;
  std::vector<std::uint32_t> rest_; // members not yet drawn, as indices in points()
  bool listed_ = false;
};

} // namespace kiln::tune
