// Checks and output of kernels.
#pragma once

#include <kiln/dsl/functions.h>
#include <kiln/dsl/state.h>

namespace kiln {

namespace detail {
// The two sides of a comparison, so that a failed check can show them.
template <class X> struct Compared {
  static constexpr bool is = false;
};
template <ir::Opcode C, class A, class B> struct Compared<Node<C, bool, Shape<>, A, B>> {
  static constexpr bool is = ir::info(C).cls == ir::OpClass::Compare;
};
} // namespace detail

// What the kernel relies on, checked on the host at each launch: expects(a.cols() == b.rows(), "a's columns
// and b's rows"). A failure is a UserError with both values, and nothing is launched.
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
  static_assert(detail::never<C>, "expects takes a text: expects(n > 0, \"rows\")");
}
template <class C, class M>
  requires(detail::Operand<C> && !std::is_convertible_v<const M&, const char*>)
void expects(const C&, const M&) {
  static_assert(detail::never<C>, "the text of expects is a string literal: it is kept with the kernel");
}

// Under KILN_DEBUG=1: ends the launch with a UserError if the condition, a scalar or a tile, fails anywhere.
template <class C>
  requires detail::Operands<C>
void device_assert(const C& condition, const char* message,
                   detail::Location loc = detail::Location::current()) {
  detail::set_location(loc);
  if constexpr (!detail::IsPoison<C>) {
    constexpr bool ok = detail::is_bool_operand<C>;
    static_assert(ok, "device_assert needs a bool: compare with something");
    if constexpr (ok)
      detail::emit_effect(ir::Opcode::DeviceAssert, {detail::as_tile(condition).record()},
                          {{"message", 0, message}});
  }
}
template <class C>
  requires detail::Operands<C>
void device_assert(const C&) {
  static_assert(detail::never<C>, "device_assert takes a text: device_assert(x >= 0, \"not negative\")");
}
template <class C, class M>
  requires(detail::Operands<C> && !std::is_convertible_v<const M&, const char*>)
void device_assert(const C&, const M&) {
  static_assert(detail::never<C>,
                "the text of device_assert is a string literal: it is kept with the kernel");
}
// Only where the mask is true.
template <class C, class M>
  requires detail::Operands<C> && detail::Operands<M>
void device_assert(const C& condition, const char* message, const M& mask,
                   detail::Location loc = detail::Location::current()) {
  if constexpr (!detail::IsPoison<C> && !detail::IsPoison<M>) {
    static_assert(detail::is_bool_operand<M>, "a mask must be a tile of bool: compare with something");
    device_assert(condition | !mask, message, loc);
  }
}

// A text and the place where it is written, which a call with any number of values could not take.
struct Message {
  const char* text;
  detail::Location loc;
  Message(const char* message, detail::Location where = detail::Location::current())
      : text(message), loc(where) {}
};

// Prints a line with the values, from each program that reaches it.
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
  static_assert(detail::never<T>, "device_print takes a text first: device_print(\"x =\", x)");
}

} // namespace kiln
