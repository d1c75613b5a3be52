// Checks launches against the limits of the device, and passes them to the driver.
#include <kiln/jit/runtime/cuda/launch.h>

#include <kiln/jit/base/options.h>
#include <kiln/jit/runtime/cuda/current.h>
#include <kiln/jit/runtime/cuda/queue.h>

namespace kiln::cuda {

namespace {

constexpr std::int64_t portable_cluster = 8; // blocks of a cluster that every device with clusters supports
constexpr std::int64_t largest_cluster = 16;

std::string text_of(const Size3& s) {
  return std::to_string(s.x) + " x " + std::to_string(s.y) + " x " + std::to_string(s.z);
}

// The product of three sizes, each at most 2^31.
std::int64_t volume(const Size3& s) { return s.x * s.y * s.z; }

// Checks one launch.
class Checker {
public:
  Checker(const Function& function, SourceLocation site)
      : function_(function), device_(function.device()), p_(device_.properties()), site_(site) {}

  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError(site_,
                    "kernel \"" + std::string(function_.name()) + "\" on " + device_.name() + ": " + what);
  }

  void check_block(const Size3& block) const {
    const std::int64_t sizes[] = {block.x, block.y, block.z};
    for (int i = 0; i < 3; ++i)
      if (sizes[i] < 1 || sizes[i] > p_.max_block[i])
        refuse("a block is " + text_of(block) + " threads, and the device takes from 1 to " +
               text_of({p_.max_block[0], p_.max_block[1], p_.max_block[2]}) + "; use fewer warps");
    if (volume(block) > p_.max_threads_per_block)
      refuse("a block has " + std::to_string(volume(block)) + " threads, and the device takes " +
             std::to_string(p_.max_threads_per_block) + "; use fewer warps");
    if (volume(block) > function_.info().max_threads_per_block)
      refuse("a block has " + std::to_string(volume(block)) + " threads, and with its " +
             std::to_string(function_.info().registers) + " registers the kernel runs with " +
             std::to_string(function_.info().max_threads_per_block) +
             " at most; use fewer warps or smaller tiles");
  }

  void check_grid(const Size3& grid) const {
    const std::int64_t sizes[] = {grid.x, grid.y, grid.z};
    for (int i = 0; i < 3; ++i) {
      if (sizes[i] < 0) refuse("the grid is " + text_of(grid) + "; its sizes must not be negative");
      if (sizes[i] > p_.max_grid[i])
        refuse("the grid is " + text_of(grid) + " blocks, and the device takes " +
               text_of({p_.max_grid[0], p_.max_grid[1], p_.max_grid[2]}) +
               " at most; use larger tiles, or launch parts");
    }
  }

  void check_shared(std::int64_t bytes) const {
    std::int64_t fixed = function_.info().static_shared_bytes;
    if (bytes < 0 || bytes > p_.shared_bytes_optin - fixed)
      refuse("a block needs " + std::to_string(bytes) + " bytes of dynamic shared memory" +
             (fixed ? " in addition to " + std::to_string(fixed) + " static ones" : "") +
             ", and the device has " + std::to_string(p_.shared_bytes_optin) +
             " for a block; use smaller tiles or fewer stages");
  }

  void check_cluster(const Size3& cluster, const Size3& grid) const {
    if (!p_.cluster_launch)
      refuse("it is launched in clusters of " + text_of(cluster) + " blocks, which sm_" +
             std::to_string(p_.sm) + " does not have; use a cluster of 1");
    bool sane = cluster.x >= 1 && cluster.y >= 1 && cluster.z >= 1 && cluster.x <= largest_cluster &&
                cluster.y <= largest_cluster && cluster.z <= largest_cluster;
    if (!sane || volume(cluster) > largest_cluster)
      refuse("a cluster is " + text_of(cluster) + " blocks, and it may have from 1 to " +
             std::to_string(largest_cluster) + "; use a smaller one");
    if (grid.x % cluster.x || grid.y % cluster.y || grid.z % cluster.z)
      refuse("the grid is " + text_of(grid) + " blocks, which clusters of " + text_of(cluster) +
             " do not divide; round the grid up, or use a smaller cluster");
    if (!device_.driver().cuLaunchKernelEx)
      refuse("it is launched in clusters, and the NVIDIA driver lacks cuLaunchKernelEx; update the driver");
  }

  void check_cooperative(const Size3& grid, const Size3& block, std::int64_t shared_bytes) const {
    if (!p_.cooperative_launch)
      refuse("it is launched cooperatively, which the device does not support; launch it otherwise");
    std::int64_t resident =
        std::int64_t{p_.multiprocessors} *
        function_.blocks_per_multiprocessor(static_cast<int>(volume(block)), shared_bytes);
    // A grid within the device's limits may still exceed 64 bits as a product.
    std::int64_t blocks = 1;
    bool fits =
        !__builtin_mul_overflow(grid.x, grid.y, &blocks) && !__builtin_mul_overflow(blocks, grid.z, &blocks);
    if (!fits || blocks > resident)
      refuse("it is launched cooperatively with a grid of " + text_of(grid) + " blocks, and " +
             std::to_string(resident) + " run at once on the device; use a smaller grid");
  }

private:
  const Function& function_;
  DeviceState& device_;
  const Properties& p_;
  SourceLocation site_;
};

unsigned narrow(std::int64_t size) { return static_cast<unsigned>(size); } // its range was checked

Result launch_now(const Driver& driver, StreamHandle stream, FunctionHandle function, const Size3& grid,
                  const Size3& block, unsigned shared_bytes, void** arguments,
                  const LaunchAttributes& attributes) {
  if (driver.cuLaunchKernelEx) {
    LaunchAttribute list[2] = {};
    LaunchConfig config{{narrow(grid.x), narrow(grid.y), narrow(grid.z)},
                        {narrow(block.x), narrow(block.y), narrow(block.z)},
                        shared_bytes,
                        stream,
                        list,
                        0};
    if (volume(attributes.cluster) != 1) {
      LaunchAttribute& a = list[config.attribute_count++];
      a.id = launch_attribute_cluster;
      a.value.cluster[0] = narrow(attributes.cluster.x);
      a.value.cluster[1] = narrow(attributes.cluster.y);
      a.value.cluster[2] = narrow(attributes.cluster.z);
    }
    if (attributes.cooperative) {
      LaunchAttribute& a = list[config.attribute_count++];
      a.id = launch_attribute_cooperative;
      a.value.cooperative = 1;
    }
    if (config.attribute_count == 0) config.attributes = nullptr;
    return driver.cuLaunchKernelEx(&config, function, arguments, nullptr);
  }
  if (attributes.cooperative)
    return driver.cuLaunchCooperativeKernel(function, narrow(grid.x), narrow(grid.y), narrow(grid.z),
                                            narrow(block.x), narrow(block.y), narrow(block.z), shared_bytes,
                                            stream, arguments);
  return driver.cuLaunchKernel(function, narrow(grid.x), narrow(grid.y), narrow(grid.z), narrow(block.x),
                               narrow(block.y), narrow(block.z), shared_bytes, stream, arguments, nullptr);
}

} // namespace

void launch(Stream& stream, const Function& function, Size3 grid, Size3 block, std::int64_t shared_bytes,
            void** arguments, const LaunchAttributes& attributes, SourceLocation site) {
  Queue& queue = queue_of(stream);
  DeviceState& device = queue.device();
  Checker checker(function, site);
  if (&device != &function.device())
    checker.refuse("it is launched on a stream of " + device.name() +
                   "; load it there, or use a stream of its own device");
  checker.check_block(block);
  checker.check_grid(grid);
  checker.check_shared(shared_bytes);
  bool clustered = attributes.cluster.x != 1 || attributes.cluster.y != 1 || attributes.cluster.z != 1;
  if (clustered) checker.check_cluster(attributes.cluster, grid);

  Current current(device);
  queue.check_commands();
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  function.allow_shared(shared_bytes);
  if (clustered && volume(attributes.cluster) > portable_cluster) function.allow_large_clusters();
  if (attributes.cooperative) checker.check_cooperative(grid, block, shared_bytes);

  // Recorded before the driver's call, because a launch reports errors of earlier kernels, and because
  // another thread may report the error of this one.
  queue.history().add({function.name(), site});
  device.history().add({function.name(), site});
  Result result = launch_now(device.driver(), queue.handle(), function.handle(), grid, block,
                             static_cast<unsigned>(shared_bytes), arguments, attributes);
  if (result == Result::LaunchOutOfResources)
    checker.refuse("the device has too few registers or too little memory for a block of " +
                   std::to_string(volume(block)) + " threads and " + std::to_string(shared_bytes) +
                   " bytes of shared memory; use fewer warps or smaller tiles");
  if (result != Result::Success)
    device.check(result, "the launch of kernel " + std::string(function.name()), &queue.history());
  if (options().debug && !queue.capturing()) queue.synchronize();
}

} // namespace kiln::cuda
