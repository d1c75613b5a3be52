// Implements the reduction of gradients in buckets.
#include <kiln/collectives/data_parallel.h>

#include <kiln/collectives/arrays.h>
#include <kiln/collectives/gather_numbers.h>
#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/copy.h>

#include <algorithm>
#include <map>
#include <utility>

namespace kiln::collectives {
namespace {

using ops::Array, ops::Input, ops::Output;

std::int64_t bytes_of(const Output& gradient) {
  return gradient.array().size() * size_of(gradient.array().dtype);
}
char* data_of(const Output& gradient) { return static_cast<char*>(gradient.array().data); }

[[noreturn]] void refuse(const std::string& what) { throw UserError("GradientReducer: " + what); }
std::string gradient(std::size_t i) { return "gradient " + std::to_string(i); }

void check(const std::vector<Output>& gradients, const GradientReducerOptions& options) {
  if (options.bucket_bytes <= 0 || options.first_bucket_bytes <= 0)
    refuse("bucket_bytes and first_bucket_bytes are not both positive; pass numbers of bytes");
  if (options.reduction != Reduction::mean && options.reduction != Reduction::sum)
    refuse(std::string("gradients have no ") + name_of(options.reduction) + "; pass the mean or the sum");
  std::vector<std::size_t> by_address;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Array& a = gradients[i].array();
    if (!gradients[i].given()) refuse(gradient(i) + " is not given; pass a tensor");
    if (!is_float(a.dtype))
      refuse(gradient(i) + " is of " + std::string(kiln::name(a.dtype)) +
             "; gradients are tensors of floats");
    if (!kiln::detail::is_contiguous(a.rank, a.extents, a.strides))
      refuse(gradient(i) + " is not contiguous; pass a contiguous tensor");
    if (a.size() > 0) by_address.push_back(i);
  }
  std::sort(by_address.begin(), by_address.end(),
            [&](std::size_t a, std::size_t b) { return data_of(gradients[a]) < data_of(gradients[b]); });
  for (std::size_t n = 1; n < by_address.size(); ++n) {
    const std::size_t a = by_address[n - 1], b = by_address[n];
    if (data_of(gradients[a]) + bytes_of(gradients[a]) > data_of(gradients[b]))
      refuse("gradients " + std::to_string(std::min(a, b)) + " and " + std::to_string(std::max(a, b)) +
             " overlap; if two layers share a gradient, pass it once");
  }
}

} // namespace

GradientReducer::GradientReducer(Communicator& comm, std::vector<Output> gradients,
                                 const GradientReducerOptions& options)
    : comm_(comm), gradients_(std::move(gradients)), reduction_(options.reduction), order_(options.order),
      tag_(options.tag), bucket_of_(gradients_.size()), place_of_(gradients_.size()),
      ready_(gradients_.size()) {
  check(gradients_, options);
  if (comm.size() > 1) compare_ranks(options);
  divide(options);
}

void GradientReducer::compare_ranks(const GradientReducerOptions& options) {
  const auto ranks = static_cast<std::size_t>(comm_.size());
  const std::int64_t own[] = {static_cast<std::int64_t>(gradients_.size()), options.bucket_bytes,
                              options.first_bucket_bytes, static_cast<std::int64_t>(options.reduction),
                              static_cast<std::int64_t>(options.order)};
  const char* const names[] = {"the number of gradients", "bucket_bytes", "first_bucket_bytes",
                               "the reduction", "the order"};
  std::vector<std::int64_t> all(std::size(own) * ranks);
  const CollectiveOptions named{.tag = tag_};
  gather_numbers(comm_, "gradient_reducer", named, own, all.data(), sizeof own);
  for (std::size_t r = 1; r < ranks; ++r)
    for (std::size_t i = 0; i < std::size(own); ++i)
      if (const std::int64_t other = all[std::size(own) * r + i]; other != all[i])
        refuse(std::string(names[i]) + " differs between ranks: " + std::to_string(all[i]) +
               " on rank 0 and " + std::to_string(other) + " on rank " + std::to_string(r));
  if (gradients_.empty()) return;
  std::vector<std::int64_t> sizes; // and dtypes
  for (const Output& g : gradients_)
    sizes.push_back(g.array().size()), sizes.push_back(static_cast<std::int64_t>(g.array().dtype));
  all.resize(sizes.size() * ranks);
  gather_numbers(comm_, "gradient_reducer", named, sizes.data(), all.data(),
                 static_cast<std::int64_t>(sizes.size() * sizeof(std::int64_t)));
  const auto text = [&](std::size_t rank, std::size_t i) {
    const std::int64_t* of = &all[sizes.size() * rank + 2 * i];
    return std::to_string(of[0]) + " elements of " + std::string(kiln::name(static_cast<DType>(of[1]))) +
           " on rank " + std::to_string(rank);
  };
  for (std::size_t r = 1; r < ranks; ++r)
    for (std::size_t i = 0; i < gradients_.size(); ++i)
      if (!std::equal(&all[2 * i], &all[2 * i] + 2, &all[sizes.size() * r + 2 * i]))
        refuse(gradient(i) + " differs between ranks: " + text(0, i) + " and " + text(r, i));
}

void GradientReducer::divide(const GradientReducerOptions& options) {
  std::map<DType, Bucket> open;
  const auto close = [&](DType dtype) {
    buckets_.push_back(std::move(open[dtype]));
    open.erase(dtype);
  };
  for (std::size_t i = gradients_.size(); i-- > 0;) {
    const DType dtype = gradients_[i].array().dtype;
    const std::int64_t bytes = bytes_of(gradients_[i]),
                       limit = buckets_.empty() ? options.first_bucket_bytes : options.bucket_bytes;
    if (open[dtype].bytes > 0 && open[dtype].bytes + bytes > limit) close(dtype);
    Bucket& bucket = open[dtype];
    bucket.dtype = dtype;
    bucket.bytes += bytes;
    bucket.gradients.insert(bucket.gradients.begin(), i);
  }
  while (!open.empty())
    close(open.begin()->first);
  // The bucket that is complete first, if gradients are ready from the last to the first, starts first.
  std::sort(buckets_.begin(), buckets_.end(),
            [](const Bucket& a, const Bucket& b) { return a.gradients.front() > b.gradients.front(); });

  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    Memory memory;
    memory.missing = bucket.gradients.size();
    bucket.in_place = true;
    std::int64_t place = 0;
    for (std::size_t i : bucket.gradients) {
      bucket_of_[i] = b, place_of_[i] = place;
      place += bytes_of(gradients_[i]);
      if (bytes_of(gradients_[i]) == 0) continue;
      if (!memory.data) memory.data = data_of(gradients_[i]);
      bucket.in_place = bucket.in_place && data_of(gradients_[i]) == memory.data + place_of_[i];
    }
    bucket.in_place = bucket.in_place || comm_.size() == 1; // where nothing is reduced
    if (!bucket.in_place) {
      memory.buffer = Buffer(comm_.device(), bucket.bytes);
      memory.data = static_cast<char*>(memory.buffer.data());
    }
    memories_.push_back(std::move(memory));
  }
}

void GradientReducer::ready(At stream, std::size_t i) {
  if (i >= gradients_.size())
    throw UserError(stream.site, "GradientReducer::ready: there is no " + gradient(i) + "; there are " +
                                     std::to_string(gradients_.size()));
  if (ready_[i])
    throw UserError(stream.site, "GradientReducer::ready: " + gradient(i) +
                                     " is ready for the second time; call finish before the next step");
  Memory& memory = memories_[bucket_of_[i]];
  const std::int64_t bytes = bytes_of(gradients_[i]);
  if (!buckets_[bucket_of_[i]].in_place && bytes > 0)
    copy(stream.stream, memory.data + place_of_[i], data_of(gradients_[i]), bytes);
  ready_[i] = true;
  --memory.missing;
  start_complete(stream);
}

void GradientReducer::start_complete(At stream) {
  for (; started_ < buckets_.size() && memories_[started_].missing == 0; ++started_) {
    const Bucket& bucket = buckets_[started_];
    if (comm_.size() == 1 || bucket.bytes == 0) continue;
    Memory& memory = memories_[started_];
    const Array flat = contiguous_array(memory.data, bucket.dtype, {bucket.bytes / size_of(bucket.dtype)});
    memory.work = comm_.async_all_reduce(
        stream, Input(flat), Output(flat),
        {.reduction = reduction_, .order = order_, .tag = tag_ + "." + std::to_string(started_)});
  }
}

void GradientReducer::finish(At stream) {
  const auto missing = std::find(ready_.begin(), ready_.end(), false);
  if (missing != ready_.end())
    throw UserError(
        stream.site,
        "GradientReducer::finish: " + gradient(static_cast<std::size_t>(missing - ready_.begin())) +
            (std::count(missing, ready_.end(), false) > 1
                 ? " and " + std::to_string(std::count(missing, ready_.end(), false) - 1) +
                       " more were not ready in this step"
                 : " was not ready in this step") +
            "; call ready for every gradient, and fill unused ones with zeros");
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    memories_[b].work.wait();
    memories_[b].missing = buckets_[b].gradients.size();
    if (buckets_[b].in_place) continue;
    for (std::size_t i : buckets_[b].gradients)
      if (const std::int64_t bytes = bytes_of(gradients_[i]); bytes > 0)
        copy(stream.stream, data_of(gradients_[i]), memories_[b].data + place_of_[i], bytes);
  }
  ready_.assign(ready_.size(), false);
  started_ = 0;
}

} // namespace kiln::collectives
