// What the tuner and its workers say to each other: a length of four bytes, and JSON in its binary form
// (CBOR), which carries bytes and every float as they are. Includes JSON: for .cpp files.
#pragma once

#include <kiln/autotune/measure/workload.h>
#include <kiln/autotune/space/trial.h>

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace kiln::tune {

using Message = nlohmann::json;

inline constexpr std::uint32_t largest_message = 1u << 30;

// Writes all of it. False if the other side is gone, or takes nothing for `seconds`.
bool send_message(int socket, const Message& message, double seconds);
// Waits for one. Nothing at the end of the stream, or if what came is no message.
std::optional<Message> receive_message(int socket);

// Messages out of bytes as they come.
class MessageReader {
public:
  void add(const char* bytes, std::size_t count) { bytes_.insert(bytes_.end(), bytes, bytes + count); }
  std::optional<Message> next(); // nothing: more bytes are needed, or broken()
  bool broken() const { return broken_; }

private:
  std::vector<char> bytes_;
  bool broken_ = false;
};

Message to_message(const Argument& argument);
Argument argument_from(const Message& message);
Message to_message(const Measurement& measurement);
// A crash if it is no measurement: a candidate may have spoilt the memory of the process that sends it.
Measurement measurement_from(const Message& message);

} // namespace kiln::tune
