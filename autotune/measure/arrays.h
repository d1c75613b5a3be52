// Allocates the arrays of a launch on a device, surrounded by guard bytes that must not change.
//
// On the CPU an array may lie between pages that fault on access, so that reads outside of it are detected
// too. For timing it is a Buffer, like an application's tensors. On an emulated device nothing surrounds it,
// because the emulator reports every access outside.
#pragma once

#include <kiln/autotune/measure/memory_plan.h>
#include <kiln/jit/runtime/buffer.h>
#include <kiln/jit/runtime/stream.h>

#include <memory>
#include <string>
#include <vector>

namespace kiln::tune {

enum class Surroundings : std::uint8_t { bytes, pages };

class Array {
public:
  Array(Device device, const Block& block, Surroundings surroundings);
  ~Array();
  Array(Array&& other) noexcept;
  Array& operator=(Array&&) = delete;

  std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(data_); }
  std::int64_t bytes() const { return bytes_; }
  void upload(Stream& stream, const unsigned char* from) const;
  void download(Stream& stream, unsigned char* to) const;
  std::uint64_t hash(Stream& stream) const; // the same hash as hash_of
  // Returns whether the guard bytes around the array are unchanged.
  bool intact(Stream& stream) const;

private:
  void put_guards();

  Device device_;
  Buffer buffer_;
  void* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  unsigned char* data_ = nullptr;
  std::int64_t bytes_ = 0;
  std::int64_t before_ = 0, behind_ = 0; // numbers of guard bytes
};

// The contents of the blocks before a launch, on the host.
struct Contents {
  std::vector<std::vector<unsigned char>> blocks;
  std::vector<std::uint64_t> hashes; // of the blocks that are only read
};
// The kind of random floats. It does not affect contents that decide on addresses or loops
// (MemoryPlan::Place::steers), and integers only if it is `tiny` (vary_integers.h). If it is not `usual`,
// some of the given floats are replaced too; all are, by random ones, if they are equal.
enum class Values : std::uint8_t {
  usual,   // normally distributed
  special, // some are NaN or infinite
  tiny,    // some are zeros or subnormal, some rows negative; a few are negative or large, if none was
};
// `positive`: normal numbers are replaced by their magnitude plus 1/4, for kernels that take logarithms or
// roots. `large` says which arguments get large numbers if they are `tiny`: only one if the kernel has
// products, since an exponential of products of two such numbers depends on their last bits, and none if it
// computes in coarse formats, whose sums lose what is smaller; these get no negative rows either.
enum class Large : std::uint8_t { all, one, none };
Contents make_contents(const MemoryPlan& plan, const std::vector<Argument>& arguments, std::uint64_t seed,
                       Values values = Values::usual, bool positive = false, Large large = Large::all);
std::uint64_t hash_of(const unsigned char* bytes, std::size_t count);

// Fills an output before a launch. The two patterns differ. For floats both are NaN if the dtype allows;
// signed integers are large, one negative and the other positive, so that a config that reads them shows it.
enum class Pattern : std::uint8_t { first, second };
void poison(std::vector<unsigned char>& bytes, DType dtype, Pattern pattern);

// Holds all blocks of one launch.
class ArraySet {
public:
  ArraySet(Device device, const MemoryPlan& plan, const std::vector<Argument>& arguments,
           Surroundings surroundings);

  const std::vector<std::uint64_t>& words() const { return words_; }
  std::vector<Array>& arrays() { return arrays_; }
  void upload_inputs(Stream& stream, const Contents& contents);
  // Gives blocks that are both read and written their initial contents, except those in `kept`.
  void restore(Stream& stream, const Contents& contents, const std::vector<bool>& kept = {});
  // Describes a changed guard or input, "it wrote outside of parameter 1 (f32)"; empty if nothing has
  // changed.
  std::string damage(Stream& stream, const Contents& contents) const;
  bool restorable() const { return restorable_; }

private:
  const MemoryPlan& plan_;
  std::vector<std::string> names_; // of the blocks
  std::vector<Array> arrays_;
  std::vector<std::uint64_t> words_;
  bool restorable_ = false; // some block is both read and written
};

} // namespace kiln::tune
