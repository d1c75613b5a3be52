#!/bin/bash
# Sets up, builds, tests and shows Kiln; every command does all that it needs, on a fresh Debian 12 machine too.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")"

help() {
  cat <<'END'
usage: ./build.sh COMMAND [ARGUMENT...]
  demo    build, then run the samples, with sizes, times and the share of this machine's limits
  test    build, then run all tests; further arguments go to ctest (-R NAME, -LE slow, ...)
  build   install what is missing, configure and build; further arguments go to ninja (a target, ...)
  asan    the quick tests under the address and undefined-behaviour sanitizers, built with clang 19
  tsan    the quick tests under the thread sanitizer
  clang   the quick tests, built with clang 19
  bundle  build, and gather what a machine with an NVIDIA driver and nothing else needs to run Kiln's GPU tests,
          samples and benchmarks: the folder build/bundle, of at most 63 MB, with the script run inside
  setup   only install what is missing
  help    this text

environment:
  KILN_BUILD_DIR  the build folder (default: build; build-asan, build-tsan and build-clang for those commands)
  KILN_JOBS       how many compilers and tests run at once (default: by CPUs and memory)
  CC, CXX         the compilers (default: g++)
END
}

say() { printf '==> %s\n' "$*" >&2; }
die() {
  printf 'build.sh: %s\n' "$*" >&2
  exit 1
}

# What the build and the tests need.
required=(g++ cmake ninja-build ccache llvm-22-dev llvm-22 llvm-22-tools lld-22 libzstd-dev libz3-dev zlib1g-dev libxml2-dev
  catch2 libbenchmark-dev nlohmann-json3-dev libcli11-dev libfmt-dev libxxhash-dev libstb-dev libdlpack-dev libmpfr-dev python3-numpy)
# The second compiler, the checks of form, the libraries that benchmarks compare with, and a browser (64 MB to fetch) that the
# tests look at the tuner's reports with.
optional=(clang-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev libopenblas-dev libopenblas0-pthread libblis4-openmp libdnnl-dev
  chromium-headless-shell libxgboost-dev)

# Prints those of the packages $@ that are not installed.
missing() {
  local installed package
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null | sed -n 's/ installed$//p')
  for package; do
    grep -qxF -e "$package" <<<"$installed" || printf '%s\n' "$package"
  done
}

has_candidate() { apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'; }

llvm_help='llvm-22-dev is in none of the apt sources of this machine. On Debian 12 it comes from the security archive:
  deb http://deb.debian.org/debian-security bookworm-security main
or from LLVM itself (https://apt.llvm.org has the key):
  deb http://apt.llvm.org/bookworm/ llvm-toolchain-bookworm-22 main
Add one of them to /etc/apt/sources.list.d/ and start this again.'

# Optional packages that were tried and cannot be had are remembered here, so that they are not tried each time.
unavailable=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/kiln/unavailable-packages

setup() {
  local needed wanted package as_root=()
  command -v dpkg-query >/dev/null || {
    say "no dpkg here: nothing is installed; Kiln needs what Debian calls: ${required[*]}"
    return
  }
  mapfile -t needed < <(missing "${required[@]}")
  mapfile -t wanted < <(missing "${optional[@]}" | grep -vxFf <(cat "$unavailable" 2>/dev/null))
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
    *) die "the package $package is in none of the apt sources of this machine" ;;
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

# As many jobs as CPUs, but for each 1.5 GB of memory that may be used one at most: so much takes a file that includes LLVM.
job_count() {
  local cpus memory limit used
  cpus=$(nproc)
  memory=$(awk '/^MemAvailable/ {print int($2 / 1024)}' /proc/meminfo)
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
  used=$(cat /sys/fs/cgroup/memory.current 2>/dev/null || echo 0)
  if [ "$limit" != max ] && (((limit - used) >> 20 < memory)); then
    memory=$(((limit - used) >> 20))
  fi
  local jobs=$((memory / 1536 < cpus ? memory / 1536 : cpus))
  echo $((jobs < 1 ? 1 : jobs))
}

# configure_and_build PRESET [NINJA ARGUMENT...]; sets `build`, the folder.
configure_and_build() {
  local preset=$1
  shift
  build=$(sed -n "/\"name\": \"$preset\"/,/binaryDir/ s,.*sourceDir}/\([^\"]*\)\".*,\1,p" CMakePresets.json)
  build=${KILN_BUILD_DIR:-$build}
  jobs=${KILN_JOBS:-$(job_count)}
  # Two checkouts, or two build folders of one, share what ccache holds.
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1}
  if ! "${wrapper[@]}" cmake --preset "$preset" -B "$build" >"${TMPDIR:-/tmp}/kiln-configure.$$" 2>&1; then
    cat "${TMPDIR:-/tmp}/kiln-configure.$$" >&2
    rm -f "${TMPDIR:-/tmp}/kiln-configure.$$"
    die "cmake could not configure $build"
  fi
  rm -f "${TMPDIR:-/tmp}/kiln-configure.$$"
  say "building in $build with $jobs jobs"
  "${wrapper[@]}" ninja -C "$build" -j "$jobs" "$@" || die "the build failed"
}

run_tests() { "${wrapper[@]}" ctest --test-dir "$build" --output-on-failure -j "$jobs" --timeout 600 --no-tests=error "$@"; }

wrapper=()
command=${1:-help}
shift || true
case $command in
help | -h | --help) help ;;
setup) setup ;;
build)
  setup
  configure_and_build release "$@"
  ;;
test)
  setup
  configure_and_build release
  run_tests "$@"
  ;;
demo)
  setup
  configure_and_build release
  [ -x "$build/bin/kiln_demo" ] || die "$build/bin/kiln_demo is not there: this tree has no samples to show"
  exec "$build/bin/kiln_demo" "$@"
  ;;
bundle)
  setup
  configure_and_build release
  tests/bundle/make_bundle.sh "$build" . "$build/bundle"
  ;;
asan | tsan | clang)
  setup
  # The thread sanitizer wants its shadow memory where randomised addresses may lie.
  if [ "$command" = tsan ] && setarch -R true 2>/dev/null; then wrapper=(setarch -R); fi
  configure_and_build "$command"
  run_tests -LE slow "$@"
  ;;
*)
  help >&2
  die "there is no command '$command'"
  ;;
esac
