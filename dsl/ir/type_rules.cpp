// Checks the types of operations, except for memory accesses and operations with regions: there is one rule
// for each class of operations, and one for each operation that needs its own.
#include <kiln/dsl/ir/type_rules.h>

#include <kiln/dsl/ir/attributes.h>
#include <kiln/dsl/ir/type_checker.h>

#include <algorithm>

namespace kiln::ir::detail {

namespace {

// The kinds of elements that the first operand of an elementwise operation can have; for a select, the second
// operand.
struct ElementRule {
  Opcode code;
  unsigned kinds;
};
constexpr ElementRule element_rules[] = {
    {Opcode::Neg, Number},         {Opcode::Not, Bool | Integer}, {Opcode::Abs, Number},
    {Opcode::Exp, Float},          {Opcode::Exp2, Float},         {Opcode::Expm1, Float},
    {Opcode::Log, Float},          {Opcode::Log2, Float},         {Opcode::Log1p, Float},
    {Opcode::Sin, Float},          {Opcode::Cos, Float},          {Opcode::Tan, Float},
    {Opcode::Tanh, Float},         {Opcode::Erf, Float},          {Opcode::Sigmoid, Float},
    {Opcode::Gelu, Float},         {Opcode::Sqrt, Float},         {Opcode::Rsqrt, Float},
    {Opcode::Floor, Float},        {Opcode::Ceil, Float},         {Opcode::Trunc, Float},
    {Opcode::Round, Float},        {Opcode::PopCount, Integer},   {Opcode::IsNan, Float},
    {Opcode::IsInf, Float},        {Opcode::Add, Number},         {Opcode::Sub, Number},
    {Opcode::Mul, Number},         {Opcode::MulHi, Integer},      {Opcode::Div, Number},
    {Opcode::Rem, Number},         {Opcode::Pow, Float},          {Opcode::Atan2, Float},
    {Opcode::Min, Number},         {Opcode::Max, Number},         {Opcode::MinNan, Float},
    {Opcode::MaxNan, Float},       {Opcode::And, Bool | Integer}, {Opcode::Or, Bool | Integer},
    {Opcode::Xor, Bool | Integer}, {Opcode::Shl, Integer},        {Opcode::Shr, Integer},
    {Opcode::Eq, Bool | Number},   {Opcode::Ne, Bool | Number},   {Opcode::Lt, Bool | Number},
    {Opcode::Le, Bool | Number},   {Opcode::Gt, Bool | Number},   {Opcode::Ge, Bool | Number},
    {Opcode::Fma, Float},          {Opcode::Select, Any},         {Opcode::Cast, Bool | Number},
    {Opcode::Bitcast, Any},        {Opcode::PtrAdd, Pointer},
};

unsigned elements_of(Opcode code) {
  for (const ElementRule& rule : element_rules)
    if (rule.code == code) return rule.kinds;
  return Any;
}
} // namespace

unsigned kind_of_element(const Type& type) {
  if (type.pointer) return Pointer;
  if (type.dtype == DType::Bool) return Bool;
  return is_float(type.dtype) ? Float : Integer;
}

std::string describe(unsigned kinds) {
  static constexpr std::string_view names[] = {"bool", "integers", "floats", "pointers"};
  std::string text;
  for (unsigned i = 0; i < 4; ++i)
    if (kinds & (1u << i)) text += (text.empty() ? "" : " or ") + std::string(names[i]);
  return text;
}

void Checker::elementwise() {
  OpClass cls = op_.info().cls;
  int first = cls == OpClass::Select ? 1 : 0;
  const Type& type = in(first);
  if (!is_value(type, "an operand") || !is_value(out(), "the result")) return;
  require_elements(type, elements_of(op_.code));
  switch (cls) {
  case OpClass::Unary:
  case OpClass::Binary:
  case OpClass::Ternary:
    for (int i = 1; i < op_.num_operands(); ++i)
      require_type(in(i), type, "operand " + std::to_string(i));
    require_type(out(), type, "the result");
    break;
  case OpClass::Compare: require_type(in(1), type, "operand 1"); [[fallthrough]];
  case OpClass::Predicate: require_type(out(), type.with_dtype(DType::Bool), "the result"); break;
  case OpClass::Select:
    require_type(in(0), type.with_dtype(DType::Bool), "the condition");
    require_type(in(2), type, "operand 2");
    require_type(out(), type, "the result");
    break;
  default:
    if (op_.is(Opcode::PtrAdd)) {
      require_type(in(1), type.with_dtype(DType::I64), "the offset");
      require_type(out(), type, "the result");
      return;
    }
    require_shape(out(), type.shape, "the result");
    if (op_.is(Opcode::Cast)) require_elements(out(), Bool | Number);
    if (op_.is(Opcode::Bitcast))
      require(type.element_bytes() == out().element_bytes(),
              "bitcast from " + type.to_string() + " to " + out().to_string() + ", which has another size");
  }
}

void Checker::constant() {
  const Type& type = out();
  if (!require(type.is_scalar() && !type.pointer,
               "a constant has type " + type.to_string() + ", expected a scalar"))
    return;
  const Attribute* value = op_.find("value");
  if (!require(value, "the attribute value is missing")) return;
  if (is_float(type.dtype)) {
    require(kind_of(*value) == AttributeKind::Float, "value is an integer, expected a float");
    return;
  }
  if (!require(kind_of(*value) == AttributeKind::Integer, "value is a float, expected an integer")) return;
  std::int64_t v = std::get<std::int64_t>(*value);
  int bits = type.dtype == DType::Bool ? 1 : 8 * size_of(type.dtype);
  bool fits = bits == 64 || (is_signed(type.dtype)
                                 ? v >= -(std::int64_t{1} << (bits - 1)) && v < std::int64_t{1} << (bits - 1)
                                 : v >= 0 && v < std::int64_t{1} << bits);
  require(fits, "value " + std::to_string(v) + " does not fit " + std::string(name(type.dtype)));
}

void Checker::source() {
  require_type(out(), Type::scalar(DType::I64), "the result");
  if (op_.is(Opcode::ProgramId) || op_.is(Opcode::NumPrograms)) require_axis(op_.integer("axis"), max_rank);
}

void Checker::view_fact() {
  if (!require(in(0).is_view(), "the operand has type " + in(0).to_string() + ", expected a view")) return;
  if (op_.is(Opcode::ViewData)) {
    require_type(out(), Type::pointer_to(in(0).dtype, in(0).readonly), "the result");
  } else {
    require_axis(op_.integer("axis"), in(0).view_rank);
    require_type(out(), Type::scalar(DType::I64), "the result");
  }
}

void Checker::view_slice() {
  if (!require(in(0).is_view(), "the operand has type " + in(0).to_string() + ", expected a view")) return;
  require_axis(op_.integer("axis"), in(0).view_rank);
  require_type(in(1), Type::scalar(DType::I64), "the begin");
  require_type(in(2), Type::scalar(DType::I64), "the end");
  require_type(out(), Type::view(in(0).dtype, in(0).view_rank, in(0).readonly), "the result");
}

void Checker::view_of() {
  if (!require_least_operands(3)) return;
  const Type& pointer = in(0);
  if (!require(!pointer.is_view() && pointer.pointer && pointer.is_scalar(),
               "the operand has type " + pointer.to_string() + ", expected a pointer"))
    return;
  const int words = op_.num_operands() - 1;
  if (!require(words % 2 == 0 && words / 2 <= max_rank,
               "expected a pointer, an extent for each axis and a stride for each axis, found " +
                   std::to_string(op_.num_operands()) + " operands"))
    return;
  for (int i = 1; i <= words; ++i)
    require_type(in(i), Type::scalar(DType::I64), "extent or stride " + std::to_string(i - 1));
  require_type(out(), Type::view(pointer.dtype, words / 2, pointer.readonly), "the result");
}

void Checker::arange() {
  require(out().is_tile() && out().rank() == 1 && !out().pointer &&
              (out().dtype == DType::I32 || out().dtype == DType::I64),
          "the result has type " + out().to_string() + ", expected a tile of rank 1 of i32 or i64");
}

void Checker::program_tile() {
  if (!require(in(0).is_view(), "the operand has type " + in(0).to_string() + ", expected a view")) return;
  auto rank = static_cast<std::size_t>(in(0).view_rank);
  std::size_t dims = std::get<Shape>(*op_.find("dims")).size();
  require(dims >= 1 && dims <= rank,
          "dims has " + std::to_string(dims) + " entries for a view of rank " + std::to_string(rank));
  if (op_.find("axes")) {
    const auto& axes = op_.integers("axes");
    if (!require(axes.size() == dims,
                 "axes has " + std::to_string(axes.size()) + " entries, and dims " + std::to_string(dims)))
      return;
    for (std::size_t i = 0; i < axes.size(); ++i)
      if (!require_axis(axes[i], in(0).view_rank) ||
          !require(i == 0 || axes[i - 1] < axes[i], "axes must be in ascending order"))
        return;
  }
  if (!require(op_.results.size() == dims, "expected one result per entry of dims")) return;
  for (int i = 0; i < op_.num_results(); ++i)
    require_type(out(i), Type::scalar(DType::I64), "result " + std::to_string(i));
}

void Checker::shape() {
  const Type& from = in(0);
  if (!is_value(from, "the operand") || !is_value(out(), "the result")) return;
  require_type(out(), from.with_shape(out().shape), "the result");
  switch (op_.code) {
  case Opcode::Splat:
    require(from.is_scalar() && out().is_tile(),
            "splat makes a tile of a scalar, not " + out().to_string() + " of " + from.to_string());
    break;
  case Opcode::Broadcast: {
    if (!require(from.rank() == out().rank(),
                 "broadcast keeps the rank; " + from.to_string() + " to " + out().to_string() + " does not"))
      return;
    for (std::size_t i = 0; i < from.shape.size(); ++i)
      require(from.shape[i] == out().shape[i] || from.shape[i].is_one(),
              "broadcast of axis " + std::to_string(i) + " from " + from.shape[i].to_string() + " to " +
                  out().shape[i].to_string());
    break;
  }
  case Opcode::ExpandDims: {
    std::int64_t axis = op_.integer("axis");
    if (!require_axis(axis, from.rank() + 1)) return;
    Shape wider = from.shape;
    wider.insert(wider.begin() + axis, Dim(1));
    require_shape(out(), wider, "the result");
    break;
  }
  case Opcode::Squeeze: {
    std::int64_t axis = op_.integer("axis");
    if (!require_axis(axis, from.rank())) return;
    const Dim& extent = from.shape[static_cast<std::size_t>(axis)];
    require(extent.is_one(),
            "axis " + std::to_string(axis) + " has extent " + extent.to_string() + ", expected 1");
    require_shape(out(), without(from.shape, axis), "the result");
    break;
  }
  case Opcode::Extract: {
    const std::int64_t axis = op_.integer("axis"), index = op_.integer("index");
    if (!require_axis(axis, from.rank())) return;
    const Dim& extent = from.shape[static_cast<std::size_t>(axis)];
    require(index >= 0 && (!extent.is_constant() || index < extent.value()),
            "index " + std::to_string(index) + " is outside the extent " + extent.to_string());
    require_shape(out(), without(from.shape, axis), "the result");
    break;
  }
  case Opcode::Permute: {
    const auto& order = op_.integers("order");
    if (!require(static_cast<int>(order.size()) == from.rank(), "order has " + std::to_string(order.size()) +
                                                                    " entries for rank " +
                                                                    std::to_string(from.rank())))
      return;
    Shape permuted;
    std::vector<bool> seen(order.size());
    for (std::int64_t axis : order) {
      if (!require_axis(axis, from.rank())) return;
      auto i = static_cast<std::size_t>(axis);
      if (!require(!seen[i], "order names axis " + std::to_string(axis) + " twice")) return;
      seen[i] = true;
      permuted.push_back(from.shape[i]);
    }
    require_shape(out(), permuted, "the result");
    break;
  }
  default: reshape();
  }
}

void Checker::reshape() {
  Dim before(1), after(1);
  for (const Dim& d : in(0).shape)
    before = before * d;
  for (const Dim& d : out().shape)
    after = after * d;
  const bool known = before.is_constant() && after.is_constant(); // names may get sizes of equal products
  require(!known || before == after,
          "reshape of " + before.to_string() + " elements to " + after.to_string());
}

void Checker::dot() {
  if (!require(op_.num_operands() == 2 || op_.num_operands() == 3,
               "expected 2 or 3 operands, found " + std::to_string(op_.num_operands())))
    return;
  const Type &a = in(0), &b = in(1);
  for (const Type* t : {&a, &b})
    if (!require(t->is_tile() && t->rank() >= 2 && !t->pointer,
                 "dot takes tiles of rank 2 or more, not " + t->to_string()))
      return;
  require(a.dtype == b.dtype, "dot of " + std::string(name(a.dtype)) + " with " + std::string(name(b.dtype)) +
                                  "; cast one of them");
  bool supported = is_float(a.dtype) || a.dtype == DType::I8 || a.dtype == DType::U8;
  if (!require(supported, "dot takes floats, i8 or u8, not " + a.to_string())) return;
  if (!require(a.rank() == b.rank(),
               "dot of ranks " + std::to_string(a.rank()) + " and " + std::to_string(b.rank())))
    return;
  auto rank = a.shape.size();
  require(a.shape[rank - 1] == b.shape[rank - 2], "dot of " + a.to_string() + " with " + b.to_string() +
                                                      ": the inner extents " + a.shape[rank - 1].to_string() +
                                                      " and " + b.shape[rank - 2].to_string() + " differ");
  require(std::equal(a.shape.begin(), a.shape.end() - 2, b.shape.begin()),
          "dot of " + a.to_string() + " with " + b.to_string() + ": the leading extents differ");
  Shape shape(a.shape.begin(), a.shape.end() - 1);
  shape.push_back(b.shape[rank - 1]);
  DType sum = a.dtype == DType::F64 ? DType::F64 : is_float(a.dtype) ? DType::F32 : DType::I32;
  require_type(out(), Type::tile(sum, shape), "the result");
  if (op_.num_operands() == 3) require_type(in(2), out(), "the accumulator");
}

void Checker::debug() {
  if (op_.is(Opcode::DevicePrint)) {
    for (int i = 0; i < op_.num_operands(); ++i)
      is_value(in(i), "operand " + std::to_string(i));
    return;
  }
  if (op_.is(Opcode::Expects)) {
    if (!require(op_.num_operands() == 1 || op_.num_operands() == 3,
                 "expected 1 or 3 operands, found " + std::to_string(op_.num_operands())))
      return;
    require_type(in(0), Type::scalar(DType::Bool), "the condition");
    for (int i = 1; i < op_.num_operands(); ++i)
      require(in(i).is_scalar(), "compared value " + std::to_string(i) + " has type " + in(i).to_string() +
                                     ", expected a scalar");
    return;
  }
  if (!require_operands(1 + optional_operands())) return;
  if (!is_value(in(0), "the condition")) return;
  require_elements(in(0), Bool);
  mask_and_other(1, in(0));
}

void Checker::run() {
  switch (op_.code) {
  case Opcode::Constant: return constant();
  case Opcode::DimSize:
  case Opcode::ProgramId:
  case Opcode::NumPrograms: return source();
  case Opcode::ProgramTile: return program_tile();
  case Opcode::ViewExtent:
  case Opcode::ViewStride:
  case Opcode::ViewData: return view_fact();
  case Opcode::ViewSlice: return view_slice();
  case Opcode::ViewOf: return view_of();
  case Opcode::Arange: return arange();
  case Opcode::ViewLoad:
  case Opcode::ViewStore: return view_memory();
  case Opcode::ViewGather:
  case Opcode::ViewScatter: return view_indexed();
  case Opcode::ViewPtrs:
  case Opcode::ViewMask: return view_address();
  case Opcode::Load:
  case Opcode::Store: return pointer_memory();
  case Opcode::For: return for_loop();
  case Opcode::While: return while_loop();
  case Opcode::If: return if_else();
  default: break;
  }
  switch (op_.info().cls) {
  case OpClass::Shape: return shape();
  case OpClass::Lookup: return lookup();
  case OpClass::Atomic: return atomic();
  case OpClass::Dot: return dot();
  case OpClass::Collective: return collective();
  case OpClass::Debug: return debug();
  case OpClass::Control: // only yield is left here, which is checked with its parent
  case OpClass::Source:
  case OpClass::Memory: return;
  default: return elementwise();
  }
}

void check_counts(const Op& op, std::vector<std::string>& problems) {
  const OpInfo& info = op.info();
  auto count = [&](int expected, std::size_t found, const char* what) {
    if (expected >= 0 && static_cast<std::size_t>(expected) != found)
      problems.push_back("expected " + std::to_string(expected) + " " + what + ", found " +
                         std::to_string(found));
  };
  count(info.operands, op.operands.size(), "operands");
  count(info.results, op.results.size(), "results");
  count(info.regions, op.regions.size(), "regions");
}

void check_attributes(const Op& op, std::vector<std::string>& problems) {
  auto rules = attributes_of(op.code);
  for (const auto& [name, value] : op.attributes()) {
    const AttributeRule* match = nullptr;
    bool known = false;
    for (const AttributeRule& rule : rules) {
      if (rule.name != name) continue;
      known = true;
      if (rule.kind == kind_of(value)) match = &rule;
    }
    // Names with a dot are annotations of back ends, which the table does not list.
    if (!known && name.find('.') != std::string::npos) continue;
    if (!known) {
      problems.push_back("there is no attribute " + name);
    } else if (!match) {
      problems.push_back("the attribute " + name + " is " + std::string(ir::name(kind_of(value))));
    } else if (match->kind == AttributeKind::Text && !match->words.empty() &&
               std::find(match->words.begin(), match->words.end(), std::get<std::string>(value)) ==
                   match->words.end()) {
      std::string words;
      for (std::string_view word : match->words)
        words += (words.empty() ? "" : ", ") + std::string(word);
      problems.push_back("the attribute " + name + " is \"" + std::get<std::string>(value) +
                         "\", expected one of: " + words);
    } else if (name == "has_mask" || name == "has_other" || name == "reverse" || name == "descending") {
      std::int64_t flag = std::get<std::int64_t>(value);
      if (flag != 0 && flag != 1)
        problems.push_back("the attribute " + name + " is " + std::to_string(flag) + ", expected 0 or 1");
    }
  }
  for (const AttributeRule& rule : rules)
    if (rule.required && !op.find(rule.name))
      problems.push_back("the attribute " + std::string(rule.name) + " is missing");
}

void check_types(const Op& op, std::vector<std::string>& problems) { Checker(op, problems).run(); }

} // namespace kiln::ir::detail
