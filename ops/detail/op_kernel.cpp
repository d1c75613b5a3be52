// Keeps the kernels of an OpKernel in a list that launches read without a lock.
#include <kiln/ops/detail/op_kernel.h>

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/runtime/kernel/compile.h>
#include <kiln/jit/runtime/rehearsing.h>
#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/detail/op_words.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace kiln::ops::detail {

using kiln::detail::KernelHandle;
using kiln::detail::ParameterInfo;
using kiln::detail::Recipe;

struct OpKernel::Key {
  DType compute;
  std::uint32_t options;
  const Hook *hook, *mask;
  std::array<std::uint16_t, OpArguments::max> arguments{};

  Key(const OpVariant& variant, const OpArguments& list)
      : compute(variant.compute), options(variant.options), hook(variant.hook), mask(variant.mask) {
    std::transform(list.begin(), list.end(), arguments.begin(), [](const OpArgument& a) {
      const int view = a.array ? 0x8000 | a.array->rank << 9 | a.array->readonly << 8 : 0x4000;
      return static_cast<std::uint16_t>(view | static_cast<int>(a.array ? a.array->dtype : a.scalar));
    });
  }
  bool operator==(const Key&) const = default;
};

struct OpKernel::Made {
  Key key;
  OpVariant variant;
  Body body;
  std::vector<ParameterInfo> parameters;
  mutable std::atomic<const std::string*> remark{nullptr}; // never destroyed, like the object itself
  KernelHandle handle;
  const Made* next;

  Made(const OpKernel& of, const Key& k, const OpVariant& v, const OpArguments& arguments, const Made* rest)
      : key(k), variant(v), body(of.body_), parameters(infos(arguments)),
        handle(Recipe{of.name_, parameters.data(), static_cast<int>(parameters.size()), call, this}, nullptr,
               of.location_),
        next(rest) {}
  Made(const Made&) = delete;

  static void call(const void* self, const Handle* arguments) {
    const Made& made = *static_cast<const Made*>(self);
    const Made* const outer = std::exchange(recorded, &made);
    try {
      made.body(made.variant, arguments);
    } catch (...) {
      recorded = outer;
      throw;
    }
    recorded = outer;
  }
  static constinit thread_local const Made* recorded; // the one whose body runs
  static std::vector<ParameterInfo> infos(const OpArguments& arguments) {
    std::vector<ParameterInfo> infos;
    for (const OpArgument& a : arguments)
      infos.push_back(a.array ? ParameterInfo{ParameterInfo::Kind::View, a.array->dtype, a.array->readonly,
                                              a.array->rank, ParameterInfo::not_pinned}
                              : ParameterInfo{ParameterInfo::Kind::Scalar, a.scalar, false, 0, 0});
    return infos;
  }
};

constinit thread_local const OpKernel::Made* OpKernel::Made::recorded = nullptr;

void remark_on_recording(const std::string& text) {
  const OpKernel::Made* made = OpKernel::Made::recorded;
  if (!made || made->remark.load()) return;
  auto remark = std::make_unique<const std::string>(text);
  const std::string* none = nullptr;
  if (made->remark.compare_exchange_strong(none, remark.get())) remark.release();
}

const OpKernel::Made& OpKernel::made(const OpVariant& variant, const OpArguments& arguments) const {
  const Key key(variant, arguments);
  const auto find = [&]() -> const Made* {
    const Made* m = first_.load(std::memory_order_acquire);
    while (m && !(m->key == key))
      m = m->next;
    return m;
  };
  if (const Made* known = find()) return *known;
  static std::mutex& mutex = *new std::mutex; // launches may come from destructors of static objects
  const std::lock_guard lock(mutex);
  if (const Made* known = find()) return *known;
  // It is never destroyed: queued launches refer to it.
  const Made* added = new Made(*this, key, variant, arguments, first_.load());
  first_.store(added, std::memory_order_release);
  return *added;
}

void refuse_compile(const char* kernel, const StreamAt& at, const std::string& config,
                    const Array* const* arrays, int count) {
  std::string sizes;
  for (int i = 0; i < count; ++i)
    sizes += (i > 0 ? ", " : "") + kiln::detail::text_of_array(name(arrays[i]->dtype), arrays[i]->rank,
                                                               arrays[i]->extents, arrays[i]->strides);
  throw UserError(SourceLocation(at.site),
                  std::string("the op's kernel \"") + kernel + "\" is not compiled for (" + sizes +
                      ") with the config {" + config + "} on " + to_string(at.stream.device()) +
                      ", and the compile policy forbids compiling it; rehearse a call with these sizes first "
                      "(rehearse() in kiln/jit/runtime/rehearsal.h), or ship the cache folder");
}

void OpKernel::launch(const StreamAt& at, const Config& config, const OpVariant& variant,
                      const OpArguments& arguments, const Grid* grid) const {
  OpWords words(arguments);
  const Made& of = made(variant, arguments);
  try {
    kiln::detail::launch(*of.handle, at.stream, at.site, config, grid, words.first());
  } catch (const CompileForbidden&) {
    const Array* arrays[OpArguments::max];
    int count = 0;
    for (const OpArgument& a : arguments)
      if (a.array) arrays[count++] = a.array;
    refuse_compile(name_, at, config.to_string(), arrays, count);
  }
  if (const std::string* remark = of.remark.load(); remark && kiln::detail::notes_paths())
    kiln::detail::note_path(*remark);
}

void OpKernel::interpret(const Config& config, const OpVariant& variant, const OpArguments& arguments) const {
  OpWords words(arguments);
  kiln::detail::interpret(*made(variant, arguments).handle, config, nullptr, words.first());
}

const KernelHandle& OpKernel::handle(const OpVariant& variant, const OpArguments& arguments) const {
  return made(variant, arguments).handle;
}

std::shared_ptr<ir::Kernel> OpKernel::record(const Config& config, const OpVariant& variant,
                                             const OpArguments& arguments) const {
  return kiln::detail::record(*made(variant, arguments).handle, config);
}

DType compute_dtype(std::initializer_list<const Array*> arrays) {
  const bool wide =
      std::any_of(arrays.begin(), arrays.end(), [](const Array* a) { return a->dtype == DType::F64; });
  return wide ? DType::F64 : DType::F32;
}

Array reading(DType dtype, int rank) { return {nullptr, dtype, true, rank}; }
Array writing(DType dtype, int rank) { return {nullptr, dtype, false, rank}; }

} // namespace kiln::ops::detail
