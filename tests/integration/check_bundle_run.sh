#!/bin/bash
# Checks how the bundle's runner starts, limits and stops steps, and what it reports, with scripts in place of the programs.
#   check_bundle_run.sh SOURCE_DIR WORK_DIR
set -u
source=$(realpath "$1") work=$(realpath -m "$2")
fail() { echo "check_bundle_run: $1"; exit 1; }
chmod -R u+w "$work" 2>/dev/null # a run that was stopped may have left a read-only bundle
rm -rf "$work" && mkdir -p "$work/a folder"/{bin,share,cache,lib/fallback} "$work"/{here,tools,tmp} && cd "$work/here" || exit 1
bundle="$work/a folder"
run=$bundle/run results=$bundle/results
install -m 755 "$source/tests/bundle/run" "$run"
install -m 755 "$source/tests/bundle/step" "$bundle/share/step"
unset RESULTS DEVICE LIMIT KILN_CACHE_DIR KILN_CUDA_LIBRARY
export WORK=$work TMPDIR=$work/tmp PATH=$work/tools:$PATH

program() { # program NAME: makes a program of the lines that follow; it first adds its process to started.NAME
  local file=$bundle/bin/$1
  [ "$1" != nvidia-smi ] || file=$work/tools/$1
  { printf '#!/bin/bash\necho $$ >>"$WORK/started.%s"\n' "$1"; cat; } >"$file"
  chmod 755 "$file"
}
# Replaces a program by one that runs for minutes, even after SIGTERM, and has a child.
endless() {
  program "$1" <<'EOF'
trap 'echo got SIGTERM' TERM
sleep 300 & echo $! >>"$WORK/started.child"
echo waiting
for i in {1..3000}; do sleep 0.1; done
EOF
}
# The driver, the GPU and the tests work.
healthy() {
  rm -f "$work"/started.*
  program kiln <<'EOF'
[ "$1" != --version ] || { echo "kiln 1.2.3"; exit; }
echo "cpu: some"
echo "cuda:0: NVIDIA H100"
echo "cuda:1: NVIDIA H200"
head -c 200000 /dev/zero | tr '\0' '\n' # more lines than a pipe holds
EOF
  program nvidia-smi <<<'echo "a table"'
  program 01_vector_add <<<'echo "added on $KILN_SAMPLES_DEVICE"'
  program cuda_tests <<<'echo "tests: $*"'
  program cuda_ops_tests <<<'echo "ops: $*"; exit 3'
  program bench_gpu <<<'echo "bench: $*; libraries: ${LD_LIBRARY_PATH-unset}"'
  program kiln_demo <<<'echo "demo: $*"'
}
# expect STATUS TEXT COMMAND...: the command must exit with the status, and print the text if that is not empty.
expect() {
  local status=$1 text=$2 code
  shift 2
  "$@" >"$work/answer" 2>&1 </dev/null
  code=$?
  [ "$code" = "$status" ] || fail "'$*' exits with $code, not with $status: $(head -c 3000 "$work/answer")"
  [ -z "$text" ] || grep -qF -e "$text" "$work/answer" || fail "'$*' does not print '$text': $(head -c 3000 "$work/answer")"
}
# None of the processes of started.* is left. One that was just killed takes a moment to end; a zombie has no command line.
all_ended() {
  local process
  for process in $(cat "$work"/started.*); do
    for _ in {1..50}; do
      grep -qs . "/proc/$process/cmdline" || continue 2
      sleep 0.1
    done
    fail "$1: process $process is left: $(tr '\0' ' ' <"/proc/$process/cmdline")"
  done
}
in_summary() { grep -qE -e "$1" "$results/summary.txt" || fail "the summary has no line '$1': $(cat "$results/summary.txt")"; }

# A step passes or fails, and the results are next to the runner, wherever the caller stands.
healthy
expect 0 '== kernels on cuda:0' "$run" kernels
in_summary '^== 20[0-9-]+ [0-9:]+ [^ ]+, kiln 1.2.3, cuda:0: NVIDIA H100$'
in_summary '^kernels +[0-9]+ s  passed$'
grep -q '^tests: .*\[gpu\]' "$results/kernels.log" || fail "the log is $(cat "$results/kernels.log")"
expect 1 '== rows on cuda:1' env DEVICE=cuda:1 "$run" rows
in_summary '^== .*, cuda:1: NVIDIA H200$'
in_summary '^rows +[0-9]+ s  failed \(3\)$'
in_summary '^kernels ' # the lines of an earlier run are kept
[ -z "$(ls -A "$work/tmp")" ] || fail "temporary files are left: $(ls -A "$work/tmp")"

# Steps run once each, in the order in which they are named, and one that fails does not stop the others.
expect 1 '' "$run" rows kernels rows memcheck-rows kernels
[ "$(grep -c '^== [a-z-]* on' "$work/answer")" = 3 ] || fail "steps that are named twice do not run once: $(cat "$work/answer")"
expect 1 '' "$run" lost all
[ "$(grep -c '^== [a-z-]* on' "$work/answer")" = "$("$run" list | wc -l)" ] || fail "'lost all' does not run each step once: $(cat "$work/answer")"
[ "$(grep -m 1 '^== [a-z-]* on' "$work/answer")" = '== lost on cuda:0' ] || fail "'lost all' does not begin with 'lost'"
expect 2 "there is no command or step 'none'" "$run" kernels none
expect 2 "there is no command or step ''" "$run" ''
expect 2 "there is no command or step 'kern.ls'" "$run" kern.ls

# The runner may be called in many ways.
expect 0 'tests: ' sh "$run" kernels
expect 0 'tests: ' bash --posix "$run" kernels
ln -s "$run" "$work/here/link" && expect 0 'tests: ' ./link kernels
(cd "$bundle" && expect 0 'tests: ' bash run kernels) || exit 1
(cd / && CDPATH=/usr expect 0 'tests: ' "$run" kernels) || exit 1
expect 0 'bench: --device cuda:0 --peers' "$run" bench_gpu --rounds 2
expect 0 'tests: one "two"  three' "$run" cuda_tests one '"two"  three'
expect 3 'ops: one' "$run" cuda_ops_tests one
expect 0 'kiln 1.2.3' "$run" kiln --version
expect 0 'usage: ' env LIMIT=abc TMPDIR=/proc/none "$run" help
expect 0 'bench-matmul' env LIMIT=abc TMPDIR=/proc/none "$run" list

# Neither Python nor nvidia-smi is needed.
expect 0 'libraries: ' env KILN_PYTHON="$work/none" "$run" bench
rm "$work/tools/nvidia-smi"
expect 0 'added on cuda:1' env DEVICE=cuda:1 "$run" device

# Mistakes in the environment are reported before anything runs.
healthy
for wrong in abc 0 -1 1.5 '1 2' 010 1000000; do
  expect 2 "LIMIT is '$wrong', and must be" env LIMIT="$wrong" "$run" kernels
done
expect 2 "there is no GPU 'cuda:7' here; DEVICE may be one of: cuda:0 cuda:1" env DEVICE=cuda:7 "$run" kernels
expect 2 "there is no GPU 'cuda:.' here" env DEVICE=cuda:. "$run" kernels
for folder in /proc /proc/none "$run"; do
  expect 2 "results cannot be written to $folder (see above); name another folder in RESULTS" env RESULTS="$folder" "$run" kernels
done
touch "$work/here/file"
expect 2 "results cannot be written to $work/here/file (see above)" env RESULTS=file "$run" kernels
expect 1 "name another folder in TMPDIR" env TMPDIR=/proc/none "$run" kernels
[ ! -e "$work/started.cuda_tests" ] || fail "a step runs in spite of a mistake in the environment"
expect 0 '' env RESULTS="my results/new" "$run" kernels
[ -s "$work/here/my results/new/kernels.log" ] || fail "a relative RESULTS is not a folder below the caller's"

# The folder of the bundle may be read-only if the results go elsewhere. Root may write to any folder, so another user runs this.
as_user=()
[ "$(id -u)" != 0 ] || as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if [ "$(id -u)" != 0 ] || "${as_user[@]}" test -r "$run" 2>/dev/null; then
  healthy
  echo kernel >"$bundle/cache/kernel" && mkdir "$bundle/cache/more"
  program cuda_tests <<<'echo "cached: $(cat "$KILN_CACHE_DIR/kernel")"; touch "$KILN_CACHE_DIR/more/kernel" && echo "tests end"'
  mkdir "$work/open" && chmod 777 "$work/open" "$work" && chmod -R a-w "$bundle"
  expect 2 "results cannot be written to $results (see above)" "${as_user[@]}" env TMPDIR="$work/open" "$run" kernels
  expect 0 'cached: kernel' "${as_user[@]}" env TMPDIR="$work/open" RESULTS="$work/open/results" "$run" kernels
  grep -q '^tests end' "$work/answer" || fail "the copy of the kernels is read-only: $(cat "$work/answer")"
  chmod -R u+w "$bundle"
  [ "$(ls "$work/open")" = results ] || fail "temporary files are left: $(ls "$work/open")"
fi

# LIMIT is for all programs of a step together. Nothing is left of a step that takes longer, and the next step runs.
healthy
endless nvidia-smi
expect 1 '' env LIMIT=4 "$run" device kernels
in_summary '^device +[0-9]+ s  stopped after 4 s$'
[ ! -e "$work/started.01_vector_add" ] || fail "a step runs a program after its time"
grep -q '^got SIGTERM$' "$results/device.log" || fail "the log lacks the last output of a program: $(cat "$results/device.log")"
grep -q '^tests: ' "$work/answer" || fail "a step that is stopped ends the run: $(cat "$work/answer")"
all_ended "after the time of a step"

# Processes that a step leaves behind do not hold up the run.
healthy
program cuda_tests <<<'sleep 300 & echo $! >>"$WORK/started.child"; exit 137'
expect 1 '' "$run" kernels
in_summary '^kernels +[0-9]+ s  failed \(137\)$'
all_ended "after a step with a background process"

# A driver that does not respond is reported.
healthy
cp "$bundle/bin/kiln" "$work/kiln"
program kiln <<<'[ "$1" != --version ] || exec "$WORK/kiln" "$1"; exec sleep 300'
expect 1 "the NVIDIA driver does not respond: 'kiln devices' was stopped after 1 s" env LIMIT=1 "$run" kernels
all_ended "after a driver that does not respond"
program kiln <<<'[ "$1" != --version ] || exec "$WORK/kiln" "$1"; echo broken; exit 9'
expect 1 "'kiln devices' fails (9): broken" "$run" kernels
program kiln <<<'[ "$1" != --version ] || exec "$WORK/kiln" "$1"; echo "cuda: not usable: no NVIDIA driver"'
expect 77 "Nothing to run on: no NVIDIA driver" env RESULTS=/proc "$run" kernels
program kiln <<<'echo "GLIBC_9.99 not found" >&2; exit 1'
expect 1 "the programs in $bundle/bin do not start on this machine" "$run" kernels

# interrupt STATUS SIGNAL PROCESS PROGRAM: sends a signal while an endless PROGRAM runs; PROCESS is "group", as for Ctrl-C, or
# "runner". The job control of bash makes a process group of each job, and lets it receive SIGINT.
interrupt() {
  local status=$1 signal=$2 to=$3 runner code
  healthy
  endless "$4"
  rm -f "$results/summary.txt"
  : >"$work/answer" # the loop below must not read the answer of an earlier call
  set -m
  "$run" samples kernels rows >"$work/answer" 2>&1 </dev/null &
  runner=$!
  set +m
  for _ in {1..600}; do
    grep -q '^waiting$' "$work/answer" && break
    sleep 0.1
  done
  if [ "$to" = group ]; then to=-$runner; else to=$runner; fi
  kill "-$signal" -- "$to"
  wait "$runner"
  code=$?
  [ "$code" = "$status" ] || fail "after SIG$signal the status is $code, not $status: $(cat "$work/answer")"
  in_summary '^samples .* passed$'
  in_summary '^kernels .* interrupted$'
  in_summary '^not run: rows$'
  [ ! -e "$work/started.cuda_ops_tests" ] || fail "a step runs after SIG$signal"
  grep -q '^got SIGTERM$' "$results/kernels.log" || fail "the log lacks the last output before SIG$signal: $(cat "$results/kernels.log")"
  all_ended "after SIG$signal"
  [ -z "$(ls -A "$work/tmp")" ] || fail "temporary files are left after SIG$signal: $(ls -A "$work/tmp")"
}
interrupt 130 INT group cuda_tests
interrupt 143 TERM runner cuda_tests
exit 0
