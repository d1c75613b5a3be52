// Defines the messages between the tuner and its workers.
//
// A message is a length of four bytes and JSON in the binary form CBOR, which preserves bytes and every
// float. This header includes the JSON library, so include it in .cpp files only.
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

// Sends the whole message. Returns false if the other side is gone or accepts no data for `seconds`.
bool send_message(int socket, const Message& message, double seconds);
// Waits for a message. Returns nothing at the end of the stream or if the data is not a valid message.
std::optional<Message> receive_message(int socket);

// Splits a stream of bytes into messages.
class MessageReader {
public:
  void add(const char* bytes, std::size_t count) { bytes_.insert(bytes_.end(), bytes, bytes + count); }
  std::optional<Message> next(); // nothing if more bytes are needed or the stream is broken()
  bool broken() const { return broken_; }

private:
  std::vector<char> bytes_;
  bool broken_ = false;
};

// `descriptor` is the number that the memory of given contents has in the process that receives the message.
Message to_message(const Argument& argument, int descriptor = -1);
// Maps given contents. Throws TargetError if that is impossible.
Argument argument_from(const Message& message);
Message to_message(const OutputCheck& check);
OutputCheck output_check_from(const Message& message);
Message to_message(const Measurement& measurement);
// Returns a crash if the message is not a valid measurement, since a candidate may have corrupted its
// process.
Measurement measurement_from(const Message& message);

} // namespace kiln::tune
