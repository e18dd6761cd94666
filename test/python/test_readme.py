"""The commands and the Python of the README work."""

import importlib
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_path import load
from xdsl.dialects.builtin import FloatAttr, ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from vtac.dialects.context import VtacContext
from vtac.dialects.graph import ClipOp, ReluOp

TYPE = TensorType(f32, [1, 4])


def test_the_commands_and_the_python_of_a_model_of_ones_own(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder of its own, without the installation: commands run in this process."""
    text = (root / "README.md").read_text().split("## Your own model")[1].split("\n## ")[0]
    (commands,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    sources = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "examples").symlink_to(root / "examples")
    monkeypatch.chdir(tmp_path)
    for line in commands.splitlines()[1:]:
        command, *arguments = shlex.split(line, comments=True)
        match command:
            case "cp":
                shutil.copy(*arguments)
            case "python":
                load(arguments[0]).main(*arguments[1:])
            case _:
                importlib.import_module(f"vtac.tools.commands.{command.replace('-', '_')}").main(
                    arguments
                )
    said = capsys.readouterr().out
    assert "what runs where" in said and "top-1" in said
    room: dict[str, Any] = {}
    for source in sources:
        exec(source, room)
    assert float(capsys.readouterr().out.splitlines()[-1]) > 0.95
    assert np.argmax(room["logits"]) == room["test"]["y"][0]
    assert [path.suffix for path in (tmp_path / "compiled").iterdir()] == [".vtapkg"]


def test_the_pass_of_the_readme(root: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)
    (source,) = (block for block in blocks if "ModulePass" in block)
    room: dict[str, object] = {"__name__": "relu_to_clip"}
    exec(source, room)
    rewrite = room["ReluToClipPass"]
    assert isinstance(rewrite, type)

    block = Block(arg_types=[TYPE])
    relu = ReluOp(block.args[0], TYPE)
    block.add_ops([relu, ReturnOp(relu.result)])
    module = ModuleOp([FuncOp("main", ([TYPE], [TYPE]), Region(block))])
    rewrite().apply(VtacContext(), module)
    module.verify()
    clips = [op for op in module.walk() if isinstance(op, ClipOp)]
    assert [clip.min for clip in clips] == [FloatAttr(0.0, 64)]
    assert not any(isinstance(op, ReluOp) for op in module.walk())
