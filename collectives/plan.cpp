// Implements the choice of schedules.
#include <kiln/collectives/plan.h>

#include <kiln/collectives/gather_numbers.h>
#include <kiln/collectives/product_configs.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>
#include <map>
#include <numeric>

namespace kiln::collectives {
namespace {

constexpr double least_gain = 0.02;      // of a measured schedule over the serial one
constexpr std::size_t most_measured = 3; // schedules besides the serial one
constexpr int rounds = 5, most_lost = 1; // rounds in which it may be slower

std::string milliseconds(Nanoseconds t) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f ms", static_cast<double>(t) / 1e6);
  return text;
}

std::string date(std::int64_t milliseconds) {
  const std::time_t time = static_cast<std::time_t>(milliseconds / 1000);
  std::tm parts;
  char text[64];
  const bool known =
      gmtime_r(&time, &parts) && std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts) != 0;
  return known ? text : "an unknown date";
}

Plan forecast_all(const ProductShape& shape, const LinkModel& link,
                  const std::function<StepCost(const Schedule&)>& cost) {
  Plan plan;
  plan.shape = shape;
  for (const Candidate& candidate : candidates_of(shape)) {
    const Schedule schedule = schedule_of(shape, candidate);
    const Forecast f = forecast(schedule, link, cost(schedule));
    if (plan.options.empty()) {
      plan.computation = f.computation;
      plan.communication = forecast(schedule, link, [](const Step&) -> Nanoseconds { return 0; }).makespan;
    }
    plan.options.push_back({candidate, f.makespan});
  }
  return plan;
}

std::size_t best_forecast(const Plan& plan) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < plan.options.size(); ++i)
    if (plan.options[i].forecast < plan.options[best].forecast) best = i;
  return best;
}

Nanoseconds median(std::vector<Nanoseconds> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// The longest time of a rank, of the same thing on all ranks, which begin together.
template <class F> Nanoseconds slowest(Communicator& comm, const F& body) {
  comm.barrier({.tag = "plan"});
  const Nanoseconds began = comm.now();
  body();
  const Nanoseconds own = comm.now() - began;
  std::vector<Nanoseconds> all(static_cast<std::size_t>(comm.size()));
  gather_numbers(comm, "plan", {}, &own, all.data(), sizeof own);
  return *std::max_element(all.begin(), all.end());
}

// Replaces a rank's numbers by those of rank 0.
void take_from_rank_0(Communicator& comm, std::vector<Nanoseconds>& numbers) {
  std::vector<Nanoseconds> all(numbers.size() * static_cast<std::size_t>(comm.size()));
  gather_numbers(comm, "plan", {}, numbers.data(), all.data(),
                 static_cast<std::int64_t>(numbers.size() * sizeof(Nanoseconds)));
  std::copy_n(all.begin(), numbers.size(), numbers.begin());
}

// The time of a product by its number of rows, between the measured ones on a straight line.
class MeasuredProducts {
public:
  MeasuredProducts(Communicator& comm, const ProductShape& shape, const Trial& trial) {
    std::int64_t largest = 1;
    for (int r = 0; r < shape.shards.ranks(); ++r)
      largest = std::max(largest, shape.shards.rows(r).count());
    std::vector<std::int64_t> sizes{std::max<std::int64_t>(shape.shards.rows(), 1)};
    for (std::int64_t rows = largest; rows > largest / 16 && rows > 0; rows /= 2)
      sizes.push_back(rows);
    times_[0] = 0;
    prepare_products(comm, sizes, trial.compute);
    for (std::int64_t rows : sizes) {
      std::vector<Nanoseconds> times;
      for (int i = 0; i < 3; ++i)
        times.push_back(slowest(comm, [&] { trial.compute(rows); }));
      times_[rows] = median(times);
    }
    // Fewer rows than measured take at least as long as half of the least.
    times_[0] = std::next(times_.begin())->second / 2;
  }
  Nanoseconds of(std::int64_t rows) const {
    if (rows == 0) return 0;
    const auto above = times_.lower_bound(rows);
    if (above == times_.end()) return times_.rbegin()->second * rows / times_.rbegin()->first;
    if (above->first == rows) return above->second;
    const auto below = std::prev(above);
    return below->second +
           (above->second - below->second) * (rows - below->first) / (above->first - below->first);
  }

private:
  std::map<std::int64_t, Nanoseconds> times_;
};

} // namespace

void Plan::choose(std::size_t option) {
  chosen = option;
  schedule = shared_schedule_of(shape, choice().candidate);
  const Nanoseconds most = std::min(computation, communication);
  // Of the measured times, if there are any. A schedule that sends less, or in fewer steps, may save more
  // than the whole.
  const bool measured = choice().measured >= 0 && options[0].measured >= 0;
  const Nanoseconds saved =
      measured ? options[0].measured - choice().measured : options[0].forecast - choice().forecast;
  hidden = most > 0 ? std::min(1.0, static_cast<double>(saved) / static_cast<double>(most)) : 0;
}

std::string Plan::origin_text() const {
  switch (origin) {
  case Origin::forecast: return "forecast";
  case Origin::measured: return "measured now";
  case Origin::stored: return "stored on " + date(measured_at);
  case Origin::options: return "given";
  }
  return "";
}

std::string Plan::explain() const {
  std::string text = shape.text() + ": " + choice().candidate.text() + " (" + origin_text() + ")\n";
  text += "  computation " + milliseconds(computation) + ", communication " + milliseconds(communication);
  char share[48];
  std::snprintf(share, sizeof share, ", %.0f %% of the shorter one hidden\n", 100 * hidden);
  text += share;
  if (shape.shards.ranks() == 1)
    text += "  with one rank there is nothing to send\n";
  else if (!overlaps())
    text += options[0].measured >= 0
                ? "  no schedule was measured to be reliably faster than the serial one\n"
                : "  no schedule is forecast to be faster than the serial one\n";
  for (std::size_t i = 0; i < options.size(); ++i) {
    const Option& o = options[i];
    text += std::string(i == chosen ? "* " : "  ") + o.candidate.text();
    text.append(o.candidate.text().size() < 30 ? 30 - o.candidate.text().size() : 1, ' ');
    text += "forecast " + milliseconds(o.forecast);
    if (o.measured >= 0) text += ", measured " + milliseconds(o.measured);
    text += "\n";
  }
  for (const Product& p : products)
    text += "  products of " + std::to_string(p.rows) + " rows: " + p.config.to_string() +
            (p.tuned ? " (tuned)\n" : "\n");
  return text;
}

Plan plan_by_forecast(const ProductShape& shape, const LinkModel& link, const ComputeModel& machine) {
  Plan plan = forecast_all(shape, link, [&](const Schedule& s) { return cost_of(shape, machine, s); });
  plan.choose(best_forecast(plan));
  return plan;
}

Plan plan_by_measurement(Communicator& comm, const ProductShape& shape, const Trial& trial) {
  LinkModel link = comm.engine().link;
  if (comm.size() == 1) {
    Plan plan = forecast_all(shape, link,
                             [](const Schedule&) { return [](const Step&) -> Nanoseconds { return 0; }; });
    plan.choose(0);
    return plan;
  }
  const MeasuredProducts products(comm, shape, trial);
  const auto serial = shared_schedule_of(shape, {});
  if (link.bytes_per_second <= 0) {
    // What the serial schedule takes besides its product, which is measured as a whole above, is the time of
    // its transfers.
    trial.run(serial);
    const Nanoseconds all = slowest(comm, [&] { trial.run(serial); });
    std::int64_t bytes = 0;
    for (const Step& s : serial->steps)
      bytes += s.kind == Step::Kind::put && s.to == 0 ? s.bytes : 0;
    const Nanoseconds sending = std::max<Nanoseconds>(all - products.of(shape.shards.rows()), 1000);
    link.bytes_per_second = static_cast<double>(bytes) / static_cast<double>(sending) * 1e9;
  }
  // Rank 0 forecasts, and the others take its numbers, so that ranks cannot disagree about what is measured.
  Plan plan;
  if (comm.rank() == 0) {
    plan = forecast_all(shape, link, [&](const Schedule& s) -> StepCost {
      return [&products, rows_of = Schedule{s.name, s.exchange, s.shards}](const Step& step) {
        return step.piece.kind == Piece::Kind::sum ? 0 : products.of(rows_of.rows(step).count());
      };
    });
  } else {
    plan.shape = shape;
    for (const Candidate& candidate : candidates_of(shape))
      plan.options.push_back({candidate});
  }
  std::vector<Nanoseconds> numbers{plan.computation, plan.communication};
  for (const Plan::Option& o : plan.options)
    numbers.push_back(o.forecast);
  take_from_rank_0(comm, numbers);
  plan.computation = numbers[0], plan.communication = numbers[1];
  for (std::size_t i = 0; i < plan.options.size(); ++i)
    plan.options[i].forecast = numbers[i + 2];
  std::vector<std::size_t> order;
  for (std::size_t i = 1; i < plan.options.size(); ++i)
    order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return plan.options[a].forecast < plan.options[b].forecast;
  });
  std::vector<std::size_t> measured{0};
  for (std::size_t i : order)
    if (measured.size() <= most_measured) measured.push_back(i);
  std::vector<std::shared_ptr<const PreparedSchedule>> schedules;
  for (std::size_t i : measured)
    schedules.push_back(shared_schedule_of(shape, plan.options[i].candidate));
  for (const auto& schedule : schedules)
    prepare_products(comm, rows_of_products(*schedule), trial.compute);
  std::vector<std::vector<Nanoseconds>> times(measured.size());
  for (int round = 0; round <= rounds; ++round)
    for (std::size_t i = 0; i < measured.size(); ++i) {
      const Nanoseconds t = slowest(comm, [&] { trial.run(schedules[i]); });
      if (round > 0) times[i].push_back(t); // the first round compiles
    }
  std::size_t best = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    plan.options[measured[i]].measured = median(times[i]);
    if (plan.options[measured[i]].measured < plan.options[measured[best]].measured) best = i;
  }
  const double serial_time = static_cast<double>(plan.options[0].measured);
  const int lost =
      std::inner_product(times[best].begin(), times[best].end(), times[0].begin(), 0, std::plus<>(),
                         [](Nanoseconds a, Nanoseconds b) { return a > b ? 1 : 0; });
  if (static_cast<double>(plan.options[measured[best]].measured) > (1 - least_gain) * serial_time ||
      lost > most_lost)
    best = 0;
  plan.choose(measured[best]); // all ranks have the same times
  plan.origin = Plan::Origin::measured;
  plan.measured_at = std::chrono::duration_cast<std::chrono::milliseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
  return plan;
}

} // namespace kiln::collectives
