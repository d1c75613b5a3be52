// Attaches line information as LLVM's debug metadata.
#include <kiln/jit/emit/line_info.h>

#include <filesystem>

namespace kiln::emit {

LineInfo::LineInfo(llvm::Module& module, const ir::Kernel& kernel, llvm::Function& function, IRBuilder& b,
                   llvm::DICompileUnit::DebugEmissionKind kind)
    : builder_(module) {
  std::string source = "kernel";
  int line = 1;
  ir::walk(kernel.body, [&](const ir::Op& op) {
    if (op.loc && line == 1) source = op.loc.file, line = op.loc.line;
  });
  std::filesystem::path path(source);
  auto* file = builder_.createFile(path.filename().string(), path.parent_path().string());
  builder_.createCompileUnit(llvm::dwarf::DW_LANG_C_plus_plus_14, file, "kiln", true, "", 0, "", kind);
  auto* signature = builder_.createSubroutineType(builder_.getOrCreateTypeArray({}));
  // Without a linkage name, debuggers show the name of the kernel.
  subprogram_ =
      builder_.createFunction(file, kernel.name, /*LinkageName=*/"", file, static_cast<unsigned>(line),
                              signature, static_cast<unsigned>(line), llvm::DINode::FlagZero,
                              llvm::DISubprogram::SPFlagDefinition | llvm::DISubprogram::SPFlagOptimized);
  function.setSubprogram(subprogram_);
  module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  b.SetCurrentDebugLocation(
      llvm::DILocation::get(module.getContext(), static_cast<unsigned>(line), 0, subprogram_));
}

void LineInfo::locate(IRBuilder& b, const ir::Op& op) {
  if (!op.loc) return;
  llvm::DIScope* scope = subprogram_;
  std::filesystem::path path(op.loc.file);
  if (subprogram_->getFilename() != path.filename().string())
    scope = builder_.createLexicalBlockFile(
        subprogram_, builder_.createFile(path.filename().string(), path.parent_path().string()));
  b.SetCurrentDebugLocation(
      llvm::DILocation::get(subprogram_->getContext(), static_cast<unsigned>(op.loc.line), 0, scope));
}

} // namespace kiln::emit
