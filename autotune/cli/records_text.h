// Converts records to text for people and to JSON.
#pragma once

#include <kiln/autotune/records/store.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace kiln::cli {

using Json = nlohmann::ordered_json;

// Replaces control characters by spaces, since the content of files must not control the terminal.
std::string printable(std::string text);
std::string printable_lines(std::string text); // keeps newlines
std::string when(std::int64_t milliseconds);   // since 1970: "2026-11-21 09:30"
std::string plural(std::uint64_t count, const char* noun);
std::string skipped_text(const tune::LoadCounts& counts); // "2 lines damaged"; empty: none

Json to_json_object(const tune::RecordKey& key);
Json to_json_object(const tune::Record& record);
void print_json(const Json& json);

} // namespace kiln::cli
