// Decodes and executes tensormap.replace and tensormap.cp_fenceproxy, by which kernels make tensor maps.
#include "decoder.h"
#include <kiln/jit/emulator/core/access.h>
#include <kiln/jit/emulator/core/tensor_map.h>

#include <bit>
#include <cstring>

namespace kiln::emulator {
namespace {

constexpr std::string_view fields[] = {
    "global_address", "rank",     "box_dim",           "global_dim",   "global_stride",
    "element_stride", "elemtype", "interleave_layout", "swizzle_mode", "swizzle_atomicity",
    "fill_mode"};

// a: address; b: the value; d: its left shift; mode: the field; count: the dimension; type: type of the value
void replace(Warp& w, const Instruction& i, Mask m) {
  std::uint64_t at[warp_size];
  addresses(w, i, m, at);
  for (Mask rest = m; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    Located whole;
    whole.address[l] = at[l];
    locate(w, i, Mask(1) << l, i.space, 128, 64, AccessKind::Write, whole);
    if (!whole.lanes) continue;
    TensorMap map;
    std::memcpy(map.bytes.data(), whole.host[l], 128);
    std::uint64_t v = bits_of(i.type) == 64 ? w.reg<std::uint64_t>(i.b)[l] : w.reg<std::uint32_t>(i.b)[l];
    v <<= i.d; // strides are in units of 16 bytes
    if (!replace_field(map, std::string(fields[i.mode]), i.count, v))
      w.execution.add_finding(Fault::IllegalOperand, w, i, l,
                              "replaces dimension " + std::to_string(i.count) + ", and there are 5");
    std::memcpy(whole.host[l], map.bytes.data(), 128);
    if (whole.region[l]->kind == Region::Kind::Global) ++w.execution.made_maps[at[l]];
  }
}

// Copies the map's 128 bytes from shared memory (address a) to global memory (address d), and releases them
// to the tensor-map proxy.
void copy(Warp& w, const Participant* p, int) {
  const Instruction& i = *p->instruction;
  const int l = std::countr_zero(p->lanes);
  Located to, from;
  addresses(w, i, p->lanes, from.address);
  to.address[l] = p->reg<std::uint64_t>(i.d)[l] + (i.extra == no_register ? 0 : i.extra);
  const Mask one = Mask(1) << l;
  locate(w, i, one, Space::Shared, 128, 16, AccessKind::Read, from);
  locate(w, i, one, Space::Global, 128, 128, AccessKind::Write, to);
  if (from.lanes && to.lanes) {
    std::memcpy(to.host[l], from.host[l], 128);
    ++w.execution.made_maps[to.address[l]];
  }
  if (w.execution.probe) {
    Fence f;
    f.kind = Fence::Kind::Tensormap;
    f.acquires = false;
    f.scope = static_cast<Scope>(i.mode);
    w.execution.probe->fence(w, i, f, p->lanes);
  }
}

void tensor_map(Decoder& d) {
  auto unknown = [&] { d.fail(quoted(d.statement().opcode) + " is not known to the emulator"); };
  if (d.take("cp_fenceproxy")) {
    if (!d.take("global") || !d.take("shared::cta") || !d.take("tensormap::generic") || !d.take("release") ||
        !d.take("sync") || !d.take("aligned"))
      unknown();
    const std::string_view scope = d.take_one_of({"cta", "cluster", "gpu", "sys"});
    d.expect_operands(3);
    const Address to = d.address(d.operand(0)), from = d.address(d.operand(1));
    if (auto n = d.immediate(d.operand(2));
        !n || *n != 128 || to.width != 64 || scope.empty() || to.offset < 0)
      unknown();
    Instruction i = d.start();
    i.step = Step::Collective;
    i.collective = copy;
    i.target = no_register;
    i.d = to.reg;
    i.extra = static_cast<std::uint32_t>(to.offset);
    i.a = from.reg;
    i.mode2 = static_cast<std::uint8_t>(from.width);
    i.offset = from.offset;
    i.mode = scope == "cta" ? 0 : scope == "cluster" ? 1 : scope == "gpu" ? 2 : 3;
    return d.emit(i);
  }
  if (!d.take("replace") || !d.take("tile") || !d.take("b1024")) unknown();
  Instruction i = d.plain(replace);
  std::size_t field = 0;
  while (field < std::size(fields) && !d.take(fields[field]))
    ++field;
  if (field == std::size(fields)) unknown();
  const std::string_view space = d.take_one_of({"global", "shared::cta"});
  i.space = space == "global" ? Space::Global : space.empty() ? Space::Generic : Space::Shared;
  i.type = d.take_type();
  if (i.type != Type::B32 && i.type != Type::B64) unknown();
  const bool by_dimension = field >= 2 && field <= 5;
  d.expect_operands(by_dimension ? 3 : 2);
  const Address a = d.address(d.operand(0));
  a.put_into(i);
  if (by_dimension) {
    auto n = d.immediate(d.operand(1));
    if (!n || *n < 0 || *n > 4) d.fail("a tensor map has dimensions 0 to 4");
    i.count = static_cast<std::uint32_t>(*n);
  }
  i.b = d.source(by_dimension ? 2 : 1, i.type);
  // Assemblers of PTX up to 8.5 store the value unchanged, while the hardware expects the stride in units of
  // 16 bytes; compilers that know this divide by 16.
  i.d = fields[field] == "global_stride" && d.builder().module.version <= 85 ? 4 : 0;
  i.mode = static_cast<std::uint8_t>(field);
  d.emit(i);
}

constexpr Opcode tensor_map_table[] = {{"tensormap", InstructionClass::Other, tensor_map}};

} // namespace

std::span<const Opcode> tensor_map_opcodes() { return tensor_map_table; }

} // namespace kiln::emulator
