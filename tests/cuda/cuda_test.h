// What the tests of the CUDA runtime share: the fake driver's controls, and errors as text.
#pragma once

#include <kiln/kiln.h>

#include "cuda/fake/fake_control.h"

#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/copy.h>
#include <kiln/jit/runtime/cuda/module.h>
#include <kiln/jit/runtime/cuda/queue.h>

#include <catch2/catch.hpp>

#include <map>
#include <random>
#include <string>
#include <typeinfo>
#include <vector>

namespace kiln::test {

// The fake's exported functions.
struct Fake {
  decltype(&fake_cuda_set) set;
  decltype(&fake_cuda_fail) fail;
  decltype(&fake_cuda_hide) hide;
  decltype(&fake_cuda_reset) reset;
  decltype(&fake_cuda_live) live;
  decltype(&fake_cuda_calls) calls;
  decltype(&fake_cuda_launches) launches;
  decltype(&fake_cuda_swallow) swallow;
  decltype(&fake_cuda_execute) execute;
  decltype(&fake_cuda_damaged_guards) damaged_guards;

  FakeLaunch last_launch() const;
  int launch_count() const { return launches(nullptr, 0); }
};
const Fake& fake(); // of the library that KILN_CUDA_LIBRARY names

// The fake as after loading, for a test; at its end no guard byte is damaged and no failure left over.
class FreshFake {
public:
  FreshFake() { fake().reset(); }
  ~FreshFake() { fake().reset(); }
};

// What is alive on the fake's side; equal before and after means that nothing leaked.
std::map<std::string, long long> alive();

// The text of what `call` throws as exactly this kind of error.
template <class E, class F> std::string error_of(const F& call) {
  try {
    call();
  } catch (const E& e) {
    if (typeid(e) == typeid(E)) return e.what();
    return std::string("another kind of error: ") + e.what();
  } catch (const std::exception& e) {
    return std::string("another kind of error: ") + e.what();
  }
  return "no error";
}

inline std::string place(const char* file, int line) {
  return std::string(file) + ":" + std::to_string(line);
}

// Runs this program again, with other variables, for one test; its exit code is in `code`, its output
// returned.
std::string run_again(const std::string& test, const std::vector<std::string>& variables, int& code);

std::vector<float> random_floats(std::size_t count, std::uint64_t seed);

// PTX as the fake reads it: `add_one(pointer, count)` and `idle(number)`. `comment` sets attributes.
std::string ptx(const std::string& comment = "", const std::string& version = "8.0");

inline cuda::Function load(int device, const std::string& name = "add_one", const std::string& comment = "") {
  return cuda::Module::load(cuda::DeviceState::get(device), ptx(comment), name)->function(name);
}

} // namespace kiln::test

// "file:line" of the line it stands on, plus an offset.
#define KILN_HERE(OFFSET) kiln::test::place(__FILE__, __LINE__ + (OFFSET))
