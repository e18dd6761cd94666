"""Pads with elements of their operand, interpolation by whole factors, slopes around one."""

from collections.abc import Sequence

import numpy as np

from vtac.lowering.onnx_to_graph.expansions.site import Site

MODES = {b"reflect": "reflect", b"edge": "edge", b"wrap": "wrap"}
"""NumPy's names of the modes of ONNX Pad."""

MOST_PARTS = 64
"""A pad is as many slices side by side, at most."""

LARGEST_FACTOR = 8
"""The largest factor of an interpolation: its window has (factor + 1)^2 taps."""


def pad(site: Site) -> bool:
    """Pad with elements of its operand: slices side by side, axis by axis."""
    mode, shape = MODES.get(site.attributes.get("mode", b"constant")), site.shape(0)
    given = site.constant(1) if site.opset >= 11 else site.attributes.get("pads")
    axes = site.constant(3)
    if mode is None or shape is None or given is None or (site.has(3) and axes is None):
        return False
    along = range(len(shape)) if axes is None else [int(a) % len(shape) for a in axes]
    pads = [int(n) for n in given]
    taken: dict[int, list[int]] = {}
    for number, axis in enumerate(along):
        before, after = pads[number], pads[len(along) + number]
        if before or after:
            if min(before, after) < 0 or before + after > MOST_PARTS:
                return False
            places = np.pad(np.arange(shape[axis]), (before, after), mode)  # type: ignore[call-overload]
            taken[axis] = places.tolist()
    if not taken or len(shape) < 2 or 0 in taken:
        return False
    x = site.node.input[0]
    for axis, places in taken.items():
        last = axis == list(taken)[-1]
        x = site.taken(x, axis, places, site.node.output[0] if last else "")
    return True


def resize(site: Site) -> bool:
    """Linear interpolation by whole factors: elements repeated, then a mean over a window.

    The mean of f neighbours among elements repeated f times is their linear interpolation. Where
    output i lies between elements as a pixel does, the window is centred: of an even factor it has
    one tap more, and half weights at both ends. Windows that leave the tensor meet its last
    elements again.
    """
    shape, after = site.shape(0), site.float_shape(site.node.output[0])
    if site.attributes.get("mode", b"nearest") != b"linear" or shape is None or after is None:
        return False
    if len(shape) != len(after) or not 3 <= len(shape) <= 4 or shape[:2] != after[:2]:
        return False
    if any(new % old for old, new in zip(shape, after, strict=True)):
        return False
    factors = [new // old for old, new in zip(shape, after, strict=True)]
    windows = _windows(site, shape, factors)
    if windows is None or not 1 < max(factors) <= LARGEST_FACTOR:
        return False
    x, kernel = site.repeat(site.node.input[0], factors), np.ones(1)
    for axis, (weights, before) in enumerate(windows, start=2):
        if len(weights) > 1:
            around = (before, len(weights) - 1 - before)
            places = np.pad(np.arange(after[axis]), around, "edge")
            x = site.taken(x, axis, places.tolist())
        kernel = np.multiply.outer(kernel, weights)
    channels = shape[1]
    filters = np.broadcast_to(kernel[None], (channels, *kernel.shape)).astype(np.float32)
    site.add("Conv", [x, site.weight(filters)], site.node.output[0], group=channels)
    return True


def _windows(
    site: Site, shape: Sequence[int], factors: Sequence[int]
) -> list[tuple[np.ndarray[tuple[int], np.dtype[np.float64]], int]] | None:
    """For each spatial axis the weights of its window, and how many lie before output i."""
    mode = b"asymmetric"
    if site.node.op_type == "Resize" and site.opset >= 11:
        mode = site.attributes.get("coordinate_transformation_mode", b"half_pixel")
    scales = site.constant(2) if site.opset >= 11 else site.constant(1)
    if site.attributes.get("antialias", 0) or site.has(4):
        scales = site.constant(2)
    if scales is not None and scales.size and (scales % 1).any():
        return None
    centred = (b"half_pixel", b"half_pixel_symmetric", b"pytorch_half_pixel")
    if mode not in (b"asymmetric", *centred):
        return None
    found = []
    for size, factor in zip(shape[2:], factors[2:], strict=True):
        if factor == 1 or size == 1:
            found.append((np.ones(1), 0))
        elif mode == b"asymmetric":
            found.append((np.full(factor, 1 / factor), 0))
        elif factor % 2:
            found.append((np.full(factor, 1 / factor), factor // 2))
        else:
            weights = np.full(factor + 1, 1 / factor)
            weights[[0, -1]] /= 2
            found.append((weights, factor // 2))
    return found


def prelu(site: Site) -> bool:
    """PRelu with slopes on both sides of one: ``max(x, 0) + slope * min(x, 0)``.

    With slopes on one side of one it is a maximum or a minimum, which the quantiser knows.
    """
    slope, shape = site.constant(1), site.shape(0)
    if slope is None or shape is None or not ((slope < 1).any() and (slope > 1).any()):
        return False
    if not np.isfinite(slope).all():
        return False
    x = site.node.input[0]
    if site.opset < 11:
        low = site.add("Clip", [x], max=0.0)
    else:
        low = site.add("Clip", [x, "", site.weight(np.zeros((), np.float32))])
    scaled = site.add("Mul", [low, site.weight(slope)])
    site.add("Add", [site.add("Relu", [x]), scaled], site.node.output[0])
    return True
