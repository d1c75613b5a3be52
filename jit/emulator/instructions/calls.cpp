// Decodes call and ret, for functions by name and through registers that hold their addresses.
#include "decoder.h"
#include <kiln/jit/emulator/core/system_calls.h>
#include <kiln/jit/emulator/core/warp.h>

namespace kiln::emulator {
namespace {

using Variables = std::vector<ptx::Variable>;

// Collects the offsets in the caller's frame of the .param variables that are passed to a function.
class Arguments {
public:
  explicit Arguments(Decoder& d, std::string_view callee) : d_(d), callee_(callee) {}

  void add(const std::vector<Operand>& given, const Variables& taken, const char* what) {
    if (given.size() != taken.size())
      d_.fail("the call of " + std::string(callee_) + " has " + std::to_string(given.size()) + " " + what +
              ", and the function has " + std::to_string(taken.size()));
    for (std::size_t n = 0; n < given.size(); ++n) {
      const Operand& o = given[n];
      const auto place = o.kind == Operand::Kind::Name ? d_.param_place(o.name) : std::nullopt;
      if (!place) d_.fail("a call takes .param variables of the caller");
      if (place->second != taken[n].bytes)
        d_.fail("'" + std::string(o.name) + "' has " + std::to_string(place->second) + " bytes, and '" +
                std::string(taken[n].name) + "' of " + std::string(callee_) + " has " +
                std::to_string(taken[n].bytes));
      words.push_back(static_cast<std::uint32_t>(place->first));
    }
  }
  std::vector<std::uint32_t> words;

private:
  Decoder& d_;
  std::string_view callee_;
};

// call (ret), %rd, (params), prototype; the prototype may also be a list of .calltargets.
void call_indirectly(Decoder& d, Instruction i, const std::vector<Operand>& returns,
                     const std::vector<Operand>& params, const Operand& target, const Operand& prototype) {
  auto& builder = d.builder();
  const Variables *taken_returns = nullptr, *taken_params = nullptr;
  if (const ptx::Prototype* p = d.find_in_scopes(&ptx::Scope::prototypes, prototype.name)) {
    taken_returns = &p->returns;
    taken_params = &p->params;
  } else if (const auto* targets = d.find_in_scopes(&ptx::Scope::call_targets, prototype.name)) {
    for (std::string_view name : *targets) {
      auto at = builder.module.function_named.find(name);
      if (at == builder.module.function_named.end())
        d.fail("the function '" + std::string(name) + "' is not declared");
      const ptx::Function& f = builder.module.functions[at->second];
      taken_returns = &f.returns;
      taken_params = &f.params;
      builder.addressed.push_back(name);
    }
  }
  if (!taken_returns)
    d.fail("a call through a register takes a .callprototype or .calltargets, and there is no " +
           std::string(prototype.name));
  Arguments arguments(d, prototype.name);
  arguments.add(returns, *taken_returns, "results");
  arguments.add(params, *taken_params, "parameters");
  // The sizes of results and parameters, which are compared with the function when the call is executed.
  for (const Variables* v : {taken_returns, taken_params}) {
    arguments.words.push_back(static_cast<std::uint32_t>(v->size()));
    for (const ptx::Variable& x : *v)
      arguments.words.push_back(static_cast<std::uint32_t>(x.bytes));
  }
  builder.calls_indirectly = true;
  i.step = Step::IndirectCall;
  i.count = static_cast<std::uint32_t>(returns.size() + params.size());
  i.a = d.source(target, Type::U64);
  i.extra = d.extras(arguments.words);
  d.emit(i);
}

// call (ret), f, (params);
void call(Decoder& d) {
  d.take("uni");
  std::size_t at = 0;
  std::vector<Operand> returns, params;
  if (d.operands() && d.operand(0).kind == Operand::Kind::List) returns = d.operand(at++).parts;
  const Operand& name = d.operand(at++);
  if (at < d.operands() && d.operand(at).kind == Operand::Kind::List) params = d.operand(at++).parts;
  if (name.kind != Operand::Kind::Name) d.fail("a call takes the name of a function, or a register");
  Instruction i = d.start();
  if (d.is_register(name)) {
    if (at + 1 != d.operands() || d.operand(at).kind != Operand::Kind::Name)
      d.fail("a call through a register takes a .callprototype or .calltargets after its parameters");
    return call_indirectly(d, i, returns, params, name, d.operand(at));
  }
  if (at < d.operands()) d.fail("this call has more than a function and its parameters");
  const auto& module = d.builder().module;
  auto named = module.function_named.find(name.name);
  if (named == module.function_named.end())
    d.fail("the function '" + std::string(name.name) + "' is not declared");
  const ptx::Function& callee = module.functions[named->second];
  if (callee.entry) d.fail("a kernel cannot be called");
  Arguments arguments(d, name.name);
  arguments.add(returns, callee.returns, "results");
  arguments.add(params, callee.params, "parameters");
  i.extra = d.extras(arguments.words);
  if (!callee.defined) {
    i.run = system_call(name.name);
    if (!i.run)
      d.fail("the function '" + std::string(name.name) + "' is external, and the emulator does not have it");
    return d.emit(i);
  }
  i.step = Step::Call;
  i.target = d.builder().function(name.name);
  d.emit(i);
}

void ret(Decoder& d) {
  d.take("uni");
  Instruction i = d.start();
  i.step = Step::Return;
  d.emit(i);
}

constexpr Opcode call_table[] = {{"call", InstructionClass::Control, call},
                                 {"ret", InstructionClass::Control, ret}};

} // namespace

std::span<const Opcode> call_opcodes() { return call_table; }

} // namespace kiln::emulator
