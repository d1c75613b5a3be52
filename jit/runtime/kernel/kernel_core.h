// Holds the state of a Kernel: how to record it, and the variants that have been compiled. Internal.
#pragma once

#include <kiln/jit/runtime/kernel/compile.h>
#include <kiln/jit/runtime/kernel/kernel.h>
#include <kiln/jit/runtime/kernel/variant_table.h>
#include <kiln/jit/runtime/reach.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace kiln::detail {

class KernelCore {
public:
  KernelCore(const Recipe& recipe, std::shared_ptr<const void> function, Location where);
  // Makes a kernel of tile IR instead of a lambda; see ir_kernel.h.
  KernelCore(std::shared_ptr<const ir::Kernel> recorded, const std::vector<ParameterInfo>& parameters);

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  // Returns the variant for a key, after compiling it if necessary. If several threads need the same variant,
  // one compiles it and the others wait. If compiling fails, all of them get the error, and the next call
  // tries again.
  const Variant& variant(const VariantKey& key) {
    const Variant* known = variants_.find(key);
    return known ? *known : new_variant(key);
  }

  std::unique_ptr<ir::Kernel> record(const Config& config) const;

  // Checks the views and pointers of a launch, and returns the layout class of each view in two bits. If the
  // last axis of a view has at most one element, its stride is set to 1.
  std::uint64_t check_arguments(std::uint64_t* words, SourceLocation site) const;
  // UserError for null raw pointers, and for stand-ins. For launches that run at least one program.
  void check_pointers(const std::uint64_t* words, SourceLocation site) const;
  // UserError for memory that kernels on the device cannot access, if any device has its own memory. For
  // launches that run at least one program.
  void check_memory(const std::uint64_t* words, Device device, SourceLocation site) const {
    if (memories_differ()) check_each_memory(words, device, site);
  }
  // The arguments of a launch as text: "f32 [8, 64]", "3".
  std::vector<std::string> texts_of(const std::uint64_t* words) const;
  // The text "kernel "add" (add.cpp:12)".
  std::string title() const;
  // Throws the error about an argument: "kernel "add" (add.cpp:12): argument 2", followed by `what`.
  [[noreturn]] void refuse(std::size_t parameter, SourceLocation site, const std::string& what) const;
  std::vector<LayoutClass> layouts_of(std::uint64_t bits) const;
  std::uint64_t layout_bits(std::initializer_list<LayoutClass> layouts, SourceLocation site) const;

  const char* const name; // interned
  const SourceLocation where;
  int words = 0; // number of argument words

private:
  struct Parameter {
    ParameterInfo info;
    int first_word;
    int view; // its number among the views
  };
  struct Pending { // a variant that a thread is compiling
    Config config;
    std::uint64_t layouts;
    Device device;
    bool done = false;
    std::exception_ptr error;
    bool is(const VariantKey& k) const { return k == VariantKey{config, layouts, device}; }
  };

  void add_parameter(const ParameterInfo& info);
  bool any_stand_in(const std::uint64_t* words) const;
  void check_views() const;
  const Variant& new_variant(const VariantKey& key);
  void check_each_memory(const std::uint64_t* words, Device device, SourceLocation site) const;
  void check_view(const Parameter& p, std::size_t index, const std::uint64_t* words,
                  SourceLocation site) const;
  LayoutClass find_class(const Parameter& p, std::uint64_t* words) const;
  LayoutClass pinned_class(const Parameter& p, std::size_t index, LayoutClass found,
                           SourceLocation site) const;
  std::shared_ptr<const CompiledKernel> compile(const VariantKey& key) const;

  Location location_;
  Recipe recipe_;
  std::shared_ptr<const void> function_;
  std::shared_ptr<const ir::Kernel> recorded_; // instead of the recipe
  std::vector<Parameter> parameters_;
  int views_ = 0;
  bool raw_pointers_ = false; // among the parameters
  std::atomic<long> references_{1};
  VariantTable variants_;
  std::mutex mutex_; // guards insertion into variants_ and pending_
  std::condition_variable finished_;
  std::vector<std::shared_ptr<Pending>> pending_;
};

} // namespace kiln::detail
