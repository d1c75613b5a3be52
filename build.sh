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
  build   install what is missing, configure and build; further arguments -DNAME=VALUE go to CMake, others to ninja
          (a target, ...)
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
  CC, CXX         the compilers (default: g++); if only one of them is set, the other is the one that belongs to it.
                  asan and clang always use clang 19

requirements:
  system     Linux on x86-64. On Debian 12, missing packages are installed from Debian's own archive; on a system
             without dpkg, install what ./build.sh setup lists
  compilers  g++ 12 or newer, CMake 3.25, Ninja, LLVM 22; clang 19 for asan and clang
  memory     1.5 GB for each job
  disk       1.2 GB for the packages that the library needs, 2.2 GB with the optional ones; 0.1 GB for a demo, 1.3 GB for a
             build, 1.9 GB after the tests have run, 3 GB for a build with sanitizers

Benchmarks also compare Kiln with PyTorch, if benchmarks/install_pytorch.sh was run: it installs PyTorch with pip, by
default with CUDA, or from the PyTorch project's index of CPU-only wheels, whose address its installation page gives.
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

has_candidate() { LC_ALL=C apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'; }

llvm_help='none of the apt sources of this machine has llvm-22-dev. On Debian 12 it comes with the security updates: enable the
suite bookworm-security, component main, of the Debian security archive. The LLVM project has an apt repository of its own too: its
suite for Debian 12 and LLVM 22 is llvm-toolchain-bookworm-22. Add one of them to /etc/apt/sources.list.d/ and start this again.'

# Optional packages that this machine's apt sources do not have are remembered here, so that later runs do not look for them.
unavailable=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/kiln/unavailable-packages

# setup PACKAGE...: installs those that are missing; afterwards the optional ones, unless only the library is wanted.
setup() {
  local needed wanted=() found=() absent=() package as_root=() updated=
  command -v dpkg-query >/dev/null || {
    say "no dpkg here: nothing is installed; Kiln needs what Debian calls: $*"
    return
  }
  mapfile -t needed < <(missing "$@")
  if [ "$command" != demo ]; then
    mapfile -t wanted < <(missing "${optional[@]}" | grep -vxFf <(cat "$unavailable" 2>/dev/null))
  fi
  ((${#needed[@]} + ${#wanted[@]} > 0)) || return 0

  local install=(apt-get install -y --no-install-recommends)
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    elif ((${#needed[@]} == 0)); then
      say "not installed, and not needed: ${wanted[*]}"
      return
    else
      die "these packages are missing and only root may install them; run
  sudo apt-get update && sudo ${install[*]} ${needed[*]}"
    fi
  fi

  say "installing ${needed[*]} ${wanted[*]}"
  export DEBIAN_FRONTEND=noninteractive
  # Without the option, apt-get succeeds although it could not fetch some of the lists.
  if "${as_root[@]}" apt-get update -o APT::Update::Error-Mode=any >&2; then
    updated=yes
  else
    say "apt-get update failed; going on with the package lists that are here"
  fi
  for package in "${needed[@]}"; do
    has_candidate "$package" && continue
    [ -n "$updated" ] || die "the package lists of this machine lack $package, and apt-get update failed (see above)"
    case $package in
    llvm-22* | lld-22) die "$llvm_help" ;;
    *) die "none of the apt sources of this machine has the package $package" ;;
    esac
  done
  if ((${#needed[@]} > 0)); then
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}" "${needed[@]}" </dev/null >&2 ||
      die "apt could not install: ${needed[*]}"
  fi
  for package in "${wanted[@]}"; do
    has_candidate "$package" && found+=("$package") || absent+=("$package")
  done
  # Without a network, each of them would fail on its own.
  if ((${#found[@]} > 0)) && [ -z "$updated" ]; then
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}" "${found[@]}" </dev/null >&2 ||
      say "apt could not install ${found[*]}; what uses them is skipped, and the next run tries again"
    found=()
  fi
  for package in "${found[@]}"; do
    if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}" "$package" </dev/null >&2; then
      say "apt could not install $package; what uses it is skipped, and the next run tries again"
    fi
  done
  ((${#absent[@]} > 0)) || return 0
  say "the package lists of this machine lack ${absent[*]}; what uses them is skipped"
  # After a failed update, the lists may be incomplete.
  if [ -n "$updated" ] && mkdir -p "$(dirname "$unavailable")" && printf '%s\n' "${absent[@]}" >>"$unavailable"; then
    say "later runs do not look for them, because $unavailable lists them; delete that file to look for them again"
  fi
}

# Memory in MB that this process may still use: the machine's, or less where a control group limits it.
free_memory() {
  local memory limit used
  memory=$(awk '/^MemAvailable/ {print int($2 / 1024)}' /proc/meminfo)
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
  # Files in the page cache count as used there, but give way.
  used=$(($(cat /sys/fs/cgroup/memory.current 2>/dev/null || echo 0) -
    $(sed -n 's/^inactive_file //p' /sys/fs/cgroup/memory.stat 2>/dev/null || echo 0)))
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

# nearest_folder PATH: the folder itself, or the existing folder in which it would be created.
nearest_folder() {
  local folder=$1
  while [ ! -d "$folder" ]; do folder=$(dirname "$folder"); done
  echo "$folder"
}

# introduce WHAT...: says what is about to happen, what it needs, and what this machine has.
introduce() {
  local free room=1300
  case $command in
  setup) room=0 ;;
  demo) room=150 ;;
  test | bundle | clang) room=1900 ;;
  asan | tsan) room=3000 ;;
  esac
  free=$(df -Pm "$(nearest_folder "$build")" | awk 'NR == 2 {print $4}')
  say "$*"
  say "needs Linux on x86-64 (Debian 12, if packages are to be installed), g++ 12, CMake 3.25, Ninja, LLVM 22, 1.5 GB of memory" \
    "for each job, 1.2 GB of disk for packages (2.2 GB with the optional ones)$( ((room == 0)) || echo ", and $room MB for the build")"
  say "here: $(nproc) CPUs, $(free_memory) MB of memory, $free MB of disk for $build"
  ((free >= room)) || [ -f "$build/build.ninja" ] || say "the disk has little room: the build takes $room MB"
}

# cxx_of and c_of COMPILER: the C++ and the C compiler of the same family and version. Fail for unknown names.
cxx_of() {
  local folder=${1%"${1##*/}"} name=${1##*/}
  case $name in
  *clang++* | *g++* | c++*) echo "$1" ;;
  *clang*) echo "$folder${name/clang/clang++}" ;;
  *gcc*) echo "$folder${name/gcc/g++}" ;;
  cc) echo "${folder}c++" ;;
  *) return 1 ;;
  esac
}
c_of() {
  local folder=${1%"${1##*/}"} name=${1##*/}
  case $name in
  *clang++*) echo "$folder${name/clang++/clang}" ;;
  *g++*) echo "$folder${name/g++/gcc}" ;;
  c++) echo "${folder}cc" ;;
  *clang* | *gcc* | cc) echo "$1" ;;
  *) return 1 ;;
  esac
}
family() {
  case ${1##*/} in
  *clang*) echo clang ;;
  *gcc* | *g++*) echo gcc ;;
  esac
}

# Sets the one of CC and CXX that is not set, and rejects a pair of different families: CMake chooses each on its own, so
# CC=clang-19 alone would compile C++ with g++.
check_compilers() {
  local other
  if [ -n "${CC:-}" ] && [ -z "${CXX:-}" ]; then
    if ! other=$(cxx_of "$CC") || ! command -v "$other" >/dev/null; then
      die "CC is $CC and CXX is not set, and there is no C++ compiler ${other:-whose name follows from it}; set CXX as well"
    fi
    export CXX=$other
    say "CXX is not set; C++ is compiled with $CXX, which belongs to CC"
  elif [ -n "${CXX:-}" ] && [ -z "${CC:-}" ]; then
    if ! other=$(c_of "$CXX") || ! command -v "$other" >/dev/null; then
      die "CXX is $CXX and CC is not set, and there is no C compiler ${other:-whose name follows from it}; set CC as well"
    fi
    export CC=$other
  fi
  if [ -n "${CC:-}" ] && [ -n "$(family "$CC")" ] && [ -n "$(family "$CXX")" ] && [ "$(family "$CC")" != "$(family "$CXX")" ]; then
    die "CC is $CC and CXX is $CXX; set both to compilers of one family, such as clang-19 and clang++-19"
  fi
}

# CMake keeps the compiler of a folder that it configured before, whatever CXX is.
check_folder_compiler() {
  local configured wanted
  [ -n "${CXX:-}" ] || return 0
  configured=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt" 2>/dev/null) || return 0
  wanted=$(command -v "${CXX%% *}") || die "CXX is $CXX, and there is no such program"
  [ -z "$configured" ] || [ "$(realpath "$configured")" = "$(realpath "$wanted")" ] ||
    die "$build was configured for the compiler $configured, and CXX is $CXX; set KILN_BUILD_DIR to another folder, or delete $build"
}

# memory_ran_out LOG: whether the system ended a compiler or linker. The message comes from g++ (for its compiler proper and the
# linker), from clang (if it compiles in a second process), or from the shell or `cmake -E env` (if clang does not). Between
# `cmake -E env` and clang, ccache prints nothing, so a silent failure counts too. Lines that quote source code do not count.
memory_ran_out() {
  grep -vE '^ *[0-9]+ \| ' "$1" |
    grep -qiE -e '(^|: |[0-9] +|subprocess |\[)killed\b' -e '\bsignal 9\b' -e 'code[= ]137\b' -e '\bmemory exhausted\b' \
      -e '\bcannot allocate memory\b' -e '\bout of memory( allocating|$)' -e "^terminate called .* 'std::bad_alloc'" ||
    awk '/^FAILED: / {failed = NR}
         NR == failed + 1 {compiles = /ccache/}
         failed && NR == failed + 2 && compiles && /^(\[[0-9]+\/[0-9]+\] |FAILED: |ninja: build stopped)/ {silent = 1}
         END {exit !silent}' "$1"
}

# again [JOBS]: the command that continues this one.
again() {
  if [ -n "${1:-}" ]; then printf 'KILN_JOBS=%s ' "$1"; fi
  if [ -n "${KILN_BUILD_DIR:-}" ]; then printf 'KILN_BUILD_DIR=%q ' "$KILN_BUILD_DIR"; fi
  printf './build.sh'
  printf ' %q' "${all_arguments[@]}"
}

# configure_and_build [NINJA ARGUMENT...]: in the folder $build, with the preset $preset and the CMake arguments $options.
configure_and_build() {
  if [[ $preset == release || $preset == tsan ]]; then
    check_compilers
    check_folder_compiler
  fi
  # Two checkouts, or two build folders of one, share what ccache holds.
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1}
  jobs=${KILN_JOBS:-$(job_count)}
  log=$(mktemp -t kiln-build.XXXXXX)
  trap 'rm -f "$log"' EXIT
  if ! "${wrapper[@]}" cmake --preset "$preset" -B "$build" "${options[@]}" >"$log" 2>&1; then
    cat "$log" >&2
    die "cmake could not configure $build"
  fi
  say "building in $build with $jobs jobs"
  "${wrapper[@]}" ninja -C "$build" -j "$jobs" "$@" 2>&1 | tee "$log"
  if [ "${PIPESTATUS[0]}" != 0 ]; then
    memory_ran_out "$log" || die "the build failed; what is done is kept, and this continues it:
  $(again)"
    ((jobs > 1)) || die "the system ended a compiler or linker, most likely for lack of memory: one needs up to 1.5 GB, and this
machine has $(free_memory) MB; once it has more, this continues the build:
  $(again)"
    die "the system ended a compiler or linker, most likely for lack of memory; continue with fewer at once:
  $(again $((jobs / 2)))"
  fi
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
      sed "s/&lt;/</g; s/&gt;/>/g; s/&quot;/\"/g; s/&apos;/'/g; s/&amp;/\&/g" |
      awk '{time = $1; sub(/^[^ ]* /, ""); printf "%8.1f  %s\n", time, $0}' >&2
  fi
  return $code
}

all_arguments=("$@")
wrapper=()
options=()
command=${1:-help}
shift || true
case $command in
help | -h | --help)
  help
  exit
  ;;
demo | test | build | bundle | setup) preset=release ;;
asan | tsan | clang) preset=$command ;;
*)
  help >&2
  die "there is no command '$command'"
  ;;
esac
build=${KILN_BUILD_DIR:-$(sed -n "/\"name\": \"$preset\"/,/binaryDir/ s,.*sourceDir}/\([^\"]*\)\".*,\1,p" CMakePresets.json)}
if [ -n "${KILN_JOBS+set}" ] && [[ ! $KILN_JOBS =~ ^[1-9][0-9]{0,3}$ ]]; then
  die "KILN_JOBS is '$KILN_JOBS'; it must be the number of compilers and tests that run at once, at least 1"
fi

case $command in
setup)
  introduce "installs what is missing"
  setup "${for_library[@]}" "${for_tests[@]}"
  ;;
build)
  introduce "installs what is missing, and builds library, tests, samples and benchmarks, or the targets that are named"
  setup "${for_library[@]}" "${for_tests[@]}"
  # A demo in the same folder has turned tests and benchmarks off. Of two values for an option, CMake uses the last.
  options=(-DKILN_TESTS=ON -DKILN_BENCHMARKS=ON)
  targets=()
  for argument; do
    case $argument in
    -D*) options+=("$argument") ;;
    *) targets+=("$argument") ;;
    esac
  done
  configure_and_build "${targets[@]}"
  ;;
test)
  introduce "installs what is missing, builds library, tests, samples and benchmarks, and runs all tests: some 45 minutes on two CPUs, of which the build takes most"
  setup "${for_library[@]}" "${for_tests[@]}"
  options=(-DKILN_TESTS=ON -DKILN_BENCHMARKS=ON)
  configure_and_build
  run_tests "$@"
  ;;
demo)
  introduce "installs what is missing, builds the library, the kiln command and the samples (some 6 minutes on two CPUs), and runs the samples"
  setup "${for_library[@]}"
  # A folder that has tests keeps them; a new one goes without, and without the packages that they need.
  grep -qs '^KILN_TESTS:BOOL=ON' "$build/CMakeCache.txt" || options=(-DKILN_TESTS=OFF -DKILN_BENCHMARKS=OFF)
  configure_and_build demo
  "$build/bin/kiln_demo" "$@"
  ;;
bundle)
  introduce "builds everything, and packs what a machine with an NVIDIA GPU needs"
  setup "${for_library[@]}" "${for_tests[@]}"
  options=(-DKILN_TESTS=ON -DKILN_BENCHMARKS=ON)
  configure_and_build
  tests/bundle/make_bundle.sh "$build" . "$build/bundle" "$build/kiln-gpu.tar.gz"
  ;;
asan | tsan | clang)
  introduce "builds library and tests in a folder of their own, and runs the quick tests"
  setup "${for_library[@]}" "${for_tests[@]}"
  # The thread sanitizer places its shadow memory where randomised addresses may lie.
  if [ "$command" = tsan ] && setarch -R true 2>/dev/null; then wrapper=(setarch -R); fi
  configure_and_build
  run_tests -LE slow "$@"
  ;;
esac
