// Decodes an entry and all functions that it calls into a program.
#include "decoder.h"

#include <algorithm>
#include <kiln/dsl/error.h>

namespace kiln::emulator {

std::uint64_t ProgramBuilder::shared_offset(const ptx::Variable& v) {
  auto [at, fresh] = shared.try_emplace(&v, 0);
  if (fresh) {
    shared_bytes = (shared_bytes + v.align - 1) / v.align * v.align;
    at->second = shared_bytes;
    shared_bytes += v.bytes;
  }
  return at->second;
}

std::uint32_t ProgramBuilder::function(std::string_view name) {
  auto [at, fresh] = functions.try_emplace(name, static_cast<std::uint32_t>(to_decode.size()));
  if (fresh) to_decode.push_back(name);
  return at->second;
}

void ProgramBuilder::functions_by_address() {
  for (const ptx::Variable& v : module.variables)
    for (const ptx::Relocation& r : v.relocations)
      addressed.push_back(r.symbol);
  for (std::string_view name : addressed) {
    auto at = module.function_named.find(name);
    if (at == module.function_named.end()) continue;
    const ptx::Function& f = module.functions[at->second];
    if (f.defined && !f.entry) program.by_address[at->second] = function(name);
  }
  addressed.clear();
}

namespace {

bool communicates_with_other_blocks(const Instruction& i, const std::string& opcode) {
  if (i.kind == InstructionClass::Fence) return true;
  if (i.space == ptx::Space::Shared) return false;
  if (i.kind == InstructionClass::Atomic) return true;
  for (const char* word : {".volatile", ".relaxed", ".acquire", ".release", ".mmio", "reduce."})
    if (opcode.find(word) != std::string::npos) return true;
  return false;
}

} // namespace

std::unique_ptr<Program> decode(const ptx::Module& module, const std::string& kernel,
                                const std::function<const Region*(std::string_view)>& variable) {
  auto named = module.function_named.find(kernel);
  if (named == module.function_named.end() || !module.functions[named->second].entry) {
    std::string others;
    for (const auto& f : module.functions)
      if (f.entry) others += (others.empty() ? "" : ", ") + std::string(f.name);
    throw UserError(module.name + ": there is no kernel " + kernel + "; " +
                    (others.empty() ? "it has none" : "it has " + others));
  }
  auto program = std::make_unique<Program>();
  program->module = module.name;
  program->kernel = kernel;
  program->locations = module.locations;
  program->files = module.files;
  const ptx::Function& entry = module.functions[named->second];
  for (int k = 0; k < 3; ++k) {
    program->required[static_cast<std::size_t>(k)] = entry.required_threads[k];
    program->maximum[static_cast<std::size_t>(k)] = entry.maximum_threads[k];
    program->cluster[static_cast<std::size_t>(k)] = entry.cluster[k];
  }
  program->registers = entry.registers_per_thread;
  ProgramBuilder builder{module, *program, variable, {}, {}, {}, {}, false, 0, 16};
  builder.function(entry.name);
  for (std::size_t k = 0;; ++k) {
    if (k == builder.to_decode.size() && builder.calls_indirectly) builder.functions_by_address();
    if (k == builder.to_decode.size()) break;
    const std::string_view name = builder.to_decode[k];
    const ptx::Function& source = module.functions[module.function_named.at(name)];
    if (!source.defined)
      throw UserError(module.name + ":" + std::to_string(source.line) + ": the function " +
                      std::string(name) + " is called and not defined");
    program->functions.push_back(std::make_unique<Function>());
    Decoder(builder, source, *program->functions.back()).run();
  }
  program->shared_bytes = builder.shared_bytes;
  program->dynamic_offset =
      (builder.shared_bytes + builder.dynamic_align - 1) / builder.dynamic_align * builder.dynamic_align;
  // Only now is the address of dynamic shared memory known.
  for (auto& f : program->functions)
    for (Constant& c : f->constants)
      if (c.dynamic) c.value = program->dynamic_offset;
  program->independent_blocks = !program->cooperative;
  for (auto& f : program->functions) {
    f->first = program->instructions;
    program->instructions += f->code.size();
    for (std::size_t n = 0; n < f->code.size(); ++n)
      program->independent_blocks &= !communicates_with_other_blocks(f->code[n], f->opcodes[n]);
  }
  return program;
}

} // namespace kiln::emulator
