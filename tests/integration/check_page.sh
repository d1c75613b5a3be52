#!/bin/bash
# Compiles and runs the code in a page of documentation, and compares its output with the output that the page shows:
#   check_page.sh PAGE SOURCE_DIR BUILD_DIR COMPILER INCLUDE_DIR LIBRARY_DIR WORK_DIR SANITIZERS
#
# The page's fenced blocks, in their order:
#   ```cpp      A block with `int main` is a whole program. It must print what the comments behind its std::printf calls say.
#               Other blocks of C++ are parts of programs and are not compiled.
#   ```cpp and ```cuda with a first line `// NAME.EXT: what it is` are also written to that file, for the commands below them.
#   ```sh       Every line is a command that runs in a folder which has the source tree's folders and `build`. It must end with
#               exit status 0, or with N if its comment says `exit status N`. The block is skipped if its first command, or
#               one for which a comment says `needs NAME`, is not installed, and in builds with sanitizers, where other tests
#               run these commands.
#   ```text     Directly behind a block of commands it is what the last of them prints. A line `...` stands for any lines, and a
#               line that ends in ` \` goes on in the next one.
#   ```console  Is not run, because it takes long, needs a GPU or prints times. The options of `kiln` in it must exist.
set -eu
page=$1 source=$2 build=$3 compiler=$4 include=$5 library=$6 work=$7 sanitizers=$8
fail() { echo "check_page: $page: $1"; exit 1; }
rm -rf "$work" && mkdir -p "$work" && cd "$work"
for folder in "$source"/*/; do
  [ "$folder" = "$build/" ] || ln -s "${folder%/}" .
done
ln -sfn "$build" build
mkdir -m 700 cache
export KILN_CACHE_DIR=$work/cache PATH=$PATH:/usr/local/cuda/bin

# Splits the page into files N.LANGUAGE, N being the number of the block.
awk '/^```/ && file {close(file); file = ""; next}
     /^```/ {file = sprintf("%03d.%s", ++n, length($0) > 3 ? substr($0, 4) : "none"); printf "" >file; next}
     file {print >file}' "$page"

# save BLOCK: writes it to the file that its first line names.
save() {
  local name
  name=$(sed -n '1s,^// \([A-Za-z0-9_]*\.[a-z]*\): .*,\1,p' "$1")
  [ -z "$name" ] || cp "$1" "$name"
}

# run_program BLOCK: says how long the compiler takes for it, too.
run_program() {
  local begin expected actual flags=${sanitizers:+-fsanitize=$sanitizers}
  expected=$(sed -n 's,.*std::printf.*// \(.*\),\1,p' "$1")
  [ -n "$expected" ] || fail "the program in block ${1%.cpp} does not say what it prints"
  begin=$(date +%s%N)
  "$compiler" -std=c++20 -O2 -Wall -Wextra $flags -I"$include" -c "$1" -o program.o || fail "block ${1%.cpp} does not compile"
  echo "block ${1%.cpp} compiles in $((($(date +%s%N) - begin) / 1000000)) ms with $compiler -O2"
  "$compiler" $flags program.o -L"$library" -lkiln -Wl,-rpath,"$library" -o program
  actual=$(./program) || fail "the program in block ${1%.cpp} fails"
  [ "$actual" = "$expected" ] || fail "the program in block ${1%.cpp} prints \"$actual\" and not \"$expected\""
}

# run_commands BLOCK: leaves in `printed` what the last one prints, and returns 1 if the block is skipped.
run_commands() {
  local line needed wanted code
  [ -z "$sanitizers" ] || return 1
  for needed in $(sed -nE -e '1s/^([A-Z_]*=[^ ]* )*([^ ]*).*/\2/p' -e 's/.*# .*needs ([a-z0-9]+).*/\1/p' "$1"); do
    [[ $needed == build/* ]] || command -v "$needed" >command || { echo "skipped: $needed is not installed"; return 1; }
  done
  while IFS= read -r line; do
    wanted=$(sed -n 's/.*# .*exit status \([0-9]*\).*/\1/p' <<<"$line")
    code=0
    timeout 100 bash -c "$line" >printed 2>&1 </dev/null || code=$?
    [ "$code" = "${wanted:-0}" ] || { cat printed; fail "exit status $code of: $line"; }
  done <"$1"
}

# Addresses, folders and the width of columns differ from one machine to another.
normal() { sed -E 's/0x[0-9a-f]+/0x/g; s,[^ (]*/([a-z_]+\.cu:),\1,g; s/ +/ /g; s/ $//' "$1"; }

compare_text() {
  sed -E -e ':join' -e '/ \\$/ {N; s/ *\\\n */ /; b join' -e '}' "$1" >joined
  normal joined >expected
  normal printed >actual
  awk 'NR == FNR {wanted[++n] = $0; next} {line[++m] = $0}
       END {
         for (i = j = 1; i <= n; ++i) {
           if (wanted[i] == "...") {skip = 1; continue}
           while (skip && j <= m && line[j] != wanted[i]) ++j
           skip = 0
           if (line[j++] != wanted[i]) {print "it shows: " wanted[i]; exit 1}
         }
         if (!skip && j <= m) {print "it does not show: " line[j]; exit 1}
       }' expected actual || { cat printed; fail "block ${1%.text} is not what its commands print"; }
}

# check_options BLOCK: every --option of a kiln subcommand is in its help.
check_options() {
  local command option
  [ -x "$build/bin/kiln" ] || return 0
  sed -n 's,.*build/bin/\(kiln .*\),\1,p' "$1" | while read -r line; do
    command=${line%% --*}
    "$build/bin/"${command%%  *} --help >help || fail "there is no ${command%%  *}"
    for option in $(grep -oE -- ' --[a-z-]+' <<<"$line"); do
      grep -qE -- "$option( |,|\$)" help || fail "${command%%  *} has no option $option"
    done
  done
}

ran=
for block in [0-9]*.*; do
  case $block in
  *.cpp | *.cuda)
    save "$block"
    ! grep -q 'int main' "$block" || run_program "$block"
    ran=
    ;;
  *.sh) ran=; ! run_commands "$block" || ran=yes ;;
  *.text) [ -z "$ran" ] || compare_text "$block"; ran= ;;
  *.console) check_options "$block"; ran= ;;
  *) ran= ;;
  esac
done
