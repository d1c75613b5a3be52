// Implements both sides of calls from a worker to functions of the tuner.
#include <kiln/autotune/measure/host_functions.h>

#include <filesystem>
#include <fstream>

#include <unistd.h>

namespace kiln::tune {

namespace {

using Bytes = std::vector<unsigned char>;

void write_bytes(const std::string& path, const unsigned char* bytes, std::size_t count) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(count));
  if (!out.flush())
    throw TargetError("cannot write " + path +
                      ", which holds an array for a function of the host; make room for it");
}

Bytes read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  Bytes bytes((std::istreambuf_iterator<char>(in)), {});
  if (!in) throw TargetError("cannot read " + path + ", which holds an array for a function of the host");
  return bytes;
}

// Files that are removed at the end of a call.
class Files {
public:
  explicit Files(std::string prefix) : prefix_(std::move(prefix)) {}
  ~Files() {
    std::error_code ignored;
    for (std::size_t i = 0; i < count_; ++i)
      std::filesystem::remove(path(i), ignored);
  }
  std::string path(std::size_t i) const { return prefix_ + std::to_string(i); }
  void add(const unsigned char* bytes, std::size_t count) { write_bytes(path(count_++), bytes, count); }

private:
  std::string prefix_;
  std::size_t count_ = 0;
};

void check_reply(const Message& reply) {
  if (const auto error = reply.find("error"); error != reply.end())
    throw UserError(error->get<std::string>());
}

// The bytes from the lowest to the highest element of an argument, and those before its first element.
std::pair<std::int64_t, std::int64_t> reach_of(const OutputValues& v) {
  if (v.extents.empty() && v.bytes > 0) return {0, v.bytes};
  std::int64_t low = 0, high = 0;
  for (std::size_t i = 0; i < v.extents.size(); ++i) {
    if (v.extents[i] == 0) return {0, 0};
    ((v.strides[i] < 0) ? low : high) += (v.extents[i] - 1) * v.strides[i];
  }
  return {-low * size_of(v.dtype), (high + 1) * size_of(v.dtype)};
}

// What a function that compares says. One that throws does not find its output right.
std::string says(const std::function<std::string(const OutputValues&)>& compare, const OutputValues& both) {
  try {
    return compare(both);
  } catch (const std::exception& e) {
    return std::string("it threw an exception: ") + e.what();
  } catch (...) {
    return "it threw an exception that is not a std::exception";
  }
}

Message compared(const Workload& workload, const Message& question) {
  const int parameter = question.at("parameter");
  const auto prefix = question.at("files").get<std::string>();
  for (const OutputCheck& check : workload.outputs) {
    if (check.parameter != parameter || !check.compare) continue;
    const Bytes values = read_bytes(prefix + "0"), reference = read_bytes(prefix + "1");
    const std::int64_t before = question.at("before");
    const Argument& a = workload.arguments.at(static_cast<std::size_t>(parameter));
    const OutputValues both = {.values = values.data() + before,
                               .reference = reference.data() + before,
                               .dtype = a.dtype,
                               .extents = question.at("extents").get<std::vector<std::int64_t>>(),
                               .strides = a.strides,
                               .bytes = a.bytes};
    return {{"wrong", says(check.compare, both)}};
  }
  return {{"error", "there is no function that compares parameter " + std::to_string(parameter)}};
}

Message computed(const Workload& workload, const Message& question) {
  const auto prefix = question.at("files").get<std::string>();
  const std::size_t count = question.at("blocks");
  std::vector<Bytes> blocks;
  for (std::size_t i = 0; i < count; ++i)
    blocks.push_back(read_bytes(prefix + std::to_string(i)));
  std::vector<HostArguments::Argument> arguments;
  const Message& places = question.at("places");
  for (std::size_t i = 0; i < workload.arguments.size(); ++i) {
    const Argument& a = workload.arguments[i];
    const int block = places.at(i).at(0);
    const std::int64_t data = places.at(i).at(1);
    arguments.push_back({block < 0 ? nullptr : blocks.at(static_cast<std::size_t>(block)).data() + data,
                         question.at("extents").at(i).get<std::vector<std::int64_t>>(), a.strides,
                         question.at("words").at(i).get<std::uint64_t>()});
  }
  const std::string threw = "the function of TunedOptions::reference threw an exception";
  try {
    workload.reference_function(HostArguments(std::move(arguments)));
  } catch (const std::exception& e) {
    return {{"error", threw + ": " + e.what()}};
  } catch (...) {
    return {{"error", threw + " that is not a std::exception"}};
  }
  for (std::size_t i = 0; i < count; ++i)
    write_bytes(prefix + std::to_string(i), blocks[i].data(), blocks[i].size());
  return {{"done", true}};
}

} // namespace

void ask_for_functions(Situation& situation, const Message& message, const std::string& folder,
                       const Ask& ask) {
  const std::string prefix = folder + "/ask-" + std::to_string(getpid()) + "-";
  const Message asked = message.value("functions", Message::object());
  for (OutputCheck& check : situation.outputs) {
    if (!asked.contains(std::to_string(check.parameter))) continue;
    check.compare = [ask, prefix, parameter = check.parameter](const OutputValues& v) {
      const auto [before, after] = reach_of(v);
      Files files(prefix);
      for (const void* values : {v.values, v.reference})
        files.add(static_cast<const unsigned char*>(values) - before,
                  static_cast<std::size_t>(before + after));
      const Message reply = ask({{"ask", "compare"},
                                 {"parameter", parameter},
                                 {"files", prefix},
                                 {"before", before},
                                 {"extents", v.extents}});
      check_reply(reply);
      return reply.at("wrong").get<std::string>();
    };
  }
  if (!asked.contains("reference")) return;
  situation.host_reference = [ask, prefix](std::vector<Bytes>& blocks, const Situation::Places& data,
                                           const std::vector<Argument>& arguments) {
    Files files(prefix);
    for (const Bytes& block : blocks)
      files.add(block.data(), block.size());
    Message places = Message::array(), extents = Message::array(), words = Message::array();
    for (const auto& [block, begin] : data)
      places.push_back({block, begin});
    for (const Argument& a : arguments) {
      extents.push_back(a.extents);
      words.push_back(a.word);
    }
    check_reply(ask({{"ask", "reference"},
                     {"files", prefix},
                     {"blocks", blocks.size()},
                     {"places", std::move(places)},
                     {"extents", std::move(extents)},
                     {"words", std::move(words)}}));
    for (std::size_t i = 0; i < blocks.size(); ++i)
      blocks[i] = read_bytes(files.path(i));
  };
}

void announce_functions(Message& setup, const Workload& workload) {
  Message functions = Message::object();
  for (const OutputCheck& check : workload.outputs)
    if (check.compare) functions[std::to_string(check.parameter)] = true;
  if (workload.reference_function) functions["reference"] = true;
  setup["functions"] = std::move(functions);
}

Message answer_for_functions(const Workload& workload, const Message& question) {
  try {
    return question.at("ask") == "compare" ? compared(workload, question) : computed(workload, question);
  } catch (const std::exception& e) { // no room for the arrays
    return {{"error", e.what()}};
  }
}

} // namespace kiln::tune
