// Attaches source lines to LLVM's assembly, according to its .loc directives.
#include <kiln/jit/cli/support/listing.h>

#include <cctype>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln::cli {

namespace {

std::vector<std::string> quoted_words(const std::string& line) {
  std::vector<std::string> words;
  for (auto open = line.find('"'); open != std::string::npos;) {
    auto close = line.find('"', open + 1);
    if (close == std::string::npos) break;
    words.push_back(line.substr(open + 1, close - open - 1));
    open = line.find('"', close + 1);
  }
  return words;
}

// The lines of source files. Each file is read once.
class Sources {
public:
  explicit Sources(std::string folder) : folder_(std::move(folder)) {}

  // The text of a line without its indentation. Empty if the line does not exist.
  std::string line(const std::string& file, int number) {
    auto [at, is_new] = files_.try_emplace(file);
    if (is_new) {
      std::ifstream in = open(file);
      for (std::string text; std::getline(in, text);)
        at->second.push_back(text);
    }
    if (number < 1 || static_cast<std::size_t>(number) > at->second.size()) return {};
    const std::string& text = at->second[static_cast<std::size_t>(number) - 1];
    auto start = text.find_first_not_of(" \t");
    return start == std::string::npos ? std::string() : text.substr(start);
  }

private:
  // Opens the file by its name, or else the file in the folder whose path ends like the name for as long as
  // possible: the name may be relative to a build folder, or of another machine.
  std::ifstream open(const std::string& file) const {
    std::ifstream in(file);
    std::string_view below = file;
    while (!in) {
      in = std::ifstream(folder_ + "/" + std::string(below));
      const auto slash = below.find('/');
      if (slash == std::string_view::npos) break;
      below.remove_prefix(slash + 1);
    }
    return in;
  }

  std::string folder_;
  std::map<std::string, std::vector<std::string>> files_;
};

class Lister {
public:
  explicit Lister(const std::string& source_folder) : sources_(source_folder) {}
  std::string run(const std::string& assembly) {
    std::istringstream stream(assembly);
    for (std::string line; std::getline(stream, line);)
      add(line);
    return std::move(out_);
  }

private:
  void add(const std::string& line) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == ".file") {
      add_file(line);
    } else if (first == ".loc") {
      int file = 0;
      words >> file >> line_;
      file_ = file;
    } else if (first == ".text" || first == ".section") {
      in_code_ = first == ".text" || line.find(".text") != std::string::npos;
    } else if (in_code_) {
      add_code(line, first);
    }
  }

  // Parses .file NUMBER ["folder"] "name". Without a number, the directive names the module.
  void add_file(const std::string& line) {
    std::istringstream words(line);
    std::string directive;
    int number = -1;
    words >> directive >> number;
    auto names = quoted_words(line);
    if (number < 0 || names.empty()) return;
    bool has_folder = names.size() >= 2 && !names[0].empty() && names[1].rfind('/', 0) != 0;
    files_[number] = names.size() < 2 ? names[0] : has_folder ? names[0] + "/" + names[1] : names[1];
  }

  void add_code(const std::string& line, const std::string& first) {
    if (first.empty() || first[0] == '#') return;
    bool label = !std::isspace(static_cast<unsigned char>(line[0]));
    if (label) {
      // Keeps the labels of blocks and functions; others are for debuggers.
      if (first.rfind(".LBB", 0) == 0 || first[0] != '.') out_ += line + "\n";
      return;
    }
    if (first[0] == '.') return;
    if (line_ > 0 && (line_ != shown_line_ || file_ != shown_file_)) add_source();
    out_ += "    " + line.substr(line.find_first_not_of(" \t")) + "\n";
  }

  void add_source() {
    shown_line_ = line_;
    shown_file_ = file_;
    const std::string& file = files_[file_];
    std::string text = sources_.line(file, line_);
    out_ += "  ; " + file + ":" + std::to_string(line_) + (text.empty() ? "" : ": " + text) + "\n";
  }

  std::map<int, std::string> files_;
  Sources sources_;
  std::string out_;
  bool in_code_ = true;
  int file_ = 0, line_ = 0, shown_file_ = -1, shown_line_ = -1;
};

} // namespace

std::string listing(const std::string& assembly, const std::string& source_folder) {
  return Lister(source_folder).run(assembly);
}

} // namespace kiln::cli
