// Finds measured plans in the tuner's database, and stores them there, so that later processes plan without
// measuring.
#pragma once

#include <kiln/autotune/mode.h>
#include <kiln/autotune/records/database.h>
#include <kiln/collectives/plan.h>

#include <string>

namespace kiln::collectives {

// The mode of plans: KILN_TUNE, or `tune` if it is unset or empty.
tune::Mode default_plan_mode();

// The key of a product's plan. It has the shape and the schedules that are possible for it, and what their
// times depend on: the device, the engine, the number of ranks and of CPUs, and the emulated link.
tune::RecordKey plan_key(const Communicator& comm, const ProductShape& shape);

// Plans a product as the mode says (plan.h). All ranks call it. Rank 0 looks into the database, and the
// others get what it found, so that all ranks have the same plan; it also decides whether to measure.
Plan plan_by_mode(Communicator& comm, const ProductShape& shape, const Trial& trial, tune::Mode mode,
                  tune::Database& database = tune::Database::standard());

} // namespace kiln::collectives
