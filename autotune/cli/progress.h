// Shows the progress of a tuning run in one line: the best time, its share of the bound, time left, failures.
#pragma once

#include <kiln/autotune/run/tuner.h>
#include <kiln/autotune/search/search.h>

#include <cstdio>
#include <string>

namespace kiln::tune {

class ProgressLine {
public:
  // Rewrites one line on a terminal; otherwise prints a line every few seconds.
  ProgressLine(std::string title, const Budget& budget, double flops, std::FILE* out);
  void say(const std::string& what); // shows a step that takes a while and has no figures yet
  void show(const SearchResult& so_far, const BoundSpace& space, double bound);
  void finish();
  // At most `columns` wide; what does not fit is cut off, first from the config.
  static std::string text(const std::string& title, const SearchResult& so_far, const BoundSpace& space,
                          const Budget& budget, double bound, double flops, std::size_t columns);

private:
  void print(const std::string& line);

  std::string title_;
  Budget budget_;
  double flops_;
  std::FILE* out_;
  bool terminal_;
  double shown_at_ = -1e9;
  std::size_t width_ = 0;
};

std::string duration_text(double seconds);    // "812 ns", "9.12 ms", "1.50 s"
std::string rate_text(double flops_a_second); // "235 GFLOP/s"
// "91 % of the bound", or a text if it is faster.
std::string share_of_bound(double bound, double seconds);
// "3 crash, 1 timeout"; empty if all trials were ok.
std::string failures_text(const SearchResult& result);

} // namespace kiln::tune
