// The page of a report, from the files in page/: autotune/report/embed.cmake makes the strings.
#pragma once

namespace kiln::tune {

extern const char page_html[]; // with {{title}}, {{summary}}, {{style}}, {{data}} and {{script}}
extern const char page_css[];
extern const char page_js[];

} // namespace kiln::tune
