// Publishes configs as a tuning run would, for tests of calls that look them up.
#pragma once

#include <kiln/autotune/records/database.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/autotune/run/task.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>

namespace kiln::test {

// Publishes a config as the best one of a kernel for f32 on the CPU. `shape` is as typed: "M=40,N=300".
inline void publish_best(const char* kernel, const std::string& shape, const std::string& config) {
  const tune::Task task = tune::make_task(*tune::find_tunable(kernel), "f32", shape, Device::cpu());
  tune::Record record;
  record.key = std::make_shared<const tune::RecordKey>(
      tune::make_key(*task.canonical(), task.space, task.recorded_problem(), task.device));
  record.config = config;
  record.result.seconds = 1e-6;
  CHECK(tune::Database::standard().publish(record));
}

} // namespace kiln::test
