"""What the README tells people to write works."""

import re
from pathlib import Path

from xdsl.dialects.builtin import FloatAttr, ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from vtac.dialects.context import VtacContext
from vtac.dialects.graph import ClipOp, ReluOp

TYPE = TensorType(f32, [1, 4])


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
