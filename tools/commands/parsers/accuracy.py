"""Arguments by which commands judge a model."""

import argparse

from vtac.tools.commands.parsers.types import at_least


def add_evaluate_argument(group: argparse._ActionsContainer, against: str) -> None:
    """Add ``--evaluate``. against: what the outputs are compared with, for the help text."""
    group.add_argument(
        "--evaluate",
        metavar="DATA",
        help="run on these samples (.npz by input name, or .npy) and compare with "
        f"{against}; an array 'y' or 'labels' in the file also gives top-1 accuracy, or the mean"
        " error of a regression",
    )


def add_accuracy_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments by which ``vta-compile`` judges the model that it compiled."""
    group = parser.add_argument_group("accuracy")
    add_evaluate_argument(group, "the model in onnxruntime")
    group.add_argument(
        "--limit", type=at_least(1), metavar="N", help="evaluate on the first N batches only"
    )
    group.add_argument(
        "--layer-errors",
        action="store_true",
        help="say how far each layer is from float on the calibration samples, worst first",
    )
    group.add_argument(
        "--error-samples",
        metavar="DATA",
        help="measure the errors of layers on these samples instead",
    )
    group.add_argument(
        "--json",
        action="store_true",
        help="print the report of the compilation, the evaluation and layer errors as JSON",
    )
