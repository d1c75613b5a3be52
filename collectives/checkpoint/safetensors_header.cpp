// Implements the parser of safetensors headers, which trusts nothing, and their writer.
#include <kiln/collectives/checkpoint/safetensors_header.h>

#include <kiln/autotune/json_reason.h>
#include <kiln/dsl/error.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

namespace kiln::collectives {
namespace {

static_assert(std::endian::native == std::endian::little, "the data of the format are little-endian");

constexpr std::pair<std::string_view, DType> safetensors_dtypes[] = {
    {"BOOL", DType::Bool}, {"I8", DType::I8},          {"I16", DType::I16},       {"I32", DType::I32},
    {"I64", DType::I64},   {"U8", DType::U8},          {"U16", DType::U16},       {"U32", DType::U32},
    {"U64", DType::U64},   {"F16", DType::F16},        {"BF16", DType::BF16},     {"F32", DType::F32},
    {"F64", DType::F64},   {"F8_E4M3", DType::F8E4M3}, {"F8_E5M2", DType::F8E5M2}};

constexpr const char* damaged = "; it is damaged or not a safetensors file, so copy or download it again";

using Json = nlohmann::json;

// A number of elements or bytes, if it is one that std::int64_t can hold.
std::optional<std::int64_t> count_in(const Json& json) {
  if (!json.is_number_unsigned()) return {};
  const auto value = json.get<std::uint64_t>();
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return {};
  return static_cast<std::int64_t>(value);
}

SafetensorsFile::Tensor parse_tensor(const std::string& place, const Json& json, std::int64_t data_bytes) {
  const auto refuse = [&](const std::string& what) { throw UserError(place + what + damaged); };
  if (!json.is_object()) refuse(" is not described by an object");
  const auto dtype = json.find("dtype"), shape = json.find("shape"), offsets = json.find("data_offsets");
  if (dtype == json.end() || !dtype->is_string()) refuse(" has no dtype");
  if (shape == json.end() || !shape->is_array()) refuse(" has no shape");
  if (offsets == json.end() || !offsets->is_array() || offsets->size() != 2) refuse(" has no data offsets");

  SafetensorsFile::Tensor tensor;
  tensor.dtype = dtype->get<std::string>();
  for (const auto& [name, type] : safetensors_dtypes)
    if (tensor.dtype == name) tensor.type = type;
  std::int64_t elements = 1;
  bool too_large = false;
  for (const Json& extent : *shape) {
    const auto n = count_in(extent);
    if (!n) refuse(" has an extent that is not a number of elements");
    tensor.extents.push_back(*n);
    too_large |= __builtin_mul_overflow(elements, *n, &elements);
  }
  // With an extent of zero, the product of others may be too large all the same.
  if (too_large) refuse(" has a shape with more elements than 64 bits can count");

  const auto begin = count_in((*offsets)[0]), end = count_in((*offsets)[1]);
  if (!begin || !end || *begin > *end) refuse(" has data offsets that are not a range of bytes");
  if (*end > data_bytes)
    refuse(" ends at byte " + std::to_string(*end) + " of the data, of which there are " +
           std::to_string(data_bytes));
  tensor.offset = *begin, tensor.bytes = *end - *begin;
  std::int64_t needed = 0;
  if (tensor.type &&
      (__builtin_mul_overflow(elements, size_of(*tensor.type), &needed) || needed != tensor.bytes))
    refuse(" has " + std::to_string(tensor.bytes) + " bytes of data, which its shape and dtype (" +
           std::to_string(elements) + " elements of " + quoted_name(tensor.dtype) + ") do not need");
  return tensor;
}

// The tensors must fill the data.
void check_offsets(const std::string& path, const std::map<std::string, SafetensorsFile::Tensor>& tensors,
                   std::int64_t data_bytes) {
  struct Place {
    std::int64_t begin, end;
    const std::string* name;
  };
  std::vector<Place> places;
  for (const auto& [name, t] : tensors)
    places.push_back({t.offset, t.offset + t.bytes, &name});
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::int64_t end = 0;
  const std::string* before = nullptr;
  for (const Place& p : places) {
    if (p.begin < end)
      throw UserError(path + ": the data of the tensors " + quoted_name(*before) + " and " +
                      quoted_name(*p.name) + " overlap" + damaged);
    if (p.begin > end)
      throw UserError(path + ": the data before the tensor " + quoted_name(*p.name) + " belong to no tensor" +
                      damaged);
    end = p.end, before = p.name;
  }
  if (end != data_bytes)
    throw UserError(path + ": the last " + std::to_string(data_bytes - end) +
                    " bytes of the file belong to no tensor" + damaged);
}

} // namespace

std::string quoted_name(std::string_view name) {
  constexpr std::size_t longest = 120;
  std::string text;
  for (char c : name.substr(0, longest))
    text += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  return "'" + text + (name.size() > longest ? "...'" : "'");
}

std::string_view safetensors_dtype(DType dtype) {
  for (const auto& [name, type] : safetensors_dtypes)
    if (type == dtype) return name;
  internal_error("a dtype has no name in the safetensors format");
}

nlohmann::json parse_strict_json(const std::string& what, std::string_view text, const std::string& fix) {
  std::vector<std::set<std::string>> keys; // of the objects around the current place
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= 4) throw UserError(what + " nests values too deeply" + fix);
      if (event == Event::object_start) keys.emplace_back();
    } else if (event == Event::object_end) {
      keys.pop_back();
    } else if (event == Event::key && !keys.back().insert(value.get<std::string>()).second) {
      throw UserError(what + " contains the name " + quoted_name(value.get<std::string>()) + " twice" + fix);
    }
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& error) {
    std::string reason = tune::json_reason(error);
    for (char& c : reason) // which may quote bytes of the text
      if (c < 32 || c > 126) c = '?';
    throw UserError(what + " is not JSON (" + reason.substr(0, 200) + ")" + fix);
  }
}

SafetensorsHeader parse_safetensors_header(const std::string& path, std::string_view text,
                                           std::int64_t file_size) {
  const std::int64_t data_begin = 8 + static_cast<std::int64_t>(text.size());
  const std::int64_t data_bytes = file_size - data_begin;
  if (!text.starts_with('{')) throw UserError(path + ": the header does not begin with '{'" + damaged);
  const Json json = parse_strict_json(path + ": the header", text, damaged);
  SafetensorsHeader header;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") {
      if (!value.is_object()) throw UserError(path + ": __metadata__ is not an object" + damaged);
      for (const auto& [key, entry] : value.items()) {
        if (!entry.is_string())
          throw UserError(path + ": the entry " + quoted_name(key) + " of __metadata__ is not text" +
                          damaged);
        header.metadata[key] = entry.get<std::string>();
      }
    } else {
      header.tensors[name] = parse_tensor(path + ": the tensor " + quoted_name(name), value, data_bytes);
    }
  }
  check_offsets(path, header.tensors, data_bytes);
  for (auto& entry : header.tensors)
    entry.second.offset += data_begin;
  return header;
}

std::string safetensors_header(const SafetensorsHeader& header) {
  Json json = Json::object();
  if (!header.metadata.empty()) json["__metadata__"] = header.metadata;
  for (const auto& [name, t] : header.tensors)
    json[name] = {{"dtype", t.dtype}, {"shape", t.extents}, {"data_offsets", {t.offset, t.offset + t.bytes}}};
  std::string text = json.dump();
  text.resize((8 + text.size() + 63) / 64 * 64 - 8, ' '); // spaces after the JSON are allowed
  const std::uint64_t length = text.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + text;
}

} // namespace kiln::collectives
