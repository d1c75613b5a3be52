// Tests the report's page in a real browser, if Chromium is installed.
//
// The page records on <html> how its drawing went, and the tests read that. They print where they store the
// screenshots.
#include <catch2/catch.hpp>

#include <kiln/autotune/report/report.h>

#include "synthetic_run.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

using namespace kiln;
using namespace kiln::tune;
namespace fs = std::filesystem;

namespace {

std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  char buffer[4096];
  for (std::size_t n; pipe && (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    text.append(buffer, n);
  if (pipe) ::pclose(pipe);
  return text;
}

// Returns the command of an installed browser, or an empty string.
std::string browser() {
  for (const char* name : {"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"})
    if (!output_of(std::string("command -v ") + name).empty()) return name;
  return {};
}

fs::path output_folder() {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "tests" / "report";
  fs::create_directories(folder);
  return folder;
}

struct Seen {
  std::string dom, log; // the DOM after the page's scripts ran; the errors and warnings of the console
};

// Loads the page as `name`.html; if `picture` holds options such as a window size, also takes a screenshot
// with them.
Seen look(const std::string& name, const std::string& page, const std::string& picture = "") {
  const fs::path folder = output_folder(), file = folder / (name + ".html"), log = folder / (name + ".log");
  std::ofstream(file, std::ios::binary) << page;
  const std::string start = "timeout 100 " + browser() +
                            " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars"
                            " --enable-logging=stderr --virtual-time-budget=10000 " +
                            picture + " ";
  const std::string end = " 'file://" + file.string() + "' 2>>'" + log.string() + "'";
  fs::remove(log);
  Seen seen;
  seen.dom = output_of(start + "--dump-dom" + end);
  if (!picture.empty()) {
    output_of(start + "--screenshot='" + (folder / (name + ".png")).string() + "'" + end);
    WARN("picture: " << (folder / (name + ".png")).string());
  }
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);)
    if (line.find("CONSOLE") != std::string::npos) seen.log += line + '\n';
  return seen;
}

// Returns an attribute of <html>, by which the page reports how its drawing went.
std::string attribute(const Seen& seen, const std::string& name) {
  const std::size_t at = seen.dom.find("data-" + name + "=\"");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + name.size() + 7;
  return seen.dom.substr(begin, seen.dom.find('"', begin) - begin);
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++n;
  return n;
}

void check_drawn(const Seen& seen) {
  CHECK(attribute(seen, "state") == "ready");
  CHECK(attribute(seen, "errors") == "0");
  CHECK(attribute(seen, "last-error") == "");
  CHECK(attribute(seen, "sections") == "10");
  CHECK(seen.log == "");
  // A number or a value that is missing by mistake would show up as one of these.
  const std::string body = seen.dom.substr(0, seen.dom.find("<script"));
  for (const char* sign : {"NaN", "Infinity", "undefined", "[object"})
    CHECK(body.find(sign) == std::string::npos);
}

std::string with_script(std::string page, const std::string& script) {
  return page.insert(page.rfind("</body>"), "<script>" + script + "</script>");
}

} // namespace

TEST_CASE("a browser draws the report of a run", "[report][browser]") {
  if (browser().empty()) {
    WARN("skipped: there is no Chromium"); // Chromium is an optional package
    return;
  }
  const ReportData run = test::synthetic_run(1, 128);
  const std::string page = report_html(run);
  for (const bool dark : {false, true}) {
    const std::string scheme = dark ? " --blink-settings=preferredColorScheme=0" : "";
    const Seen seen = look(dark ? "dark" : "light", page, "--window-size=1280,3900" + scheme);
    check_drawn(seen);
    CHECK(attribute(seen, "points") == "128");
    CHECK(count(seen.dom, "data-row=") == 10);
    CHECK(seen.dom.find("best-line") != std::string::npos);
    CHECK(fs::file_size(output_folder() / (dark ? "dark.png" : "light.png")) > 50'000);
  }
  check_drawn(look("narrow", page, "--window-size=500,6000"));
}

TEST_CASE("in a browser, every column can be chosen and every trial shows its config", "[report][browser]") {
  if (browser().empty()) {
    WARN("skipped: there is no Chromium"); // Chromium is an optional package
    return;
  }
  const std::string script = R"(
    let chosen = 0, tips = 0;
    for (const select of document.querySelectorAll('select'))
      for (const option of select.querySelectorAll('option')) {
        select.value = option.value;
        select.dispatchEvent(new Event('change'));
        ++chosen;
      }
    for (const e of document.querySelectorAll('.row svg [data-trial]')) {
      e.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: 100, clientY: 100}));
      if (tip.textContent.includes('BM = ') && !tip.hidden) ++tips;
    }
    document.querySelector('details').open = true;
    const header = csv_text().split('\n')[0], lines = csv_text().trim().split('\n').length;
    setTimeout(() => {
      document.querySelectorAll('details th button').forEach(b => b.click());
      Object.assign(document.documentElement.dataset, {chosen, tips, lines, header, rows: document.querySelectorAll('details tbody tr').length});
    }, 200);)";
  const Seen seen = look("chosen", with_script(report_html(test::synthetic_run(7, 64)), script));
  check_drawn(seen);
  CHECK(std::atoi(attribute(seen, "chosen").c_str()) > 60);
  CHECK(std::atoi(attribute(seen, "tips").c_str()) > 2 * 64);
  CHECK(attribute(seen, "lines") == "65");
  CHECK(attribute(seen, "rows") == "64");
  CHECK(attribute(seen, "header").starts_with("trial,time,outcome,source"));
}

TEST_CASE("a browser shows hostile texts as plain texts", "[report][browser]") {
  if (browser().empty()) {
    WARN("skipped: there is no Chromium"); // Chromium is an optional package
    return;
  }
  ReportData data = test::synthetic_run(2, 32);
  const std::string evil = "</script><script>document.title='broken'</script><img src=x "
                           "onerror=\"document.title='broken'\"><!--\xFF\"'";
  data.kernel = data.problem = data.device = data.search.stopped_by = evil;
  data.knobs[0].name = evil, data.knobs[4].labels[0] = evil;
  data.removed[0].rule = evil, data.machine[0] = {evil, evil}, data.contributions[0].first = evil;
  data.columns.push_back({evil, "", std::vector<double>(32, 1)});
  for (Trial& trial : data.search.trials) {
    trial.result.error = trial.source = evil;
    trial.result.facts[evil] = 1;
  }
  const Seen seen = look("hostile", report_html(data));
  check_drawn(seen);
  CHECK(seen.dom.find("<title>broken") == std::string::npos);
  CHECK(seen.dom.find("<img") == std::string::npos);
}

TEST_CASE("a browser draws degenerate runs", "[report][browser]") {
  if (browser().empty()) {
    WARN("skipped: there is no Chromium"); // Chromium is an optional package
    return;
  }
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto one = [](double seconds) {
    ReportData data;
    data.knobs = {test::knob("BM", {16})};
    data.search.trials.push_back(test::trial({0}, seconds));
    data.search.best = Point{0};
    data.search.best_result = data.search.trials[0].result;
    return data;
  };
  SECTION("nothing") { check_drawn(look("nothing", report_html(ReportData{}))); }
  SECTION("one trial") { check_drawn(look("one", report_html(one(1e-9)))); }
  SECTION("a trial without knobs") {
    ReportData data = one(3600);
    data.knobs.clear(), data.search.best = data.search.trials[0].point = {};
    check_drawn(look("no_knob", report_html(data)));
  }
  SECTION("times that are not positive numbers") {
    for (double seconds : {nan, inf, 0.0, -1.0})
      check_drawn(look("no_time", report_html(one(seconds))));
  }
  SECTION("no trial that worked") {
    ReportData data = test::synthetic_run(3, 24);
    for (Trial& t : data.search.trials)
      t = test::trial(t.point, 0, Status::device_lost);
    data.search.best.reset(), data.search.finalists.clear(), data.search.confirmed.clear();
    const Seen seen = look("failed", report_html(data));
    check_drawn(seen);
    CHECK(attribute(seen, "points") == "24");
    CHECK(seen.dom.find("No config worked.") != std::string::npos);
  }
  SECTION("equal times, and other numbers that are not finite") {
    ReportData data = test::synthetic_run(4, 24);
    for (Trial& t : data.search.trials) {
      t.result.status = Status::ok, t.result.seconds = t.result.low = t.result.high = 1;
      t.predicted = inf, t.at_seconds = nan, t.result.relative = nan, t.result.facts["registers"] = nan;
      t.result.compile_seconds = inf;
    }
    data.expected.assign(24, nan), data.bound = inf, data.flops = nan, data.search.seconds = 0;
    data.estimates[0].estimate.compute = inf, data.contributions = {{"x", 0}, {"y", nan}, {"z", 1}};
    check_drawn(look("equal", report_html(data)));
  }
  SECTION("points that do not fit their knobs") {
    ReportData data = test::synthetic_run(5, 16);
    data.search.trials[0].point = {}, data.search.trials[1].point = {9, 9, 9, 9, 9, 9, 9, 9, 9};
    data.search.best = data.search.trials[1].point;
    check_drawn(look("misfits", report_html(data)));
  }
  SECTION("thousands of trials") { // as many as a whole table has
    ReportData data = test::synthetic_run(6, 4000);
    const Seen seen = look("thousands", report_html(data));
    check_drawn(seen);
    CHECK(attribute(seen, "points") == "4000");
  }
}
