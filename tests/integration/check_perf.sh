#!/bin/bash
# Checks that perf shows the names of kernels if KILN_PERF=1 is set:
#   check_perf.sh UNIT_TESTS WORK_DIR
# Exit code 77: perf is not installed or cannot record here.
set -u
unit_tests=$1 work=$2
mkdir -p "$work" && cd "$work" || exit 1
command -v perf >/dev/null || { echo "skipped: perf is not installed"; exit 77; }
perf record -o probe.data /bin/true >/dev/null 2>&1 || { echo "skipped: perf cannot record here"; exit 77; }

# The shell replaces itself by the program, so that pid holds the program's process id, which names its map file.
KILN_PERF=1 perf record -o kernel.data sh -c 'echo $$ >pid; exec "$0" "[.profiler]"' "$unit_tests" >record.log 2>&1 ||
  { cat record.log; echo "the program failed under perf"; exit 1; }
report=$(perf report -i kernel.data --stdio 2>/dev/null)
rm -f "/tmp/perf-$(cat pid).map"
grep -q 'kiln::busy_for_profilers' <<<"$report" && { echo "perf names kernels"; exit 0; }
[ "$(grep -cE '^ +[0-9.]+%' <<<"$report")" -gt 0 ] || { echo "skipped: perf took no samples here"; exit 77; }
echo "perf does not name the kernel:"
grep -E '^ +[0-9.]+%' <<<"$report" | head
exit 1
