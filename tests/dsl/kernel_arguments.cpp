// Runs a kernel in the interpreter and on the CPU, with the most general layout classes and with the most
// special ones that the strides allow.
#include "kernel_arguments.h"

#include <catch2/catch.hpp>
#include <dsl/tolerance.h>
#include <jit/cpu/cpu_runner.h>
#include <kiln/dsl/ir/printer.h>

namespace kiln::test {

Arguments::Bytes Arguments::contents() const {
  Bytes all;
  for (const Region& r : regions_)
    all.emplace_back(r.begin, r.begin + r.bytes);
  return all;
}

void Arguments::restore(const Bytes& contents) const {
  for (std::size_t i = 0; i < regions_.size(); ++i)
    std::copy(contents[i].begin(), contents[i].end(), regions_[i].begin);
}

void Arguments::require_equal(const ir::Kernel& kernel, const Bytes& expected, const Bytes& found) const {
  auto layout = ir::ArgumentLayout::of(kernel);
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    auto at =
        std::find(layout.first_word.begin(), layout.first_word.end(), static_cast<int>(regions_[i].word));
    REQUIRE(at != layout.first_word.end());
    auto parameter = static_cast<std::size_t>(at - layout.first_word.begin());
    DType t = kernel.body.args[parameter]->type.dtype;
    INFO("parameter " << parameter);
    REQUIRE(difference(t, found[i], expected[i], tolerance_of(t), regions_[i].term) == "");
  }
}

namespace {

std::vector<LayoutClass> strongest_layouts(const ir::Kernel& kernel, const std::uint64_t* words) {
  auto layout = ir::ArgumentLayout::of(kernel);
  std::vector<LayoutClass> classes;
  for (std::size_t p = 0; p < kernel.body.args.size(); ++p) {
    const ir::Type& type = kernel.body.args[p]->type;
    if (!type.is_view()) continue;
    const std::uint64_t* strides = words + layout.first_word[p] + 1 + type.view_rank;
    LayoutClass c = LayoutClass::Any;
    if (type.view_rank > 0 && strides[type.view_rank - 1] == 1) {
      c = LayoutClass::Aligned;
      if (words[layout.first_word[p]] % 16 != 0) c = LayoutClass::Unit;
      for (int a = 0; a + 1 < type.view_rank; ++a)
        if (strides[a] * static_cast<std::uint64_t>(size_of(type.dtype)) % 16 != 0) c = LayoutClass::Unit;
    }
    classes.push_back(c);
  }
  return classes;
}

// Requires that an assert that failed in the interpreter fails on the CPU with the same message.
void require_failed_assert(const ir::Kernel& kernel, const Arguments& arguments,
                           const std::vector<std::int64_t>& grid, const UserError& expected) {
  std::vector<std::string> messages;
  ir::walk(kernel.body, [&](const ir::Op& op) {
    if (op.is(ir::Opcode::DeviceAssert)) messages.emplace_back(op.text("message"));
  });
  for (const std::string& message : messages) {
    if (std::string(expected.what()).find(message) == std::string::npos) continue;
    const auto compiled = compiled_once(kernel, {}, true);
    REQUIRE_THROWS_WITH(compiled->run(arguments.words(), grid), Catch::Matchers::Contains(message));
    return;
  }
}

} // namespace

void Arguments::run_on(const ir::Kernel& kernel, std::vector<std::int64_t> grid,
                       const ir::InterpreterOptions& options) const {
  Bytes before = contents();
  const bool records = kiln::options().keep.tile; // then kernels are not compiled: other runs do that
  try {
    ir::interpret(kernel, words(), grid, options);
  } catch (const UserError& error) {
    if (records)
      keep_kernel(kernel, {});
    else
      require_failed_assert(kernel, *this, grid, error);
    throw;
  }
  Bytes expected = contents();
  bool observed = options.print || options.observe;
  ir::walk(kernel.body, [&](const ir::Op& op) { observed |= op.is(ir::Opcode::DevicePrint); });
  if (observed) return;
  if (records) return keep_kernel(kernel, {});
  auto strongest = strongest_layouts(kernel, words());
  std::vector<std::vector<LayoutClass>> all{{strongest.size(), LayoutClass::Any}};
  all[0].assign(strongest.size(), LayoutClass::Any);
  if (strongest != all[0]) all.push_back(strongest);
  for (const auto& layouts : all) {
    const auto compiled = compiled_once(kernel, layouts, options.device_asserts);
    INFO("on the CPU, " << (layouts == all[0] ? "any" : "the strongest") << " layouts\n"
                        << ir::print(*compiled->lowered));
    restore(before);
    compiled->run(words(), grid);
    require_equal(kernel, expected, contents());
  }
  restore(expected);
}

} // namespace kiln::test
