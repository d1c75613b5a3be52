// Sends and receives messages on a socket, and converts arguments and measurements to JSON.
#include <kiln/autotune/measure/message.h>

#include <cmath>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace kiln::tune {

namespace {

std::optional<Message> parsed(const char* begin, std::size_t count) {
  try {
    Message message = Message::from_cbor(begin, begin + count, true, false);
    if (message.is_discarded() || !message.is_object()) return std::nullopt;
    return message;
  } catch (const Message::exception&) { // thrown for excessive sizes, even without allow_exceptions
    return std::nullopt;
  }
}

bool receive_all(int socket, char* to, std::size_t count) {
  while (count > 0) {
    const ssize_t got = recv(socket, to, count, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

} // namespace

bool send_message(int socket, const Message& message, double seconds) {
  std::vector<std::uint8_t> frame(4);
  Message::to_cbor(message, frame);
  const auto size = static_cast<std::uint32_t>(frame.size() - 4);
  std::memcpy(frame.data(), &size, 4);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (std::size_t sent = 0; sent < frame.size();) {
    const ssize_t count = send(socket, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      sent += static_cast<std::size_t>(count);
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) return false;
    if (std::chrono::steady_clock::now() > end) return false;
    pollfd waiting{socket, POLLOUT, 0};
    poll(&waiting, 1, 100);
  }
  return true;
}

std::optional<Message> receive_message(int socket) {
  std::uint32_t size = 0;
  if (!receive_all(socket, reinterpret_cast<char*>(&size), 4) || size > largest_message) return std::nullopt;
  std::vector<char> bytes(size);
  if (!receive_all(socket, bytes.data(), size)) return std::nullopt;
  return parsed(bytes.data(), size);
}

std::optional<Message> MessageReader::next() {
  if (broken_ || bytes_.size() < 4) return std::nullopt;
  std::uint32_t size = 0;
  std::memcpy(&size, bytes_.data(), 4);
  if (size > largest_message) {
    broken_ = true;
    return std::nullopt;
  }
  if (bytes_.size() - 4 < size) return std::nullopt;
  auto message = parsed(bytes_.data() + 4, size);
  broken_ = !message;
  bytes_.erase(bytes_.begin(), bytes_.begin() + 4 + static_cast<std::ptrdiff_t>(size));
  return message;
}

Message to_message(const Argument& a, int descriptor) {
  Message fill{{"kind", static_cast<int>(a.fill.kind)}, {"least", a.fill.least}, {"most", a.fill.most}};
  if (a.fill.kind == Fill::Kind::bytes && a.fill.bytes)
    fill.update({{"descriptor", descriptor}, {"size", a.fill.bytes->size()}, {"first", a.fill.first}});
  return {{"kind", static_cast<int>(a.kind)},
          {"dtype", static_cast<int>(a.dtype)},
          {"readonly", a.readonly},
          {"extents", a.extents},
          {"strides", a.strides},
          {"word", a.word},
          {"bytes", a.bytes},
          {"address", a.address},
          {"pinned", a.pinned},
          {"as_given", a.as_given},
          {"fill", std::move(fill)}};
}

Argument argument_from(const Message& m) {
  Argument a;
  a.kind = static_cast<Argument::Kind>(m.at("kind").get<int>());
  a.dtype = static_cast<DType>(m.at("dtype").get<int>());
  a.readonly = m.at("readonly");
  m.at("extents").get_to(a.extents);
  m.at("strides").get_to(a.strides);
  a.word = m.at("word");
  a.bytes = m.at("bytes");
  a.address = m.at("address");
  a.pinned = m.at("pinned");
  a.as_given = m.at("as_given");
  const Message& fill = m.at("fill");
  a.fill.kind = static_cast<Fill::Kind>(fill.at("kind").get<int>());
  a.fill.least = fill.at("least");
  a.fill.most = fill.at("most");
  if (auto at = fill.find("descriptor"); at != fill.end()) {
    a.fill.bytes = std::make_shared<const SharedBytes>(at->get<int>(), fill.at("size").get<std::size_t>());
    a.fill.first = fill.at("first");
  }
  return a;
}

Message to_message(const OutputCheck& c) {
  return {{"parameter", c.parameter}, {"relative", c.relative},   {"absolute", c.absolute},
          {"share", c.share},         {"unordered", c.unordered}, {"ignored", c.ignored}};
}

OutputCheck output_check_from(const Message& m) {
  return {.parameter = m.at("parameter"),
          .relative = m.at("relative"),
          .absolute = m.at("absolute"),
          .share = m.at("share"),
          .unordered = m.at("unordered"),
          .ignored = m.at("ignored")};
}

Message to_message(const OutputComparison& c) {
  return {{"parameter", c.parameter}, {"dtype", static_cast<int>(c.dtype)},
          {"elements", c.elements},   {"compared", c.compared},
          {"vague", c.vague},         {"exceptions", c.exceptions},
          {"unordered", c.unordered}, {"worst", c.worst},
          {"value", c.value},         {"reference", c.reference},
          {"bound", c.bound}};
}

OutputComparison comparison_from(const Message& m) {
  OutputComparison c;
  c.parameter = m.at("parameter");
  c.dtype = static_cast<DType>(m.at("dtype").get<int>());
  c.elements = m.at("elements");
  c.compared = m.at("compared");
  c.vague = m.at("vague");
  c.exceptions = m.at("exceptions");
  c.unordered = m.at("unordered");
  c.worst = m.at("worst");
  c.value = m.at("value");
  c.reference = m.at("reference");
  c.bound = m.at("bound");
  return c;
}

Message to_message(const Measurement& m) {
  Message outputs = Message::array();
  for (const OutputComparison& output : m.outputs)
    outputs.push_back(to_message(output));
  return {{"outputs", std::move(outputs)},
          {"status", name(m.status)},
          {"error", m.error},
          {"seconds", m.seconds},
          {"low", m.low},
          {"high", m.high},
          {"launches", m.launches},
          {"relative", m.relative},
          {"facts", m.facts},
          {"compile_seconds", m.compile_seconds},
          {"run_seconds", m.run_seconds}};
}

Measurement measurement_from(const Message& message) {
  Measurement m;
  try {
    m.status = parse_status(message.at("status").get<std::string>()).value_or(Status::crash);
    m.error = message.at("error");
    m.seconds = message.at("seconds");
    m.low = message.at("low");
    m.high = message.at("high");
    m.launches = message.at("launches");
    m.relative = message.at("relative");
    m.facts = message.at("facts").get<std::map<std::string, double>>();
    m.compile_seconds = message.at("compile_seconds");
    m.run_seconds = message.at("run_seconds");
    for (const Message& output : message.at("outputs"))
      m.outputs.push_back(comparison_from(output));
    if (std::isfinite(m.seconds) && m.seconds >= 0) return m;
  } catch (const Message::exception&) {
  }
  Measurement invalid;
  invalid.status = Status::crash;
  invalid.error = "its process sent an invalid answer";
  return invalid;
}

} // namespace kiln::tune
