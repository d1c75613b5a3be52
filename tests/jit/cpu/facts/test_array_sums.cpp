// Tests which arrays a thread may add to in a copy of its own.
#include "jit/kernel_text.h"

#include <catch2/catch.hpp>
#include <kiln/jit/cpu/facts/array_sums.h>

using namespace kiln;
using kiln::test::parsed;

namespace {

// A kernel that adds to `%h`, with other operations before or after the sum.
std::unique_ptr<ir::Kernel> adding(const std::string& after,
                                   const std::string& attributes = R"(kind = "add")",
                                   const std::string& dtype = "i32") {
  return parsed(R"(
kernel @adding(%h: view<$T, 1>, %x: view<const $T, 1>, %y: view<$T, 1>) {
  %z = constant {value = 0} : i64
  %p = view_ptrs %h, %z {axes = [0]} : tile<16 x ptr<$T>>
  %v = view_load %x, %z {axes = [0]} : tile<16 x $T>
  %o = atomic_rmw %p, %v {$A} : tile<16 x $T>
$B}
)",
                {{"$T", dtype}, {"$A", attributes}, {"$B", after}});
}

std::size_t arrays_of(const std::unique_ptr<ir::Kernel>& kernel) {
  return cpu::array_sums(*kernel).arrays.size();
}

} // namespace

TEST_CASE("arrays that a kernel only adds to are found") {
  const auto kernel = adding("");
  const cpu::ArraySums sums = cpu::array_sums(*kernel);
  REQUIRE(sums.arrays.size() == 1);
  CHECK(sums.arrays[0].first == kernel->body.args[0].get());
  CHECK(sums.arrays[0].second == 16);
  CHECK(sums.array_of.size() == 1);
  for (const char* t : {"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64"})
    CHECK(arrays_of(adding("", R"(kind = "add")", t)) == 1);
  CHECK(arrays_of(adding("", R"(kind = "add", order = "relaxed", scope = "gpu")")) == 1);
  CHECK(arrays_of(adding("  view_store %y, %v, %z {axes = [0]}\n")) == 1);
}

TEST_CASE("arrays that something else reads or writes, or whose sums others may wait for, are left out") {
  CHECK(arrays_of(adding("", R"(kind = "max")")) == 0);
  CHECK(arrays_of(adding("", R"(kind = "add", scope = "sys")")) == 0);
  CHECK(arrays_of(adding("", R"(kind = "add")", "f16")) == 0);
  CHECK(arrays_of(adding("", R"(kind = "add")", "bf16")) == 0);
  // The old values are used.
  CHECK(arrays_of(adding("  view_store %y, %o, %z {axes = [0]}\n")) == 0);
  // The array is read, written, or updated in another way.
  CHECK(arrays_of(adding("  %w = view_load %h, %z {axes = [0]} : tile<16 x i32>\n"
                         "  view_store %y, %w, %z {axes = [0]}\n")) == 0);
  CHECK(arrays_of(adding("  view_store %h, %v, %z {axes = [0]}\n")) == 0);
  CHECK(arrays_of(adding("  %q = atomic_rmw %p, %v {kind = \"min\"} : tile<16 x i32>\n")) == 0);
  CHECK(arrays_of(adding("  %w = load %p : tile<16 x i32>\n  view_store %y, %w, %z {axes = [0]}\n")) == 0);
  // Another atomic operation's result is used: programs may take numbers, and wait for each other.
  CHECK(arrays_of(adding("  %r = view_ptrs %y, %z {axes = [0]} : tile<16 x ptr<i32>>\n"
                         "  %q = atomic_rmw %r, %v {kind = \"add\"} : tile<16 x i32>\n"
                         "  view_store %y, %q, %z {axes = [0]}\n")) == 0);
}
