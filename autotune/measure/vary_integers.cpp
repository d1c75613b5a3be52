// Replaces constant integers and negates others.
#include <kiln/autotune/measure/vary_integers.h>

#include <kiln/autotune/random.h>
#include <kiln/dsl/ir/semantics.h>

#include <cstring>

namespace kiln::tune {

namespace {

bool may_vary(const MemoryPlan& plan, const std::vector<Argument>& arguments, std::size_t argument) {
  const Argument& a = arguments[argument];
  const MemoryPlan::Place& place = plan.places[argument];
  if (place.block < 0 || !plan.blocks[static_cast<std::size_t>(place.block)].read || place.steers ||
      a.as_given || is_float(a.dtype) || a.fill.kind == Fill::Kind::range || place.bytes == 0)
    return false;
  for (std::size_t i = 0; i < plan.places.size(); ++i) {
    const MemoryPlan::Place& other = plan.places[i];
    const bool overlap = other.block == place.block && other.begin < place.begin + place.bytes &&
                         place.begin < other.begin + other.bytes;
    if (overlap && (other.steers || arguments[i].as_given || arguments[i].dtype != a.dtype)) return false;
  }
  return true;
}

void vary(unsigned char* bytes, std::int64_t count, DType t, Random& random) {
  const std::int64_t size = size_of(t);
  const bool is_signed = t != DType::Bool && !is_unsigned(t);
  bool constant = true, negative = false;
  for (std::int64_t i = 0; i < count; ++i) {
    const unsigned char* at = bytes + i * size;
    constant &= std::memcmp(at, bytes, static_cast<std::size_t>(size)) == 0;
    negative |= is_signed && static_cast<std::int64_t>(ir::load_cell(t, at)) < 0;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    unsigned char* at = bytes + i * size;
    const std::uint64_t bits = random.bits();
    if (constant) {
      const auto value = static_cast<std::int64_t>(t == DType::Bool ? bits & 1 : bits & 15);
      ir::store_cell(t, at, ir::cell_of_integer(t, is_signed ? value - 8 : value));
    } else if (is_signed && !negative && bits & 1) {
      ir::store_cell(t, at, ir::cell_of_integer(t, -1 - static_cast<std::int64_t>(ir::load_cell(t, at))));
    }
  }
}

} // namespace

void vary_integers(const MemoryPlan& plan, const std::vector<Argument>& arguments, std::uint64_t seed,
                   Contents& contents) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!may_vary(plan, arguments, i)) continue;
    const MemoryPlan::Place& place = plan.places[i];
    Random random(seed + 0x7000 * (i + 1));
    vary(contents.blocks[static_cast<std::size_t>(place.block)].data() + place.begin,
         place.bytes / size_of(arguments[i].dtype), arguments[i].dtype, random);
  }
}

} // namespace kiln::tune
