"""Random networks on clusters of 1, 2, 3, 4 and 8 cores: the integers of one core and of NumPy.

``python FILE --count 200`` checks networks 0 to 199 by `cluster_cases.check_network` and prints
those that fail. Of small programs every token, wait and signal is taken away, one at a time, which
the hazard checker must find. Networks that were checked are remembered in a file, so that a run
goes on where another one stopped; ``--seconds`` begins no further network after that time.
"""

import argparse
import json
import sys
import time
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from cluster_cases import CORES, check_mutants, check_network

MOST_MUTANTS = 300
"""Programs with more tokens, waits and signals are not taken apart."""

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Check networks; the status is 1 if any of all that were checked failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--cores", type=int, nargs="+", default=list(CORES))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--records", type=Path, default=ROOT / "build/cluster_networks.jsonl")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    args.records.parent.mkdir(parents=True, exist_ok=True)
    lines = args.records.read_text().splitlines() if args.records.exists() else []
    known = {entry["seed"]: entry for entry in map(json.loads, lines)}
    started = time.monotonic()
    for seed in range(args.first, args.first + args.count):
        if time.monotonic() - started > args.seconds:
            break
        if seed in known and not known[seed]["error"]:
            continue
        entry = {"seed": seed, "programs": 0, "mutants": 0, "error": ""}
        try:
            entry["programs"] = check_network(seed, args.cores)
            entry["mutants"] = check_mutants(seed, 2 + seed % 3, MOST_MUTANTS)
        except Exception:  # whatever goes wrong is the finding
            entry["error"] = traceback.format_exc(limit=-3)
            print(f"network {seed}: {entry['error']}", flush=True)
        known[seed] = entry
        with args.records.open("a") as stream:
            stream.write(json.dumps(entry) + "\n")
    failed = [seed for seed, entry in known.items() if entry["error"]]
    programs = sum(entry["programs"] for entry in known.values())
    mutants = sum(entry.get("mutants", 0) for entry in known.values())
    told = f"{len(known)} networks, {programs} programs, {mutants} mutants found"
    print(f"{told}, failed: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
