#!/bin/bash
# Checks bench_peers with rows that take almost no time, and benchmarks/README.md against the programs:
#   check_bench_peers.sh BENCH_PEERS README WORK_DIR      (exit code 77: there is no Python to read JSON with)
# The results must be right, the JSON file must contain each group, the README's table must be what bench_peers --table
# prints for the committed results, and the README's commands must run.
set -eu
program=$1 readme=$2 work=$3
benchmarks=$(cd "$(dirname "$readme")" && pwd)
fail() { echo "check_bench_peers: $1"; exit 1; }
rm -rf "$work" && mkdir -p "$work" && cd "$work"

# The README's table.
begin='<!-- printed by: build/bin/bench_peers --table benchmarks/results -->' end='<!-- end of the table -->'
awk -v begin="$begin" -v end="$end" '$0 == end {inside = 0} inside; $0 == begin {inside = 1}' "$readme" >shown
"$program" --table "$benchmarks/results" >printed || fail "bench_peers --table fails"
diff shown printed || fail "the README's table (<) is not what bench_peers --table prints (>): copy it into the README"

python=$(command -v python3) || { echo "skipped: there is no python3 to read the JSON with"; exit 77; }
export KILN_CACHE_DIR=$work/cache KILN_PYTHON=false # loading PyTorch takes seconds

"$program" --tiny --json peers.json >table 2>log || { cat log; fail "bench_peers fails"; }
"$python" - peers.json <<'END' || { cat table; fail "the JSON is not what the README says"; }
import json, math, sys

peers = json.load(open(sys.argv[1]))
groups = "matmul llama transposed bf16 int8 softmax layernorm rmsnorm chain batched attention decode backward launch compile".split()
threads = [m["threads"] for m in peers["machines"]]
assert threads in ([1], [1, 2]), threads
for machine in peers["machines"]:
    assert machine["copy_gbs"] > 0 and machine["fma_gflops"] > 0, machine
    assert set(machine["peers"]) == {"openblas", "blis", "onednn", "pytorch"}, machine
    assert machine["wrong_results"] == 0
for count in threads:
    rows = [r for r in peers["rows"] if r["threads"] == count]
    assert sorted(set(r["group"] for r in rows)) == sorted(groups), "a group is missing"
    for r in rows:
        assert r["seconds"] > 0 and math.isfinite(r["seconds"]), r
        assert r["group"] in ("launch", "compile") or 0 <= r["error"] < 1e-2, r
        assert all(o["seconds"] > 0 and o["role"] in ("peer", "information", "limit") for o in r["others"]), r
        best = min((o for o in r["others"] if o["role"] == "peer"), key=lambda o: o["seconds"], default=None)
        assert r["best_peer"] == (best["name"] if best else ""), r
        assert abs(r["ratio"] - (best["seconds"] / r["seconds"] if best else 0)) <= 1e-3 * r["ratio"], r
        if r["group"] == "chain":
            assert "copy" in [o["name"] for o in r["others"]], r
means = {(m["name"], m["threads"]): m for m in peers["means"]}
for r in peers["rows"]:
    if r["mean"]:
        assert means[r["mean"], r["threads"]]["rows"] > 0
some = means["elementwise", threads[-1]]
shares = [r["limit_share"] for r in peers["rows"] if r["mean"] == "elementwise" and r["threads"] == threads[-1]]
assert abs(some["limit_share"] - math.prod(shares) ** (1 / len(shares))) <= 1e-3 * some["limit_share"], some
END

# --table shows the newest runs of each CPU, and rejects folders and files without runs.
mkdir runs && cp peers.json runs/2001-02-03-fast-cpu-peers-1.json
echo '{"machines": []}' >runs/2001-02-02-fast-cpu-peers-7.json # older, so it is not read
"$program" --table runs >table || fail "bench_peers --table fails on a run of today"
grep -q 'Fast Cpu' table && grep -q '2001-02-03' table || { cat table; fail "--table does not show the newest run"; }
[ "$(grep -c '^| f32 attention' table)" = "$(grep -c '^| gelu' table)" ] || { cat table; fail "--table lacks lines"; }
mv runs/2001-02-02-fast-cpu-peers-7.json runs/2001-02-04-fast-cpu-peers-1.json
"$program" --table runs >table 2>log && fail "--table accepts a file that is not a run"
grep -q '2001-02-04-fast-cpu-peers-1.json is not a result of bench_peers' log || { cat log; fail "--table does not name the file"; }
mkdir empty && "$program" --table empty >table 2>log && fail "--table accepts a folder without runs"
grep -q 'empty has no file named DATE-CPU-peers-NUMBER.json' log || { cat log; fail "--table does not name the folder"; }

# The README's commands, those of bench_peers with tiny rows.
commands=0
while read -r name arguments; do
  arguments=${arguments//benchmarks\//"$benchmarks/"}
  [ "$name" != bench_peers ] || arguments="$arguments --tiny"
  "$(dirname "$program")/$name" $arguments >table 2>log || { cat log; fail "the README's command fails: $name $arguments"; }
  commands=$((commands + 1))
done < <(sed -n 's,^    build/bin/,,p' "$readme" | sed 's/  .*//')
[ $commands -ge 3 ] || fail "the README shows $commands commands"
"$benchmarks/install_pytorch.sh" --help | grep -q 'install_pytorch.sh \[FOLDER\]' || fail "install_pytorch.sh has no help"
"$program" --only nothing >/dev/null 2>&1 && fail "bench_peers accepts an unknown group"
"$program" --threads 0 >/dev/null 2>&1 && fail "bench_peers accepts zero threads"
echo "the README's table is up to date, bench_peers is right, and $commands commands of the README run"
