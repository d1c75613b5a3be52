# Checks the table of tuned constants: each has a comment and a row of four columns above it, a name of its own, and a use.
#
#   python3 tuning.py SOURCE_DIR
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
tables = sorted((root / "jit/cpu/tuning").glob("*.h"))
sources = "".join(re.sub(r"//[^\n]*", "", path.read_text()) for folder in ("jit", "ops") for path in (root / folder).rglob("*")
                  if path.suffix in (".h", ".cpp"))

# A CPU of benchmarks/notes, or several; in parentheses if the record of the measurement does not name it.
one_cpu = r"(?:Zen [345]|(?:Emerald|Granite)(?: and Granite)? Rapids)"
row = re.compile(rf"// (?P<unit>[^|]+) \| (?P<cpu>{one_cpu}[^|]*|\({one_cpu}\)|-) \| (?P<gain>[^|]+) \| \d{{4}}-\d\d-\d\d$")
reason = re.compile(r"(derived|not measured): ")

in_tables = "".join(re.sub(r"//[^\n]*", "", table.read_text()) for table in tables)
problems, names = [], set()
for table in tables:
    lines = table.read_text().splitlines()
    for number, line in enumerate(lines):
        place = f"tuning/{table.name}:{number + 1}"
        if re.match(r"// [^|]+ \|", line):
            columns = row.match(line)
            if not columns:
                problems.append(f"{place}: not a row 'unit | CPU | what was measured | date'")
            elif (columns["cpu"] == "-") != bool(reason.match(columns["gain"])):
                problems.append(f"{place}: a row has a CPU and a measurement, or '-' and 'derived: ' or 'not measured: '")
            elif not lines[number - 1].startswith("// ") or row.match(lines[number - 1]):
                problems.append(f"{place}: no comment above the row says what the constant decides")
        if not re.match(r"(inline )?constexpr (?!std::int64_t \w+\()", line):
            continue
        above = number - 1
        while lines[above].startswith("inline constexpr"):  # measured together with the constants before it
            above -= 1
        found = re.findall(r"(\w+)(?:\[\])? = ", line) or re.findall(r"constexpr bool (\w+)\(", line)
        if line.endswith(","):
            found += re.findall(r"(\w+) = ", lines[number + 1])
        if not row.match(lines[above]):
            problems.append(f"{place}: no row above {', '.join(found)}")
        for name in found:
            if name in names:
                problems.append(f"{place}: a second {name}")
            names.add(name)
            if not re.search(rf"tuning::{name}\b", sources) and len(re.findall(rf"\b{name}\b", in_tables)) < 2:
                problems.append(f"{place}: nothing uses {name}")
print("\n".join(problems) or f"{len(names)} constants, each with a row and a use")
sys.exit(bool(problems))
