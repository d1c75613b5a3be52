// Tests the parts of `kiln explain`: differences of tile IR, assembly listings, and example arguments.
#include <catch2/catch.hpp>

#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/parser.h>
#include <kiln/jit/cli/support/dispatch.h>
#include <kiln/jit/cli/support/example.h>
#include <kiln/jit/cli/support/line_diff.h>
#include <kiln/jit/cli/support/listing.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/jit/cli/support/text.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace kiln;
using namespace kiln::cli;

TEST_CASE("equal texts have no difference", "[cli]") {
  auto diff = diff_tile_ir("a\n  %1 = neg %0 : f32\n", "a\n  %1 = neg %0 : f32\n");
  CHECK(diff.text.empty());
  CHECK(diff.removed + diff.added == 0);
}

TEST_CASE("a removed line does not make the renumbered ones after it differ", "[cli]") {
  auto diff = diff_tile_ir("  %0 = constant {value = 64} : i64\n"
                           "  %1 = constant {value = 64} : i64\n"
                           "  %2 = neg %0 : i64\n"
                           "  %3 = not %2 : i64\n",
                           "  %0 = constant {value = 64} : i64\n"
                           "  %1 = neg %0 : i64\n"
                           "  %2 = not %1 : i64\n");
  CHECK(diff.removed == 1);
  CHECK(diff.added == 0);
}

TEST_CASE("a line whose operand became another value differs", "[cli]") {
  auto diff = diff_tile_ir("  %0 = program_id {axis = 0} : i64\n"
                           "  %1 = program_id {axis = 1} : i64\n"
                           "  %2 = neg %0 : i64\n",
                           "  %0 = program_id {axis = 0} : i64\n"
                           "  %1 = program_id {axis = 1} : i64\n"
                           "  %2 = neg %1 : i64\n");
  CHECK(diff.text == "    %0 = program_id {axis = 0} : i64\n"
                     "    %1 = program_id {axis = 1} : i64\n"
                     "-   %2 = neg %0 : i64\n"
                     "+   %2 = neg %1 : i64\n");
}

TEST_CASE("lines far from a change are left out", "[cli]") {
  auto diff = diff_tile_ir("1\n2\n3\nold\n5\n6\n7\n8\n9\n10\n", "1\n2\n3\nnew\n5\n6\n7\n8\n9\n10\n11\n", 1);
  CHECK(diff.text == "  3\n- old\n+ new\n  5\n  ...\n  10\n+ 11\n");
}

TEST_CASE("instructions follow the source line that they were compiled from", "[cli]") {
  char path[] = "/tmp/kiln_listing_XXXXXX";
  int file = mkstemp(path);
  REQUIRE(file >= 0);
  close(file);
  std::ofstream(path) << "first\n  second;\n";
  std::string name = path;
  std::string assembly = "\t.file\t\"module\"\n\t.file\t1 \"/tmp\" \"" + name.substr(5) +
                         "\"\n\t.text\n"
                         "kernel:\n.Lfunc_begin0:\n\t.loc\t1 2 0\n\t.cfi_startproc\n\tpushq\t%rbx\n"
                         "\tpopq\t%rbx\n.LBB0_1:\n\t.loc\t1 7 0\n\tretq\n\t.loc\t1 0 0\n\tnop\n"
                         "\t.section\t.rodata\n\t.long\t7\ntable:\n\t.text\n\t.loc\t1 2 0\n\tnop\n";
  CHECK(listing(assembly) == "kernel:\n  ; " + name +
                                 ":2: second;\n    pushq\t%rbx\n    popq\t%rbx\n.LBB0_1:\n  ; " + name +
                                 ":7\n    retq\n    nop\n  ; " + name + ":2: second;\n    nop\n");
  std::remove(path);
}

TEST_CASE("a source file is found in the given folder by the end of its path", "[cli]") {
  char folder[] = "/tmp/kiln_listing_XXXXXX";
  REQUIRE(mkdtemp(folder));
  const std::filesystem::path root = folder;
  std::filesystem::create_directories(root / "ops");
  std::ofstream(root / "ops" / "kernel.cpp") << "right;\n";
  std::ofstream(root / "kernel.cpp") << "wrong;\n";
  for (const char* name :
       {"../ops/kernel.cpp", "../../far/away/ops/kernel.cpp", "/no/such/folder/ops/kernel.cpp"}) {
    const std::string assembly = std::string("\t.file\t1 \"") + name + "\"\nkernel:\n\t.loc\t1 1 0\n\tnop\n";
    CHECK(listing(assembly, root) == std::string("kernel:\n  ; ") + name + ":1: right;\n    nop\n");
  }
  const std::string assembly = "\t.file\t1 \"../ops/other.cpp\"\nkernel:\n\t.loc\t1 1 0\n\tnop\n";
  CHECK(listing(assembly, root) == "kernel:\n  ; ../ops/other.cpp:1\n    nop\n");
  std::filesystem::remove_all(root);
}

TEST_CASE("numbers get the unit that fits", "[cli]") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(1023) == "1023 B");
  CHECK(bytes_text(1536) == "1.5 KiB");
  CHECK(bytes_text(5.0 * (1 << 30)) == "5 GiB");
  CHECK(count_text(17.2e9, "FLOP") == "17.2 GFLOP");
  CHECK(time_text(0.00125) == "1.25 ms");
  CHECK(time_text(2e-9) == "2 ns");
}

TEST_CASE("a mistyped name finds the nearest one, and an unrelated word finds none", "[cli]") {
  CHECK(nearest("explian", {"cache", "devices", "explain"}) == "explain");
  CHECK(nearest("cashe", {"cache", "devices", "explain"}) == "cache");
  CHECK(nearest("frobnicate", {"cache", "devices", "explain"}).empty());
}

TEST_CASE("registered sizes become contiguous tensors, and the user's sizes take precedence", "[cli]") {
  auto kernel = ir::parse(R"(
kernel @k(%arg0: view<const f32, 2>, %arg1: f32, %arg2: view<f16, 1>, %arg3: ptr<i8>) {
})");
  RegisteredKernel registered{"k", "", nullptr, "", "M=6,N=8", "x=M,N scale=0.5 out=N base"};
  Example example = make_example(*kernel, &registered, {"M=5"});
  auto layout = ir::ArgumentLayout::of(*kernel);
  auto word = [&](int i) { return example.words()[static_cast<std::size_t>(i)]; };
  CHECK(example.complete);
  CHECK(example.parameters[0].name == "x");
  CHECK(example.parameters[3].name == "base");
  CHECK(word(layout.extent_word(0, 0)) == 5u);
  CHECK(word(layout.extent_word(0, 1)) == 8u);
  CHECK(word(layout.stride_word(0, 2, 0)) == 8u);
  CHECK(word(layout.first_word[1]) == 0x3f000000u); // 0.5f
  CHECK(example.layouts == std::vector{LayoutClass::Aligned, LayoutClass::Aligned});

  example = make_example(*kernel, &registered, {"x=3x7", "scale=2"});
  CHECK(word(layout.stride_word(0, 2, 0)) == 7u);
  CHECK(word(layout.first_word[1]) == 0x40000000u);
  CHECK(example.layouts == std::vector{LayoutClass::Unit, LayoutClass::Aligned}); // rows of 28 bytes

  example = make_example(*kernel, nullptr, {});
  CHECK_FALSE(example.complete);
  CHECK(example.parameters[0].name == "arg0");
  CHECK(example.layouts == std::vector{LayoutClass::Unit, LayoutClass::Unit});
}

namespace {
int run_nothing(int, char**) { return 0; }
const CommandRegistration second({"zz_second", "s", run_nothing});
const CommandRegistration first({"zz_first", "s", run_nothing});
const CommandRegistration hidden({"zz_hidden", "", run_nothing}); // not shown to users
const KernelRegistration only({.name = "zz_only", .summary = "s", .record = nullptr});
} // namespace

TEST_CASE("registered items are found by name, and listed in the order of names", "[cli]") {
  std::vector<std::string> names;
  for (const Command* command : commands())
    names.push_back(command->name);
  CHECK(std::is_sorted(names.begin(), names.end()));
  CHECK(std::count(names.begin(), names.end(), "zz_first") == 1);
  CHECK(std::count(names.begin(), names.end(), "zz_second") == 1);
  CHECK(std::count(names.begin(), names.end(), "zz_hidden") == 0);
  CHECK(find_command("zz_hidden"));
  REQUIRE(find_command("zz_second"));
  CHECK(find_command("zz_second")->run == &run_nothing);
  REQUIRE(find_kernel("zz_only"));
  CHECK(find_kernel("zz_only")->config == std::string());
  CHECK(find_command("zz_only") == nullptr);
  CHECK(find_kernel("no such kernel") == nullptr);
}
