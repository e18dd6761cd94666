"""Lists the packages: every folder of ours at the root, as a subpackage of ``vtac``."""

from setuptools import find_packages, setup

ROOMS = ["dialects", "passes", "lowering", "runtime", "sim", "tools"]

setup(
    packages=[
        "vtac",
        *(
            f"vtac.{name}"
            for name in find_packages(include=[pattern for r in ROOMS for pattern in (r, f"{r}.*")])
        ),
    ],
    package_data={"vtac": ["py.typed"]},
)
