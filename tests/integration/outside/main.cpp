// A program that has nothing of Kiln but the installed package.
#include <kiln/kiln.h>

#include <cstdio>
#include <string_view>

#include <kiln/jit/version.h>

int main() {
  std::printf("kiln %s with llvm %s\n", kiln::version(), kiln::llvm_version());
  return std::string_view(kiln::version()).empty() ||
         !std::string_view(kiln::llvm_version()).starts_with("22.");
}
