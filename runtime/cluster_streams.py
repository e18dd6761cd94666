"""A cluster's program as a folder: one file of bare words per unit.

``core0.bin``, ``core1.bin``, ... and, with a DMA, ``dma.bin``: 16 bytes per instruction or command,
absolute addresses. ``machine.json`` has the cluster (`ClusterTarget.fields`), ``image.npz`` the
memory before the launch as ``dram_in`` and, if the program has been run, the memory after it as
``dram_out``; a reader can do without either file.
"""

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vtac.dialects.array_files import read_npz, write_npz
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import ClusterTarget, TargetError
from vtac.runtime.atomic import read_whole, write_whole

MACHINE, IMAGE = "machine.json", "image.npz"

Words = NDArray[np.uint64]
Image = NDArray[np.uint8]


def write_streams(
    folder: str | os.PathLike[str],
    cluster: ClusterTarget,
    streams: Sequence[Words],
    image: Image | None = None,
    after: Image | None = None,
) -> None:
    """Write a folder, which is made if it does not exist.

    image, after: the bytes of memory before and after the launch, uint8 [n].
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    for unit, words in enumerate(streams):
        data = np.ascontiguousarray(words, "<u8").tobytes()
        write_whole(Path(folder, f"{cluster.unit_name(unit)}.bin"), data)
    fields = json.dumps(cluster.fields(), sort_keys=True, indent=2) + "\n"
    write_whole(Path(folder, MACHINE), fields.encode())
    images = {"dram_in": image, "dram_out": after}
    known = {name: array for name, array in images.items() if array is not None}
    if known:
        stream = io.BytesIO()
        write_npz(stream, known, compress=True)
        write_whole(Path(folder, IMAGE), stream.getvalue())


def read_streams(
    folder: str | os.PathLike[str], cluster: ClusterTarget | None = None
) -> tuple[ClusterTarget, list[Words], Image | None]:
    """The cluster, one stream per unit, and the image of a folder, if it has one.

    cluster: needed without ``machine.json``, otherwise it must be the same. Raises `CompileError`.
    """
    where = os.fspath(folder)
    machine = Path(folder, MACHINE)
    if machine.exists():
        try:
            own = ClusterTarget.from_fields(json.loads(read_whole(machine)))
        except (TargetError, ValueError, KeyError, TypeError) as error:
            raise CompileError(Problem(str(machine), f"is not a cluster: {error}")) from None
        if cluster is not None and cluster != own:
            hint = "Leave --target away; --preset and --set change its clock."
            raise CompileError(Problem(where, f"says itself that it is for {own}", hint))
        cluster = own
    if cluster is None:
        raise CompileError(Problem(where, f"has no {MACHINE}", "Say which cluster with --target."))
    names = [f"{cluster.unit_name(unit)}.bin" for unit in range(cluster.units)]
    paths = [Path(folder, name) for name in names]
    missing = [path.name for path in paths if not path.exists()]
    if missing:
        raise CompileError(Problem(where, f"has no {', '.join(missing)}, but {cluster} needs it"))
    others = sorted(p.name for p in Path(folder).glob("*.bin") if p.name not in names)
    if others:
        raise CompileError(Problem(where, f"has {', '.join(others)}, which {cluster} does not run"))
    return cluster, [_words(path) for path in paths], _image(Path(folder, IMAGE))


def _image(path: Path) -> Image | None:
    if not path.exists():
        return None
    arrays = read_npz(io.BytesIO(read_whole(path)), str(path))
    if "dram_in" not in arrays:
        raise CompileError(Problem(str(path), "has no dram_in, the memory before the launch"))
    return np.ascontiguousarray(arrays["dram_in"], np.uint8).reshape(-1)


def _words(path: Path) -> Words:
    data = read_whole(path)
    if len(data) % 16:
        raise CompileError(Problem(str(path), "is not a whole number of instructions"))
    return np.frombuffer(data, "<u8").reshape(-1, 2).astype(np.uint64)
