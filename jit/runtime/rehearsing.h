// Finds out whether the calling thread rehearses, and gathers what it would launch. Internal.
#pragma once

#include <kiln/jit/runtime/rehearsal.h>

namespace kiln::detail {

// A rehearsal under way.
class Rehearsing {
public:
  static Rehearsing* current() { return current_; } // of this thread; null if it does not rehearse

  Rehearsing() : outer_(current_) { current_ = this; }
  ~Rehearsing() { current_ = outer_; }
  Rehearsing(const Rehearsing&) = delete;
  Rehearsing& operator=(const Rehearsing&) = delete;

  void add(RehearsedLaunch launch) { result_.launches.push_back(std::move(launch)); }
  void note(std::string text);
  void allocate(std::int64_t bytes);
  void free(std::int64_t bytes) { allocated_ -= bytes; }
  Rehearsal take() { return std::move(result_); }

private:
  static constinit thread_local Rehearsing* current_;
  Rehearsing* outer_;
  Rehearsal result_;
  std::int64_t allocated_ = 0;
};

// Says which path a call takes, in the log (at level info) and in a rehearsal.
void note_path(const std::string& text);
// Whether note_path does anything; check this before you build an expensive text.
bool notes_paths();

// Whether an address is one of stand_in, which has no memory.
inline bool is_stand_in(std::uint64_t address) { return address >> 62 == 1; }

// The text of an array for a rehearsal.
std::string text_of_array(std::string_view dtype, int rank, const std::int64_t* extents,
                          const std::int64_t* strides);

} // namespace kiln::detail
