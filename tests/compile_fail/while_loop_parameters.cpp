// Passes functions with the wrong parameters or results to while_loop, and omits the state.
// expect: the body of while_loop takes the state, or one parameter for each of its parts
// expect: the condition of while_loop takes the state, or one parameter for each of its parts
// expect: the body of while_loop must return the next state, of the initial state's dtype and dimensions
// expect: the state of a loop is a tile, a number, or several of them as state(a, b), not a std::tuple
// expect: while_loop takes the state first: while_loop(state, condition, body)
#include <kiln/dsl/language.h>

#include <tuple>

using namespace kiln;

void kernel(Scalar<int> n) {
  auto a = while_loop(n, [&](auto i) { return i < 3; }, [&](auto i, auto) { return i + 1; });
  auto [b, c] = while_loop(
      state(n, n), [&](auto, auto, auto) { return n < 3; }, [&](auto i, auto j) { return state(i, j); });
  auto d = while_loop(n, [&](auto i) { return i < 3; }, [&](auto) {});
  auto [e, f] =
      while_loop(std::tuple(n, n), [&](auto i, auto) { return i < 3; }, [&](auto, auto) { return 0; });
  while_loop([&] { return n < 3; }, [&] {});
  auto sums = a + b + c + d + e + f;
}
