"""Each exported operator of the host in C against onnxruntime."""

from pathlib import Path

import numpy as np
import pytest
from c_projects import COMPILERS, TOLERANCE, assert_near, build, found_compiler, run_model
from host_operators import Operators, early_operators, late_operators

from vtac.runtime.c_project import c_project_of
from vtac.runtime.c_project.host_parts import CONVERTERS
from vtac.runtime.executor import Module

MADE = {"late": late_operators, "early": early_operators}


def assert_operators(operators: Operators, program: Path) -> None:
    package = operators.package()
    (found,) = run_model(program, package, [operators.feeds])
    names = {name: node.name for node in operators.nodes for name in node.output}
    for name, expected in Module(package).run(operators.feeds).items():
        assert expected.size
        tolerance = TOLERANCE if name in operators.rough else 0.0
        assert_near(found[name], expected, names[name], tolerance)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("made", MADE)
def test_operators(made: str, compiler: str, tmp_path: Path) -> None:
    """Moves, integers and IEEE operations are equal; other floats lie within a tolerance."""
    operators = MADE[made]()
    c_project_of(operators.package()).write(tmp_path)
    program = build(tmp_path, found_compiler(compiler), sanitize=True)
    assert_operators(operators, program)


@pytest.mark.parametrize("flags", ["-O1", "-O2"])
def test_optimised_operators(flags: str, tmp_path: Path) -> None:
    """What optimisers make of values that share one object; gcc 12 once left out a store."""
    operators = late_operators()
    c_project_of(operators.package()).write(tmp_path)
    assert_operators(operators, build(tmp_path, found_compiler("gcc"), flags=flags))


def test_every_converter_is_tested() -> None:
    tested = {node.op_type for make in MADE.values() for node in make().nodes}
    assert set(CONVERTERS) - tested == {"Acos", "Asin"}


def test_constants_keep_all_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 2**32, 400, dtype=np.uint32).view(np.float32)
    numbers = numbers[np.isfinite(numbers)]
    special = np.array([np.inf, -np.inf, 0.0, -0.0, 1e-45, 3.4e38], np.float32)
    b = Operators(17)
    for array in (np.concatenate([numbers, special]), rng.normal(0, 1e100, 50)):
        x = b.input(np.zeros(array.shape, array.dtype))
        b.add("Max", [b.weight(array, array.dtype), b.add("Add", [x, x])])
    for dtype in ("int8", "uint8", "int32", "int64", "uint32", "uint64"):
        limits = np.iinfo(dtype)
        array = np.array([limits.min, limits.min + 1, 0, limits.max - 1, limits.max], dtype)
        b.add("Concat", [b.weight(array, dtype), b.input(array)], axis=0)
    package = b.package()
    c_project_of(package).write(tmp_path)
    program = build(tmp_path, found_compiler("gcc"), sanitize=True)
    (found,) = run_model(program, package, [b.feeds])
    for name, expected in Module(package).run(b.feeds).items():
        np.testing.assert_array_equal(found[name], expected, name)
