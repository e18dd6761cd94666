"""Entry points of the installed commands.

Each parses its arguments and looks for what is wrong with them, inside the guard, before it imports
what it runs. This module and the packages around it import next to nothing, because an interruption
while they are imported ends with a traceback.
"""

import gc
import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

INTERRUPTED = 130


def _guard(command: str) -> "AbstractContextManager[None]":
    """`vtac.tools.commands.guard.guard`; an interruption while it is imported ends quietly, too."""
    try:
        from vtac.tools.commands.guard import guard
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    return guard(command)


def _run(module: str) -> None:
    """Parse and verify the arguments, so that help and mistakes need no more, then run the command.

    What is imported stays, so the collector of garbage need not look at it: neither while it is
    imported, which saves a tenth of the time, nor later. Nor need it look at the end through all
    that a command leaves, since the process ends: a compilation leaves its IR.
    """
    with _guard(module.replace("_", "-")):
        from vtac.tools.commands.progress import shown_steps

        parsers = importlib.import_module(f"vtac.tools.commands.parsers.{module}")
        args = parsers.argument_parser().parse_args()
        parsers.verify(args)
        with shown_steps(quiet=args.quiet, verbose=args.verbose) as step:
            step("import what the command needs")
            gc.disable()
            command = importlib.import_module(f"vtac.tools.commands.{module}")
            gc.freeze()
            gc.enable()
        try:
            command.main()
        finally:
            gc.freeze()


def vtac() -> None:
    """Name the commands, say the versions, write completions for shells."""
    with _guard("vtac"):
        importlib.import_module("vtac.tools.commands.vtac").main()


def vta_compile() -> None:
    """Compile an ONNX model to a package."""
    _run("vta_compile")


def vta_explore() -> None:
    """Vary the machine: cycles of a model against cost."""
    _run("vta_explore")


def vta_export() -> None:
    """Write a package as a C project."""
    _run("vta_export")


def vta_opt() -> None:
    """Run passes over IR."""
    _run("vta_opt")


def vta_report() -> None:
    """Write a page that shows a compiled network."""
    _run("vta_report")


def vta_run() -> None:
    """Run a package."""
    _run("vta_run")


def vta_serve() -> None:
    """Offer simulated accelerators to others."""
    _run("vta_serve")


def vta_sim() -> None:
    """Time a program."""
    _run("vta_sim")


def vta_translate() -> None:
    """Translate between ONNX, IR and encoded programs."""
    _run("vta_translate")


def vta_tune() -> None:
    """Search for better schedules, and record them."""
    _run("vta_tune")


COMMANDS = (
    vta_compile,
    vta_tune,
    vta_run,
    vta_report,
    vta_export,
    vta_explore,
    vta_sim,
    vta_serve,
    vta_opt,
    vta_translate,
)
"""The entry points of the commands that `vtac` names."""
