// Points in a stream's order, to wait for and to time with.
//
//   Event begin, end;
//   begin.record(stream);
//   kernel.launch(stream, config, a);
//   end.record(stream);
//   end.synchronize();
//   double ms = end.elapsed_ms(begin);
//   other_stream.wait(end);                         // runs on after `end`
//
// Each call means the last record that preceded it; recording again does not disturb those who wait
// for an earlier record. On a CUDA stream a record is one of the driver's, timed by the device; what waits
// for it throws the device's TargetError if that has failed. Thread-safe but for moves and destruction; an
// Event may die while recorded.
#pragma once

#include <memory>
#include <source_location>

namespace kiln {

class Stream;
namespace detail {
class EventState;
}

class Event {
public:
  Event();
  ~Event();
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;

  // Marks the stream's current end; done when all commands before it have finished, even if one failed.
  void record(Stream& stream);
  // Waits for the last record; returns at once if there is none.
  void synchronize() const;
  // True if the last record is done, or there is none.
  bool query() const;
  // Milliseconds from the last record of `begin` to that of this event; UserError unless both are done, and
  // if one was recorded on a CUDA device and the other elsewhere: their clocks do not compare.
  double elapsed_ms(const Event& begin, std::source_location here = std::source_location::current()) const;

private:
  friend class Stream;
  std::unique_ptr<detail::EventState> state_;
};

} // namespace kiln
