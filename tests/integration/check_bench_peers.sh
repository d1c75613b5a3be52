#!/bin/bash
# bench_peers on rows that take no time: its results are right, its JSON holds every group, and the commands that
# benchmarks/README.md gives for it are understood:
#   check_bench_peers.sh BENCH_PEERS README WORK_DIR; exit code 77: there is no Python to read JSON with
# Times mean nothing here.
set -eu
program=$1 readme=$2 work=$3
fail() { echo "check_bench_peers: $1"; exit 1; }
python=$(command -v python3) || { echo "skipped: there is no python3 to read the JSON with"; exit 77; }
mkdir -p "$work" && cd "$work"
export KILN_CACHE_DIR=$work/cache KILN_PYTHON=false # PyTorch takes seconds to load

"$program" --tiny --json peers.json >table 2>log || { cat log; fail "bench_peers fails"; }
"$python" - peers.json <<'END' || { cat table; fail "the JSON is not what the README says"; }
import json, math, sys

peers = json.load(open(sys.argv[1]))
groups = "matmul llama transposed bf16 int8 softmax layernorm rmsnorm chain attention launch compile".split()
threads = [m["threads"] for m in peers["machines"]]
assert threads in ([1], [1, 2]), threads
for machine in peers["machines"]:
    assert machine["copy_gbs"] > 0 and machine["fma_gflops"] > 0, machine
    assert set(machine["peers"]) == {"openblas", "blis", "onednn", "pytorch"}, machine
    assert machine["wrong_results"] == 0
for count in threads:
    rows = [r for r in peers["rows"] if r["threads"] == count]
    assert list(dict.fromkeys(r["group"] for r in rows)) == groups, "a group is missing"
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

commands=0
while read -r line; do
  "$program" $line --tiny >table 2>log || { cat log; fail "the README's command fails: bench_peers $line"; }
  commands=$((commands + 1))
done < <(sed -n 's,^    build/bin/bench_peers *\([^#]*[^# ]\)\{0\,1\}.*,\1,p' "$readme" | sed 's/  .*//')
[ $commands -ge 3 ] || fail "the README shows $commands commands"
"$program" --only nothing >/dev/null 2>&1 && fail "bench_peers takes a group that is not there"
"$program" --threads 0 >/dev/null 2>&1 && fail "bench_peers takes no threads at all"
echo "bench_peers is right, and $commands commands of the README run"
