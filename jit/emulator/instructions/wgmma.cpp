// Decodes and issues wgmma.mma_async, its fence and its groups.
#include "decoder.h"
#include <kiln/jit/emulator/core/access.h>
#include <kiln/jit/emulator/core/wgmma.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace kiln::emulator {
namespace {

// Flags in Instruction::offset.
constexpr std::int64_t Saturate = 1, NegateA = 2, NegateB = 4, ByColumnsA = 8, ByColumnsB = 16, Add = 32;

// Checks one wgmma.mma_async of a warp and issues it as an asynchronous operation.
class Issue {
public:
  Issue(Warp& w, const Participant& p) : w_(w), p_(p), i_(*p.instruction) {}

  void run() {
    op_ = std::make_unique<Multiplication>();
    op_->kind = AsyncOperation::Kind::Wgmma;
    op_->proxy = Proxy::Async;
    op_->queue = AsyncOperation::Queue::Wgmma;
    op_->warp = &w_;
    op_->instruction = &i_;
    op_->lanes = p_.lanes;
    op_->group = w_.wgmma_group[std::countr_zero(p_.lanes)];
    op_->frame = p_.frame;
    op_->columns = static_cast<int>(i_.count);
    op_->d = i_.type;
    op_->a = static_cast<Type>(i_.mode);
    op_->b = static_cast<Type>(i_.mode2);
    op_->depth = op_->a == Type::TF32 ? 8 : 256 / bits_of(op_->a);
    op_->negate_a = i_.offset & NegateA;
    op_->negate_b = i_.offset & NegateB;
    op_->saturate = i_.offset & Saturate;
    op_->a_by_columns = i_.offset & ByColumnsA;
    op_->b_by_columns = i_.offset & ByColumnsB;
    const std::uint32_t* r = p_.frame->function->extras.data() + i_.extra;
    const std::uint32_t results = op_->d == Type::F16 ? i_.count / 4 : i_.count / 2;
    op_->results.assign(r, r + results);
    if (i_.a == no_register) op_->operands.assign(r + results, r + results + 4);

    if (p_.lanes != all_lanes || static_cast<std::size_t>(w_.index / 4 * 4 + 4) > w_.block.warps.size())
      return fault(
          "requires a warpgroup: 4 warps of 32 threads, the index of the first of which is a multiple of 4");
    std::uint64_t a = 0, b = 0;
    if ((i_.a != no_register && !uniform(i_.a, a)) || !uniform(i_.b, b)) return;
    op_->add = i_.offset & Add;
    if (i_.c != no_register) {
      const Mask scale = *p_.reg<Mask>(i_.c);
      if (scale && ~scale) return fault("has a scale-d that differs between the threads of a warp");
      op_->add = scale;
    }
    agree(a, b);
    watch();
    const int first = w_.index % 4 * 16;
    if (i_.a != no_register && !chunks(a, first, 16, op_->a, op_->a_by_columns, "A", op_->a_chunks)) return;
    if (!chunks(b, 0, op_->columns, op_->b, op_->b_by_columns, "B", op_->b_chunks)) return;
    ranges();
    for (const std::uint32_t x : op_->results)
      ++p_.frame->watch(x).accumulating;
    for (const std::uint32_t x : op_->operands)
      ++p_.frame->watch(x).feeding;
    ++p_.frame->in_flight;
    w_.block.async_operations.issue(std::move(op_));
  }

private:
  void fault(const std::string& what, Fault kind = Fault::IllegalOperand) {
    w_.execution.add_finding(kind, w_, i_, std::countr_zero(p_.lanes), what);
  }

  bool uniform(std::uint32_t at, std::uint64_t& value) {
    const std::uint64_t* v = p_.reg<std::uint64_t>(at);
    value = v[0];
    for (int l = 1; l < warp_size; ++l)
      if (v[l] != value) {
        fault("has descriptors that differ between the threads of a warp: " + hexadecimal(value) + " and " +
              hexadecimal(v[l]));
        return false;
      }
    return true;
  }

  void agree(std::uint64_t a, std::uint64_t b) {
    const Agreement::Entry mine{&i_, a, b << 1 | op_->add};
    if (const auto* other = w_.block.multiplications(w_.index / 4).differs(w_.index % 4, mine))
      fault(other->instruction != &i_
                ? "is executed where another warp of the warpgroup executes line " +
                      std::to_string(other->instruction->line)
                : "has descriptors or a scale-d that differ between the warps of the warpgroup");
  }

  // Only a wgmma.fence orders registers with earlier uses, except for sums of the same shape.
  void watch() {
    if (!w_.wgmma_fences) {
      fault("is the first of its warp and no wgmma.fence comes before", Fault::InFlight);
      w_.wgmma_fences = 1;
    }
    const auto shape = static_cast<std::uint32_t>(i_.count << 8 | static_cast<std::uint32_t>(i_.type));
    for (const std::uint32_t r : op_->results) {
      RegisterWatch& x = p_.frame->watch(r);
      if (x.feeding) {
        fault("adds to a register that a wgmma under way still reads as A: wait for it", Fault::InFlight);
        break;
      }
      if (x.touched == w_.wgmma_fences || (x.multiplied == w_.wgmma_fences && x.shape != shape)) {
        fault(x.touched == w_.wgmma_fences
                  ? "adds to registers that line " + std::to_string(x.line) +
                        " uses, without a wgmma.fence between"
                  : "adds to registers of a wgmma of another shape, without a wgmma.fence between",
              Fault::InFlight);
        break;
      }
    }
    for (const std::uint32_t r : op_->results) {
      RegisterWatch& x = p_.frame->watch(r);
      x.multiplied = w_.wgmma_fences;
      x.shape = shape;
    }
    for (const std::uint32_t r : op_->operands) {
      RegisterWatch& x = p_.frame->watch(r);
      if (x.accumulating) {
        fault("reads A from a register that a wgmma under way adds to: wait for it", Fault::InFlight);
        break;
      }
      if (x.touched == w_.wgmma_fences) {
        fault("reads A from registers that line " + std::to_string(x.line) +
                  " uses, without a wgmma.fence between",
              Fault::InFlight);
        break;
      }
    }
  }

  bool chunks(std::uint64_t bits, int first, int count, Type t, bool by_columns, const char* name,
              std::vector<std::uint32_t>& to) {
    if (Descriptor::reserved(bits)) {
      fault(std::string("has the descriptor ") + hexadecimal(bits) + " of " + name +
            ", in which reserved bits are set");
      return false;
    }
    const Descriptor d(bits);
    if (d.chunks == 1 && d.base_offset) {
      fault(std::string("has the descriptor ") + hexadecimal(bits) + " of " + name +
            ", with a base offset and no swizzle");
      return false;
    }
    const Region& shared = w_.block.shared;
    const int per_chunk = t == Type::TF32 ? 4 : 128 / bits_of(t);
    bool unwritten = false, landing = false;
    auto add = [&](std::uint64_t offset) {
      if (offset + 16 > shared.bytes) {
        fault("reads " + std::string(name) + " at " + hexadecimal(offset) +
                  " of shared memory by the descriptor " + hexadecimal(bits) + ", and the block has " +
                  std::to_string(shared.bytes) + " bytes",
              Fault::OutOfBounds);
        return false;
      }
      if (!shared.shadow.empty())
        for (int b = 0; b < 16; ++b)
          unwritten |= shared.shadow[offset + static_cast<std::size_t>(b)] != 1;
      if (!shared.landing.empty())
        for (std::uint64_t g = offset / Region::granule; g <= (offset + 15) / Region::granule; ++g)
          landing |= shared.landing[g] != 0;
      to.push_back(static_cast<std::uint32_t>(offset));
      return true;
    };
    if (by_columns) {
      for (int c = first / per_chunk; c < (first + count) / per_chunk; ++c)
        for (int k = 0; k < op_->depth; ++k)
          if (!add(d.mn_major(c, k))) return false;
    } else {
      for (int r = first; r < first + count; ++r)
        for (int c = 0; c < 2; ++c)
          if (!add(d.k_major(r, c))) return false;
    }
    if (landing)
      fault(std::string("reads ") + name + " where an asynchronous copy has not landed yet: wait for it",
            Fault::InFlight);
    else if (unwritten)
      fault(std::string("reads ") + name + " from shared memory that nothing wrote", Fault::Uninitialised);
    return true;
  }

  // Merges the chunks into few ranges, for probes.
  void ranges() {
    Region& shared = w_.block.shared;
    std::vector<bool> used(shared.bytes / 16 + 1);
    for (const auto* all : {&op_->a_chunks, &op_->b_chunks})
      for (const std::uint32_t offset : *all)
        used[offset / 16] = true;
    for (std::size_t n = 0; n < used.size(); ++n) {
      if (!used[n]) continue;
      const std::size_t start = n;
      while (n < used.size() && used[n])
        ++n;
      op_->ranges.push_back(
          {AccessKind::Read, shared.data + start * 16, (n - start) * 16, &shared, &w_.block, 0});
    }
  }

  Warp& w_;
  const Participant& p_;
  const Instruction& i_;
  std::unique_ptr<Multiplication> op_;
};

void issue(Warp& w, const Participant* p, int) { Issue(w, *p).run(); }

void fence(Warp& w, const Participant* p, int) {
  ++w.wgmma_fences;
  if (!w.execution.probe) return;
  Fence f;
  f.kind = Fence::Kind::WgmmaRegisters;
  f.scope = Scope::Cta;
  w.execution.probe->fence(w, *p->instruction, f, p->lanes);
}
void commit(Warp& w, const Participant* p, int) {
  for (Mask rest = p->lanes; rest; rest &= rest - 1)
    ++w.wgmma_group[std::countr_zero(rest)];
  w.block.open_wgmma_waits(); // other warps of the warpgroup may wait for this
}

bool known_columns(Type a, int n) {
  if (n < 8 || n > 256 || n % 8) return false;
  const bool integers = a == Type::S8 || a == Type::U8;
  return !integers || n <= 24 || n % 16 == 0;
}

void multiply(Decoder& d) {
  if (d.take("sp")) d.fail(quoted(d.statement().opcode) + ": sparse matrices are not known to the emulator");
  if (!d.take("sync") || !d.take("aligned")) d.unknown();
  int n = 0, k = 0;
  if (const auto shape = d.next_modifier(); shape && shape->size() < 12 && shape->substr(0, 4) == "m64n") {
    const std::string text(*shape);
    if (std::sscanf(text.c_str(), "m64n%dk%d", &n, &k) != 2 ||
        text != "m64n" + std::to_string(n) + "k" + std::to_string(k) || !d.take(text))
      d.unknown();
  }
  Instruction i = d.start();
  i.offset = d.take("satfinite") ? Saturate : 0;
  const Type td = d.take_type(), ta = d.take_type(), tb = d.take_type();
  const bool integers = ta == Type::S8 || ta == Type::U8, f8 = ta == Type::E4M3 || ta == Type::E5M2,
             half = ta == Type::F16 || ta == Type::BF16;
  const bool operands = integers ? tb == Type::S8 || tb == Type::U8
                        : f8     ? tb == Type::E4M3 || tb == Type::E5M2
                                 : ta == tb && (half || ta == Type::TF32);
  const bool result =
      integers ? td == Type::S32 : td == Type::F32 || (td == Type::F16 && (ta == Type::F16 || f8));
  const int depth = ta == Type::TF32 ? 8 : half ? 16 : 32;
  if (!operands || !result || !known_columns(ta, n) || k != depth || ((i.offset & Saturate) && !integers))
    d.unknown();
  const bool a_in_registers = d.operand(1).kind == Operand::Kind::Vector;
  const std::size_t transposes = !half ? 0 : a_in_registers ? 1 : 2;
  d.expect_operands(4 + (integers ? 0 : 2) + transposes);
  std::vector<std::uint32_t> registers;
  const auto results = static_cast<std::size_t>(td == Type::F16 ? n / 4 : n / 2);
  for (const Operand* o : d.vector(d.operand(0), results))
    registers.push_back(d.destination(*o, 32));
  i.a = no_register;
  if (a_in_registers)
    for (const Operand* o : d.vector(d.operand(1), 4))
      registers.push_back(d.source(*o, Type::B32));
  else
    i.a = d.source(1, Type::B64);
  i.b = d.source(2, Type::B64);
  i.c = no_register;
  if (const auto scale = d.immediate(d.operand(3)))
    i.offset |= *scale ? Add : 0;
  else
    i.c = d.predicate(d.operand(3));
  auto flag = [&](std::size_t at, std::int64_t low, std::int64_t high, std::int64_t bit) {
    const auto v = d.immediate(d.operand(at));
    if (!v || (*v != low && *v != high))
      d.fail(quoted(d.statement().opcode) + " takes " + std::to_string(low) + " or " + std::to_string(high) +
             " as operand " + std::to_string(at + 1));
    if (*v == high) i.offset |= bit;
  };
  if (!integers) {
    flag(4, 1, -1, NegateA);
    flag(5, 1, -1, NegateB);
  }
  if (transposes == 2) flag(6, 0, 1, ByColumnsA);
  if (transposes) flag(5 + transposes, 0, 1, ByColumnsB);
  i.step = Step::Collective;
  i.collective = issue;
  i.target = no_register;
  i.count = static_cast<std::uint32_t>(n);
  i.type = td;
  i.mode = static_cast<std::uint8_t>(ta);
  i.mode2 = static_cast<std::uint8_t>(tb);
  i.extra = d.extras(registers);
  d.watch_registers(registers);
  d.emit(i);
}

void wgmma(Decoder& d) {
  if (const std::string& target = d.builder().module.target; target != "sm_90a")
    d.fail("wgmma is for .target sm_90a alone, and this module is for " + target);
  if (d.take("mma_async")) return multiply(d);
  const std::string_view what = d.take_one_of({"fence", "commit_group", "wait_group"});
  if (what.empty() || !d.take("sync") || !d.take("aligned")) d.unknown();
  d.set_class(what == "fence" ? InstructionClass::Fence : InstructionClass::Asynchronous);
  d.expect_operands(what == "wait_group" ? 1 : 0);
  Instruction i = d.start();
  i.step = Step::Collective;
  i.collective = what == "fence" ? fence : commit;
  i.target = no_register;
  if (what == "wait_group") { // waits for all warps of the warpgroup, like a barrier
    i.step = Step::Barrier;
    i.inner = nullptr;
    i.b = no_register;
    i.mode = 8;
    const auto n = d.immediate(d.operand(0));
    if (!n || *n < 0 || *n > 7) d.fail("wgmma.wait_group takes 0 to 7");
    i.count = static_cast<std::uint32_t>(*n);
  }
  d.emit(i);
}

constexpr Opcode wgmma_table[] = {{"wgmma", InstructionClass::Tensor, wgmma}};

} // namespace

std::span<const Opcode> wgmma_opcodes() { return wgmma_table; }

} // namespace kiln::emulator
