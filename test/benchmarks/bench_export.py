"""Exported C projects against ``module.run``: the models of ``../shared/models``, random networks.

For each: whether all bytes that launches return are equal (the accelerator's integers), whether the
outputs are equal, and if not, how far they lie apart, relative to the largest; bytes of the host's
memory, planned and without sharing; seconds of processor time to build the project with warnings as
errors, and to run it once for each input. Run: ``python FILE --help``.
"""

import argparse
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from c_projects import build, run_model
from random_networks import Network, networks
from trained_models import NAMES, SHARED, model_path, samples_and_inputs

import vtac
from vtac.runtime.c_project import CProject, c_project_of
from vtac.runtime.executor import Module

Array = np.ndarray[Any, np.dtype[Any]]
Batch = Mapping[str, Array]

TARGETS = ("sim", "pynq", "chisel-pynq")

TRACING = """
/* The simulator as a driver that also writes all that it returns to a file. */
#define vta_read vta_read_only
#include "vta_simulator.c"
#undef vta_read

int vta_read(uint32_t address, void *data, size_t size)
{
    static FILE *file;
    int status = vta_read_only(address, data, size);
    if (!file)
        file = fopen("reads.bin", "wb");
    if (!file || fwrite(data, 1, size, file) != size || fflush(file) != 0)
        return 1;
    return status;
}
"""
"""A driver of one's own: what ``DRIVER=tracing.c`` builds."""


@dataclass(frozen=True)
class Verdict:
    """What became of one network. apart: of outputs that are not equal, relative to the largest."""

    integers: bool
    equal: bool
    apart: float
    launches: int
    build_seconds: float
    run_seconds: float
    project: CProject

    def line(self, name: str, target: str) -> str:
        """A row of the table."""
        memory = self.project.memory
        outputs = "equal" if self.equal else f"{self.apart:.1e}"
        return (
            f"{name:28} {target:12} {self.launches:8} {'equal' if self.integers else 'NOT':>8}"
            f" {outputs:>8} {memory.bytes:>10,} {memory.sum:>10,} {self.build_seconds:6.1f}"
            f" {self.run_seconds:6.2f}"
        )


HEAD = (
    f"{'network':28} {'target':12} {'launches':>8} {'integers':>8} {'outputs':>8}"
    f" {'bytes':>10} {'unshared':>10} {'build':>6} {'run':>6}"
)


def judge(module: Module, batches: list[Batch], compiler: str) -> Verdict:
    """Export, build and run a module, and compare with Python."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project = c_project_of(module.package)
        project.write(folder)
        (folder / "tracing.c").write_text(TRACING)
        started = _seconds()
        program = build(folder, compiler, driver="tracing.c vta_decoder.c")
        built = _seconds() - started
        started = _seconds()
        found = run_model(program, module.package, batches)
        seconds = (_seconds() - started) / len(batches)
        expected, wanted = _run(module, batches)
        reads = folder / "reads.bin"
        returned = reads.read_bytes() if reads.exists() else b""
    pairs = [
        (ours[name], theirs[name])
        for ours, theirs in zip(found, expected, strict=True)
        for name in theirs
    ]
    equal = all(np.array_equal(a, b) for a, b in pairs)
    apart = max(
        float(np.abs(a.astype(np.float64) - b).max() / max(np.abs(b).max(), 1e-30))
        for a, b in pairs
    )
    launches = sum(step.kind == "launch" for step in module.package.steps)
    return Verdict(returned == wanted, equal, apart, launches, built, seconds, project)


def _seconds() -> float:
    """Seconds of processor time of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _run(module: Module, batches: list[Batch]) -> tuple[list[dict[str, Any]], bytes]:
    """The outputs of all batches, and all bytes that launches returned, in order."""
    parts: list[bytes] = []
    for name, session in module._sessions.items():
        launch = session.launch

        def traced(function: str, inputs: Any, options: Any, launch: Any = launch) -> Any:
            result = launch(function, inputs, options)
            parts.extend(np.ascontiguousarray(output).tobytes() for output in result.outputs)
            return result

        module._sessions[name] = type("Traced", (), {"launch": staticmethod(traced)})()
    results = [module.run(feeds) for feeds in batches]
    return results, b"".join(parts)


def models(names: list[str], targets: list[str], inputs: int) -> Iterator[tuple[str, str, Any]]:
    """The models with what they are to answer."""
    for name in names:
        samples, answered = samples_and_inputs(name)
        for target in targets:
            module = vtac.compile(model_path(name), target, samples)
            (value,) = module.inputs
            yield name, target, (module, [{value.name: x} for x in answered[:inputs]])


def random_networks(count: int, first: int) -> list[Network]:
    """Networks of the generator that the tests use: every other one exact."""
    return [_random_network(first + number, number % 2 == 0) for number in range(count)]


def _random_network(number: int, exact: bool) -> Network:
    """The second that a seed gives: the first is always the smallest there is."""
    made: list[Network] = []

    @seed(number)
    @settings(max_examples=2, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(networks(exact=exact))
    def draw(network: Network) -> None:
        made.append(network)

    draw()
    return made[-1]


def main() -> int:
    """Print a row for each network and what they come to; 1 if integers are not equal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", choices=[*NAMES, []], metavar="MODEL")
    parser.add_argument("--target", dest="targets", action="append", help="default: all three")
    parser.add_argument("--inputs", type=int, default=10, help="inputs of each model")
    parser.add_argument("--random", type=int, default=100, metavar="N", help="random networks")
    parser.add_argument("--seed", type=int, default=0, help="of the random networks")
    parser.add_argument("--compiler", default="gcc")
    options = parser.parse_args()
    if shutil.which(options.compiler) is None:
        print(f"there is no {options.compiler}")
        return 0
    targets = options.targets or list(TARGETS)
    print(HEAD, flush=True)
    verdicts: list[Verdict] = []
    if SHARED.is_dir():
        names = options.models or list(NAMES)
        for name, target, (module, batches) in models(names, targets, options.inputs):
            verdicts.append(judge(module, batches, options.compiler))
            print(verdicts[-1].line(name, target), flush=True)
    for number, network in enumerate(random_networks(options.random, options.seed)):
        target = targets[number % len(targets)]
        module = vtac.compile(network.model, target, network.samples)
        verdicts.append(judge(module, [network.inputs], options.compiler))
        kind = "exact" if network.exact else "general"
        print(verdicts[-1].line(f"random {number} ({kind})", target), flush=True)
    same, all_equal = (sum(v.integers for v in verdicts), sum(v.equal for v in verdicts))
    worst = max((v.apart for v in verdicts), default=0.0)
    print(
        f"{len(verdicts)} networks: integers of {same} equal, outputs of {all_equal} equal,"
        f" the others within {worst:.1e}"
    )
    return int(same != len(verdicts))


if __name__ == "__main__":
    sys.exit(main())
