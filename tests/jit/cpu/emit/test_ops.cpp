// Tests each elementwise operation of each dtype on the CPU, value by value, against semantics.h.
//
// Results are compared bitwise where the operation is exact, and within the documented error where it is not.
#include "jit/cpu/cpu_runner.h"
#include "jit/cpu/other_cpus.h"
#include "left_out.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <kiln/dsl/ir/semantics.h>

#include <bit>
#include <cmath>
#include <random>

using namespace kiln;
using namespace kiln::ir;

namespace {

bool is_exact(Opcode code) {
  switch (code) {
  case Opcode::Exp:
  case Opcode::Exp2:
  case Opcode::Expm1:
  case Opcode::Log:
  case Opcode::Log2:
  case Opcode::Log1p:
  case Opcode::Sin:
  case Opcode::Cos:
  case Opcode::Tan:
  case Opcode::Tanh:
  case Opcode::Erf:
  case Opcode::Sigmoid:
  case Opcode::Gelu:
  case Opcode::Rsqrt:
  case Opcode::Pow:
  case Opcode::Atan2: return false;
  default: return true;
  }
}

// The allowed distance from the correctly rounded result, in units of the dtype's last place.
std::int64_t allowed_ulps(Opcode code, DType t) {
  if (is_exact(code)) return 0;
  if (size_of(t) < 4) return 1; // computed in f32, then rounded: a tie may round to the other side
  if (code == Opcode::Pow) return 16;
  if (code == Opcode::Gelu) return 8;
  return t == DType::F32 ? 2 : 4;
}

// Maps floats to integers in the order of their values, so that neighbouring values differ by one.
std::int64_t ordinal(DType t, Cell bits) {
  int width = 8 * size_of(t);
  Cell sign = Cell{1} << (width - 1);
  auto magnitude = static_cast<std::int64_t>(bits & (sign - 1));
  return bits & sign ? -magnitude : magnitude;
}

std::string compare(DType t, Cell found, Cell expected, std::int64_t ulps, bool signs_of_zeros) {
  if (found == expected) return {};
  if (!is_float(t))
    return std::to_string(static_cast<std::int64_t>(found)) + ", expected " +
           std::to_string(static_cast<std::int64_t>(expected));
  long double x = float_of(t, found), y = float_of(t, expected);
  if (std::isnan(x) && std::isnan(y)) return {};
  std::string text = std::to_string(x) + ", expected " + std::to_string(y);
  if (std::isnan(x) || std::isnan(y)) return text;
  if (x == 0 && y == 0)
    return signs_of_zeros ? "a zero of the wrong sign, expected " + std::to_string(y) : "";
  std::int64_t distance = std::abs(ordinal(t, found) - ordinal(t, expected));
  if (distance <= ulps) return {};
  return text + " (" + std::to_string(distance) + " ulp)";
}

bool is_signalling_nan(DType t, Cell bits) {
  if (t != DType::F32 && t != DType::F64 && t != DType::F16 && t != DType::BF16) return false;
  Cell quiet = Cell{1} << (t == DType::F64 ? 51 : t == DType::F32 ? 22 : t == DType::F16 ? 9 : 6);
  return std::isnan(float_of(t, bits)) && !(bits & quiet);
}

// Interesting values of a dtype; all values if it has 8 bits.
std::vector<Cell> values_of(DType t, std::mt19937_64& random) {
  std::vector<Cell> values;
  if (t == DType::Bool) return {0, 1};
  if (size_of(t) == 1) {
    for (int i = 0; i < 256; ++i) {
      auto byte = static_cast<std::uint8_t>(i);
      values.push_back(load_cell(t, &byte));
    }
    return values;
  }
  if (is_float(t)) {
    int width = 8 * size_of(t);
    for (double d :
         {0.0, 1.0, 0.5, 1.5, 2.0, 2.5, 3.0, 0.7, 10.0, 100.0, 1e-3, 1e30, 1e-30, 65504.0, 88.0, 709.0})
      for (double s : {1.0, -1.0})
        values.push_back(cell_of_float(t, s * d));
    values.push_back(cell_of_float(t, std::numeric_limits<long double>::infinity()));
    values.push_back(cell_of_float(t, -std::numeric_limits<long double>::infinity()));
    values.push_back(cell_of_float(t, std::numeric_limits<long double>::quiet_NaN()));
    if (t == DType::F32) values.push_back(0x7fa00001); // signalling
    if (t == DType::F64) values.push_back(0xfff4000000000001);
    for (Cell low : {Cell{1}, Cell{2}, Cell{77}}) // denormals of both signs
      for (Cell sign : {Cell{0}, Cell{1} << (width - 1)})
        values.push_back(low | sign);
    std::uniform_real_distribution<double> small(-4, 4);
    while (values.size() < 80)
      values.push_back(cell_of_float(t, small(random)));
    while (values.size() < 100) { // random bits
      Cell bits = width == 64 ? random() : random() & ((Cell{1} << width) - 1);
      values.push_back(bits);
    }
    return values;
  }
  for (std::int64_t n : {0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 255, 256, 1000})
    for (std::int64_t s : {1, -1})
      values.push_back(cell_of_integer(t, s * n));
  for (int k : {0, 1, 2}) {
    values.push_back(cell_of_integer(t, INT64_MIN + k));
    values.push_back(cell_of_integer(t, INT64_MAX - k));
    std::uint64_t half = std::uint64_t{1} << (8 * size_of(t) - 1);
    values.push_back(cell_of_integer(t, static_cast<std::int64_t>(half + static_cast<std::uint64_t>(k))));
    values.push_back(cell_of_integer(t, static_cast<std::int64_t>(half - static_cast<std::uint64_t>(k))));
  }
  while (values.size() < 90)
    values.push_back(cell_of_integer(t, static_cast<std::int64_t>(random()) >> random() % 64));
  return values;
}

struct Column {
  DType dtype;
  std::vector<std::byte> bytes;
  Column(DType t, std::size_t n) : dtype(t), bytes(n * static_cast<std::size_t>(size_of(t))) {}
  std::byte* at(std::size_t i) { return bytes.data() + i * static_cast<std::size_t>(size_of(dtype)); }
  Cell cell(std::size_t i) { return load_cell(dtype, at(i)); }
};

// A kernel that reads one tile of each input and stores one tile for each of its results.
struct ColumnKernel {
  Kernel kernel{"columns"};
  Builder b{&kernel.body};
  std::vector<Column> columns; // inputs, then outputs
  std::vector<Value*> inputs;
  Value* offset = nullptr;
  std::int64_t size;
  std::size_t n;

  ColumnKernel(std::vector<DType> in, std::vector<DType> out, std::int64_t tile, std::size_t elements)
      : size(tile), n(elements) {
    for (DType t : in)
      kernel.body.add_arg(Type::view(t, 1, true)), columns.emplace_back(t, n);
    for (DType t : out)
      kernel.body.add_arg(Type::view(t, 1, false)), columns.emplace_back(t, n);
    Op* tile_op =
        b.create(Opcode::ProgramTile, {kernel.body.args[in.size()].get()}, {Type::scalar(DType::I64)});
    tile_op->set("dims", Shape{Dim(size)});
    kernel.grid.push_back({static_cast<int>(in.size()), 0, Dim(size)});
    offset = tile_op->result();
    for (std::size_t i = 0; i < in.size(); ++i) {
      Op* load = b.create(Opcode::ViewLoad, {kernel.body.args[i].get(), offset}, {tile_of(in[i])});
      load->set("axes", std::vector<std::int64_t>{0});
      inputs.push_back(load->result());
    }
  }
  Type tile_of(DType t) const { return Type::tile(t, {Dim(size)}); }
  void store(std::size_t column, Value* v) {
    Op* op = b.create(Opcode::ViewStore, {kernel.body.args[column].get(), v, offset}, {});
    op->set("axes", std::vector<std::int64_t>{0});
  }
  void run(LayoutClass layout, const cpu::Target& target) {
    test::CpuKernel compiled(kernel, {}, std::vector<LayoutClass>(columns.size(), layout), {}, target);
    std::vector<std::uint64_t> words;
    for (Column& c : columns) {
      words.push_back(reinterpret_cast<std::uintptr_t>(c.bytes.data()));
      words.push_back(n);
      words.push_back(1);
    }
    compiled.run(words.data(), grid_of(*compiled.lowered, words.data()));
  }
};

std::vector<Opcode> operations_of(DType t) {
  std::vector<Opcode> list;
  for (const OpInfo& info : op_table) {
    if (!is_elementwise(info.code) || info.cls == OpClass::Convert || info.cls == OpClass::Select) continue;
    if (info.cls == OpClass::Predicate && !is_float(t)) continue;
    if (!can_evaluate(info.code, t)) continue;
    if (info.code == Opcode::Fma && !is_float(t)) continue;
    bool logic = info.cls == OpClass::Compare || info.code == Opcode::Not || info.code == Opcode::And ||
                 info.code == Opcode::Or || info.code == Opcode::Xor;
    if (t == DType::Bool && !logic) continue;
    list.push_back(info.code);
  }
  return list;
}

void check_operations(DType t, std::int64_t tile, std::uint64_t seed,
                      const cpu::Target& target = cpu::host_target()) {
  CAPTURE(name(t), tile, seed, target.cpu);
  std::mt19937_64 random(seed);
  auto values = values_of(t, random);
  std::size_t count = values.size(), n = count * count + 3;
  auto codes = operations_of(t);
  std::vector<DType> out;
  for (Opcode code : codes) {
    OpClass cls = info(code).cls;
    out.push_back(cls == OpClass::Compare || cls == OpClass::Predicate ? DType::Bool : t);
  }
  ColumnKernel k({t, t, t}, out, tile, n);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    std::vector<Value*> operands(k.inputs.begin(), k.inputs.begin() + info(codes[i]).operands);
    k.store(3 + i, k.b.create(codes[i], operands, {k.tile_of(out[i])})->result());
  }
  for (std::size_t i = 0; i < n; ++i) {
    store_cell(t, k.columns[0].at(i), values[i % count]);
    store_cell(t, k.columns[1].at(i), values[i / count % count]);
    store_cell(t, k.columns[2].at(i), values[(i * 7 + i / 13) % count]);
  }
  k.run(tile == 1 ? LayoutClass::Any : LayoutClass::Unit, target);
  for (std::size_t o = 0; o < codes.size(); ++o) {
    Opcode code = codes[o];
    bool min_max = code == Opcode::Min || code == Opcode::Max;
    bool signs_of_zeros = !min_max && code != Opcode::MinNan && code != Opcode::MaxNan;
    int failures = 0;
    for (std::size_t i = 0; i < n && failures < 5; ++i) {
      Cell a = k.columns[0].cell(i), b = k.columns[1].cell(i), c = k.columns[2].cell(i);
      Cell expected = evaluate(code, t, a, b, c);
      auto text = compare(out[o], k.columns[3 + o].cell(i), expected, allowed_ulps(code, t), signs_of_zeros);
      if (text.empty()) continue;
      bool signalling = is_signalling_nan(t, a) || is_signalling_nan(t, b);
      if (min_max && signalling && std::isnan(float_of(t, k.columns[3 + o].cell(i))))
        continue; // may be a value
      ++failures;
      std::string operands;
      for (Cell x : {a, b, c})
        operands +=
            (is_float(t) ? std::to_string(float_of(t, x)) : std::to_string(static_cast<std::int64_t>(x))) +
            " ";
      FAIL_CHECK(ir::name(code) << " of " << operands << "is " << text);
    }
    CHECK(failures == 0);
  }
}

} // namespace

TEST_CASE("every elementwise operation of every dtype agrees with semantics.h on the CPU") {
  std::uint64_t seed = test::fresh_seed();
  for (int d = 0; d < dtype_count; ++d)
    for (std::int64_t tile : {64, 1})
      check_operations(static_cast<DType>(d), tile, seed);
}

TEST_CASE("elementwise operations agree with semantics.h in code for older and other CPUs", "[slow]") {
  std::uint64_t seed = test::fresh_seed();
  std::mt19937_64 random(seed);
  for (const cpu::Target& target : test::other_cpus())
    for (int d = 0; d < dtype_count; ++d)
      if (!test::left_out(random)) check_operations(static_cast<DType>(d), 64, seed, target);
}

TEST_CASE("casts and bitcasts between all dtypes agree with semantics.h on the CPU") {
  std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int d = 0; d < dtype_count; ++d) {
    auto from = static_cast<DType>(d);
    auto values = values_of(from, random);
    for (int more = 0; more < 2000 && size_of(from) > 1; ++more) { // random bits, and any magnitude
      Cell bits = random();
      values.push_back(
          is_float(from) && more % 2
              ? cell_of_float(from, std::ldexp(static_cast<double>(static_cast<std::int64_t>(bits)),
                                               static_cast<int>(random() % 160) - 100))
              : load_cell(from, &bits));
    }
    std::vector<std::pair<DType, bool>> to; // and whether it is a bitcast
    for (int e = 0; e < dtype_count; ++e) {
      to.push_back({static_cast<DType>(e), false});
      if (size_of(static_cast<DType>(e)) == size_of(from)) to.push_back({static_cast<DType>(e), true});
    }
    std::vector<DType> out;
    for (auto [t, bits] : to)
      out.push_back(t);
    for (std::int64_t tile : {1, 64}) {
      ColumnKernel k({from}, out, tile, values.size());
      for (std::size_t i = 0; i < to.size(); ++i)
        k.store(1 + i,
                k.b.create(to[i].second ? Opcode::Bitcast : Opcode::Cast, {k.inputs[0]}, {k.tile_of(out[i])})
                    ->result());
      for (std::size_t i = 0; i < values.size(); ++i)
        store_cell(from, k.columns[0].at(i), values[i]);
      k.run(tile == 1 ? LayoutClass::Any : LayoutClass::Unit, cpu::host_target());
      for (std::size_t o = 0; o < to.size(); ++o) {
        int failures = 0;
        for (std::size_t i = 0; i < values.size() && failures < 5; ++i) {
          auto [t, bits] = to[o];
          Cell x = k.columns[0].cell(i);
          // A NaN of a narrow float may change its payload on the way.
          if (bits && is_float(from) && std::isnan(float_of(from, x))) continue;
          Cell expected = bits ? evaluate_bitcast(from, t, x) : evaluate_cast(from, t, x);
          auto text = compare(t, k.columns[1 + o].cell(i), expected, 0, true);
          if (text.empty()) continue;
          ++failures;
          FAIL_CHECK((bits ? "bitcast " : "cast ")
                     << name(from) << " to " << name(t) << " of "
                     << (is_float(from) ? std::to_string(float_of(from, x))
                                        : std::to_string(static_cast<std::int64_t>(x)))
                     << " (bits " << x << ") is " << text << "; tiles of " << tile);
        }
        CHECK(failures == 0);
      }
    }
  }
}
