"""``vta-opt``: reads IR, runs passes, prints IR."""

from collections.abc import Sequence
from functools import partial

from xdsl.passes import ModulePass
from xdsl.xdsl_opt_main import xDSLOptMain

from vtac.dialects.context import VtacContext
from vtac.tools.discovery import load_dialects, our_codegens, our_passes


def _the_class(found: type[ModulePass]) -> type[ModulePass]:
    return found


class VtaOptMain(xDSLOptMain):
    """xDSL's driver with our context, dialects and passes."""

    def register_all_dialects(self) -> None:
        """Ours beside xDSL's, in a context that has a resource table."""
        self.ctx = VtacContext(codegens=our_codegens())
        load_dialects(self.ctx)

    def register_all_passes(self) -> None:
        """Ours beside xDSL's."""
        super().register_all_passes()  # type: ignore[no-untyped-call]
        for name, found in our_passes().items():
            self.register_pass(name, partial(_the_class, found))


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the command."""
    VtaOptMain(description="optimise vtac IR", args=args).run()  # type: ignore[no-untyped-call]
