// The arguments of `kiln emulate`: numbers, buffers with what is in them before and after, and
// tensor maps over buffers.
#pragma once

#include <kiln/dsl/dtype.h>
#include <kiln/jit/emulator/emulator.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

// What the arguments may look like, for help texts.
extern const char* const emulate_arguments_help;

// One word of --args. UserErrors name it as the user wrote it.
class EmulateArgument {
public:
  EmulateArgument(std::string word, std::string position); // "2", "2.1" of a structure

  // Buffers come to be in the emulator's memory.
  void place(emulator::Gpu& gpu, std::uint64_t seed);
  // The bytes that the kernel gets, once all arguments have their place.
  std::vector<std::byte> value(emulator::Gpu& gpu, const std::vector<EmulateArgument>& all) const;
  // What kind of parameter it is for: its size.
  std::size_t bytes() const { return map_ && !by_address_ ? 128 : map_ || is_buffer_ ? 8 : value_.size(); }
  bool is_tensor_map() const { return map_.has_value(); }
  void pass_by_address() { by_address_ = true; } // of a tensor map, which then lies in global memory
  const std::string& word() const { return word_; }
  std::string name() const { return "argument " + position_; }

  bool is_buffer() const { return is_buffer_; }
  template <class F> void each_buffer(const F& f) const { // itself, or those of a structure
    if (is_buffer_) f(*this);
    for (const EmulateArgument& m : members_)
      m.each_buffer(f);
  }
  // After the launch: reads the memory, and writes the file that was asked for.
  void collect(const emulator::Gpu& gpu);
  bool changed() const { return before_ != after_; }
  bool is_output() const { return !out_.empty(); } // to a file
  std::string
  summary() const; // "argument 2: f32[1024]: 0.5, 1, ...; least -1, largest 1; 1000 elements changed"
  nlohmann::ordered_json json() const;

private:
  enum class Fill : std::uint8_t { Random, Zeros, Iota, Value, Unwritten, File };

  void parse_structure(std::string_view rest);
  void parse_buffer(std::string_view rest);
  void parse_fill(std::string_view item);
  void parse_tensor(std::string_view rest);
  bool parse_map(std::string_view item); // false if it is nothing of a tensor map's
  void check_file(bool counted);
  void check_size() const;
  std::vector<std::byte> contents(std::uint64_t seed) const;
  std::int64_t changed_elements() const;
  [[noreturn]] void refuse(const std::string& what) const;

  std::string word_;
  std::string position_;
  std::vector<EmulateArgument> members_; // of a structure
  bool is_buffer_ = false;
  std::optional<DType> dtype_; // none: raw bytes
  std::vector<std::byte> value_;
  std::uint64_t count_ = 0;
  Fill fill_ = Fill::Random;
  std::vector<std::byte> fill_value_;
  std::string in_, out_;
  std::optional<emulator::TensorMapFields> map_; // of a tensor, whose memory is a buffer
  std::string of_;                               // or that of another argument
  bool by_address_ = false;
  std::uint64_t address_ = 0;
  std::vector<std::byte> before_, after_;
};

} // namespace kiln::cli
