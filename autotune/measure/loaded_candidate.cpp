// Parses and compiles candidates in a worker.
#include <kiln/autotune/measure/loaded_candidate.h>

#include <kiln/autotune/measure/inject.h>
#include <kiln/dsl/ir/parser.h>
#include <kiln/jit/runtime/cuda/kernel_code.h>
#include <kiln/jit/runtime/emulated/kernel_code.h>

#include <chrono>
#include <new>

namespace kiln::tune {

std::string one_line(std::string text) {
  text = text.substr(0, text.find('\n'));
  constexpr std::size_t most = 400;
  return text.size() > most ? text.substr(0, most) + " ..." : text;
}

Measurement failed(Status status, std::string error) {
  Measurement m;
  m.status = status;
  m.error = one_line(std::move(error));
  return m;
}

Measurement failure(Status otherwise) {
  try {
    throw;
  } catch (const UserError& e) {
    return failed(otherwise == Status::compile_error ? Status::refused : otherwise, e.what());
  } catch (const std::bad_alloc&) {
    return failed(Status::out_of_memory, "out of memory");
  } catch (const std::exception& e) {
    const std::string text = e.what();
    const bool memory =
        text.find("out of memory") != std::string::npos || text.find("OUT_OF_MEMORY") != std::string::npos;
    return failed(memory ? Status::out_of_memory : otherwise, text);
  } catch (...) {
    return failed(otherwise, "an unknown exception");
  }
}

std::vector<std::uint64_t> imagined_words(const MemoryPlan& plan, const std::vector<Argument>& arguments) {
  std::vector<std::uint64_t> addresses;
  for (const Block& block : plan.blocks)
    addresses.push_back((std::uint64_t{1} << 30) + static_cast<std::uint64_t>(block.misalignment));
  return plan.words(arguments, addresses);
}

LoadedCandidate load_candidate(const Message& m, const Situation& situation) {
  LoadedCandidate c;
  c.fault = m.value("fault", "");
  c.config = Config::parse(m.at("config").get<std::string>());
  if (auto grid = m.find("grid"); grid != m.end() && grid->is_array())
    c.grid = Grid{grid->at(0), grid->at(1), grid->at(2)};
  std::shared_ptr<const ir::Kernel> recorded = ir::parse(m.at("ir").get<std::string>(), "candidate");
  c.kernel = std::make_unique<IrKernel>(recorded, pinned_layouts(situation.arguments));
  return c;
}

void LoadedCandidate::launch(Stream& stream, const std::vector<std::uint64_t>& words) const {
  kernel->launch(stream, config, grid ? &*grid : nullptr, words);
}

std::shared_ptr<const CompiledKernel> LoadedCandidate::compiled(const Situation& s) const {
  const MemoryPlan plan = plan_memory(s.arguments, kernel->recorded());
  return kernel->compile(s.device, config, imagined_words(plan, s.arguments));
}

std::map<std::string, double> facts_of(const CompiledKernel& code) {
  std::map<std::string, double> facts;
  if (code.code_bytes) facts["code_bytes"] = static_cast<double>(code.code_bytes);
  if (code.code) {
    facts["scratch_bytes"] = static_cast<double>(code.scratch_bytes);
    facts["stack_bytes"] = static_cast<double>(code.stack_bytes);
  }
  if (code.cuda) {
    const cuda::FunctionInfo& info = code.cuda->function.info();
    facts["registers"] = info.registers;
    facts["spill_bytes"] = static_cast<double>(info.local_bytes);
    facts["shared_bytes"] = static_cast<double>(info.static_shared_bytes + code.cuda->shared_bytes);
  }
  if (code.emulated) facts["shared_bytes"] = static_cast<double>(code.emulated->shape.shared_bytes);
  return facts;
}

Measurement compile(const LoadedCandidate& candidate, const Situation& situation) {
  const auto begin = std::chrono::steady_clock::now();
  Measurement m;
  try {
    inject_before_compiling(candidate.fault);
    m.facts = facts_of(*candidate.compiled(situation));
  } catch (...) {
    m = failure(Status::compile_error);
  }
  m.compile_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return m;
}

} // namespace kiln::tune
