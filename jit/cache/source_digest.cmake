# Writes the C++ file OUT with the digest of all sources of code generation:
# cmake -D ROOT=... -D OUT=... -P source_digest.cmake
file(GLOB_RECURSE sources RELATIVE ${ROOT} ${ROOT}/jit/cpu/* ${ROOT}/jit/emit/* ${ROOT}/jit/gpu/* ${ROOT}/jit/passes/*)
list(FILTER sources EXCLUDE REGEX "[.](md|py|svg)$") # files that are not compiled
set(digests)
foreach(source ${sources})
  file(SHA256 ${ROOT}/${source} digest)
  string(APPEND digests "${source} ${digest}\n")
endforeach()
string(SHA256 digest "${digests}")
file(WRITE ${OUT} "#include <kiln/jit/cache/source_digest.h>\n\nnamespace kiln::cache {\n"
  "const char source_digest[] = \"${digest}\";\n} // namespace kiln::cache\n")
