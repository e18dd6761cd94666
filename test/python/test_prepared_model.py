"""A network that is prepared once gives each machine the package that a compilation gives."""

from pathlib import Path
from typing import Any

import pytest
from digits_model import MODEL, images
from quantised_networks import network

import vtac
from vtac.dialects.target import TARGET_ATTRIBUTE, Target, target_at
from vtac.passes.graph.quantize import QuantizePass
from vtac.runtime.package import write_package
from vtac.tools.driver.compiler import compile_model
from vtac.tools.driver.options import CompileOptions
from vtac.tools.driver.prepared_model import PreparedModel

MACHINES = (
    Target.named("pynq"),
    Target.named("sim"),
    Target.named("chisel-pynq").replace(log_batch=1, port_bytes=16),
    Target.named("chisel-pynq").replace(log_block=5, log_acc_buff_size=18, latency=64),
    Target.named("pynq"),
)


def package_of(module: vtac.Module, path: Path) -> bytes:
    write_package(module.package, path)
    return path.read_bytes()


def same_packages(model: Any, calibration: Any, options: CompileOptions, folder: Path) -> None:
    prepared = PreparedModel(model, "de10nano", calibration, options)
    for machine in MACHINES:
        ours = prepared.compile(machine)
        theirs = compile_model(model, machine, calibration, options)
        assert ours.report.notes == theirs.report.notes
        assert [level.name for level in ours.report.levels] == [
            level.name for level in theirs.report.levels
        ]
        assert package_of(ours, folder / "a") == package_of(theirs, folder / "b"), machine


def test_a_float_network_with_samples(tmp_path: Path) -> None:
    same_packages(MODEL, {"image": images()[:8]}, CompileOptions(), tmp_path)


@pytest.mark.parametrize("requantise", ["auto", "exact"])
def test_networks_with_given_scales(requantise: str, tmp_path: Path) -> None:
    model = network(3, qoperator=False, residual=True, unsigned=False).model
    same_packages(model, None, CompileOptions(requantise=requantise), tmp_path)


def test_machines_that_differ_in_what_quantisation_does_not_read_share_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quantised: list[Target] = []
    apply = QuantizePass.apply

    def counted(self: QuantizePass, ctx: Any, module: Any) -> None:
        quantised.append(target_at(module))
        apply(self, ctx, module)

    monkeypatch.setattr(QuantizePass, "apply", counted)
    prepared = PreparedModel(MODEL, "sim", {"image": images()[:4]})
    base = Target.named("chisel-pynq")
    wide = base.replace(log_block=5, log_acc_buff_size=18)
    machines = [
        base,
        base.replace(log_acc_buff_size=16),
        wide,
        base.replace(log_wgt_buff_size=17, latency=99),
        wide.replace(port_bytes=16),
    ]
    for machine in machines:
        assert prepared.compile(machine).package.target == machine
    assert [target.block for target in quantised] == [16, 32]


def test_whoever_looks_at_levels_sees_those_of_each_machine() -> None:
    seen: list[tuple[str, Any]] = []

    def observe(level: str, module: Any, ctx: Any) -> None:
        seen.append((level, module.attributes[TARGET_ATTRIBUTE]))

    prepared = PreparedModel(MODEL, "sim", {"image": images()[:4]}, CompileOptions(observe=observe))
    for latency in (16, 99):
        machine = Target.named("chisel-pynq").replace(latency=latency)
        seen.clear()
        prepared.compile(machine)
        assert {target for _, target in seen} == {machine}
        assert "quantised" in {level for level, _ in seen}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_float_network_without_samples(tmp_path: Path) -> None:
    same_packages(MODEL, None, CompileOptions(), tmp_path)


def test_layers_that_do_not_fit_stay_on_the_host(tmp_path: Path) -> None:
    small = Target.named("chisel-pynq").replace(
        log_inp_buff_size=8, log_wgt_buff_size=9, log_acc_buff_size=9
    )
    samples = {"image": images()[:4]}
    prepared = PreparedModel(MODEL, "pynq", samples)
    first = package_of(prepared.compile(small), tmp_path / "a")
    assert first == package_of(compile_model(MODEL, small, samples), tmp_path / "b")
    assert first == package_of(prepared.compile(small), tmp_path / "a")
