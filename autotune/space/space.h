// Defines Space, a set of configs to search: knobs with their values, rules between them, and seeds known to
// work.
//
//   using Choice = tune::Choice;
//   tune::Space space;
//   space.pow2("BM", 16, 256).pow2("BN", 16, 256).pow2("BK", 16, 128);
//   space.oneof("num_warps", {1, 2, 4, 8}).range("splits", 1, 8).oneof("atomic", {0, 1});
//   space.require("a warp has work",
//                 [](const Choice& c) { return c["BM"] * c["BN"] >= 1024 * c["num_warps"]; });
//   space.require("tiles fit",
//                 [](const Choice& c, const tune::Problem& p) { return c["BM"] <= 2 * p["M"]; });
//   space.implies("splits need atomics",
//                 [](const Choice& c) { return c["splits"] > 1; },
//                 [](const Choice& c) { return c["atomic"] == 1; });
//   space.seed({{"BM", 64}, {"BN", 64}, {"BK", 32}, {"num_warps", 4}});
//
// A knob with the name of a dimension of the kernel (KILN_DIM) or of an option (num_warps) sets that part of
// the config. All other knobs are for the caller's own use. A Space is a value that can be copied.
//
// A search binds a Space to a problem and a device: see BoundSpace, which also shows the effect of the rules
// without a search.
//
//   tune::BoundSpace bound(space, {.sizes = {{"M", 512}, {"N", 512}, {"K", 512}}}, Device::cpu());
//   std::printf("%g points; %s\n", bound.size(), bound.what_refuses().c_str());
#pragma once

#include <kiln/autotune/random.h>
#include <kiln/autotune/stop.h>
#include <kiln/dsl/api.h>
#include <kiln/dsl/config.h>
#include <kiln/dsl/dim.h>
#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/device.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

KILN_API_BEGIN
namespace kiln::tune {

// A problem that a kernel solves: its named sizes, and other properties that distinguish problems, such as
// dtypes and layouts.
struct Problem {
  std::vector<std::pair<std::string, std::int64_t>> sizes; // in the order in which they were given
  std::string kind;                                        // dtypes and layouts, such as "f32.nn"
  std::string key = {}; // given by the caller, such as "rows of 0 to 7"; see TunedKernel::with_key

  std::int64_t operator[](std::string_view name) const; // throws UserError if there is no such size
  // Returns the size of this name, or nothing.
  std::optional<std::int64_t> find(std::string_view name) const;
  bool operator==(const Problem&) const = default;
  std::string to_string() const; // "M=512,N=512,K=512 f32.nn", and the key in quotes if there is one
};

// A parameter to tune, with the values that it can take.
struct Knob {
  std::string name;
  std::vector<std::int64_t> values;
  std::vector<std::string> labels; // the words of a `oneof` with words, whose values are 0, 1, ...
  bool ordered = true;             // neighbouring values behave alike, as sizes do

  std::string text(std::size_t index) const; // the value as text: "128", "swizzled"
};

// A point of a space: for each knob, in order, the index of its value.
using Point = std::vector<std::uint16_t>;
struct PointHash {
  std::size_t operator()(const Point& p) const noexcept;
};

// The values of the knobs, as a rule sees them. A rule may be called while some knobs have no value yet; its
// result then counts only if the rule read none of those knobs.
class Choice {
public:
  // Returns the value of a knob. Throws UserError if the space has no knob of this name.
  std::int64_t operator[](std::string_view knob) const;
  template <class D>
    requires std::is_base_of_v<Dimension, D>
  std::int64_t operator[](const D&) const {
    return (*this)[std::string_view(D::dimension_name)];
  }
  std::int64_t operator[](const Option& option) const { return (*this)[std::string_view(option.name)]; }
  std::string_view label(std::string_view knob) const; // the word of a knob whose values are words

private:
  friend class BoundSpace;
  // The knobs in the order in which the rule read them in its last call. A rule usually reads them in the
  // same order again, which saves searching for names.
  using Order = std::vector<std::uint16_t>;
  Choice(const std::vector<Knob>& knobs, const Point& point, std::uint64_t known, Order& order)
      : knobs_(knobs), point_(point), known_(known), order_(order) {}
  std::size_t find(std::string_view knob) const;
  std::size_t index_of(std::string_view knob) const;
  const std::vector<Knob>& knobs_;
  const Point& point_;
  std::uint64_t known_; // bit k: knob k has a value
  Order& order_;
  mutable std::size_t reads_ = 0;  // the number of reads so far
  mutable std::uint64_t read_ = 0; // bit k: knob k was read before `wants_`, or is that knob
  mutable int wants_ = -1;         // the first knob that was read and has no value, or -1
};

// The name of a knob, from a string, a dimension or an option.
struct KnobName {
  std::string text;
  KnobName(const char* name) : text(name) {}
  KnobName(std::string name) : text(std::move(name)) {}
  KnobName(const Option& option) : text(option.name) {}
  template <class D>
    requires std::is_base_of_v<Dimension, D>
  KnobName(const D&) : text(D::dimension_name) {}
};

class Space {
public:
  using Rule = std::function<bool(const Choice&, const Problem&, Device)>;
  static constexpr std::size_t most_knobs = 64;

  // Each of these functions adds a knob. Its values are the powers of two from `least` to `most`; the numbers
  // from `least` to `most` in steps of `step`; the listed numbers; or the listed words. They throw UserError
  // for an empty or reversed range, a step below 1, a repeated value, a second knob of the same name, or more
  // than most_knobs knobs.
  Space& pow2(KnobName name, std::int64_t least, std::int64_t most);
  Space& range(KnobName name, std::int64_t least, std::int64_t most, std::int64_t step = 1);
  Space& oneof(KnobName name, std::initializer_list<std::int64_t> values);
  Space& oneof(KnobName name, std::initializer_list<const char*> words);
  Space& knob(Knob knob); // adds a knob that the caller filled in

  // Adds a rule, which returns whether a combination of values is allowed. It takes a Choice and optionally
  // the Problem and the Device. It must be pure and fast, since it is called for many points, and it must
  // accept any combination of values, including those that other rules reject. Reports refer to the rule by
  // its name. Throws UserError if the name is empty or taken.
  template <class F> Space& require(std::string name, F rule) {
    return add_rule(std::move(name), as_rule(std::move(rule)));
  }
  // Adds the rule that `then` must hold wherever `condition` holds. Both are functions like those of
  // require().
  template <class F, class G> Space& implies(std::string name, F condition, G then) {
    return add_rule(std::move(name),
                    [condition = as_rule(std::move(condition)),
                     then = as_rule(std::move(then))](const Choice& c, const Problem& p, Device d) {
                      return !condition(c, p, d) || then(c, p, d);
                    });
  }
  // Adds a config that works everywhere. The first seed is measured first, and is used if nothing better is
  // known. Knobs that a seed omits get their first value. Throws UserError for an unknown knob, or for a
  // value that the knob does not have.
  Space& seed(std::initializer_list<std::pair<const char*, std::int64_t>> values);
  Space& seed(const Config& config);
  Space& seed(Point point);
  // Adds a seed that has, for each knob, the value nearest to that of `config`; names that are not knobs are
  // ignored.
  Space& seed_near(const Config& config);
  // Restricts the space to these points, for example those of an exhaustive table. Throws UserError for a
  // point that does not fit the knobs.
  Space& only(std::vector<Point> points);

  // Declares knobs that do not change the order of additions in any sum, so that configs which differ only in
  // these knobs give bitwise equal results. All other knobs are assumed to change the order.
  Space& keeps_order(std::initializer_list<KnobName> names);
  // Fixes all knobs that keeps_order did not declare to their values in the first seed. Throws UserError if
  // there is no seed.
  Space& only_one_order();

  const std::vector<Knob>& knobs() const { return knobs_; }
  const std::vector<Point>& seeds() const { return seeds_; }
  // Returns the knobs, their values and the names of the rules as text, which identifies the space. The text
  // does not reflect what a rule computes, so a rule whose meaning changes should get a new name.
  std::string text() const;

private:
  friend class BoundSpace;
  struct NamedRule {
    std::string name;
    Rule holds;
  };
  template <class F> static Rule as_rule(F f) {
    if constexpr (std::is_invocable_v<F, const Choice&, const Problem&, Device>)
      return f;
    else if constexpr (std::is_invocable_v<F, const Choice&, const Problem&>)
      return [f](const Choice& c, const Problem& p, Device) { return f(c, p); };
    else {
      static_assert(std::is_invocable_v<F, const Choice&>,
                    "a rule takes (const tune::Choice&), (const tune::Choice&, const tune::Problem&), or "
                    "those and a Device");
      return [f](const Choice& c, const Problem&, Device) { return f(c); };
    }
  }
  Space& add_rule(std::string name, Rule rule);

  std::vector<Knob> knobs_;
  std::vector<NamedRule> rules_;
  std::vector<Point> seeds_;
  std::vector<std::size_t> order_keepers_; // indices of knobs
  std::shared_ptr<const std::vector<Point>> only_;
};

// A space for one problem on one device. It enumerates points only when that is needed: knobs get values one
// after the other, and a rule cuts a branch as soon as all knobs that it reads have a value (the tree of
// Rasch et al., "Efficient auto-tuning of parallel programs with interdependent tuning parameters via
// auto-tuning framework (ATF)", TACO 2021). It works for spaces of 10^9 points and more. Not thread-safe.
class BoundSpace {
public:
  // `legal` is an optional check of whole points, which is called after all rules. It stands for the
  // compiler's own check of configs.
  BoundSpace(Space space, Problem problem, Device device, std::function<bool(const Point&)> legal = {});

  const std::vector<Knob>& knobs() const { return space_.knobs(); }
  const Space& space() const { return space_; }
  const Problem& problem() const { return problem_; }
  Device device() const { return device_; }

  bool contains(const Point& point) const;
  // Returns the name of the first rule that rejects the point, or "" if none does. Reasons that are not rules
  // have names too: "not one of its values", "not in the list", "the compiler".
  std::string refused_by(const Point& point) const;
  // Returns one line for messages, which says which rules reject most or all of the space: "\"fits\" rejects
  // 93 % of all combinations".
  std::string what_refuses() const;

  // Returns all members, in the order of the knobs' values or of only(), if there are at most `most`. Returns
  // null if there are more, or if finding out would take more than 16 million rule calls or 65536 calls of
  // `legal`. Also returns null if `stop` returned true while members were counted; later calls do not start
  // the count again.
  const std::vector<Point>* points(std::size_t most = 1u << 20, const Stop& stop = {});
  // Returns the number of members: the exact number if points() has them or they could be counted, else an
  // estimate. `*exact` says which it is.
  double size(bool* exact = nullptr);
  // Draws a random member. All members are equally likely (nearly so in a space that is too large to count).
  // Returns nothing if there is no member or none was found.
  std::optional<Point> sample(Random& random);
  // Returns the members that differ from `point` in exactly one knob, in the order of the knobs.
  std::vector<Point> neighbours(const Point& point) const;
  // Returns the seeds that are members.
  std::vector<Point> seeds() const;

  std::int64_t value(const Point& point, std::size_t knob) const { return knobs()[knob].values[point[knob]]; }
  Config config(const Point& point) const; // all knobs whose values are numbers
  // Converts a config to a point. The config must have all knobs whose values are numbers and may have other
  // names; knobs with words get their first value. Returns nothing if a knob is missing or has a value that
  // it does not take.
  std::optional<Point> point(const Config& config) const;
  std::string text(const Point& point) const; // "BM=64,BN=64,order=swizzled"

  struct KILN_INTERNAL Tree; // see space_tree.h

private:
  Space space_;
  Problem problem_;
  Device device_;
  std::function<bool(const Point&)> legal_;
  std::shared_ptr<Tree> tree_;
};

} // namespace kiln::tune
KILN_API_END
