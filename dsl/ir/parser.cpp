// Implements the parser by recursive descent.
#include <kiln/dsl/ir/parser.h>

#include <kiln/dsl/ir/attributes.h>
#include <kiln/dsl/ir/lexer.h>
#include <kiln/dsl/ir/text.h>
#include <kiln/dsl/symbol.h>

#include <bit>
#include <charconv>
#include <optional>
#include <string>
#include <unordered_map>

namespace kiln::ir {

namespace {

constexpr int deepest_nesting = 128;
constexpr int longest_name = 200;
// The product of all numbers in one type is at most this, so that extents multiply without overflow.
constexpr std::int64_t largest_extent = std::int64_t{1} << 40;
constexpr int most_symbols = 16;

std::optional<DType> dtype_named(std::string_view text) {
  for (int i = 0; i < dtype_count; ++i)
    if (dtype_table[i].name == text) return static_cast<DType>(i);
  return std::nullopt;
}

const OpInfo* op_named(std::string_view text) {
  static const auto* by_name = [] {
    auto* map = new std::unordered_map<std::string_view, const OpInfo*>;
    for (const OpInfo& op : op_table)
      (*map)[op.name] = &op;
    return map;
  }();
  auto at = by_name->find(text);
  return at == by_name->end() ? nullptr : at->second;
}

class Parser {
public:
  Parser(std::string_view text, std::string_view file_name)
      : lexer_(text), file_(file_name), interned_file_(intern(file_name)) {
    token_ = lexer_.next();
    ahead_ = lexer_.next();
  }

  bool at_end() const { return token_.kind == Token::Kind::End; }
  std::unique_ptr<Kernel> kernel();
  Type type();
  void expect_end(std::string_view what) {
    if (!at_end()) fail_expected(what);
  }

private:
  // --- tokens
  [[noreturn]] void fail(const Token& where, const std::string& message) const {
    throw UserError(file_ + ":" + std::to_string(where.line) + ":" + std::to_string(where.column) + ": " +
                    message);
  }
  [[noreturn]] void fail_expected(std::string_view what) const {
    if (token_.kind == Token::Kind::Bad && token_.text[0] == '"')
      fail(token_, "this text has no closing quote on its line; end it with \"");
    fail(token_, "expected " + std::string(what) + ", found " + token_.describe());
  }
  Token take() {
    Token taken = token_;
    token_ = ahead_;
    ahead_ = lexer_.next();
    return taken;
  }
  Token take(Token::Kind kind, std::string_view what) {
    if (token_.kind != kind) fail_expected(what);
    return take();
  }
  bool accept(char punctuation) {
    if (!token_.is(punctuation)) return false;
    take();
    return true;
  }
  void expect(char punctuation, std::string_view where) {
    if (!accept(punctuation)) fail_expected(std::string("\"") + punctuation + "\" " + std::string(where));
  }
  std::string_view word(std::string_view what) {
    Token taken = take(Token::Kind::Word, what);
    if (taken.text.size() > longest_name) fail(taken, "this name is longer than 200 characters");
    return taken.text;
  }

  // --- leaves
  std::int64_t integer_of(const Token& token, std::string_view what) const {
    std::int64_t value = 0;
    auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (error == std::errc::result_out_of_range)
      fail(token, "the number " + token.describe() + " does not fit i64");
    if (error != std::errc() || end != token.text.data() + token.text.size())
      fail(token, "expected " + std::string(what) + ", found " + token.describe());
    return value;
  }
  std::int64_t integer(std::string_view what) { return integer_of(take(Token::Kind::Number, what), what); }
  int small_integer(std::string_view what, int most) {
    Token at = token_;
    std::int64_t value = integer(what);
    if (value < 0 || value > most)
      fail(at, "expected " + std::string(what) + " from 0 to " + std::to_string(most) + ", found " +
                   std::to_string(value));
    return static_cast<int>(value);
  }
  std::string text(std::string_view what);
  double float_of(const Token& token) const;
  // The product of the numbers, and the count of the names, in the dimensions of one type.
  struct Extents {
    std::int64_t above = 1, below = 1;
    int symbols = 0;
  };
  Dim dim(Extents& total);
  Dim dim() {
    Extents total;
    return dim(total);
  }
  Type element();

  // --- structure
  void attribute(Op& op);
  Attribute attribute_value(Opcode code, std::string_view name);
  std::unique_ptr<Op> operation(int depth);
  void region(Region& region, int depth);
  void location(Op& op);
  void define(const Token& name, Value* value);
  Value* use();

  template <class F> void list(char open, char close, std::string_view where, F&& item) {
    expect(open, where);
    if (accept(close)) return;
    do
      item();
    while (accept(','));
    expect(close, where);
  }

  Lexer lexer_;
  std::string file_;
  const char* interned_file_;
  Token token_, ahead_;
  std::unordered_map<std::string_view, Value*> values_; // the values that are visible here
  std::vector<std::string_view> defined_;               // their names in order, for leaving a region
};

std::string Parser::text(std::string_view what) {
  Token token = take(Token::Kind::String, what);
  std::string_view body = token.text.substr(1, token.text.size() - 2);
  std::string out;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      out += body[i];
      continue;
    }
    char c = ++i < body.size() ? body[i] : '\0';
    unsigned byte = 0;
    if (c == 'n')
      out += '\n';
    else if (c == 't')
      out += '\t';
    else if (c == '"' || c == '\\')
      out += c;
    else if (c == 'x' && i + 2 < body.size() &&
             std::from_chars(&body[i + 1], &body[i + 1] + 2, byte, 16).ptr == &body[i + 1] + 2)
      out += static_cast<char>(byte), i += 2;
    else
      fail(token, "expected one of \\\" \\\\ \\n \\t \\xHH in a text, found " + token.describe());
  }
  return out;
}

double Parser::float_of(const Token& token) const {
  double value = 0;
  const char* last = token.text.data() + token.text.size();
  auto [end, error] = std::from_chars(token.text.data(), last, value);
  if (error == std::errc::result_out_of_range)
    fail(token, "the number " + token.describe() + " does not fit f64");
  if (error != std::errc() || end != last) fail(token, "expected a number, found " + token.describe());
  return value;
}

Dim Parser::dim(Extents& total) {
  Dim result(1);
  bool divide = false;
  do {
    Token at = token_;
    Dim term(1);
    if (token_.kind == Token::Kind::Number) {
      std::int64_t value = integer("a dimension");
      std::int64_t& product = divide ? total.below : total.above;
      if (value < 1 || value > largest_extent || product > largest_extent / value)
        fail(at, "expected extents from 1 to 2^40 in all, found " + at.describe());
      product *= value;
      term = Dim(value);
    } else {
      term = Dim::symbol(intern(word("a dimension")));
      if (++total.symbols > most_symbols) fail(at, "more than 16 dimension names in one place");
    }
    result = divide ? result / term : result * term;
    divide = token_.is('/');
  } while (accept('*') || accept('/'));
  return result;
}

Type Parser::element() {
  if (token_.is("ptr") && ahead_.is('<')) {
    take(), take();
    bool readonly = token_.is("const");
    if (readonly) take();
    if (token_.is("ptr")) fail(token_, "expected a pointer to a dtype, found a pointer to a pointer");
    Type pointee = element();
    expect('>', "after the pointer's dtype");
    return Type::pointer_to(pointee.dtype, readonly);
  }
  auto dtype = token_.kind == Token::Kind::Word ? dtype_named(token_.text) : std::nullopt;
  if (!dtype) fail_expected("a dtype");
  take();
  return Type::scalar(*dtype);
}

Type Parser::type() {
  if (token_.is("view") && ahead_.is('<')) {
    take(), take();
    bool readonly = token_.is("const");
    if (readonly) take();
    Type pointee = element();
    if (pointee.pointer) fail(token_, "expected a view of a dtype, found a view of pointers");
    expect(',', "between the view's dtype and its rank");
    int rank = small_integer("the view's rank", max_rank);
    LayoutClass layout = LayoutClass::Any;
    if (accept(',')) {
      if (token_.is("unit"))
        layout = LayoutClass::Unit;
      else if (token_.is("aligned"))
        layout = LayoutClass::Aligned;
      else
        fail_expected("unit or aligned");
      take();
    }
    expect('>', "at the end of the view type");
    return Type::view(pointee.dtype, rank, readonly, layout);
  }
  if (!(token_.is("tile") && ahead_.is('<'))) {
    if (!(token_.kind == Token::Kind::Word && (dtype_named(token_.text) || token_.is("ptr"))))
      fail_expected("a type");
    return element();
  }
  take(), take();
  Shape shape;
  Extents total;
  auto at_element = [&] {
    if (shape.empty() || token_.kind != Token::Kind::Word) return false;
    return token_.is("ptr")
               ? ahead_.is('<')
               : dtype_named(token_.text) && !ahead_.is("x") && !ahead_.is('*') && !ahead_.is('/');
  };
  while (!at_element()) {
    if (static_cast<int>(shape.size()) == max_rank)
      fail(token_, "a tile has at most " + std::to_string(max_rank) + " axes");
    shape.push_back(dim(total));
    if (!token_.is("x")) fail_expected("\" x \" after the dimension");
    take();
  }
  Type result = element().with_shape(std::move(shape));
  expect('>', "at the end of the tile type");
  return result;
}

void Parser::define(const Token& name, Value* value) {
  if (name.text.size() > longest_name) fail(name, "this name is longer than 200 characters");
  if (!values_.emplace(name.text, value).second)
    fail(name, "%" + std::string(name.text) + " is defined a second time; choose another name");
  defined_.push_back(name.text);
}

Value* Parser::use() {
  Token name = take(Token::Kind::Value, "a value such as %0");
  auto at = values_.find(name.text);
  if (at == values_.end())
    fail(name, name.describe() +
                   " is used, but no value of that name is defined before, in this region or around it");
  return at->second;
}

Attribute Parser::attribute_value(Opcode code, std::string_view name) {
  auto expected = [&](AttributeKind kind) {
    for (const AttributeRule& rule : attributes_of(code))
      if (rule.name == name) return rule.kind == kind;
    return false;
  };
  auto dims = [&] {
    Shape shape;
    Extents total;
    list('[', ']', "around dimensions", [&] {
      if (static_cast<int>(shape.size()) == max_rank)
        fail(token_, "a list of dimensions has at most " + std::to_string(max_rank));
      shape.push_back(dim(total));
    });
    return shape;
  };
  auto integers = [&] {
    std::vector<std::int64_t> values;
    list('[', ']', "around integers", [&] { values.push_back(integer("an integer")); });
    return values;
  };
  if (token_.kind == Token::Kind::String) return text("a text");
  if (token_.is('[')) return expected(AttributeKind::Shape) ? Attribute(dims()) : Attribute(integers());
  if (token_.is("dims") && ahead_.is('[')) return take(), dims();
  if (token_.is("integers") && ahead_.is('[')) return take(), integers();
  if (token_.is("dim") && ahead_.is('(')) {
    take(), take();
    Dim value = dim();
    expect(')', "after the dimension");
    return value;
  }
  if (expected(AttributeKind::Dimension)) return dim();
  if (token_.is("nan") && ahead_.is('(')) {
    take(), take();
    Token bits = take(Token::Kind::Number, "the bits of the NaN, as in nan(0x7ff8000000000001)");
    std::uint64_t value = 0;
    const char* last = bits.text.data() + bits.text.size();
    bool hex = bits.text.size() > 2 && bits.text.substr(0, 2) == "0x";
    if (!hex || std::from_chars(bits.text.data() + 2, last, value, 16).ptr != last)
      fail(bits, "expected the bits of the NaN, as in nan(0x7ff8000000000001), found " + bits.describe());
    double number = std::bit_cast<double>(value);
    if (number == number) fail(bits, "expected the bits of a NaN, found those of a number");
    expect(')', "after the bits");
    return number;
  }
  bool special = token_.is("inf") || token_.is("nan");
  if (!special && token_.kind != Token::Kind::Number)
    fail_expected("an attribute's value (a number, a text or a list)");
  Token number = take();
  if (special || number.text.find_first_of(".eEin") != std::string_view::npos) return float_of(number);
  return integer_of(number, "a number");
}

void Parser::attribute(Op& op) {
  Token name = take(Token::Kind::Word, "an attribute's name");
  expect('=', "after the attribute's name");
  if (op.find(name.text)) fail(name, "the attribute " + std::string(name.text) + " is given twice");
  op.set(name.text, attribute_value(op.code, name.text));
}

void Parser::location(Op& op) {
  expect('@', "before a location");
  std::string file = text("the location's file name");
  expect(':', "between file and line");
  op.loc = {intern(file), small_integer("a line number", 1 << 30)};
}

void Parser::region(Region& region, int depth) {
  if (depth > deepest_nesting) fail(token_, "regions are nested more than 128 deep");
  std::size_t outer = defined_.size();
  expect('{', "at the start of a region");
  if (depth > 0 && token_.is('('))
    list('(', ')', "around the region's arguments", [&] {
      Token name = take(Token::Kind::Value, "an argument such as %i");
      expect(':', "between an argument and its type");
      define(name, region.add_arg(type()));
    });
  while (!token_.is('}'))
    region.ops.push_back(operation(depth));
  take();
  for (; defined_.size() > outer; defined_.pop_back())
    values_.erase(defined_.back());
}

std::unique_ptr<Op> Parser::operation(int depth) {
  std::vector<Token> names;
  Token start = token_;
  if (token_.kind == Token::Kind::Value) {
    do
      names.push_back(take(Token::Kind::Value, "a result such as %0"));
    while (accept(','));
    expect('=', "after the results");
  }
  Token code_at = token_;
  const OpInfo* op_info = token_.kind == Token::Kind::Word ? op_named(token_.text) : nullptr;
  if (!op_info) fail_expected(names.empty() ? "an operation or \"}\"" : "an operation");
  take();

  std::vector<Value*> operands;
  if (token_.kind == Token::Kind::Value && !token_.first_on_line) do
      operands.push_back(use());
    while (accept(','));
  Op attributes(op_info->code, {}, {});
  if (token_.is('{') && (op_info->regions == 0 || ahead_.kind == Token::Kind::Word)) {
    // A region may begin with the name of an operation; attributes begin with NAME =.
    Lexer rest = lexer_;
    if (op_info->regions == 0 || rest.next().is('='))
      list('{', '}', "around attributes", [&] { attribute(attributes); });
  }
  std::vector<Type> types;
  if (accept(':')) do
      types.push_back(type());
    while (accept(','));
  if (types.size() != names.size())
    fail(code_at, std::string(op_info->name) + " names " + std::to_string(names.size()) +
                      " results and gives " + std::to_string(types.size()) +
                      " types; write one type for each result after \":\"");
  auto op = std::make_unique<Op>(op_info->code, std::move(operands), std::move(types),
                                 SourceLocation(interned_file_, start.line));
  for (const auto& [key, value] : attributes.attributes())
    op->set(key, value);
  // A float constant may be written as an integer: `value = 1` means 1.0.
  if (op->is(Opcode::Constant) && op->num_results() == 1 && is_float(op->result()->type.dtype))
    if (const Attribute* value = op->find("value"); value && kind_of(*value) == AttributeKind::Integer)
      op->set("value", static_cast<double>(std::get<std::int64_t>(*value)));
  for (int i = 0; i < op_info->regions; ++i)
    region(*op->add_region(), depth + 1);
  if (token_.is('@') && !token_.first_on_line) location(*op);
  // The results are visible after the operation, but not in its own regions.
  for (std::size_t i = 0; i < names.size(); ++i)
    define(names[i], op->results[i].get());
  return op;
}

std::unique_ptr<Kernel> Parser::kernel() {
  values_.clear();
  defined_.clear();
  if (!token_.is("kernel")) fail_expected("\"kernel\"");
  take();
  expect('@', "before the kernel's name");
  auto kernel =
      std::make_unique<Kernel>(token_.kind == Token::Kind::String ? text("the kernel's name")
                                                                  : std::string(word("the kernel's name")));
  std::unordered_map<std::string_view, int> parameters;
  list('(', ')', "around the kernel's parameters", [&] {
    Token name = take(Token::Kind::Value, "a parameter such as %x");
    expect(':', "between a parameter and its type");
    parameters.emplace(name.text, static_cast<int>(kernel->body.args.size()));
    define(name, kernel->body.add_arg(type(), is_value_name(name.text) ? intern(name.text) : nullptr));
  });
  if (token_.is("grid")) {
    take();
    list('[', ']', "around the grid's axes", [&] {
      GridAxis axis;
      expect('(', "before a grid axis (parameter, axis, tile)");
      Token name = token_;
      auto at = parameters.find(name.text);
      bool named = name.kind == Token::Kind::Word || name.kind == Token::Kind::Value;
      if (!named || at == parameters.end()) fail_expected("the name of a parameter");
      take();
      axis.param = at->second;
      expect(',', "after the parameter");
      axis.axis = small_integer("an axis", max_rank);
      expect(',', "after the axis");
      axis.tile = dim();
      expect(')', "after a grid axis");
      kernel->grid.push_back(axis);
    });
  }
  if (token_.is("only_for")) {
    take();
    Token at = token_;
    std::string config = text("a config such as \"BM=128\"");
    kernel->config_specific = true;
    try {
      kernel->recorded_with = Config::parse(config);
    } catch (const UserError& error) {
      fail(at, error.what());
    }
  }
  region(kernel->body, 0);
  return kernel;
}

} // namespace

std::vector<std::unique_ptr<Kernel>> parse_all(std::string_view text, std::string_view file_name) {
  Parser parser(text, file_name);
  std::vector<std::unique_ptr<Kernel>> kernels;
  while (!parser.at_end())
    kernels.push_back(parser.kernel());
  return kernels;
}

std::unique_ptr<Kernel> parse(std::string_view text, std::string_view file_name) {
  Parser parser(text, file_name);
  auto kernel = parser.kernel();
  parser.expect_end("nothing after the kernel");
  return kernel;
}

Type parse_type(std::string_view text) {
  Parser parser(text, "type");
  Type type = parser.type();
  parser.expect_end("nothing after the type");
  return type;
}

} // namespace kiln::ir
