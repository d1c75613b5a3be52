// Tests the version of the LLVM that is linked into Kiln.
#include <catch2/catch.hpp>
#include <kiln/jit/base/version.h>
#include <string>

TEST_CASE("the LLVM inside is version 22") { CHECK(std::string(kiln::llvm_version()).starts_with("22.")); }
