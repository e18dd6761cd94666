"""How lit runs the tests of IR text: ``lit test/passes``, or ``make lit`` for all of them.

A RUN line may name ``vta-opt``, ``vta-translate``, ``vta-compile``, ``vta-run``, ``FileCheck`` (or
``filecheck``, the same command) and ``%python``. Inputs of tests lie in folders called ``inputs``
beside them, reached as ``%S/inputs``; what a test writes goes to ``%t``, outside the sources.

The commands start from a process that has imported xDSL and our dialects already
(``support/preloaded.py``); ``VTAC_LIT_SCRIPTS=1`` starts the installed scripts instead.
"""
# ruff: noqa: F821 (lit defines config)

import importlib.util
import os
import sys
from pathlib import Path

import lit.formats

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))
import installed_codegens
import preloaded

root = Path(__file__).resolve().parents[1]
commands = Path(sys.executable).parent

config.name = "vtac"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["inputs", "python", "benchmarks", "support"]
config.test_source_root = str(root / "test")
config.available_features |= {"networkx"} if importlib.util.find_spec("networkx") else set()
config.test_exec_root = str(root / "build" / "lit")

# The codegens of examples/codegens are found by name, as if they were installed.
site = root / "build" / "lit" / "site"
installed_codegens.declare(site)
found = [str(site), str(installed_codegens.EXAMPLE), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, found))
config.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
config.environment["VTAC_CONFIG"] = ""

paths = [str(commands), config.environment["PATH"]]
# A path with a blank cannot stand in the first line of a script.
if "VTAC_LIT_SCRIPTS" not in os.environ and " " not in sys.executable and hasattr(os, "fork"):
    folder = root / "build" / "lit" / "commands"
    server = preloaded.start(folder, ("filecheck", "vta-opt", "vta-translate"))
    paths.insert(0, str(folder))
config.environment["PATH"] = os.pathsep.join(paths)
config.substitutions += [
    # lit puts paths into RUN lines as they are. Quoted, they may hold spaces: the first of these
    # two opens a quotation (after an empty one, as a mark), the second closes it.
    (r"""(?<!["'\w])(?=%[sStT](?!\w))""", '"""'),
    (r'''(?<="""%[sStT])''', '"'),
    ("%python", f'"{sys.executable}"'),
    (r"\bFileCheck\b", "filecheck"),
]
