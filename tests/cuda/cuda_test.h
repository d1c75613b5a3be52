// Provides helpers for tests of the CUDA runtime: control of the fake driver, and errors as text.
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

// The functions that the fake driver exports.
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
const Fake& fake(); // the library that KILN_CUDA_LIBRARY names

// Resets the fake driver at the beginning and the end of a test.
class FreshFake {
public:
  FreshFake() { fake().reset(); }
  ~FreshFake() { fake().reset(); }
};

// The number of live objects of each kind in the fake driver. If it is the same before and after, nothing
// leaked.
std::map<std::string, long long> alive();

// The text of the error that `call` throws, which must be of exactly this type.
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

// Runs one test in a new process of this program with other environment variables. Returns its output, and
// its exit code in `code`.
std::string run_again(const std::string& test, const std::vector<std::string>& variables, int& code);

std::vector<float> random_floats(std::size_t count, std::uint64_t seed);

// PTX that the fake driver understands, with the kernels `add_one(pointer, count)` and `idle(number)`.
// `comment` sets their attributes.
std::string ptx(const std::string& comment = "", const std::string& version = "8.0");

inline cuda::Function load(int device, const std::string& name = "add_one", const std::string& comment = "") {
  return cuda::Module::load(cuda::DeviceState::get(device), ptx(comment), name)->function(name);
}

} // namespace kiln::test

// The text "file:line" of the line where it stands, plus an offset.
#define KILN_HERE(OFFSET) kiln::test::place(__FILE__, __LINE__ + (OFFSET))
