// Removes buffers of tiles that only their own nest reads.
#include <kiln/jit/cpu/emit/kernel_emitter.h>

#include <algorithm>
#include <iterator>

namespace kiln::cpu {

// Whether anything but `roots`, one of which computes `v`, reads `v`.
bool KernelEmitter::is_read_elsewhere(const ir::Value* v, const std::vector<Root>& roots) const {
  std::set<const ir::Value*> seen;
  auto read = [&](auto&& self, const ir::Value* x) -> bool {
    const auto users = users_.find(x);
    if (users == users_.end() || !seen.insert(x).second) return false;
    return std::any_of(users->second.begin(), users->second.end(), [&](const ir::Op* user) {
      const bool here = std::any_of(roots.begin(), roots.end(), [&](const Root& root) {
        return root.op == user || (root.sole && root.value->def == user);
      });
      if (here) return false;
      const bool lazy = !is_root(*user) && user->num_results() == 1 && user->result()->type.is_tile() &&
                        !plan_.has_buffer(user->result());
      return !lazy || self(self, user->result());
    });
  };
  return read(read, v);
}

// Removes the fills of buffers that only this nest reads, unless the buffer limits the length of a chain. A
// nest with a store keeps them, because the store may change what is read.
void KernelEmitter::drop_nest_local_fills(std::vector<Root>& roots) const {
  if (!only_fill_and_reduce(roots)) return;
  auto nest_local = [&](const Root& root) {
    return root.kind == Root::Kind::Fill && root.own && !plan_.cuts_chain(root.value) &&
           !is_read_elsewhere(root.value, roots);
  };
  std::vector<Root> kept;
  std::copy_if(roots.begin(), roots.end(), std::back_inserter(kept),
               [&](const Root& r) { return !nest_local(r); });
  if (!kept.empty()) roots = std::move(kept);
}

} // namespace kiln::cpu
