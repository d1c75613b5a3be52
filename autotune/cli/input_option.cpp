// Reads the contents of parameters from files, and calls the generators of registrations.
#include <kiln/autotune/cli/input_option.h>

#include <kiln/autotune/run/task_workload.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>

#include <fmt/format.h>

namespace kiln::tune {

namespace {

std::string joined(const std::vector<std::string>& texts) {
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::size_t parameter_of(const Task& task, const std::string& name, const std::string& where) {
  const auto at = std::find(task.parameter_names.begin(), task.parameter_names.end(), name);
  if (at == task.parameter_names.end())
    throw UserError(fmt::format("{}: {} has no parameter \"{}\"; it has {}", where, task.kernel, name,
                                joined(task.parameter_names)));
  return static_cast<std::size_t>(at - task.parameter_names.begin());
}

std::string shape_text(const std::vector<std::int64_t>& extents) {
  return fmt::format("{}", fmt::join(extents, " x "));
}

// The name of a dtype in NumPy's files, without the byte order; empty if NumPy has none.
std::string numpy_name(DType dtype) {
  if (dtype == DType::Bool) return "b1";
  if (dtype == DType::BF16 || dtype == DType::F8E4M3 || dtype == DType::F8E5M2) return "";
  const char kind = is_float(dtype) ? 'f' : is_signed(dtype) ? 'i' : 'u';
  return kind + std::to_string(size_of(dtype));
}

// Checks the header of a .npy file against the parameter and returns its length.
std::size_t check_npy(const std::string& bytes, const Argument& a, const std::string& where) {
  constexpr std::string_view magic = "\x93NUMPY";
  const auto bad = [&](const std::string& what) { return UserError(where + " " + what); };
  if (!bytes.starts_with(magic) || bytes.size() < 12) throw bad("is not a .npy file");
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i]));
  };
  const bool long_header = bytes[6] > 1;
  const std::size_t begin = long_header ? 12 : 10;
  std::size_t length = byte(8) | byte(9) << 8;
  if (long_header) length |= byte(10) << 16 | byte(11) << 24;
  if (length > bytes.size() - begin) throw bad("is cut off");
  const std::string header = bytes.substr(begin, length);
  std::smatch dtype, shape;
  static const std::regex dtype_of("'descr': *'([<>|=]?)([a-z][0-9]+)'"),
      shape_of("'shape': *\\(([0-9, ]*)\\)");
  if (!std::regex_search(header, dtype, dtype_of) || !std::regex_search(header, shape, shape_of))
    throw bad("has a header that cannot be read; save a plain array with numpy.save");
  if (dtype[1] == ">" || dtype[2] != numpy_name(a.dtype))
    throw bad(fmt::format("holds {}{}, but the parameter is {}{}", dtype[1].str(), dtype[2].str(),
                          std::string(kiln::name(a.dtype)),
                          numpy_name(a.dtype).empty() ? ", which NumPy does not have; give a raw file" : ""));
  if (header.find("'fortran_order': True") != std::string::npos)
    throw bad("is in Fortran order; save numpy.ascontiguousarray(...)");
  std::vector<std::int64_t> extents;
  const std::string list = shape[1].str();
  static const std::regex number("[0-9]+");
  for (std::sregex_iterator i(list.begin(), list.end(), number), end; i != end; ++i)
    extents.push_back(std::stoll(i->str()));
  if (a.kind == Argument::Kind::view && extents != a.extents)
    throw bad(fmt::format("has the shape {}, but the parameter has {}", shape_text(extents),
                          shape_text(a.extents)));
  return begin + length;
}

std::shared_ptr<const SharedBytes> read_input(const std::string& file, const Argument& a, std::size_t wanted,
                                              const std::string& where) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad())
    throw UserError(where + " cannot be read; name a file with the parameter's elements");
  const std::size_t begin = file.ends_with(".npy") ? check_npy(bytes, a, where) : 0;
  if (bytes.size() - begin != wanted)
    throw UserError(fmt::format("{} has {} bytes of elements, but the parameter, {} of {}, has {}", where,
                                bytes.size() - begin, shape_text(a.extents), std::string(kiln::name(a.dtype)),
                                wanted));
  auto shared = std::make_shared<SharedBytes>(wanted);
  if (wanted) std::memcpy(shared->data(), bytes.data() + begin, wanted);
  return shared;
}

} // namespace

void give_inputs(Task& task, const TunableKernel& kernel, const std::vector<std::string>& inputs,
                 std::uint64_t seed) {
  if (inputs.empty() && kernel.inputs.empty()) return;
  const std::vector<Argument> arguments = arguments_of(task);
  task.contents.resize(arguments.size());
  const auto bytes_for = [&](std::size_t i, const std::string& where) {
    if (arguments[i].kind == Argument::Kind::scalar)
      throw UserError(
          fmt::format("{}: parameter {} is a number, which --shape gives", where, task.parameter_names[i]));
    const ByteRange range = bytes_of(arguments[i], i);
    return static_cast<std::size_t>(range.high - range.low);
  };
  for (const std::string& input : inputs) {
    const std::size_t equals = input.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UserError("--input " + input + ": write NAME=FILE, with a parameter of " + task.kernel + ": " +
                      joined(task.parameter_names));
    const std::string where = "--input " + input;
    const std::size_t i = parameter_of(task, input.substr(0, equals), where);
    task.contents[i] =
        read_input(input.substr(equals + 1), arguments[i], bytes_for(i, where), where + ": the file");
  }
  for (const TunableInput& generated : kernel.inputs) {
    const std::string where = std::string("the registration of ") + kernel.name;
    const std::size_t i = parameter_of(task, generated.parameter, where);
    if (task.contents[i]) continue;
    auto shared = std::make_shared<SharedBytes>(bytes_for(i, where));
    generated.generate(arguments[i].dtype, task.problem, seed, {shared->data(), shared->size()});
    task.contents[i] = std::move(shared);
  }
}

} // namespace kiln::tune
