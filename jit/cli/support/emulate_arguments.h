// Declares the arguments of `kiln emulate`: numbers, buffers with their contents before and after, and tensor
// maps over buffers.
#pragma once

#include <kiln/dsl/dtype.h>
#include <kiln/jit/emulator/emulator.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

// Describes the forms of arguments, for help texts.
extern const char* const emulate_arguments_help;

// One word of --args. UserErrors quote it as the user wrote it.
class EmulateArgument {
public:
  EmulateArgument(std::string word, std::string position); // "2", or "2.1" for a member of a structure

  // Allocates buffers in the emulator's memory and fills them.
  void place(emulator::Gpu& gpu, std::uint64_t seed);
  // The bytes that the kernel receives. Call it when all arguments are placed.
  std::vector<std::byte> value(emulator::Gpu& gpu, const std::vector<EmulateArgument>& all) const;
  // The size of the parameter that it fits.
  std::size_t bytes() const { return map_ && !by_address_ ? 128 : map_ || is_buffer_ ? 8 : value_.size(); }
  bool is_tensor_map() const { return map_.has_value(); }
  void pass_by_address() { by_address_ = true; } // for a tensor map, which is then placed in global memory
  const std::string& word() const { return word_; }
  std::string name() const { return "argument " + position_; }

  bool is_buffer() const { return is_buffer_; }
  template <class F> void each_buffer(const F& f) const { // itself, or those of a structure
    if (is_buffer_) f(*this);
    for (const EmulateArgument& m : members_)
      m.each_buffer(f);
  }
  // After the launch: reads the memory, and writes the output file if there is one.
  void collect(const emulator::Gpu& gpu);
  bool changed() const { return before_ != after_; }
  bool is_output() const { return !out_.empty(); } // is written to a file
  std::string
  summary() const; // "argument 2: f32[1024]: 0.5, 1, ...; least -1, largest 1; 1000 elements changed"
  nlohmann::ordered_json json() const;

private:
  enum class Fill : std::uint8_t { Random, Zeros, Iota, Value, Unwritten, File };

  void parse_structure(std::string_view rest);
  void parse_buffer(std::string_view rest);
  void parse_fill(std::string_view item);
  void parse_tensor(std::string_view rest);
  bool parse_map(std::string_view item); // false if the text does not concern a tensor map
  void check_file(bool counted);
  void check_size() const;
  std::vector<std::byte> contents(std::uint64_t seed) const;
  std::int64_t changed_elements() const;
  [[noreturn]] void refuse(const std::string& what) const;

  std::string word_;
  std::string position_;
  std::vector<EmulateArgument> members_; // of a structure
  bool is_buffer_ = false;
  std::optional<DType> dtype_; // nothing: raw bytes
  std::vector<std::byte> value_;
  std::uint64_t count_ = 0;
  Fill fill_ = Fill::Random;
  std::vector<std::byte> fill_value_;
  std::string in_, out_;
  std::optional<emulator::TensorMapFields> map_; // for a tensor, whose memory is this buffer
  std::string of_;                               // or the buffer of this argument
  bool by_address_ = false;
  std::uint64_t address_ = 0;
  std::vector<std::byte> before_, after_;
};

} // namespace kiln::cli
