"""Makes examples/codegens an installed package, as far as entry points go."""

import tomllib
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "codegens"


def declare(site: Path) -> Path:
    """Write what ``pip install`` would write into a folder of packages; the file of entry points.

    Whoever has the folder and `EXAMPLE` on its path then finds the codegens by name.
    """
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    made = site / f"float_codegens-{project['version']}.dist-info"
    made.mkdir(parents=True, exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (made / "METADATA").write_text(metadata)
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]
    file = made / "entry_points.txt"
    file.write_text("\n".join(lines))
    return file
