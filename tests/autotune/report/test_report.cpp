// Tests the report as a file: its size, its escapes and its data.
#include <catch2/catch.hpp>

#include <kiln/autotune/report/page_data.h>
#include <kiln/autotune/report/report.h>

#include "synthetic_run.h"
#include "test_seed.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <unistd.h>

using namespace kiln;
using namespace kiln::tune;
using Json = nlohmann::json;

namespace {

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++n;
  return n;
}

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("kiln_report_" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return (std::stringstream() << file.rdbuf()).str();
}

const Json& column(const Json& data, const std::string& name) {
  for (const Json& c : data["columns"])
    if (c["name"] == name) return c;
  FAIL("no column " << name);
  return data;
}

} // namespace

TEST_CASE("512 trials make a page below a megabyte that loads nothing else", "[report]") {
  const std::string page = report_html(test::synthetic_run(1, 512));
  CHECK(page.size() < 1'000'000);
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.ends_with("</html>\n"));
  CHECK(page.find("{{") == std::string::npos);
  // The names of XML namespaces are the only URLs.
  CHECK(count(page, "://") == count(page, "http://www.w3.org/2000/svg"));
  for (const char* outside : {"src=", "@import", "fetch(", "XMLHttpRequest", "import("})
    CHECK(page.find(outside) == std::string::npos);
}

TEST_CASE("no text of a run can end an element of the page", "[report]") {
  ReportData data = test::synthetic_run(2, 24);
  const std::string plain = report_html(data);
  const std::string evil = "</script></style></title><script>alert(1)</script><!--\xFF\"'{{script}}";
  data.kernel = data.problem = data.device = data.strategy = data.search.stopped_by = evil;
  data.knobs[0].name = evil, data.knobs[4].labels[0] = evil;
  data.removed[0].rule = evil, data.machine[0] = {evil, evil}, data.contributions[0].first = evil;
  data.columns.push_back({evil, evil, {}});
  for (Trial& trial : data.search.trials) {
    trial.result.error = trial.source = evil;
    trial.result.facts[evil] = 1;
  }
  const std::string page = report_html(data);
  for (const char* tag : {"<script", "</script", "</style", "</title", "<!--"})
    CHECK(count(page, tag) == count(plain, tag));
  CHECK(page.find('\xFF') == std::string::npos);
}

TEST_CASE("the page's data agree with the run", "[report]") {
  const auto seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  const ReportData run = test::synthetic_run(seed, 96);
  const SearchResult& s = run.search;
  const Json data = Json::parse(page_data(run));
  const Json& times = column(data, "time")["values"];
  REQUIRE(times.size() == s.trials.size());
  for (std::size_t i = 0; i < s.trials.size(); ++i)
    if (s.trials[i].result.ok())
      CHECK(times[i].get<double>() == Approx(s.trials[i].result.seconds).epsilon(1e-5));
    else
      CHECK(times[i].is_null());

  REQUIRE(s.best);
  CHECK(data["best"]["config"] == point_text(run.knobs, *s.best));
  REQUIRE(data["top"].size() == 10);
  CHECK(data["top"][0]["config"] == data["best"]["config"]);
  for (std::size_t i = 2; i < 8; ++i) // the confirmed ones
    CHECK(data["top"][i - 1]["seconds"] <= data["top"][i]["seconds"]);

  REQUIRE(data["references"].size() == 3);
  CHECK(data["references"][0]["seconds"].get<double>() ==
        Approx(result_of(s, *run.fallback)->seconds).epsilon(1e-5));
  CHECK(data["references"][2]["name"] == "bound");

  int failed = 0;
  for (const Json& kind : data["failures"])
    failed += kind["count"].get<int>();
  CHECK(failed ==
        std::count_if(s.trials.begin(), s.trials.end(), [](const Trial& t) { return !t.result.ok(); }));
}

TEST_CASE("a finalist's confirmation counts, and a finalist that failed it does not come first", "[report]") {
  ReportData data;
  data.knobs = {test::knob("a", {1, 2, 4})};
  const auto measured = [](double seconds) {
    Measurement m;
    m.seconds = seconds;
    return m;
  };
  for (std::uint16_t i = 0; i < 3; ++i)
    data.search.trials.push_back(test::trial({i}, 1e-3 * (i + 1)));
  data.search.finalists = {{0}, {1}};
  data.search.confirmed = {measured(0), measured(5e-3)};
  data.search.confirmed[0].status = Status::wrong_result;
  data.search.best = Point{1}, data.search.best_result = data.search.confirmed[1];
  const Json top = Json::parse(page_data(data))["top"];
  REQUIRE(top.size() == 2);
  CHECK(top[0]["config"] == "a=2");
  CHECK(top[0]["seconds"] == 5e-3);
  CHECK(top[0]["confirmed"] == true);
  CHECK(top[1]["config"] == "a=4");
}

TEST_CASE("numbers that are not finite are left out of the page's data", "[report]") {
  ReportData data = test::synthetic_run(3, 16);
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  data.search.trials[3].result.seconds = inf, data.search.trials[4].result.seconds = nan;
  data.search.trials[5].result.status = Status::ok, data.search.trials[5].result.seconds = 0;
  data.expected[0] = inf, data.bound = nan;
  data.search.seconds = nan;
  const Json json = Json::parse(page_data(data));
  for (int i : {3, 4, 5})
    CHECK(column(json, "time")["values"][static_cast<std::size_t>(i)].is_null());
  CHECK(column(json, "analytic estimate")["values"][0].is_null());
  CHECK(json["references"].size() == 2);
  CHECK(json["time"]["seconds"].is_null());
}

TEST_CASE("a best that was not confirmed is marked, on the page and in its summary", "[report]") {
  ReportData data = test::synthetic_run(4, 40);
  CHECK(Json::parse(page_data(data))["best"]["confirmed"] == true);
  CHECK(report_html(data).find("one trial that was not confirmed") == std::string::npos);
  data.search.finalists.clear(), data.search.confirmed.clear();
  CHECK(Json::parse(page_data(data))["best"]["confirmed"] == false);
  CHECK(report_html(data).find("one trial that was not confirmed") != std::string::npos);
}

TEST_CASE("configs that were only compiled are reported, and their compile time counts", "[report]") {
  ReportData data = test::synthetic_run(4, 40);
  const Json before = Json::parse(page_data(data));
  data.search.compiled_only = 7;
  data.search.compiled_only_seconds = 0.5;
  const Json json = Json::parse(page_data(data));
  CHECK(json["compiled_only"] == 7);
  CHECK(json["trials"] == before["trials"]);
  const auto compilers = [](const Json& j) { return j["time"]["compilers"].get<double>(); };
  CHECK(compilers(json) == Approx(compilers(before) + 0.5).epsilon(1e-4));
}

TEST_CASE("CSV has a line for each trial, and as many fields as its header", "[report]") {
  ReportData data = test::synthetic_run(4, 40);
  data.search.trials[2].result.status = Status::crash;
  data.search.trials[2].result.error = "ended, \"badly\"";
  const std::string csv = trials_csv(data);
  std::istringstream lines(csv);
  std::string header, line;
  std::getline(lines, header);
  CHECK(header.starts_with("trial,batch,source,status,seconds,"));
  CHECK(header.ends_with(",error"));
  std::size_t n = 0;
  for (; std::getline(lines, line); ++n)
    if (n == 2)
      CHECK(line.ends_with(",\"ended, \"\"badly\"\"\""));
    else if (line.find('"') == std::string::npos)
      CHECK(std::count(line.begin(), line.end(), ',') == std::count(header.begin(), header.end(), ','));
  CHECK(n == 40);
}

TEST_CASE("a report is written whole or not at all", "[report]") {
  Folder folder;
  const ReportData data = test::synthetic_run(5, 16);
  const auto html = folder.path / "tune.html", csv = folder.path / "tune.csv";
  write_report(data, html.string());
  write_report(data, csv.string());
  CHECK(read(html) == report_html(data));
  CHECK(read(csv) == trials_csv(data));
  write_report(data, html.string()); // this replaces the file
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 2);
  const std::string nowhere = (folder.path / "no" / "tune.html").string();
  CHECK_THROWS_WITH(write_report(data, nowhere),
                    "the report " + nowhere + " cannot be written: No such file or directory");
  write_report(data, "/dev/null");
  CHECK(std::filesystem::is_character_file("/dev/null"));
  CHECK_THROWS_WITH(write_report(data, "/dev/full"), Catch::Contains("No space left on device"));
  CHECK_THROWS_WITH(write_report(data, (folder.path / "tune.pdf").string()),
                    Catch::Contains("tune.pdf: a report is a page or a table; its name must end in .html"));
  CHECK_FALSE(std::filesystem::exists(folder.path / "tune.pdf"));
}
