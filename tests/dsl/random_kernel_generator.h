// Defines KernelGenerator, which draws one random kernel. It is private to random_kernel*.cpp.
#pragma once

#include <dsl/random_kernel.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <string_view>

namespace kiln::test {

class KernelGenerator {
public:
  KernelGenerator(std::uint64_t seed, const RandomKernelOptions& options)
      : options_(options), random_(seed), kernel_(std::make_unique<ir::Kernel>("random")),
        build_(&kernel_->body) {
    result_.seed = seed;
  }
  RandomKernel run();

private:
  // --- chance
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class List> const auto& one_of(const List& list) {
    return *(std::begin(list) + between(0, static_cast<std::int64_t>(std::size(list)) - 1));
  }
  // std::shuffle would depend on the standard library.
  void shuffle(std::vector<std::int64_t>& list) {
    for (std::size_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(i) - 1))]);
  }
  DType any_dtype() {
    static constexpr DType wide[] = {DType::Bool, DType::I32, DType::I64, DType::U32,
                                     DType::U64,  DType::F32, DType::F64};
    if (options_.narrow && chance(50)) return static_cast<DType>(between(0, dtype_count - 1));
    return one_of(wide);
  }

  // --- the kernel around the steps
  void add_parameters();
  ir::Value* add_view(const char* name, DType t, int rank, bool readonly);
  void add_grid();
  void store_outputs();
  void read_back(); // loads a stored tile again and stores a result of it

  // --- shapes
  void choose_dimensions();
  std::int64_t elements(const ir::Shape& shape) const {
    std::int64_t n = 1;
    for (const ir::Dim& d : shape)
      n *= d.bind(result_.config);
    return n;
  }
  bool fits(const ir::Shape& shape) const {
    return static_cast<int>(shape.size()) <= 4 && elements(shape) <= (options_.large ? 16384 : 2048);
  }
  ir::Shape any_shape() {
    if (chance(25)) return {};
    if (chance(40)) return tile_;
    ir::Shape shape;
    for (std::int64_t rank = between(1, 3); rank > 0; --rank) {
      shape.push_back(one_of(dims_));
      if (!fits(shape)) shape.pop_back();
    }
    return shape;
  }

  // --- values
  ir::Value* add(ir::Value* v) {
    pool_.push_back(v);
    return v;
  }
  template <class F> ir::Value* find(F&& fits) {
    // Recent values are more likely, so that there are long chains of operations.
    std::vector<ir::Value*> found;
    for (ir::Value* v : pool_)
      if (!v->type.pointer && fits(v->type)) found.push_back(v);
    if (found.empty()) return nullptr;
    auto n = static_cast<std::int64_t>(found.size());
    return found[static_cast<std::size_t>(std::max(between(0, n - 1), between(0, n - 1)))];
  }
  ir::Value* any_value() {
    ir::Value* v = find([](const ir::Type&) { return true; });
    if (v) return v;
    DType t = any_dtype();
    return make(ir::Type::tile(t, any_shape()));
  }
  ir::Value* any_tile() {
    ir::Value* v = find([](const ir::Type& t) { return t.is_tile(); });
    return v ? v : make(ir::Type::tile(any_dtype(), tile_));
  }
  ir::Value* constant(DType t);
  ir::Value* index();
  ir::Value* make(const ir::Type& type);      // a new value of that type
  ir::Value* value_of(const ir::Type& type) { // a value from the pool or a new one
    ir::Value* v = chance(75) ? find([&](const ir::Type& t) { return t == type; }) : nullptr;
    return v ? v : add(make(type));
  }
  ir::Value* reshaped(ir::Value* v, const ir::Shape& shape); // by a reshape, or by reductions and a splat

  // --- steps, each of which adds its results to the pool
  void step();
  void unary();
  void binary();
  void ternary();
  void convert();
  void shape();
  ir::Value* input();
  ir::Value* view_of_pointer(ir::Value* view);
  ir::Value* slice(ir::Value* view, ir::Value* begin);
  void load();
  void pointer_load();
  void raw_load();
  void gather();
  void facts();
  void reduce_or_scan();
  void best_of_two();
  void gather_from_tile();
  void sort();
  void histogram();
  void dot();
  void loop();
  void while_loop();
  void branch();
  void atomic();
  void print();
  void store(ir::Value* v, ir::Value* output);
  ir::Value* combine(ir::Value* a, ir::Value* b);
  ir::Opcode reduction_of(DType t);
  ir::Value* without_zero_sign(ir::Value* v);
  ir::Op* reduce(ir::Value* v, std::int64_t axis, bool scan);
  void few_steps() {
    for (std::int64_t n = between(1, 4); n > 0; --n)
      step();
  }
  ir::Value* counting(ir::Value* offset, int axis, const ir::Shape& shape, std::int64_t first = 0);
  std::vector<ir::Value*> offsets_in(ir::Value* view);
  std::vector<std::int64_t> tile_axes(ir::Value* view, const ir::Shape& shape);

  RandomKernelOptions options_;
  std::mt19937_64 random_;
  std::unique_ptr<ir::Kernel> kernel_;
  ir::Builder build_;
  RandomKernel result_;
  std::vector<ir::Dim> dims_;
  ir::Shape tile_; // the shape of the tile of each output
  std::vector<ir::Value*> inputs_, outputs_, offsets_, pool_;
  ir::Value* counts_ = nullptr;
  std::string_view atomic_kind_;
  std::size_t first_output_ = 0; // the index of the first output among the parameters
  int depth_ = 0;
};

} // namespace kiln::test
