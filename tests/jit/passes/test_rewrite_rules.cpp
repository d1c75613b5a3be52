// Applies every rewrite rule to every dtype, and compares the bits that the interpreter computes.
#include "random_numbers.h"

#include <catch2/catch.hpp>

#include <dsl/kernel_arguments.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/ir/semantics.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/passes/rewrite_rules.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>

using namespace kiln;
using namespace kiln::ir;
using passes::Holds;
using passes::RewriteRule;

namespace {

// One side of a rule: "add(x, 0)" is the word add with two operands. The test has a reader of its own, so
// that it does not depend on the one that it tests.
struct Term {
  std::string word;
  std::vector<Term> operands;

  bool is_operation() const { return !operands.empty(); }
  bool is_letter() const { return !is_operation() && word.size() == 1 && word[0] >= 'a' && word[0] <= 'z'; }
  bool is_constant() const { return !is_operation() && (!is_letter() || word == "c" || word == "d"); }
  bool is_boolean() const { return word == "true" || word == "false"; }
  Opcode code() const {
    for (const OpInfo& op : op_table)
      if (op.name == word) return op.code;
    FAIL("there is no operation " << word);
    return Opcode::Constant;
  }
};

Term read_term(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::size_t end = std::min(text.find_first_of("(), "), text.size());
  Term term{std::string(text.substr(0, end)), {}};
  text.remove_prefix(end);
  if (!text.starts_with("(")) return term;
  do {
    text.remove_prefix(1);
    term.operands.push_back(read_term(text));
  } while (text.starts_with(","));
  REQUIRE(text.starts_with(")"));
  text.remove_prefix(1);
  return term;
}

Term pattern_of(const RewriteRule& rule) {
  std::string_view text = rule.text.substr(0, rule.text.find(" -> "));
  return read_term(text);
}

template <class F> void for_each_term(Term& term, F&& visit) {
  visit(term);
  for (Term& operand : term.operands)
    for_each_term(operand, visit);
}

bool is_swappable(const Term& term) {
  static constexpr std::string_view commutative[] = {"add", "mul", "and", "or", "xor", "eq", "ne"};
  return std::count(std::begin(commutative), std::end(commutative), term.word) && term.operands.size() == 2;
}

// The pattern with all orders of the operands of its commutative operations.
std::vector<Term> orders_of(const Term& pattern) {
  int count = 0;
  Term copy = pattern;
  for_each_term(copy, [&](const Term& t) { count += is_swappable(t); });
  std::vector<Term> orders;
  for (int mask = 0; mask < 1 << count; ++mask) {
    Term order = pattern;
    int at = 0;
    for_each_term(order, [&](Term& t) {
      if (is_swappable(t) && (mask >> at++ & 1)) std::swap(t.operands[0], t.operands[1]);
    });
    orders.push_back(order);
  }
  return orders;
}

// The type of a term of a pattern: an element of the dtype that the rule is tried for, or of a fixed type.
enum class Place { Element, Bool, Offset };

std::optional<Place> result_place(const Term& term) {
  if (!term.is_operation()) return term.is_boolean() ? std::optional(Place::Bool) : std::nullopt;
  if (info(term.code()).cls == OpClass::Compare) return Place::Bool;
  if (term.code() == Opcode::PtrAdd) return Place::Element;
  for (std::size_t i = term.code() == Opcode::Select ? 1 : 0; i < term.operands.size(); ++i)
    if (const auto place = result_place(term.operands[i])) return place;
  return std::nullopt;
}

constexpr std::int64_t tile_elements = 1024;

// The element type that a rule is tried for, and whether operands are tiles or scalars.
struct Variant {
  DType dtype;
  bool pointer = false;
  bool tile = true;

  Type type(Place place) const {
    const Shape shape = tile ? Shape{Dim(tile_elements)} : Shape{};
    if (place == Place::Bool) return Type::tile(DType::Bool, shape);
    if (place == Place::Offset) return Type::tile(DType::I64, shape);
    return pointer ? Type::pointer_to(dtype, false, shape) : Type::tile(dtype, shape);
  }
};

// Restates the definition of Holds in rewrite_rules.h. `type` is that of x.
bool should_hold(Holds holds, const Type& type) {
  const bool number = !type.pointer;
  switch (holds) {
  case Holds::AnyDType: return true;
  case Holds::Integers: return number && is_integer(type.dtype);
  case Holds::IntegersAndBool: return number && (is_integer(type.dtype) || type.dtype == DType::Bool);
  case Holds::Bool: return number && type.dtype == DType::Bool;
  case Holds::FloatsButE5M2: return number && is_float(type.dtype) && type.dtype != DType::F8E5M2;
  case Holds::AllButE5M2: return number && type.dtype != DType::F8E5M2;
  case Holds::FloatsUpToF32: return number && is_float(type.dtype) && type.dtype != DType::F64;
  }
  return false;
}

std::vector<Cell> make_special_cells(DType t) {
  std::vector<Cell> cells;
  if (is_float(t)) {
    using Limits = std::numeric_limits<long double>;
    for (long double x : {0.0L, -0.0L, 1.0L, -1.0L, 2.0L, 0.5L, -1.5L, 3.0L, Limits::infinity(),
                          -Limits::infinity(), Limits::quiet_NaN(), 1e-38L, -1e38L})
      cells.push_back(cell_of_float(t, x));
    // Bit patterns of infinities (cell_of_float saturates them in fp8), denormals and the largest finite
    // numbers.
    const int bits = 8 * size_of(t), mantissa = info(t).mantissa_bits;
    const Cell sign = Cell{1} << (bits - 1), exponent = (sign - 1) >> mantissa << mantissa;
    for (Cell x : {exponent, exponent - 1, exponent + 1, Cell{1}, (Cell{1} << mantissa) - 1})
      cells.insert(cells.end(), {x, x | sign});
    return cells;
  }
  if (t == DType::Bool) return {0, 1};
  const int width = 8 * size_of(t);
  const std::int64_t top = is_signed(t) ? width - 1 : width;
  for (std::int64_t x : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{-1},
                         std::int64_t{-2}, std::int64_t{3}, top - 1, top, top + 1})
    cells.push_back(cell_of_integer(t, x));
  const Cell smallest = top == 64 ? 0 : Cell{1} << top;
  for (Cell x : {smallest, smallest - 1, smallest + 1})
    cells.push_back(cell_of_integer(t, static_cast<std::int64_t>(x)));
  return cells;
}

const std::vector<Cell>& special_cells(DType t) {
  static std::map<DType, std::vector<Cell>> known;
  std::vector<Cell>& cells = known[t];
  if (cells.empty()) cells = make_special_cells(t);
  return cells;
}

Cell random_cell(DType t, test::Random& random) {
  const std::vector<Cell>& special = special_cells(t);
  if (random() % 4 == 0) return special[random() % special.size()];
  const Cell bits = random() & (size_of(t) == 8 ? ~Cell{0} : (Cell{1} << 8 * size_of(t)) - 1);
  if (t == DType::Bool) return bits & 1;
  return is_float(t) ? bits : cell_of_integer(t, static_cast<std::int64_t>(bits));
}

// Builds a kernel that computes a pattern from views, one for each letter, and stores the result in a view.
class Pattern {
public:
  Pattern(const Term& term, const Variant& variant, test::Random& random)
      : variant_(variant), random_(random), kernel_("pattern"), builder_(&kernel_.body) {
    zero_ = builder_.index(0);
    const Place place = result_place(term).value_or(Place::Element);
    out_ = add_view(stored_type(variant.type(place)).dtype, "out");
    root_ = build(term, place);
  }

  const Op* root() const { return root_ ? root_->def : nullptr; }
  const Kernel& kernel() const { return kernel_; }

  // Completes the kernel with a store of `value`.
  void store(Value* value) {
    const Type type = stored_type(value->type);
    if (type != value->type) value = builder_.create(Opcode::Bitcast, {value}, {type})->result();
    Op* op = builder_.create(Opcode::ViewStore, {out_, value, zero_}, {});
    op->set("axes", axes());
  }
  void store_root() { store(root_); }

  passes::MakeOp make_op() {
    return [this](Opcode code, std::vector<Value*> operands, Type type) {
      return builder_.create(code, std::move(operands), {std::move(type)})->result();
    };
  }
  passes::MakeConstant make_constant() {
    return [this](const Type& type, Cell cell) { return constant(type, cell); };
  }

  // Interprets the kernel with these elements of the letters, and returns the stored cells.
  std::vector<Cell> run(const std::map<std::string, std::vector<Cell>>& elements) const {
    test::Arguments arguments;
    std::map<std::string, std::vector<std::byte>> memory;
    for (const auto& arg : kernel_.body.args) {
      std::vector<std::byte>& bytes = memory[arg->name];
      const auto size = static_cast<std::size_t>(size_of(arg->type.dtype));
      bytes.resize(tile_elements * size);
      if (const auto at = elements.find(arg->name); at != elements.end())
        for (std::size_t i = 0; i < tile_elements; ++i)
          store_cell(arg->type.dtype, &bytes[i * size], at->second[i]);
      arguments.view(bytes.data(), {tile_elements}, {1});
    }
    const std::vector<std::int64_t> grid{1};
    interpret(kernel_, arguments.words(), grid);
    const std::vector<std::byte>& out = memory.at("out");
    const DType t = out_->type.dtype;
    std::vector<Cell> cells;
    for (std::int64_t i = 0; i < (variant_.tile ? tile_elements : 1); ++i)
      cells.push_back(load_cell(t, &out[static_cast<std::size_t>(i * size_of(t))]));
    return cells;
  }
  DType stored_dtype() const { return out_->type.dtype; }

  // Draws elements for every letter. All pairs of special values are among them.
  std::map<std::string, std::vector<Cell>> draw() const {
    std::map<std::string, std::vector<Cell>> elements;
    std::size_t stride = 1;
    for (const auto& arg : kernel_.body.args) {
      const std::vector<Cell>& special = special_cells(arg->type.dtype);
      std::vector<Cell>& cells = elements[arg->name];
      for (std::size_t i = 0; i < tile_elements; ++i)
        cells.push_back(variant_.tile && i < tile_elements * 3 / 4 ? special[i / stride % special.size()]
                                                                   : random_cell(arg->type.dtype, random_));
      if (arg->name != std::string("out")) stride *= special.size();
    }
    return elements;
  }

private:
  std::vector<std::int64_t> axes() const { return std::vector<std::int64_t>(variant_.tile ? 1 : 0); }

  // The type of the view that holds such elements. Pointers are stored as integers.
  static Type stored_type(const Type& type) { return type.pointer ? type.with_dtype(DType::U64) : type; }

  Value* add_view(DType t, const char* name) { return kernel_.body.add_arg(Type::view(t, 1, false), name); }

  Value* load(Value* view, const Type& type) {
    Op* op = builder_.create(Opcode::ViewLoad, {view, zero_}, {type});
    op->set("axes", std::vector<std::int64_t>(type.is_tile() ? 1 : 0));
    return op->result();
  }

  Value* constant(const Type& type, Cell cell) {
    Op* op = builder_.create(Opcode::Constant, {}, {type.with_shape({})});
    op->set("value", constant_attribute(type.dtype, cell));
    return builder_.splat(op->result(), type.shape);
  }

  Value* letter(const std::string& word, const Type& type) {
    if (word == "c" || word == "d") return constant(type, random_cell(type.dtype, random_));
    const bool splat = word == "s" || word == "t";
    if (splat && !type.is_tile()) return nullptr;
    // Arguments keep pointers to these names.
    static const std::map<std::string, const char*> names = {{"x", "x"}, {"y", "y"}, {"z", "z"},
                                                             {"a", "a"}, {"s", "s"}, {"t", "t"}};
    Value* view = add_view(stored_type(type).dtype, names.at(word));
    const Type loaded = splat ? type.with_shape({}) : type;
    Value* value = load(view, stored_type(loaded));
    if (type.pointer) value = builder_.create(Opcode::Bitcast, {value}, {loaded})->result();
    return splat ? builder_.splat(value, type.shape) : value;
  }

  // Null if no value of this type fits the term.
  Value* build(const Term& term, Place place) {
    const Type type = variant_.type(place);
    if (term.is_letter()) {
      Value*& known = letters_[term.word];
      if (!known) known = letter(term.word, type);
      return known;
    }
    if (!term.is_operation()) return number(term, type);
    std::vector<Value*> operands;
    for (std::size_t i = 0; i < term.operands.size(); ++i) {
      Value* operand = build(term.operands[i], operand_place(term, i, place));
      if (!operand) return nullptr;
      operands.push_back(operand);
    }
    return builder_.create(term.code(), std::move(operands), {type})->result();
  }

  static Place operand_place(const Term& term, std::size_t i, Place result) {
    if (info(term.code()).cls == OpClass::Compare) return Place::Element;
    if (term.code() == Opcode::Select && i == 0) return Place::Bool;
    if (term.code() == Opcode::PtrAdd && i == 1) return Place::Offset;
    return result;
  }

  Value* number(const Term& term, const Type& type) {
    if (type.pointer || (term.is_boolean() && type.dtype != DType::Bool)) return nullptr;
    if (term.word == "ones" && is_float(type.dtype)) return nullptr;
    if (term.word == "2" && type.dtype == DType::Bool) return nullptr;
    if (is_float(type.dtype)) return constant(type, cell_of_float(type.dtype, std::stold(term.word)));
    const std::int64_t n = term.word == "ones" ? -1
                           : term.is_boolean() ? term.word == "true"
                                               : std::stoll(term.word);
    return constant(type, cell_of_integer(type.dtype, n));
  }

  Variant variant_;
  test::Random& random_;
  Kernel kernel_;
  Builder builder_;
  Value *zero_ = nullptr, *out_ = nullptr, *root_ = nullptr;
  std::map<std::string, Value*> letters_;
};

bool same_bits(DType t, Cell x, Cell y) {
  if (x == y) return true;
  return is_float(t) && std::isnan(float_of(t, x)) &&
         std::isnan(float_of(t, y)); // SEMANTICS.md leaves the payload open
}

// The result of trying a rule with one order of operands and one element type.
struct Result {
  bool legal = false; // the kernel is valid
  bool fired = false; // the rule replaced the pattern
  std::string wrong;  // how the results differ; empty if they do not
};

Result try_rule(const RewriteRule& rule, const Term& term, const Variant& variant, test::Random& random) {
  Result result;
  const auto constants = static_cast<std::uint64_t>(random());
  auto seeded = [&] { // because both kernels have to draw the same constants
    test::Random copy = random;
    copy.std::mt19937_64::seed(constants);
    return copy;
  };
  test::Random for_before = seeded(), for_after = seeded();
  Pattern before(term, variant, for_before), after(term, variant, for_after);
  if (!before.root()) return result;
  before.store_root();
  if (!problems(before.kernel()).empty()) return result;
  result.legal = true;

  const Op* root = after.root();
  Value* replacement = passes::apply_rule(rule, *root, after.make_op(), after.make_constant());
  if (!replacement) return result;
  result.fired = true;
  if (replacement->type != root->result()->type) {
    result.wrong = "it gives a " + replacement->type.to_string();
    return result;
  }
  after.store(replacement);
  if (const auto found = problems(after.kernel()); !found.empty()) {
    result.wrong = found.front();
    return result;
  }
  const int rounds = variant.tile ? 1 : 16;
  for (int round = 0; round < rounds; ++round) {
    const auto elements = before.draw();
    const std::vector<Cell> expected = before.run(elements), got = after.run(elements);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (same_bits(before.stored_dtype(), expected[i], got[i])) continue;
      result.wrong = "element " + std::to_string(i) + " is " + std::to_string(expected[i]) + " before and " +
                     std::to_string(got[i]) + " after, for";
      for (const auto& [name, cells] : elements)
        if (name != "out") result.wrong += " " + name + " = " + std::to_string(cells[i]);
      result.wrong += " (bits), in\n" + print(before.kernel()) + "which becomes\n" + print(after.kernel());
      return result;
    }
  }
  return result;
}

std::vector<Variant> all_variants() {
  std::vector<Variant> variants;
  for (bool tile : {true, false}) {
    for (int i = 0; i < dtype_count; ++i)
      variants.push_back({static_cast<DType>(i), false, tile});
    for (DType t : {DType::I8, DType::F16, DType::F32, DType::I64})
      variants.push_back({t, true, tile});
  }
  return variants;
}

std::string text_of(const Variant& variant) { return variant.type(Place::Element).to_string(); }

// The type that decides whether the rule holds: that of x or, without x, that of the first letter.
Type deciding_type(const Term& pattern, const Variant& variant) {
  bool has_x = false, has_element = false;
  Term copy = pattern;
  for_each_term(copy, [&](const Term& t) { has_x |= t.word == "x"; });
  for_each_term(copy, [&](const Term& t) { has_element |= t.is_letter() && t.word != "a"; });
  return variant.type(has_x || has_element ? Place::Element : Place::Bool);
}

constexpr int draws = 2; // how often constants and elements are drawn

} // namespace

TEST_CASE("every rewrite rule keeps all bits, for every dtype that it holds for") {
  test::Random random;
  KILN_SEED(random);
  for (const RewriteRule& rule : passes::rewrite_rules()) {
    CAPTURE(rule.text);
    const Term pattern = pattern_of(rule);
    int fired = 0;
    for (const Variant& variant : all_variants()) {
      const std::string type = text_of(variant);
      CAPTURE(type);
      const bool holds = should_hold(rule.holds, deciding_type(pattern, variant));
      for (const Term& order : orders_of(pattern))
        for (int draw = 0; draw < draws; ++draw) {
          const Result result = try_rule(rule, order, variant, random);
          if (!result.legal) break;
          // Rules need not match constants on the left, because canonicalize moves them to the right.
          bool constant_left = false;
          Term copy = order;
          for_each_term(copy, [&](const Term& t) {
            constant_left |= is_swappable(t) && t.operands[0].is_constant() && !t.operands[1].is_constant();
          });
          if (!holds)
            REQUIRE_FALSE(result.fired);
          else if (!constant_left)
            REQUIRE(result.fired);
          REQUIRE(result.wrong == "");
          fired += result.fired;
        }
    }
    CHECK(fired > 0);
  }
}

TEST_CASE("no rewrite rule is always preceded by another one that matches") {
  test::Random random;
  KILN_SEED(random);
  const auto& rules = passes::rewrite_rules();
  for (std::size_t i = 0; i < rules.size(); ++i) {
    CAPTURE(rules[i].text);
    const Term pattern = pattern_of(rules[i]);
    bool reached = false;
    for (const Variant& variant : all_variants()) {
      Pattern kernel(pattern, variant, random);
      if (!kernel.root()) continue;
      auto matches = [&](const RewriteRule& rule) {
        return passes::apply_rule(rule, *kernel.root(), kernel.make_op(), kernel.make_constant()) != nullptr;
      };
      reached |= matches(rules[i]) &&
                 std::none_of(rules.begin(), rules.begin() + static_cast<std::ptrdiff_t>(i), matches);
    }
    CHECK(reached);
  }
}

TEST_CASE("rewrite rules that are wrong for some dtype are found") {
  test::Random random;
  KILN_SEED(random);
  const RewriteRule wrong[] = {
      {"add(x, 0) -> x", Holds::AllButE5M2},              // -0 + 0 is 0
      {"add(x, -0) -> x", Holds::AnyDType},               // infinities of f8e5m2 saturate
      {"sub(x, x) -> 0", Holds::FloatsButE5M2},           // NaN - NaN is NaN
      {"mul(x, 0) -> 0", Holds::FloatsButE5M2},           // infinity * 0 is NaN
      {"neg(sub(x, y)) -> sub(y, x)", Holds::AllButE5M2}, // the sign of zero differs
      {"add(sub(x, y), y) -> x", Holds::AllButE5M2},      // the sum is rounded
      {"eq(x, x) -> true", Holds::AnyDType},              // NaN compares as false
      {"not(lt(x, y)) -> ge(x, y)", Holds::AnyDType},     // NaN compares as false
      {"div(x, x) -> 1", Holds::Integers},                // 0 / 0 is 0
      {"mul(x, 2) -> shl(x, 2)", Holds::Integers},
      {"abs(neg(x)) -> abs(x)", Holds::AllButE5M2}, // abs of an unsigned number does not change it
      {"pow(x, 2) -> add(x, x)", Holds::FloatsButE5M2},
      {"select(a, x, y) -> x", Holds::AnyDType},
      {"ptr_add(ptr_add(x, y), z) -> ptr_add(x, y)", Holds::AnyDType},
      {"shr(shl(x, 1), 1) -> x", Holds::Integers},
      {"rem(x, -1) -> x", Holds::Integers},
  };
  for (const RewriteRule& rule : wrong) {
    CAPTURE(rule.text);
    bool found = false;
    for (const Variant& variant : all_variants())
      for (int draw = 0; draw < draws; ++draw)
        found |= !try_rule(rule, pattern_of(rule), variant, random).wrong.empty();
    CHECK(found);
  }
}
