// Reads the contents of parameters from files, and calls the generators of registrations.
#include <kiln/autotune/cli/input_option.h>

#include <kiln/autotune/run/task_workload.h>
#include <kiln/jit/base/errno_text.h>
#include <kiln/jit/passes/parameter_uses.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
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
  for (std::sregex_iterator i(list.begin(), list.end(), number), end; i != end; ++i) {
    const std::string digits = i->str();
    std::int64_t extent = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), extent).ec != std::errc())
      throw bad("has an extent of " + digits + ", which is too large");
    extents.push_back(extent);
  }
  if (a.kind == Argument::Kind::view && extents != a.extents)
    throw bad(fmt::format("has the shape {}, but the parameter has {}", shape_text(extents),
                          shape_text(a.extents)));
  return begin + length;
}

// Reads a file of at most `wanted` bytes and a header, whatever its size: it may be an endless device.
std::string read_file(const std::string& file, std::size_t wanted, const std::string& where) {
  const auto bad = [&](const std::string& what) {
    return UserError(where + " " + what + "; name a file with the parameter's elements");
  };
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) throw bad("is a folder");
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) throw bad("cannot be read: " + errno_text(errno));
  constexpr std::size_t most_header = std::size_t{64} << 10;
  std::string bytes(wanted + most_header + 1, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (in.bad()) throw bad("cannot be read: " + errno_text(errno));
  if (in) throw bad(fmt::format("has more than the {} bytes of the parameter's elements", wanted));
  bytes.resize(static_cast<std::size_t>(in.gcount()));
  return bytes;
}

std::shared_ptr<const SharedBytes> read_input(const std::string& file, const Argument& a, std::size_t wanted,
                                              const std::string& where) {
  const std::string bytes = read_file(file, wanted, where);
  const std::size_t begin = file.ends_with(".npy") ? check_npy(bytes, a, where) : 0;
  if (bytes.size() - begin != wanted)
    throw UserError(fmt::format("{} has {} bytes of elements, but the parameter, {} of {}, has {}", where,
                                bytes.size() - begin, shape_text(a.extents), std::string(kiln::name(a.dtype)),
                                wanted));
  auto shared = std::make_shared<SharedBytes>(wanted);
  if (wanted) std::memcpy(shared->data(), bytes.data() + begin, wanted);
  return shared;
}

void call_generator(const TunableInput& input, const Task& task, DType dtype, std::uint64_t seed,
                    SharedBytes& elements, const std::string& where) {
  const std::string generator = fmt::format("{}: the generator of parameter \"{}\" ", where, input.parameter);
  if (!input.generate) throw UserError(generator + "is null; give TunableInput::generate a function");
  try {
    input.generate(dtype, task.problem, seed, {elements.data(), elements.size()});
  } catch (const std::exception& e) {
    throw UserError(generator + "threw an exception: " + e.what());
  } catch (...) {
    throw UserError(generator + "threw an exception that is not a std::exception");
  }
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
  const auto kernel_ir = task.canonical();
  const std::vector<passes::ParameterUse> uses = passes::parameter_uses(*kernel_ir);
  for (const std::string& input : inputs) {
    const std::size_t equals = input.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UserError("--input " + input + ": write NAME=FILE, with a parameter of " + task.kernel + ": " +
                      joined(task.parameter_names));
    const std::string where = "--input " + input;
    const std::size_t i = parameter_of(task, input.substr(0, equals), where);
    if (task.contents[i])
      throw UserError(fmt::format("{}: parameter {} already has a file; give each parameter one", where,
                                  task.parameter_names[i]));
    if (!arguments[i].readonly && !uses[i].read && arguments[i].kind != Argument::Kind::scalar)
      throw UserError(fmt::format("{}: the kernel writes parameter {} but never reads it, so that contents "
                                  "would have no effect; leave it out",
                                  where, task.parameter_names[i]));
    task.contents[i] =
        read_input(input.substr(equals + 1), arguments[i], bytes_for(i, where), where + ": the file");
  }
  std::vector<bool> generated(arguments.size());
  for (const TunableInput& input : kernel.inputs) {
    const std::string where = std::string("the registration of ") + kernel.name;
    const std::size_t i = parameter_of(task, input.parameter, where);
    if (generated[i])
      throw UserError(fmt::format("{}: it has two generators of parameter \"{}\"; leave one out", where,
                                  input.parameter));
    generated[i] = true;
    if (input.as_given) task.as_given.push_back(static_cast<int>(i));
    if (task.contents[i]) continue;
    auto shared = std::make_shared<SharedBytes>(bytes_for(i, where));
    call_generator(input, task, arguments[i].dtype, seed, *shared, where);
    task.contents[i] = std::move(shared);
  }
}

} // namespace kiln::tune
