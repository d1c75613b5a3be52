# Checks the table of tuned constants: each has a name of its own, a sentence or a group above it, a row of four columns, and a use.
#
#   python3 tuning.py jit/cpu
import pathlib
import re
import sys

folder = pathlib.Path(sys.argv[1])
lines = (folder / "tuning.h").read_text().splitlines()
sources = "".join(path.read_text() for path in folder.rglob("*") if path.suffix in (".h", ".cpp"))
row = re.compile(r"// [^|]+ \| [^|]+ \| [^|]+ \| \d{4}-\d\d-\d\d$")
problems, names = [], []
for number, line in enumerate(lines):
    definition = re.match(r"(?:inline )?constexpr (?:std::)?\w+ (\w+)[ (]", line)
    if not definition:
        continue
    name = definition[1]
    names.append(name)
    if not row.match(lines[number - 1]):
        problems.append(f"tuning.h:{number + 1}: no row 'unit | CPU | gain | date' above {name}")
    if not re.search(rf"tuning::{name}\b", sources):
        problems.append(f"tuning.h:{number + 1}: nothing uses {name}")
print("\n".join(problems) or f"{len(names)} constants, each with a row and a use")
sys.exit(bool(problems))
