// Prints an explanation as text or as JSON.
#include <kiln/jit/cli/support/explain.h>

#include <kiln/jit/cli/support/line_diff.h>
#include <kiln/jit/cli/support/listing.h>
#include <kiln/jit/cli/support/text.h>
#include <kiln/jit/runtime/device.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>

namespace kiln::cli {

namespace {

std::string heading(const std::string& text) { return "\n--- " + text + "\n"; }

std::string programs_text(const Explanation& e) {
  std::string formula = e.grid.empty() ? "given at launch" : fmt::format("{}", fmt::join(e.grid, " x "));
  if (!e.cost.programs) return formula;
  if (e.grid.empty() && e.programs.empty()) return "none: 1 program";
  std::string factors = e.programs.size() > 1 ? fmt::format("{} = ", fmt::join(e.programs, " x ")) : "";
  return fmt::format("{}: {}{:.0f} programs", formula, factors, *e.cost.programs);
}

std::string summary_text(const Explanation& e) {
  std::string out = "kernel " + e.name + (e.summary.empty() ? "" : ": " + e.summary) + "\n";
  auto line = [&](const char* label, const std::string& value) {
    out += fmt::format("  {:<9}{}\n", label, value);
  };
  line("config", e.config.empty() ? "none" : e.config);
  if (!e.cpu_config.empty()) line("on CPUs", e.cpu_config + ", which compute the same in fewer programs");
  if (!e.unused_by_gpu.empty())
    line("options", e.unused_by_gpu + " without effect so far; num_warps and max_registers are for GPUs");
  line("grid", programs_text(e));
  if (!e.remark.empty()) line("remark", e.remark);
  line("target", fmt::format("{}, {}-byte vectors", e.target.cpu, e.target.vector_bytes));
  std::int64_t limit = Device::cpu().limits().max_scratch_bytes;
  line("scratch", bytes_text(static_cast<double>(e.scratch_bytes)) + " per worker" +
                      (e.scratch_bytes > limit
                           ? ", too much for a launch: at most " + bytes_text(static_cast<double>(limit))
                           : ""));
  line("object", bytes_text(static_cast<double>(e.object_bytes)) + " with line info");
  return out;
}

std::string extents_text(const ExampleParameter& parameter) {
  return parameter.extents.empty() ? "" : fmt::format("{}", fmt::join(parameter.extents, " x "));
}

std::string parameters_text(const Explanation& e) {
  std::size_t name_width = 0, type_width = 0;
  for (std::size_t i = 0; i < e.types.size(); ++i) {
    name_width = std::max(name_width, e.example.parameters[i].name.size());
    type_width = std::max(type_width, e.types[i].size());
  }
  std::string out = "parameters\n";
  std::size_t view = 0;
  for (std::size_t i = 0; i < e.types.size(); ++i) {
    const ExampleParameter& parameter = e.example.parameters[i];
    std::string about = parameter.value.empty() ? "" : "= " + parameter.value;
    if (e.types[i].starts_with("view")) {
      bool sized = !parameter.extents.empty();
      about = fmt::format("{}{}layout class {} ({})", extents_text(parameter), sized ? ", " : "",
                          layout_text(e.layouts[view++]),
                          e.layouts_given ? "as given"
                          : sized         ? "found for a contiguous tensor"
                                          : "assumed");
    }
    std::string line =
        fmt::format("  {:<{}}  {:<{}}  {}", parameter.name, name_width, e.types[i], type_width, about);
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string traffic_line(const std::string& name, double read, double written, std::optional<double> whole) {
  return fmt::format("  {:<12}{:>14}{:>14}{:>14}\n", name, read ? bytes_text(read) : "-",
                     written ? bytes_text(written) : "-", whole ? bytes_text(*whole) : "");
}

std::string roofline_text(const Explanation& e) {
  std::string out;
  if (e.memory_seconds) out += "  at least " + time_text(*e.memory_seconds) + " for memory\n";
  if (e.compute_seconds) out += "  at least " + time_text(*e.compute_seconds) + " for arithmetic\n";
  if (e.memory_seconds && e.compute_seconds)
    out += fmt::format("  bound by {}\n", *e.memory_seconds >= *e.compute_seconds ? "memory" : "arithmetic");
  return out;
}

std::string cost_text(const Explanation& e) {
  const passes::Cost& cost = e.cost;
  std::string out = cost.programs ? "predicted for the whole grid\n"
                                  : fmt::format("predicted for one program (give {} for the whole grid)\n",
                                                e.grid.empty() ? "--grid" : "sizes");
  out += fmt::format("  {:<12}{:>14}{:>14}{:>14}\n", "", "read", "written", "size");
  for (std::size_t i = 0; i < cost.parameters.size(); ++i)
    if (const auto& t = cost.parameters[i]; t.read || t.written || t.whole)
      out += traffic_line(e.example.parameters[i].name, t.read, t.written, t.whole);
  if (cost.elsewhere.read || cost.elsewhere.written)
    out += traffic_line("elsewhere", cost.elsewhere.read, cost.elsewhere.written, {});
  out += traffic_line("in all", cost.read(), cost.written(), {});
  out += fmt::format("  {:<12}{}\n", "once each", bytes_text(cost.unique_bytes()));
  out += fmt::format("  {:<12}{}", "arithmetic", count_text(cost.flops, "FLOP"));
  if (cost.integer_ops) out += ", " + count_text(cost.integer_ops, "OP on integers");
  out += "\n";
  if (double bytes = cost.unique_bytes(); bytes > 0)
    out += fmt::format("  {:<12}{:.4g} FLOP per byte\n", "intensity", cost.flops / bytes);
  if (cost.programs && *cost.programs > 1)
    out += fmt::format("  {:<12}{} read, {} written, {}\n", "one program",
                       bytes_text(cost.read() / *cost.programs), bytes_text(cost.written() / *cost.programs),
                       count_text(cost.flops / *cost.programs, "FLOP"));
  out += roofline_text(e);
  if (cost.programs && cost.sampled_programs < *cost.programs)
    out += fmt::format("  scaled up from {:.0f} programs\n", cost.sampled_programs);
  for (const std::string& assumption : cost.assumptions)
    out += "  " + assumption + "\n";
  return out;
}

std::string passes_text(const Explanation& e, bool whole) {
  std::string out = heading("tile IR as recorded") + e.recorded, unchanged;
  const std::string* before = &e.recorded;
  for (const PassResult& pass : e.passes) {
    LineDiff diff = diff_tile_ir(*before, pass.tile_ir);
    if (*before == pass.tile_ir)
      unchanged += (unchanged.empty() ? "" : ", ") + pass.name;
    else
      out += heading(fmt::format("after {}: {} removed, {} added", pass.name, diff.removed, diff.added)) +
             (whole ? pass.tile_ir : diff.text);
    before = &pass.tile_ir;
  }
  if (!unchanged.empty()) out += heading("nothing changed by " + unchanged);
  if (!whole && !e.passes.empty()) out += heading("tile IR as lowered") + e.passes.back().tile_ir;
  return out;
}

std::string pictures_text(const Explanation& e) {
  std::string out =
      heading(fmt::format("layouts on a GPU, {} warps per block (w: warp, l: lane, r: register)", e.warps));
  if (e.gpu_refusal) return out + "none: " + e.gpu_refusal->what() + "\n";
  if (e.pictures.empty() && e.free_tiles.empty()) out += "none: the kernel has no tiles\n";
  for (const LayoutPicture& picture : e.pictures)
    out += fmt::format("{}\n{}\n", fmt::join(picture.tiles, "\n"), picture.picture);
  if (!e.free_tiles.empty())
    out += fmt::format("computed where they are used, in any layout\n{}\n", fmt::join(e.free_tiles, "\n"));
  return out;
}

} // namespace

std::string to_text(const Explanation& e, const Sections& sections) {
  std::string out = summary_text(e) + parameters_text(e) + cost_text(e);
  if (sections.passes || sections.all) out += passes_text(e, sections.all);
  if (sections.pictures || sections.all) out += pictures_text(e);
  if (sections.llvm || sections.all) {
    out += heading("LLVM IR as emitted") + e.llvm_before;
    out += heading("LLVM IR as optimised") + e.llvm_after;
  }
  if (sections.assembly || sections.all)
    out += heading("assembly with the source") + listing(e.assembly, sections.source_folder);
  return out;
}

std::string to_json(const Explanation& e) {
  using Json = nlohmann::ordered_json;
  Json json = {{"kernel", e.name},
               {"summary", e.summary},
               {"config", e.config},
               {"cpu_config", e.cpu_config.empty() ? e.config : e.cpu_config},
               {"target", e.target.cpu},
               {"vector_bytes", e.target.vector_bytes},
               {"scratch_bytes", e.scratch_bytes},
               {"object_bytes", e.object_bytes}};
  json["grid"] = {{"axes", e.grid}, {"programs", e.programs}};
  if (!e.remark.empty()) json["remark"] = e.remark;
  std::size_t view = 0;
  for (std::size_t i = 0; i < e.types.size(); ++i) {
    const ExampleParameter& parameter = e.example.parameters[i];
    const passes::Traffic& traffic = e.cost.parameters[i];
    Json entry = {{"name", parameter.name}, {"type", e.types[i]}};
    if (e.types[i].starts_with("view")) entry["layout"] = layout_text(e.layouts[view++]);
    if (!parameter.extents.empty()) entry["extents"] = parameter.extents;
    if (!parameter.value.empty()) entry["value"] = parameter.value;
    entry["read_bytes"] = traffic.read;
    entry["written_bytes"] = traffic.written;
    json["parameters"].push_back(std::move(entry));
  }
  json["cost"] = {{"of", e.cost.programs ? "grid" : "program"},
                  {"read_bytes", e.cost.read()},
                  {"written_bytes", e.cost.written()},
                  {"unique_bytes", e.cost.unique_bytes()},
                  {"flops", e.cost.flops},
                  {"integer_ops", e.cost.integer_ops},
                  {"assumptions", e.cost.assumptions}};
  if (e.cost.programs) {
    json["cost"]["programs"] = *e.cost.programs;
    json["cost"]["sampled_programs"] = e.cost.sampled_programs;
  }
  if (e.memory_seconds) json["cost"]["memory_seconds"] = *e.memory_seconds;
  if (e.compute_seconds) json["cost"]["compute_seconds"] = *e.compute_seconds;
  json["recorded"] = e.recorded;
  const std::string* before = &e.recorded;
  for (const PassResult& pass : e.passes) {
    json["passes"].push_back(
        {{"name", pass.name}, {"changed", *before != pass.tile_ir}, {"tile_ir", pass.tile_ir}});
    before = &pass.tile_ir;
  }
  if (e.gpu_refusal) json["gpu_refusal"] = e.gpu_refusal->what();
  for (const LayoutPicture& picture : e.pictures)
    json["gpu_layouts"].push_back(
        {{"warps", e.warps}, {"tiles", picture.tiles}, {"picture", picture.picture}});
  json["llvm_emitted"] = e.llvm_before;
  json["llvm_optimized"] = e.llvm_after;
  json["assembly"] = e.assembly;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

} // namespace kiln::cli
