// Implements record_recipe, which calls a kernel's lambda with handles to the parameters of a new ir::Kernel.
#include <kiln/dsl/detail/recording.h>
#include <kiln/dsl/record.h>

namespace kiln::detail {

namespace {
ir::Type parameter_type(const ParameterInfo& p) {
  switch (p.kind) {
  case ParameterInfo::Kind::View:
    return ir::Type::view(p.dtype, p.rank, p.readonly,
                          p.layout == ParameterInfo::not_pinned ? LayoutClass::Any
                                                                : static_cast<LayoutClass>(p.layout));
  case ParameterInfo::Kind::Pointer: return ir::Type::pointer_to(p.dtype, p.readonly);
  case ParameterInfo::Kind::Scalar: break;
  }
  return ir::Type::scalar(p.dtype);
}
} // namespace

std::unique_ptr<ir::Kernel> record_recipe(const Recipe& recipe, const Config& config, Location where) {
  Recording recording(recipe.name, config, where);
  std::vector<Handle> parameters;
  for (int i = 0; i < recipe.parameter_count; ++i)
    parameters.push_back(
        recording.handle(recording.kernel->body.add_arg(parameter_type(recipe.parameters[i]))));
  recipe.call(recipe.function, parameters.data());
  return std::move(recording.kernel);
}

} // namespace kiln::detail
