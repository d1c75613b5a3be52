// Declares the strings of the report's page, which embed.cmake makes from the files in page/.
#pragma once

namespace kiln::tune {

extern const char page_html[]; // contains {{title}}, {{summary}}, {{style}}, {{data}} and {{script}}
extern const char page_css[];
extern const char page_js[];

} // namespace kiln::tune
