#!/bin/bash
# Checks that gdb can stop in a kernel by its name and by its source line, and that it shows both:
#   check_gdb.sh UNIT_TESTS
# Exit code 77: gdb is not installed or cannot run programs here.
set -u
unit_tests=$1
command -v gdb >/dev/null || { echo "skipped: gdb is not installed"; exit 77; }
gdb -nx -batch -ex run /bin/true 2>&1 | grep -q 'exited normally' || { echo "skipped: gdb cannot run programs here"; exit 77; }

in_gdb() { # in_gdb PLACE: stops there and shows the stack
  timeout 120 gdb -nx -batch -ex 'set breakpoint pending on' -ex "break $1" -ex run -ex backtrace --args "$unit_tests" '[.debugger]' 2>&1
}
failures=0
for place in scale_for_debuggers debug_me.kir:8; do
  out=$(in_gdb $place)
  if ! grep -qE '^#0 .*scale_for_debuggers .*debug_me[.]kir:[0-9]+' <<<"$out" || ! grep -qE '^#[1-9]' <<<"$out"; then
    echo "break $place: gdb does not show the kernel:"
    tail -n 20 <<<"$out"
    failures=1
  fi
done
[ $failures = 0 ] && echo "gdb stops in kernels"
exit $failures
