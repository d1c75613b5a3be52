// Defines Event, which marks a point in the order of a stream, to wait for it and to measure time.
//
//   Event begin, end;
//   begin.record(stream);
//   kernel.launch(stream, config, a);
//   end.record(stream);
//   end.synchronize();
//   double ms = end.elapsed_ms(begin);
//   other_stream.wait(end);                         // later commands of other_stream start after `end`
//
// Every call refers to the last record() before it; recording again does not affect a wait for an earlier
// record. On a CUDA stream, a record is an event of the driver, and the device measures its time; waiting for
// it throws the TargetError of the device if the device has failed. Thread-safe except for moves and
// destruction. An Event may be destroyed while a record is pending.
#pragma once

#include <kiln/dsl/api.h>

#include <memory>
#include <source_location>

namespace kiln::detail {
class EventState;
} // namespace kiln::detail

KILN_API_BEGIN
namespace kiln {

class Stream;

class Event {
public:
  Event();
  ~Event();
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;

  // Marks the current end of the stream. The record is done when all commands before it have finished or
  // failed.
  void record(Stream& stream);
  // Waits for the last record. Returns at once if there is none.
  void synchronize() const;
  // Returns whether the last record is done, or there is none.
  bool query() const;
  // Returns the milliseconds from the last record of `begin` to the last record of this event. Throws
  // UserError unless both are done, and if they were recorded on different devices of which one is a CUDA
  // device, because their clocks are not comparable.
  double elapsed_ms(const Event& begin, std::source_location here = std::source_location::current()) const;

private:
  friend class Stream;
  std::unique_ptr<detail::EventState> state_;
};

} // namespace kiln
KILN_API_END
