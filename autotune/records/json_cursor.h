// Parses the JSON of one record line in place, without a tree and with few allocations.
//
//   JsonCursor json(line);
//   json.object([&](std::string_view name) {
//     if (name == "trial") record.trial = json.integer<int>(); else json.skip();
//   });
//   if (!json.ok()) ...
//
// After the first unexpected token, all values read as empty and ok() is false. It never reads outside of the
// text, and the nesting depth is limited to 32.
#pragma once

#include <charconv>
#include <concepts>
#include <cstring>
#include <string>
#include <string_view>

namespace kiln::tune {

class JsonCursor {
public:
  explicit JsonCursor(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool ok() const { return ok_; }
  bool at_end() {
    space();
    return at_ == end_;
  }
  const char* position() const { return at_; }
  // The position of the first unexpected token; null while ok().
  const char* failed_at() const { return failed_at_; }

  // `member(name)` must read or skip the value.
  template <class F> void object(F member) {
    if (!open('{')) return;
    if (!close('}')) {
      one_member(member);
      members(member);
    }
    --depth_;
  }
  // Reads the rest of an object whose first members were read before: ,"name":value,"name":value}
  template <class F> void members(F member) {
    while (ok_ && accept(','))
      one_member(member);
    expect('}');
  }
  template <class F> void array(F element) {
    if (!open('[')) return;
    if (!close(']')) {
      do {
        element();
        if (!ok_) return;
      } while (accept(','));
      expect(']');
    }
    --depth_;
  }

  std::string string() {
    std::string text;
    string_into(text);
    return text;
  }
  template <std::integral T> T integer() {
    T value = 0;
    take_number(value);
    return value;
  }
  double real() {
    double value = 0;
    take_number(value);
    return value;
  }
  bool boolean() {
    space();
    if (word("true")) return true;
    if (!word("false")) fail();
    return false;
  }
  void skip() {
    space();
    if (at_ == end_) return fail();
    switch (*at_) {
    case '{': return object([this](std::string_view) { skip(); });
    case '[': return array([this] { skip(); });
    case '"': {
      std::string ignored;
      return string_into(ignored);
    }
    case 't':
    case 'f': boolean(); return;
    case 'n':
      if (!word("null")) fail();
      return;
    default: real();
    }
  }
  void fail() {
    if (ok_) failed_at_ = at_;
    ok_ = false, at_ = end_;
  }

private:
  template <class F> void one_member(F& member) {
    // A separate string, since it must outlive objects inside of the value.
    std::string name;
    string_into(name);
    expect(':');
    if (ok_) member(std::string_view(name));
  }
  void space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r'))
      ++at_;
  }
  bool accept(char c) {
    space();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail();
  }
  bool open(char c) {
    expect(c);
    if (ok_ && ++depth_ > 32) fail();
    return ok_;
  }
  bool close(char c) { return accept(c); }
  bool word(std::string_view text) {
    if (!std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  template <class T> void take_number(T& value) {
    space();
    const auto [next, error] = std::from_chars(at_, end_, value);
    if (error != std::errc()) {
      value = 0;
      return fail();
    }
    at_ = next;
  }
  void string_into(std::string& text) {
    expect('"');
    while (ok_) {
      const char* run = at_;
      while (at_ != end_ && *at_ != '"' && *at_ != '\\' && static_cast<unsigned char>(*at_) >= 0x20)
        ++at_;
      text.append(run, at_);
      if (at_ == end_ || static_cast<unsigned char>(*at_) < 0x20) return fail();
      if (*at_++ == '"') return;
      escape_into(text);
    }
  }
  void escape_into(std::string& text) {
    if (at_ == end_) return fail();
    switch (const char c = *at_++) {
    case '"':
    case '\\':
    case '/': text += c; return;
    case 'n': text += '\n'; return;
    case 't': text += '\t'; return;
    case 'r': text += '\r'; return;
    case 'b': text += '\b'; return;
    case 'f': text += '\f'; return;
    case 'u': return unicode_into(text);
    default: return fail();
    }
  }
  unsigned hex4() {
    unsigned code = 0;
    if (end_ - at_ < 4) return fail(), 0;
    const auto [next, error] = std::from_chars(at_, at_ + 4, code, 16);
    if (error != std::errc() || next != at_ + 4) return fail(), 0;
    at_ += 4;
    return code;
  }
  void unicode_into(std::string& text) {
    unsigned code = hex4();
    if (code >= 0xD800 && code < 0xDC00 && word("\\u")) {
      const unsigned low = hex4();
      if (low < 0xDC00 || low > 0xDFFF) return fail();
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    const auto put = [&](unsigned byte) { text += static_cast<char>(byte); };
    if (code < 0x80)
      put(code);
    else if (code < 0x800)
      put(0xC0 | code >> 6), put(0x80 | (code & 63));
    else if (code < 0x10000)
      put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 63)), put(0x80 | (code & 63));
    else
      put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 63)), put(0x80 | (code >> 6 & 63)),
          put(0x80 | (code & 63));
  }

  const char* at_;
  const char* end_;
  const char* failed_at_ = nullptr;
  bool ok_ = true;
  int depth_ = 0;
};

} // namespace kiln::tune
