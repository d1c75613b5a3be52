#!/bin/bash
# Checks the JSON file of bench_collectives, with few and small products:
#   check_bench_collectives.sh BENCH_COLLECTIVES WORK_DIR      (exit code 77: there is no Python to read JSON with)
set -eu
program=$1 work=$2
fail() { echo "check_bench_collectives: $1"; exit 1; }
python=$(command -v python3) || { echo "skipped: there is no python3 to read the JSON with"; exit 77; }
rm -rf "$work" && mkdir -p "$work" && cd "$work"
export KILN_CACHE_DIR=$work/cache

"$program" --quick --json quick.json >table 2>log || { cat log; fail "bench_collectives fails"; }
"$python" - quick.json table <<'END' || { cat table; fail "the JSON is not what the program's comments say"; }
import json, sys

results, table = json.load(open(sys.argv[1])), open(sys.argv[2]).read()
sections = {"hidden", "never_slower", "wall_clock", "collectives", "one_rank", "wall_never_slower"}
assert set(results) == {"cpu", "threads"} | sections, set(results)
assert all(row["hidden"] <= 1 for row in results["hidden"])
assert results["never_slower"]["worst"] <= 1 and results["never_slower"]["shapes"] == 420
assert all(row["serial"] > 0 and row["chosen"] > 0 for row in results["wall_clock"])

wall = results["wall_never_slower"]
rows = wall["rows"]
assert wall["ranks"] == 2 and wall["tolerance"] == 1.02 and wall["seconds"] > 0
assert wall["products"] == len(rows) >= 6
timed = [r for r in rows if r["schedule"] != "serial"]
assert wall["timed"] == len(timed)
assert wall["not_slower"] == sum(r["not_slower"] for r in rows)
assert wall["at_most"] == sum(r["high"] <= 1.02 for r in rows)
assert wall["worst_low"] == max([1] + [r["low"] for r in rows])
assert {r["ratio"] for r in rows} == {0.5, 1}
for r in rows:
    assert r["product"] and r["tokens"] > 0 and min(r["rows"], r["n"], r["k"]) >= 16, r
    assert r["kind"] in ("gather_matmul", "matmul_reduce_scatter", "matmul_all_reduce"), r
    assert r["computation"] > 0 and 0 < r["low"] <= r["mean"] <= r["high"], r
    assert r["not_slower"] == (r["low"] <= 1.02), r
    assert (r["pairs"] >= 5 and r["serial"] > 0 and r["planned"] > 0) if r in timed else \
        (r["pairs"] == 0 and r["mean"] == r["low"] == r["high"] == 1 and "serial" not in r), r
assert f'{wall["not_slower"]} of {len(rows)} products are not slower' in table
END
"$program" --quick --only hidden --json >printed.json 2>printed_table
"$python" -c 'import json, sys; assert json.load(open(sys.argv[1]))["hidden"]' printed.json && grep -q hidden printed_table ||
  fail "--json without a file does not print the results alone"
"$program" --only nothing >/dev/null 2>&1 && fail "bench_collectives accepts an unknown section"
"$program" --seconds 0 >/dev/null 2>&1 && fail "bench_collectives accepts no time"
echo "the JSON of bench_collectives is complete"
