// Draws the parameters, the grid and the operations of a random kernel, with a pool of the values that are
// visible.
#include <dsl/random_kernel_generator.h>

#include <kiln/dsl/symbol.h>

#include <string>

namespace kiln::test {

using namespace kiln::ir;

void KernelGenerator::choose_dimensions() {
  static constexpr std::int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 32};
  static constexpr std::int64_t large_sizes[] = {1, 8, 33, 64, 65, 100, 128, 200, 256};
  for (const char* name : {"BM", "BN", "BK"}) {
    result_.config.set(name, options_.large ? one_of(large_sizes) : one_of(sizes));
    dims_.push_back(Dim::symbol(intern(name)));
  }
  dims_.push_back(Dim(one_of(sizes)));
  dims_.push_back(Dim(1));
  dims_.push_back(dims_[0] * 2);
}

void KernelGenerator::print() {
  Op* op = nullptr;
  if (chance(50))
    op = build_.create(Opcode::DevicePrint, {any_value(), any_value()}, {});
  else
    op = build_.create(Opcode::DeviceAssert, {value_of(Type::tile(DType::Bool, any_shape()))}, {});
  if (chance(70)) op->set("message", "seen \"" + std::to_string(between(0, 99)) + "\"\n");
}

void KernelGenerator::step() {
  struct Choice {
    int weight;
    void (KernelGenerator::*draw)();
  };
  bool nest = options_.control && depth_ < 2;
  const Choice choices[] = {
      {14, &KernelGenerator::unary},
      {26, &KernelGenerator::binary},
      {8, &KernelGenerator::ternary},
      {8, &KernelGenerator::convert},
      {14, &KernelGenerator::shape},
      {10, &KernelGenerator::load},
      {3, &KernelGenerator::pointer_load},
      {2, &KernelGenerator::raw_load},
      {3, &KernelGenerator::gather},
      {2, &KernelGenerator::facts},
      {8, &KernelGenerator::reduce_or_scan},
      {2, &KernelGenerator::best_of_two},
      {3, &KernelGenerator::gather_from_tile},
      {2, &KernelGenerator::sort},
      {1, &KernelGenerator::histogram},
      {options_.dots ? 5 : 0, &KernelGenerator::dot},
      {nest ? 4 : 0, &KernelGenerator::loop},
      {nest ? 2 : 0, &KernelGenerator::while_loop},
      {nest ? 4 : 0, &KernelGenerator::branch},
      {options_.atomics ? 2 : 0, &KernelGenerator::atomic},
      {options_.prints ? 3 : 0, &KernelGenerator::print},
  };
  int total = 0;
  for (const Choice& c : choices)
    total += c.weight;
  std::int64_t at = between(0, total - 1);
  ++depth_;
  for (const Choice& c : choices) {
    at -= c.weight;
    if (at >= 0) continue;
    (this->*c.draw)();
    break;
  }
  --depth_;
}

Value* KernelGenerator::add_view(const char* name, DType t, int rank, bool readonly) {
  Value* view = kernel_->body.add_arg(Type::view(t, rank, readonly), intern(name));
  const std::int64_t most = rank == 1 ? 60 : rank == 2 ? 24 : 9;
  std::vector<std::int64_t> extents;
  for (int i = 0; i < rank; ++i)
    extents.push_back(between(1, (options_.large ? 8 : 1) * most));
  result_.extents.push_back(extents);
  result_.written.push_back(!readonly);
  return view;
}

void KernelGenerator::add_parameters() {
  static constexpr const char* input_names[] = {"a", "b", "c"};
  for (std::int64_t i = 0, n = between(1, 3); i < n; ++i) {
    DType t = any_dtype();
    inputs_.push_back(add_view(input_names[i], t, static_cast<int>(between(1, 3)), true));
  }
  for (const char* name : {"s", "t"}) {
    if (chance(30)) continue;
    add(kernel_->body.add_arg(Type::scalar(any_dtype()), intern(name)));
    result_.extents.emplace_back();
    result_.written.push_back(false);
  }
  // All outputs have the same extents, so that a tile inside of the first one is inside of all of them, and
  // the tiles of different programs are disjoint.
  static constexpr const char* output_names[] = {"out", "out2"};
  first_output_ = kernel_->body.args.size();
  for (std::int64_t i = 0, n = between(1, 2); i < n; ++i) {
    outputs_.push_back(add_view(output_names[i], any_dtype(), static_cast<int>(tile_.size()), false));
    result_.extents.back() = result_.extents[first_output_];
  }
  if (options_.atomics) {
    static constexpr DType dtypes[] = {DType::I32, DType::U32, DType::I64, DType::U64};
    static constexpr std::string_view kinds[] = {"add", "min", "max", "and", "or", "xor"};
    counts_ = add_view("counts", one_of(dtypes), 1, false);
    atomic_kind_ = one_of(kinds);
  }
}

void KernelGenerator::add_grid() {
  std::vector<Type> offset_types(tile_.size(), Type::scalar(DType::I64));
  Op* tile = build_.create(Opcode::ProgramTile, {outputs_[0]}, offset_types);
  tile->set("dims", tile_);
  for (std::size_t i = 0; i < tile_.size(); ++i) {
    kernel_->grid.push_back({static_cast<int>(first_output_), static_cast<int>(i), tile_[i]});
    offsets_.push_back(add(tile->result(static_cast<int>(i))));
  }
}

// Stores sums of several values, because passes remove values that do not reach memory.
void KernelGenerator::store_outputs() {
  for (Value* output : outputs_) {
    Value* sum = nullptr;
    for (int i = 0; i < 4; ++i) {
      Value* v = build_.cast(reshaped(any_value(), tile_), output->type.dtype);
      sum = sum ? combine(sum, v) : v;
    }
    store(sum, output);
  }
}

void KernelGenerator::read_back() {
  Value* output = one_of(outputs_);
  std::vector<Value*> operands = {output};
  operands.insert(operands.end(), offsets_.begin(), offsets_.end());
  Op* again = build_.create(Opcode::ViewLoad, operands, {Type::tile(output->type.dtype, tile_)});
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < tile_.size(); ++i)
    axes.push_back(static_cast<std::int64_t>(i));
  again->set("axes", axes);
  add(again->result());
  few_steps();
  Value* sum = combine(again->result(), value_of(again->result()->type));
  store(sum, one_of(outputs_));
}

RandomKernel KernelGenerator::run() {
  choose_dimensions();
  auto rank = between(1, 3);
  while (static_cast<std::int64_t>(tile_.size()) < rank) {
    tile_.push_back(one_of(dims_));
    if (!fits(tile_)) tile_.back() = Dim(1);
  }
  add_parameters();
  add_grid();
  if (options_.prints) {
    Op* op = build_.create(Opcode::Expects, {build_.constant(DType::Bool, std::int64_t{1})}, {});
    op->set("message", std::string("always"));
  }
  for (int i = 0; i < options_.steps; ++i)
    step();
  store_outputs();
  if (chance(40)) read_back();
  Config used; // the dimensions that the kernel uses, since a config must not have others
  for (const char* name : kernel_->dimensions())
    used.set(name, *result_.config.get(name));
  result_.config = used;
  result_.kernel = std::move(kernel_);
  return std::move(result_);
}

RandomKernel random_kernel(std::uint64_t seed, const RandomKernelOptions& options) {
  return KernelGenerator(seed, options).run();
}

} // namespace kiln::test
