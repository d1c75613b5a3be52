// Tests with random kernels that wrong configs are rejected and right ones accepted, in this process.
#include "verdict_kernels.h"

#include <kiln/autotune/measure/trial_runner.h>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::tune;

namespace {

LoadedCandidate loaded(const VerdictCase& c, const Config& config, bool wrong, const Situation& situation) {
  return load_candidate({{"ir", c.ir(config, wrong)}, {"config", config.to_string()}}, situation);
}

} // namespace

TEST_CASE("planted faults are rejected and right configs accepted, for kernels of many kinds") {
  const auto seed = fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  int rejected = 0, accepted = 0;
  for (int round = 0; round < 3; ++round)
    for (const VerdictCase& c : verdict_cases(random)) {
      Situation situation;
      situation.arguments = c.arguments;
      situation.seed = random.bits();
      situation.outputs = c.outputs;
      INFO(c.name << " with {" << c.seed.to_string() << "} and {" << c.other.to_string() << "}");
      const LoadedCandidate reference = loaded(c, c.seed, false, situation),
                            right = loaded(c, c.other, false, situation),
                            wrong = loaded(c, c.other, true, situation);
      const Inputs inputs(situation, reference.kernel->recorded());
      Stream stream;
      Checker checker(situation, inputs, reference, stream);
      checker.run_reference();
      const std::string problem = checker.incomparable();
      INFO(problem);
      CHECK(problem.empty());
      const Checker::Checked good = checker.check(right), bad = checker.check(wrong);
      INFO("right: " << good.verdict.error << "; wrong: " << bad.verdict.error);
      CHECK(good.verdict.kind == Verdict::Kind::right);
      CHECK(bad.verdict.kind != Verdict::Kind::right);
      accepted += good.verdict.kind == Verdict::Kind::right;
      rejected += bad.verdict.kind != Verdict::Kind::right;
      for (const OutputComparison& output : good.outputs)
        CHECK(output.compared > 0);
    }
  CHECK(accepted >= 100);
  CHECK(rejected >= 100);
}

TEST_CASE("the seeds' results equal the interpreter's within their bounds, for kernels of many kinds") {
  const auto seed = fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  for (const VerdictCase& c : verdict_cases(random)) {
    Situation situation;
    situation.arguments = c.arguments;
    situation.seed = random.bits();
    INFO(c.name << " with {" << c.seed.to_string() << "}");
    std::string error;
    try {
      interpret_check(loaded(c, c.seed, false, situation), situation, 0.2);
    } catch (const UserError& e) {
      error = e.what();
    }
    CHECK(error == "");
  }
}
