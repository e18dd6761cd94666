"""The folder of ``--save-ir``: a file of IR for each level that a compilation reaches."""

from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.tools.files.ir_files import remove_ir, write_ir


@dataclass(frozen=True)
class SavedLevels:
    """The files of levels in a folder, named by the number and the name of each level."""

    folder: Path

    def write(self, number: int, level: str, text: str, module: ModuleOp, ctx: VtacContext) -> None:
        """Write a level, and make the folder. Raises `CompileError` where it cannot be made."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = Problem(str(self.folder), f"cannot make it: {error.strerror}")
            raise CompileError(problem) from None
        write_ir(self._file(number, level), text, module, ctx)

    def remove(self, number: int, level: str) -> None:
        """Remove what was written of a level."""
        remove_ir(self._file(number, level))

    def _file(self, number: int, level: str) -> Path:
        return self.folder / f"{number}_{level}.mlir"
