// What a tuner may choose: knobs, the rules between them, and a config that is known to work.
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
// Knobs named like dimensions (KILN_DIM) and options (num_warps) become the kernel's config; others are the
// caller's. A space is a value; it is bound to a problem and a device before it is searched.
#pragma once

#include <kiln/autotune/random.h>
#include <kiln/autotune/stop.h>
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

namespace kiln::tune {

// What is to be computed: named sizes, and what else distinguishes problems ("f32", "nt").
struct Problem {
  std::vector<std::pair<std::string, std::int64_t>> sizes; // in the order given
  std::string kind;                                        // dtypes and layouts, "f32.nn"

  std::int64_t operator[](std::string_view name) const; // UserError if there is no such size
  std::optional<std::int64_t> find(std::string_view name) const;
  bool operator==(const Problem&) const = default;
  std::string to_string() const; // "M=512,N=512,K=512 f32.nn"
};

struct Knob {
  std::string name;
  std::vector<std::int64_t> values;
  std::vector<std::string> labels; // of `oneof` with words, whose values are 0, 1, ...; else empty
  bool ordered = true;             // its values are sizes, so that neighbours are alike

  std::string text(std::size_t index) const; // of a value: "128", "swizzled"
};

// A member of a space: for each knob in order the index of its value.
using Point = std::vector<std::uint16_t>;
struct PointHash {
  std::size_t operator()(const Point& p) const noexcept;
};

// The values of knobs while a rule looks at them. A rule may be asked before all knobs have a value; what it
// then answers is used only if it read none of those that lack one.
class Choice {
public:
  // UserError if the space has no knob of this name.
  std::int64_t operator[](std::string_view knob) const;
  template <class D>
    requires std::is_base_of_v<Dimension, D>
  std::int64_t operator[](const D&) const {
    return (*this)[std::string_view(D::dimension_name)];
  }
  std::int64_t operator[](const Option& option) const { return (*this)[std::string_view(option.name)]; }
  std::string_view label(std::string_view knob) const; // of a knob of words

private:
  friend class BoundSpace;
  // Knobs in the order in which a rule read them when it was last asked: it mostly reads them so again.
  using Order = std::vector<std::uint16_t>;
  Choice(const std::vector<Knob>& knobs, const Point& point, std::uint64_t known, Order& order)
      : knobs_(knobs), point_(point), known_(known), order_(order) {}
  std::size_t find(std::string_view knob) const;
  std::size_t index_of(std::string_view knob) const;
  const std::vector<Knob>& knobs_;
  const Point& point_;
  std::uint64_t known_; // bit k: knob k has a value
  Order& order_;
  mutable std::size_t reads_ = 0;  // so far
  mutable std::uint64_t read_ = 0; // bit k: knob k was read, before any that has no value yet
  mutable int wants_ = -1;         // the first that was read and has no value yet
};

// A knob's name: a word, a dimension or an option.
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

  // All throw UserError for an empty or reversed range, a knob that is there already, or too many.
  Space& pow2(KnobName name, std::int64_t least, std::int64_t most);
  Space& range(KnobName name, std::int64_t least, std::int64_t most, std::int64_t step = 1);
  Space& oneof(KnobName name, std::initializer_list<std::int64_t> values);
  Space& oneof(KnobName name, std::initializer_list<const char*> words);
  Space& knob(Knob knob); // as it is

  // A rule with a name, by which reports say what it removed. It takes a Choice, and if it wants them the
  // Problem and the Device; pure and fast, since it is asked for many points. It must bear any values of the
  // knobs, those too that another rule refuses.
  template <class F> Space& require(std::string name, F rule) {
    return add_rule(std::move(name), as_rule(std::move(rule)));
  }
  template <class F, class G> Space& implies(std::string name, F condition, G then) {
    return add_rule(std::move(name),
                    [condition = as_rule(std::move(condition)),
                     then = as_rule(std::move(then))](const Choice& c, const Problem& p, Device d) {
                      return !condition(c, p, d) || then(c, p, d);
                    });
  }
  // A config that works everywhere; the first one is measured first, and used where nothing is known. A knob
  // that it leaves out has its first value; UserError for a value that its knob lacks.
  Space& seed(std::initializer_list<std::pair<const char*, std::int64_t>> values);
  Space& seed(const Config& config);
  Space& seed(Point point);
  // With the nearest value that each knob has; what is no knob is left out.
  Space& seed_near(const Config& config);
  // Nothing but these points: an exhaustive table's.
  Space& only(std::vector<Point> points);

  // Knobs that change no sum's order of additions, so that configs which differ in them alone give the same
  // bits. Without it every knob may.
  Space& keeps_order(std::initializer_list<KnobName> names);
  // Only configs with the first seed's values for all other knobs. UserError if there is no seed.
  Space& only_one_order();

  const std::vector<Knob>& knobs() const { return knobs_; }
  const std::vector<Point>& seeds() const { return seeds_; }
  // Of knobs, values and the names of rules, and so of all problems the same where those are; what a rule
  // computes is not in it, so that a rule which changes its meaning should change its name.
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
  std::vector<std::size_t> order_keepers_; // knobs
  std::shared_ptr<const std::vector<Point>> only_;
};

// A space for one problem on one device. Nothing is enumerated until it is asked for: knobs are given values
// one after the other, and a rule cuts a branch as soon as all that it reads is known (the tree of Rasch et
// al., "Efficient auto-tuning of parallel programs with interdependent tuning parameters via auto-tuning
// framework (ATF)", TACO 2021). Works for spaces of 10^9 points and more. Not thread-safe.
class BoundSpace {
public:
  // `legal`, if there is one, is asked last and for whole points: the compiler's own check.
  BoundSpace(Space space, Problem problem, Device device, std::function<bool(const Point&)> legal = {});

  const std::vector<Knob>& knobs() const { return space_.knobs(); }
  const Space& space() const { return space_; }
  const Problem& problem() const { return problem_; }
  Device device() const { return device_; }

  bool contains(const Point& point) const;
  // The name of the first rule that refuses the point; empty if none does. What is no rule has names too:
  // "not one of its values", "not in the list", "the compiler".
  std::string refused_by(const Point& point) const;
  // Which rules leave little or nothing, as one line for messages: "\"fits\" refuses 93 % of all
  // combinations".
  std::string what_refuses() const;

  // All members if there are at most `most`, in the order of the knobs' values or of only(); nothing if there
  // are more, or the rules (16 million questions) or the compiler (65536) would be asked too often.
  // Nothing too once `stop` said so while they were counted, which is not begun again.
  const std::vector<Point>* points(std::size_t most = 1u << 20, const Stop& stop = {});
  // How many members there are: exact where points() has them or they could be counted, else an estimate.
  double size(bool* exact = nullptr);
  // One of them, each as likely as the others (nearly so in spaces too large to count). Nothing if there is
  // none, or none was found.
  std::optional<Point> sample(Random& random);
  // Members that differ from `point` in one knob, in the order of the knobs.
  std::vector<Point> neighbours(const Point& point) const;
  // The seeds that are members.
  std::vector<Point> seeds() const;

  std::int64_t value(const Point& point, std::size_t knob) const { return knobs()[knob].values[point[knob]]; }
  Config config(const Point& point) const; // of all knobs whose values are numbers
  // Of a config that has all these knobs, and maybe others; knobs of words have their first. Nothing if it
  // lacks one, or has a value that the knob does not take.
  std::optional<Point> point(const Config& config) const;
  std::string text(const Point& point) const; // "BM=64,BN=64,order=swizzled"

  struct Tree; // see space_tree.h

private:
  Space space_;
  Problem problem_;
  Device device_;
  std::function<bool(const Point&)> legal_;
  std::shared_ptr<Tree> tree_;
};

} // namespace kiln::tune
