// Defines CCall, which C functions use to convert DLPack tensors, options and exceptions. Internal.
//
//   int kiln_softmax(const DLTensor* x, DLTensor* y, const KilnSoftmaxOptions* options) {
//     return run("kiln_softmax", {"y", y}, [&](const CCall& call) {
//       ops::softmax(call.at, call.input("x", x), call.output("y", y), ...);
//     });
//   }
#pragma once

#include <kiln/ops/array.h>
#include <kiln/ops/c_api.h>
#include <kiln/ops/detail/stream_at.h>

#include <cstring>
#include <initializer_list>
#include <string>

namespace kiln::ops::detail {

// A call of a C function that has begun: its name, for errors, and the stream on which the op runs.
struct CCall {
  const char* function;
  StreamAt at;

  // The tensor, whose memory must be on the device of the stream. UserError if it is null, or if its dtype or
  // shape is not one of Kiln's.
  Input input(const char* argument, const DLTensor* t) const;
  Output output(const char* argument, const DLTensor* t) const;
  // The same for a tensor that may be null.
  Input optional_input(const char* argument, const DLTensor* t) const;
  Output optional_output(const char* argument, const DLTensor* t) const;

  // The member of E whose name is `text`, or the first one if it is null. `names` are those of 0, 1, ...
  template <class E, std::size_t N>
  E named(const char* argument, const char* text, const char* const (&names)[N]) const {
    return static_cast<E>(index_of(argument, text, names, static_cast<int>(N)));
  }
  // The options of a caller, who may have been compiled with fewer members. Null stands for the defaults.
  template <class T> T options(const T* given, const T& defaults) const {
    T all = defaults;
    if (!given) return all;
    check_size(given->size, sizeof(T));
    std::memcpy(&all, given, given->size);
    return all;
  }
  [[noreturn]] void refuse(const char* argument, const std::string& what) const;

private:
  int index_of(const char* argument, const char* text, const char* const* names, int count) const;
  void check_size(std::size_t given, std::size_t known) const;
};

struct CArgument {
  const char* name;
  const DLTensor* tensor;
};

// Calls body(call) on the device of the first result that is not null, and waits. If all are null, the device
// is that of `other`, and the op reports the mistake. Returns the code of the exception that it throws.
int run(const char* function, std::initializer_list<CArgument> results, CArgument other,
        void (*body)(const CCall& call, const void* self), const void* self);
template <class F>
int run(const char* function, std::initializer_list<CArgument> results, CArgument other, const F& body) {
  return run(
      function, results, other,
      [](const CCall& call, const void* self) { (*static_cast<const F*>(self))(call); }, &body);
}
template <class F> int run(const char* function, CArgument result, const F& body) {
  return run(function, {result}, result, body);
}

} // namespace kiln::ops::detail
