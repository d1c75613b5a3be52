#!/bin/bash
# Checks which folders the #include lines of each folder name, against the table below. It also checks that headers do not
# include each other in a circle, that no path climbs with "../", and that each source file begins with a comment.
#   check_layers.sh SOURCE_DIR
set -eu
cd "$1"
exec python3 - <<'END_OF_PYTHON'
import collections, os, re, sys

# A folder, and what its files may include besides the files of that same line. An entry is
#   a/b     everything in the folder a/b, or the header a/b.h
#   a/b/*   the files directly in a/b
#   a/{b,c} in the first column: the headers a/b.h and a/c.h with their .cpp files, and the folders a/b and a/c
#   !a/b    an exception to the entries before it
#   llvm    headers of LLVM
#   *       everything, also for the folders below, which need no lines of their own
# The longest line that fits a file decides: jit/cpu/facts, and jit/cpu/target.h and .cpp, have rules of their own. Each other
# folder with a source file must have a line.
LAYERS = """
  tests                   *
  benchmarks              *
  samples                 collectives ops autotune jit dsl
  samples/template        collectives ops autotune jit dsl
  collectives             ops autotune jit dsl collectives/schedule collectives/threads
  collectives/schedule    dsl
  collectives/threads     dsl jit collectives/schedule collectives/call collectives/comm_error collectives/trace
  collectives/checkpoint  ops autotune jit dsl collectives
  collectives/cli         collectives ops autotune jit dsl
  ops                     autotune jit dsl ops/detail
  ops/detail              autotune jit dsl ops/activation ops/array ops/dims ops/attention_options ops/matmul_options ops/rotary_options ops/tunable_call
  autotune                jit dsl autotune/space autotune/records autotune/run

  dsl                     dsl/detail dsl/ir
  dsl/detail              dsl/* dsl/ir
  dsl/ir                  dsl/config dsl/dtype dsl/error dsl/float_bits dsl/layout_class dsl/symbol

  jit/base                dsl llvm
  jit/cache               dsl jit/base
  jit/passes              dsl jit/base
  jit/emit                dsl jit/base jit/passes jit/emit/math llvm
  jit/emit/math           dsl jit/base jit/passes jit/emit/* llvm

  jit/cpu/{abi,hooks,target,tuning}  dsl jit/base jit/emit llvm
  jit/cpu/dot             dsl jit/base jit/emit jit/cpu/* !jit/cpu/compiler llvm
  jit/cpu/facts           dsl jit/base jit/passes jit/cpu/* !jit/cpu/compiler jit/cpu/dot/dot_shape
  jit/cpu/rewrite         dsl jit/base jit/passes jit/emit jit/cpu/* !jit/cpu/compiler jit/cpu/dot/dot_shape jit/cpu/facts
  jit/cpu/emit            dsl jit/base jit/passes jit/emit jit/cpu !jit/cpu/compiler !jit/cpu/object llvm
  jit/cpu/object          dsl jit/base jit/cache jit/emit jit/cpu/* !jit/cpu/compiler llvm
  jit/cpu                 dsl jit/base jit/cache jit/passes jit/emit jit/cpu llvm

  jit/gpu/layout          dsl jit/base
  jit/gpu/exchange        dsl jit/base jit/gpu/layout
  jit/gpu/emit            dsl jit/base jit/passes jit/emit jit/gpu !jit/gpu/compiler !jit/gpu/ptx_machine llvm
  jit/gpu/{compiler,ptx_machine}  dsl jit/base jit/passes jit/emit jit/gpu llvm
  jit/gpu                 dsl jit/base jit/passes jit/emit jit/gpu/layout jit/gpu/exchange

  jit/emulator            dsl jit/base jit/emulator
  jit/emulator/ptx        dsl jit/base
  jit/emulator/core       dsl jit/base jit/emulator/ptx
  jit/emulator/checks     dsl jit/base jit/emulator/ptx jit/emulator/core
  jit/emulator/instructions  dsl jit/base jit/emulator/ptx jit/emulator/core

  jit/runtime             dsl jit/base jit/cpu/target jit/runtime/cpu jit/runtime/cuda jit/runtime/emulated llvm
  jit/runtime/cpu         dsl jit/base jit/cpu jit/runtime/* jit/runtime/kernel jit/runtime/emulated/kernel_code
  jit/runtime/cuda        dsl jit/base jit/cache jit/gpu jit/runtime/* jit/runtime/kernel jit/runtime/cpu
  jit/runtime/emulated    dsl jit/base jit/gpu jit/emulator jit/runtime/* jit/runtime/kernel jit/runtime/cuda
  jit/runtime/kernel      dsl jit/base jit/cache jit/passes jit/cpu jit/gpu jit/runtime/* jit/runtime/cpu jit/runtime/cuda
  jit/runtime/assign      dsl jit/base jit/runtime

  jit/cli                 dsl jit
  jit/cli/support         dsl jit !jit/cli/*

  autotune/space          dsl jit/runtime autotune/*
  autotune/model          dsl autotune/* autotune/space autotune/search/strategy
  autotune/search         dsl autotune/* autotune/space autotune/model
  autotune/records        dsl jit autotune/* autotune/space
  autotune/analytic       dsl jit autotune/* autotune/records
  autotune/measure        dsl jit autotune/* autotune/space autotune/search/search
  autotune/run            dsl jit autotune !autotune/report !autotune/cli
  autotune/report         dsl jit autotune !autotune/measure !autotune/cli
  autotune/cli            dsl jit autotune
"""
# Headers that no header of these libraries may reach from <kiln/kiln.h>, which users include.
PRIVATE = ("llvm", "llvm-c", "nlohmann", "fmt", "CLI", "cuda.h")

rules = {}
folder_of = {}  # a folder, or a header without its extension: the first column of its line
for line in LAYERS.split("\n"):
    if line.strip():
        folder, *entries = line.split()
        rules[folder] = entries
        braces = re.fullmatch(r"(.*/){(.*)}", folder)
        for path in [braces[1] + name for name in braces[2].split(",")] if braces else [folder]:
            folder_of[path] = folder

def rule_of(path):
    path = os.path.splitext(path)[0]
    while path and path not in folder_of:
        path = os.path.dirname(path)
    return folder_of.get(path, "")

def covers(entry, path):
    if entry.endswith("/*"):
        return os.path.dirname(path) == entry[:-2]
    return path.startswith(entry + "/") or os.path.splitext(path)[0] == entry

def allowed(folder, path):
    verdict = rule_of(path) == folder
    for entry in rules[folder]:
        if covers(entry.lstrip("!"), path):
            verdict = not entry.startswith("!")
    return verdict

failures = 0
def fail(place, what):
    global failures
    failures += 1
    print(f"{place}: {what}")

sources = []
for top in ("dsl", "jit", "autotune", "ops", "collectives", "samples", "tests", "benchmarks"):
    for folder, _, names in os.walk(top):
        sources += [os.path.join(folder, name) for name in names if name.endswith((".h", ".cpp", ".def", ".inc"))]
if len(sources) < 100:
    sys.exit("check_layers: this is not the source tree of Kiln")

include = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.M)
headers = collections.defaultdict(list)  # a header, and the (line, header)s that it includes
outside = collections.defaultdict(list)  # a header, and the (line, header)s of other libraries that it includes
for source in sorted(sources):
    with open(source, encoding="utf-8", errors="replace") as file:
        text = file.read()
    if not text.startswith(("//", "/*", "#!")):
        fail(f"{source}:1", "the file does not begin with a comment that says what it does")
    folder = rule_of(source)
    everything = rules.get(folder) == ["*"]
    if not everything and not {os.path.dirname(source), os.path.splitext(source)[0]} & folder_of.keys():
        fail(f"{source}:1", f"the folder {os.path.dirname(source)} has no line in the table of layers; add one")
        continue
    for match in include.finditer(text):
        place = f"{source}:{text.count(chr(10), 0, match.start(2)) + 1}"
        name = match[2]
        if name.startswith("../") or "/../" in name:
            fail(place, f"includes {name}; write the path from the top of the tree, <kiln/...> for the library")
            continue
        path = name[5:] if name.startswith("kiln/") else "llvm" if name.startswith(("llvm/", "llvm-c/")) else None
        if path == "kiln.h":
            path = "ops/kiln.h"
        if path is None:
            outside[source].append((place, name))
            continue
        if source.endswith(".h"):
            (outside if path == "llvm" else headers)[source].append((place, name if path == "llvm" else path))
        if everything:
            continue
        if not (allowed(folder, path) if path != "llvm" else "llvm" in rules[folder]):
            fail(place, f"includes {name}, but {folder} may include only itself, {', '.join(rules[folder])}")

# Headers in a circle: a depth-first search reaches a header whose search has not ended.
state = {}
def visit(header, trail):
    state[header] = "open"
    for place, path in headers[header]:
        if state.get(path) == "open":
            circle = trail[trail.index(path):] + [path]
            fail(place, "headers include each other in a circle: " + " -> ".join(circle))
        elif path not in state:
            visit(path, trail + [path])
    state[header] = "done"
for header in list(headers):
    if header not in state:
        visit(header, [header])

# Follows the headers that <kiln/kiln.h> includes.
came_from = {"ops/kiln.h": None}
waiting = ["ops/kiln.h"]
while waiting:
    header = waiting.pop()
    for place, name in outside[header]:
        if name.startswith(tuple(p + "/" for p in PRIVATE)) or name in PRIVATE:
            trail = [header]
            while came_from[trail[-1]]:
                trail.append(came_from[trail[-1]])
            fail(place, f"includes {name}, and users include this header: " + " -> ".join(reversed(trail)))
    for _, path in headers[header]:
        if path not in came_from:
            came_from[path] = header
            waiting.append(path)

if failures:
    print(f"check_layers: {failures} violations; the table of layers is in tests/integration/check_layers.sh")
sys.exit(1 if failures else 0)
END_OF_PYTHON
