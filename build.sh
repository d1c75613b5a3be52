#!/bin/bash
# Sets up, builds, tests and shows Kiln; every command does all that it needs, on a fresh Debian 12 machine too.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")"

help() {
  cat <<'END'
usage: ./build.sh COMMAND [ARGUMENT...]
  demo    build the library, the kiln command and the samples, then run the samples, with sizes, times and the share
          of this machine's limits
  test    build everything, then run all tests; further arguments go to ctest (-R NAME, -LE slow, ...)
  build   install what is missing, configure and build; further arguments go to ninja (a target, ...)
  asan    the quick tests under the address and undefined-behaviour sanitizers, built with clang 19
  tsan    the quick tests under the thread sanitizer
  clang   the quick tests, built with clang 19 file by file
  bundle  build, and gather what a machine with an NVIDIA driver and nothing else needs to run Kiln's GPU tests,
          samples and benchmarks: the archive build/kiln-gpu.tar.gz, and the command that unpacks and runs it
  setup   only install what is missing
  help    this text

environment:
  KILN_BUILD_DIR  the build folder (default: build; build-asan, build-tsan and build-clang for those commands)
  KILN_JOBS       how many compilers and tests run at once (default: by CPUs and memory)
  CC, CXX         the compilers (default: g++)

requirements:
  system     Linux on x86-64; Debian 12 for the installation of packages, elsewhere install what ./build.sh setup lists
  compilers  g++ 12 or newer, CMake 3.25, Ninja, LLVM 22; clang 19 for asan and clang
  memory     1.5 GB for each job
  disk       1 GB for packages, 1 GB for a build; 3 GB for one with sanitizers
END
}

say() { printf '==> %s\n' "$*" >&2; }
die() {
  printf 'build.sh: %s\n' "$*" >&2
  exit 1
}

# The packages that the library, the command and the samples need.
for_library=(g++ cmake ninja-build ccache llvm-22-dev llvm-22 lld-22 libzstd-dev libz3-dev zlib1g-dev libxml2-dev nlohmann-json3-dev
  libcli11-dev libfmt-dev libxxhash-dev libstb-dev libdlpack-dev)
# The packages that the tests and benchmarks need.
for_tests=(catch2 libbenchmark-dev llvm-22-tools libmpfr-dev python3-numpy)
# The second compiler, the checks of formatting, the libraries that benchmarks compare with, and a browser (64 MB to download)
# in which the tests view the tuner's reports. Steps that need one of them are skipped without it.
optional=(clang-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev libopenblas-dev libopenblas0-pthread libblis4-openmp libdnnl-dev
  chromium-headless-shell libxgboost-dev)

# Prints those of the packages $@ that are not installed.
missing() {
  local installed package
  (($# > 0)) || return 0
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null | sed -n 's/ installed$//p')
  for package; do
    grep -qxF -e "$package" <<<"$installed" || printf '%s\n' "$package"
  done
}

has_candidate() { apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'; }

llvm_help='none of the apt sources of this machine has llvm-22-dev. On Debian 12 it comes with the security updates: enable the
suite bookworm-security, component main, of the Debian security archive. The LLVM project has an apt repository of its own too: its
suite for Debian 12 and LLVM 22 is llvm-toolchain-bookworm-22. Add one of them to /etc/apt/sources.list.d/ and start this again.'

# Optional packages that were tried and cannot be installed are remembered here, so that they are not tried each time.
unavailable=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/kiln/unavailable-packages

# setup PACKAGE...: installs those that are missing; afterwards the optional ones, unless only the library is wanted.
setup() {
  local needed wanted=() package as_root=()
  command -v dpkg-query >/dev/null || {
    say "no dpkg here: nothing is installed; Kiln needs what Debian calls: $*"
    return
  }
  mapfile -t needed < <(missing "$@")
  if [ "$command" != demo ]; then
    mapfile -t wanted < <(missing "${optional[@]}" | grep -vxFf <(cat "$unavailable" 2>/dev/null))
  fi
  ((${#needed[@]} + ${#wanted[@]} > 0)) || return 0

  local install="apt-get install -y --no-install-recommends"
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    elif ((${#needed[@]} == 0)); then
      say "not installed, and not needed: ${wanted[*]}"
      return
    else
      die "these packages are missing and only root may install them; run
  sudo apt-get update && sudo $install ${needed[*]}"
    fi
  fi

  say "installing ${needed[*]} ${wanted[*]}"
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get update >&2 || say "apt-get update failed; going on with the lists that are here"
  for package in "${needed[@]}"; do
    has_candidate "$package" && continue
    case $package in
    llvm-22* | lld-22) die "$llvm_help" ;;
    *) die "none of the apt sources of this machine has the package $package" ;;
    esac
  done
  if ((${#needed[@]} > 0)); then
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $install "${needed[@]}" </dev/null >&2 ||
      die "apt could not install: ${needed[*]}"
  fi
  for package in "${wanted[@]}"; do
    has_candidate "$package" && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $install "$package" </dev/null >&2 && continue
    say "$package cannot be installed; what uses it is skipped"
    mkdir -p "$(dirname "$unavailable")" && printf '%s\n' "$package" >>"$unavailable"
  done
}

# Memory in MB that this process may still use: the machine's, or less where a control group limits it.
free_memory() {
  local memory limit used
  memory=$(awk '/^MemAvailable/ {print int($2 / 1024)}' /proc/meminfo)
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
  used=$(cat /sys/fs/cgroup/memory.current 2>/dev/null || echo 0)
  if [ "$limit" != max ] && (((limit - used) >> 20 < memory)); then
    memory=$(((limit - used) >> 20))
  fi
  echo "$memory"
}

# As many jobs as CPUs, but at most one for each 1.5 GB of memory: a batch of files that includes LLVM takes up to that.
job_count() {
  local cpus memory
  cpus=$(nproc)
  memory=$(free_memory)
  local jobs=$((memory / 1536 < cpus ? memory / 1536 : cpus))
  echo $((jobs < 1 ? 1 : jobs))
}

# introduce WHAT...: says what is about to happen and what it needs.
introduce() {
  local free
  free=$(df -Pm . | awk 'NR == 2 {print $4}')
  say "$*"
  say "needs Linux on x86-64, g++ 12, CMake 3.25, LLVM 22, 1.5 GB of memory a job and 1 GB of disk for packages and build each;" \
    "here: $(nproc) CPUs, $(free_memory) MB of memory, $free MB of disk"
  ((free >= 1000)) || say "the disk has little room: a build takes 1 GB"
}

# configure_and_build PRESET [CMAKE ARGUMENT... --] [NINJA ARGUMENT...]; sets `build`, the folder.
configure_and_build() {
  local preset=$1 options=() log=${TMPDIR:-/tmp}/kiln-build.$$
  shift
  if [ "${1:-}" = --with ]; then
    options=("$2")
    [ -z "${3:-}" ] || options+=("$3")
    shift 3
  fi
  build=$(sed -n "/\"name\": \"$preset\"/,/binaryDir/ s,.*sourceDir}/\([^\"]*\)\".*,\1,p" CMakePresets.json)
  build=${KILN_BUILD_DIR:-$build}
  jobs=${KILN_JOBS:-$(job_count)}
  # Two checkouts, or two build folders of one, share what ccache holds.
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1}
  if ! "${wrapper[@]}" cmake --preset "$preset" -B "$build" "${options[@]}" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    die "cmake could not configure $build"
  fi
  say "building in $build with $jobs jobs"
  "${wrapper[@]}" ninja -C "$build" -j "$jobs" "$@" 2>&1 | tee "$log"
  if [ "${PIPESTATUS[0]}" != 0 ]; then
    # g++ says so of its compiler proper, clang of itself; the shell says it of a linker.
    if grep -qE 'Killed|signal 9|out of memory|virtual memory exhausted|bad_alloc|exit code 137' "$log"; then
      rm -f "$log"
      die "the system ended a compiler or linker, most likely for lack of memory; continue with fewer at once:
  KILN_JOBS=1 ./build.sh $command"
    fi
    rm -f "$log"
    die "the build failed; what is done is kept, and ./build.sh $command continues there"
  fi
  rm -f "$log"
}

# Runs ctest, and prints which tests took longest.
run_tests() {
  local code=0 report
  report=$(cd "$build" && pwd)/times.xml
  "${wrapper[@]}" ctest --test-dir "$build" --output-on-failure -j "$jobs" --timeout 600 --no-tests=error --output-junit "$report" "$@" ||
    code=$?
  if [ -s "$report" ]; then
    say "the ten slowest tests, in seconds:"
    sed -n 's/.*<testcase name="\([^"]*\)".* time="\([^"]*\)".*/\2 \1/p' "$report" | sort -rn | head -n 10 |
      awk '{time = $1; sub(/^[^ ]* /, ""); printf "%8.1f  %s\n", time, $0}' >&2
  fi
  return $code
}

wrapper=()
command=${1:-help}
shift || true
case $command in
help | -h | --help) help ;;
setup) setup "${for_library[@]}" "${for_tests[@]}" ;;
build)
  setup "${for_library[@]}" "${for_tests[@]}"
  configure_and_build release "$@"
  ;;
test)
  introduce "installs what is missing, builds library, tests, samples and benchmarks, and runs all tests: some 20 minutes on two CPUs"
  setup "${for_library[@]}" "${for_tests[@]}"
  configure_and_build release --with -DKILN_TESTS=ON -DKILN_BENCHMARKS=ON
  run_tests "$@"
  ;;
demo)
  introduce "installs what is missing, builds the library, the kiln command and the samples (some 6 minutes on two CPUs), and runs the samples"
  setup "${for_library[@]}"
  # A folder that has tests keeps them; a new one goes without, and without the packages that they need.
  if grep -qs '^KILN_TESTS:BOOL=ON' "${KILN_BUILD_DIR:-build}/CMakeCache.txt"; then
    configure_and_build release demo
  else
    configure_and_build release --with -DKILN_TESTS=OFF -DKILN_BENCHMARKS=OFF demo
  fi
  exec "$build/bin/kiln_demo" "$@"
  ;;
bundle)
  introduce "builds everything, and packs what a machine with an NVIDIA GPU needs"
  setup "${for_library[@]}" "${for_tests[@]}"
  configure_and_build release --with -DKILN_TESTS=ON -DKILN_BENCHMARKS=ON
  tests/bundle/make_bundle.sh "$build" . "$build/bundle" "$build/kiln-gpu.tar.gz"
  ;;
asan | tsan | clang)
  introduce "builds library and tests in a folder of their own, and runs the quick tests"
  setup "${for_library[@]}" "${for_tests[@]}"
  # The thread sanitizer places its shadow memory where randomised addresses may lie.
  if [ "$command" = tsan ] && setarch -R true 2>/dev/null; then wrapper=(setarch -R); fi
  configure_and_build "$command"
  run_tests -LE slow "$@"
  ;;
*)
  help >&2
  die "there is no command '$command'"
  ;;
esac
