// Declares checks and output of kernels: expects, device_assert and device_print.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/functions.h>
#include <kiln/dsl/state.h>

KILN_API_BEGIN
namespace kiln {

namespace detail {
// Recognises a comparison of scalars, so that a failed check can show both sides.
template <class X> struct Compared {
  static constexpr bool is = false;
};
template <ir::Opcode C, class A, class B> struct Compared<Node<C, bool, Shape<>, A, B>> {
  static constexpr bool is = ir::info(C).cls == ir::OpClass::Compare;
};
} // namespace detail

// Declares a condition that the kernel relies on. The host checks it at each launch:
//
//   expects(a.cols() == b.rows(), "a's columns and b's rows");
//
// If the condition is false, the launch throws a UserError with both values, and nothing runs. The condition
// is a scalar bool that depends on extents, strides, scalar parameters and constants only, and `expects` must
// not be inside a loop or branch; otherwise compiling the kernel throws UserError.
template <class C>
  requires detail::Operand<C>
void expects(const C& condition, const char* message, detail::Location loc = detail::Location::current()) {
  detail::set_location(loc);
  if constexpr (!detail::IsPoison<C>) {
    auto c = detail::as_value(condition);
    constexpr bool ok = detail::rank_of<decltype(c)> == 0 && detail::is_bool_operand<decltype(c)>;
    static_assert(ok, "expects needs a scalar bool: compare extents and scalar parameters");
    if constexpr (detail::Compared<C>::is)
      detail::emit_effect(ir::Opcode::Expects, {c.record(loc), c.a.record(loc), c.b.record(loc)},
                          {{"message", 0, message}});
    else if constexpr (ok)
      detail::emit_effect(ir::Opcode::Expects, {c.record(loc)}, {{"message", 0, message}});
  }
}

template <class C>
  requires detail::Operand<C>
void expects(const C&) {
  static_assert(detail::never<C>, "expects needs a message: expects(n > 0, \"rows\")");
}
template <class C, class M>
  requires(detail::Operand<C> && !std::is_convertible_v<const M&, const char*>)
void expects(const C&, const M&) {
  static_assert(detail::never<C>,
                "the message of expects must be a string literal: it is stored with the kernel");
}

// Checks a condition, a bool scalar or tile, on the device if KILN_DEBUG=1 is set; without it, does nothing.
// If an element is false, the launch ends, and the next synchronize() of the stream throws a UserError (on a
// CUDA device, a TargetError) with the message, the program and the element.
template <class C>
  requires detail::Operands<C>
void device_assert(const C& condition, const char* message,
                   detail::Location loc = detail::Location::current()) {
  detail::set_location(loc);
  if constexpr (!detail::IsPoison<C>) {
    constexpr bool ok = detail::is_bool_operand<C>;
    static_assert(ok, "device_assert needs a bool: write a comparison");
    if constexpr (ok)
      detail::emit_effect(ir::Opcode::DeviceAssert, {detail::as_tile(condition).record()},
                          {{"message", 0, message}});
  }
}
template <class C>
  requires detail::Operands<C>
void device_assert(const C&) {
  static_assert(detail::never<C>, "device_assert needs a message: device_assert(x >= 0, \"not negative\")");
}
template <class C, class M>
  requires(detail::Operands<C> && !std::is_convertible_v<const M&, const char*>)
void device_assert(const C&, const M&) {
  static_assert(detail::never<C>,
                "the message of device_assert must be a string literal: it is stored with the kernel");
}
// Checks a condition on the device if KILN_DEBUG=1 is set, as device_assert without a mask does, but only in
// the elements where `mask` is true.
template <class C, class M>
  requires detail::Operands<C> && detail::Operands<M>
void device_assert(const C& condition, const char* message, const M& mask,
                   detail::Location loc = detail::Location::current()) {
  if constexpr (!detail::IsPoison<C> && !detail::IsPoison<M>) {
    static_assert(detail::is_bool_operand<M>, "a mask must be a tile of bool: write a comparison");
    device_assert(condition | !mask, message, loc);
  }
}

// The text of a device_print with its source location. (A function with any number of parameters cannot have
// a defaulted parameter for the location.)
struct Message {
  const char* text;
  detail::Location loc;
  Message(const char* message, detail::Location where = detail::Location::current())
      : text(message), loc(where) {}
};

// Prints a line with the text and the values, once in each program that reaches the call. The values are
// tiles, scalars and numbers; the elements of tiles are printed in nested brackets.
template <class... X>
  requires(detail::Operand<X> && ...)
void device_print(Message message, const X&... x) {
  detail::set_location(message.loc);
  if constexpr (!(detail::IsPoison<X> || ...))
    detail::emit_effect(ir::Opcode::DevicePrint, {detail::as_value(x).record()...},
                        {{"message", 0, message.text}});
}

template <class T, class... X>
  requires detail::Operand<T>
void device_print(const T&, const X&...) {
  static_assert(detail::never<T>, "device_print needs a message first: device_print(\"x =\", x)");
}

} // namespace kiln
KILN_API_END
