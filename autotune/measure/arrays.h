// Memory of a launch on a device, with bytes around it that nobody may write.
//
// On the CPU an array may lie between pages that fault, so that a read past it is found too; where it is
// timed it is a Buffer, as an application's tensors are. On an emulated device there is nothing around it:
// the emulator reports every access outside.
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
  std::uint64_t hash(Stream& stream) const; // as hash_of
  // Whether the bytes around it are as they were.
  bool intact(Stream& stream) const;

private:
  void put_guards();

  Device device_;
  Buffer buffer_;
  void* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  unsigned char* data_ = nullptr;
  std::int64_t bytes_ = 0;
  std::int64_t before_ = 0, behind_ = 0; // guard bytes
};

// What is in the blocks before a launch, on the host.
struct Contents {
  std::vector<std::vector<unsigned char>> blocks;
  std::vector<std::uint64_t> hashes; // of those that are only read
};
// Of what random floats are made; integers and given bytes are the same for all.
enum class Values : std::uint8_t {
  usual,   // of a normal distribution
  special, // some of which are NaN or infinite
  tiny,    // zeros of either sign and subnormal numbers among them
};
Contents make_contents(const MemoryPlan& plan, const std::vector<Argument>& arguments, std::uint64_t seed,
                       Values values = Values::usual);
std::uint64_t hash_of(const unsigned char* bytes, std::size_t count);

// Fills an output before a launch. Both patterns are NaN for floats where that is possible, and differ.
enum class Pattern : std::uint8_t { first, second };
void poison(std::vector<unsigned char>& bytes, DType dtype, Pattern pattern);

// All blocks of one launch.
class ArraySet {
public:
  ArraySet(Device device, const MemoryPlan& plan, const std::vector<Argument>& arguments,
           Surroundings surroundings);

  const std::vector<std::uint64_t>& words() const { return words_; }
  std::vector<Array>& arrays() { return arrays_; }
  void upload_inputs(Stream& stream, const Contents& contents);
  // What is written and read gets its contents back.
  void restore(Stream& stream, const Contents& contents);
  // "argument block 2: ..." of what is not as it was: guards, or inputs; empty if all is.
  std::string damage(Stream& stream, const Contents& contents) const;
  bool restorable() const { return restorable_; }

private:
  const MemoryPlan& plan_;
  std::vector<Array> arrays_;
  std::vector<std::uint64_t> words_;
  bool restorable_ = false; // some block is written and read
};

} // namespace kiln::tune
