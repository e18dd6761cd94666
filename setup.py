"""Lists the packages: every folder of ours at the root, as a subpackage of ``vtac``."""

from setuptools import find_packages, setup

ROOMS = ["dialects", "passes", "lowering", "runtime", "sim", "tools"]

setup(
    # Named, this file is not taken for a module of the package that has the same folder.
    script_name="setup.py",
    packages=[
        "vtac",
        *(
            f"vtac.{name}"
            for name in find_packages(include=[pattern for r in ROOMS for pattern in (r, f"{r}.*")])
        ),
    ],
    package_data={
        "vtac": ["py.typed"],
        "vtac.runtime.c_project": ["templates/*"],
        "vtac.tools.explore_machines": ["templates/*"],
        "vtac.tools.report_page": ["templates/*"],
        "vtac.tools.tune": ["records/*.jsonl"],
    },
)
