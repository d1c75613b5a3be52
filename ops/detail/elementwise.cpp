// Keeps an AssignSite for each combination of a body and dtypes, in a list that calls read without a lock.
#include <kiln/ops/detail/elementwise.h>

#include <kiln/jit/runtime/kernel/compile.h>
#include <kiln/ops/detail/op_kernel.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

namespace kiln::ops::detail {
namespace {

using kiln::detail::AssignLeaf;
using kiln::detail::AssignOperand;
using kiln::detail::AssignSite;

constexpr std::size_t max_inputs = 4;

struct SiteKey {
  ElementwiseBody body;
  DType out;
  std::array<std::uint16_t, max_inputs> in{}; // dtypes and ranks
  bool operator==(const SiteKey&) const = default;
};

struct MadeSite {
  SiteKey key;
  AssignLeaf leaves[max_inputs];
  AssignSite site;
  const MadeSite* next;

  MadeSite(const SiteKey& k, std::initializer_list<const Array*> in, const MadeSite* rest)
      : key(k), site{leaves, static_cast<int>(in.size()), k.out, k.body}, next(rest) {
    std::transform(in.begin(), in.end(), leaves,
                   [](const Array* a) { return AssignLeaf{AssignLeaf::Kind::View, a->dtype, a->rank}; });
  }
  MadeSite(const MadeSite&) = delete;
};

std::atomic<MadeSite*> first_site{nullptr};

MadeSite* find_site(const SiteKey& key) {
  MadeSite* s = first_site.load(std::memory_order_acquire);
  while (s && !(s->key == key))
    s = const_cast<MadeSite*>(s->next);
  return s;
}

MadeSite& site_for(const SiteKey& key, std::initializer_list<const Array*> in) {
  if (MadeSite* known = find_site(key)) return *known;
  static std::mutex& mutex = *new std::mutex; // calls may come from destructors of static objects
  const std::lock_guard lock(mutex);
  if (MadeSite* known = find_site(key)) return *known;
  MadeSite* added = new MadeSite(key, in, first_site.load()); // never destroyed
  first_site.store(added, std::memory_order_release);
  return *added;
}

} // namespace

void run_elementwise(const char* name, const StreamAt& at, ElementwiseBody body, const Array& out,
                     std::initializer_list<const Array*> in) {
  SiteKey key{body, out.dtype};
  AssignOperand operands[max_inputs];
  std::size_t count = 0;
  for (const Array* a : in) {
    key.in[count] = static_cast<std::uint16_t>(static_cast<int>(a->dtype) << 8 | a->rank);
    operands[count++] = {a->data, a->extents, a->strides, 0, 0};
  }
  try {
    kiln::detail::run_assign(at.stream, site_for(key, in).site,
                             {out.data, out.rank, out.extents, out.strides}, operands, at.site);
  } catch (const CompileForbidden&) {
    const Array* arrays[max_inputs + 1];
    *std::copy(in.begin(), in.end(), arrays) = &out;
    refuse_compile(name, at, "", arrays, static_cast<int>(count) + 1);
  }
}

} // namespace kiln::ops::detail
