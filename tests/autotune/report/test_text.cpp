// Tests that any bytes in a message stay text in HTML, CSV and JSON.
#include <catch2/catch.hpp>

#include <kiln/autotune/report/text.h>

using namespace kiln::tune;

TEST_CASE("bytes that are not UTF-8 are replaced, all others are kept", "[report]") {
  CHECK(clean_text("a\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x94\xA5") == "a\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x94\xA5");
  const std::string bad = "\xEF\xBF\xBD";
  CHECK(clean_text("\xFFz") == bad + "z");
  CHECK(clean_text("\xC3") == bad);                       // truncated
  CHECK(clean_text("\xC0\xAF") == bad + bad);             // overlong encoding
  CHECK(clean_text("\xED\xA0\x80") == bad + bad + bad);   // half of a surrogate pair
  CHECK(clean_text("\xF4\x90\x80\x80").starts_with(bad)); // above U+10FFFF
}

TEST_CASE("a long text is cut between characters", "[report]") {
  CHECK(clean_text("\xC3\xA4\xC3\xA4\xC3\xA4", 5) == "\xC3\xA4\xC3\xA4\xE2\x80\xA6");
  CHECK(clean_text("abc", 3) == "abc");
}

TEST_CASE("markup becomes text", "[report]") {
  CHECK(html_text("</title><b a=\"1\" c='2'>&") ==
        "&lt;/title&gt;&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;");
}

TEST_CASE("JSON in a script element cannot end it", "[report]") {
  CHECK(script_json(R"({"a":"</script><!--"})") == R"({"a":"\u003c/script>\u003c!--"})");
}

TEST_CASE("a field of CSV is quoted where it must be", "[report]") {
  CHECK(csv_field("plain text") == "plain text");
  CHECK(csv_field("a,b") == "\"a,b\"");
  CHECK(csv_field("say \"a\"\nb") == "\"say \"\"a\"\"\nb\"");
}
