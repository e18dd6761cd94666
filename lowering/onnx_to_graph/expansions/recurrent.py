"""RNN, GRU and LSTM unrolled: products for the accelerator, gates for the host.

All steps of a sequence share one product with the input's weights, which is one launch. Each step
adds the product of its state, and the gates follow as ONNX has them (ONNX, Operators.md: RNN, GRU,
LSTM). Sums of products become integers; sigmoid, tanh and the cell's state stay float.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vtac.dialects.context import Array
from vtac.lowering.onnx_to_graph.expansions.site import Site

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""How many gates each operator has; its weights are those of all gates, one below the other."""

ACTIVATIONS = {
    "RNN": [b"Tanh"],
    "GRU": [b"Sigmoid", b"Tanh"],
    "LSTM": [b"Sigmoid", b"Tanh", b"Tanh"],
}
"""Of one direction, where the node names none."""

MOST_STEPS = 128
"""A longer sequence would unroll into too many nodes."""

LEAST_PRODUCTS = 8192
"""Of each step. A node of the host takes as long as so many products there (`HostModel`), and a
step becomes several nodes."""

DIRECTIONS = {b"forward": (False,), b"reverse": (True,), b"bidirectional": (False, True)}
"""For each direction of a node, whether it starts at the end."""


def recurrent(site: Site) -> bool:
    """RNN, GRU, LSTM: one product for all inputs, and one per step for the state."""
    layer = _layer_of(site)
    if layer is None:
        return False
    layer.write()
    return True


@dataclass
class _Layer:
    """A recurrent node.

    steps, batch, inputs, hidden: extents. weights, states: [D, G * H, I] and [D, G * H, H].
    bias: [D, 2, G, H], of inputs and states. backward: for each direction, whether it starts at
    the end. batch_first: whether the batch is the first dimension.
    """

    site: Site
    steps: int
    batch: int
    inputs: int
    hidden: int
    weights: Array
    states: Array
    bias: Array
    backward: Sequence[bool]
    batch_first: bool
    linear_before_reset: bool

    def write(self) -> None:
        """The nodes of all directions, and the results that are wanted."""
        site = self.site
        x = site.node.input[0]
        if self.batch_first:
            x = site.add("Transpose", [x], perm=[1, 0, 2])
        flat = site.reshape(x, [self.steps * self.batch, self.inputs])
        found = [self._direction(number, flat) for number in range(len(self.backward))]
        if site.wanted(0):
            wholes = []
            for states, _, _ in found:
                shape = [self.steps, 1, self.batch, self.hidden]
                wholes.append(site.reshape(site.concat(states, 0), shape))
            self._result(wholes, 1, 0, [2, 0, 1, 3])
        shape = [1, self.batch, self.hidden]
        if site.wanted(1):
            self._result([site.reshape(last, shape) for _, last, _ in found], 0, 1, [1, 0, 2])
        if site.wanted(2):
            self._result([site.reshape(cell, shape) for _, _, cell in found], 0, 2, [1, 0, 2])

    def _result(self, parts: list[str], axis: int, index: int, order: list[int]) -> None:
        """All directions side by side, the batch in front where the node wants it there."""
        name = self.site.node.output[index]
        if self.batch_first:
            self.site.add("Transpose", [self.site.concat(parts, axis)], name, perm=order)
        else:
            self.site.concat(parts, axis, name)

    def _direction(self, number: int, flat: str) -> tuple[list[str], str, str]:
        """The states after each step in the order of the sequence, the last, and the last cell."""
        site, kind = self.site, self.site.node.op_type
        bias = self.bias[number].copy()
        before_reset = bias[1, 2].copy() if self.linear_before_reset else None
        if before_reset is not None:
            bias[1, 2] = 0
        weights = site.weight(self.weights[number].T)
        total = site.weight(bias.sum(axis=0).reshape(-1))
        products = site.add("Add", [site.add("MatMul", [flat, weights]), total])
        state, cell = self._initial(5, number), self._initial(6, number)
        states = [""] * self.steps
        order = range(self.steps)[:: -1 if self.backward[number] else 1]
        matrices = self._matrices(number)
        for step in order:
            first = step * self.batch
            own = site.slice(products, 0, first, first + self.batch)
            if kind == "RNN":
                state = site.add("Tanh", [self._plus(own, state, matrices[0])])
            elif kind == "GRU":
                state = self._gru(own, state, matrices, before_reset)
            else:
                state, cell = self._lstm(own, state, cell, matrices[0])
            states[step] = state
        return states, state, cell

    def _matrices(self, number: int) -> list[str]:
        """The weights of states [H, G * H]; of a GRU those of z and r, and those of the state."""
        rows = self.states[number]
        if self.site.node.op_type != "GRU":
            return [self.site.weight(rows.T)]
        return [self.site.weight(part.T) for part in np.split(rows, [2 * self.hidden])]

    def _initial(self, index: int, number: int) -> str:
        """The state [B, H] to start from; nothing where that is 0."""
        site = self.site
        if not site.has(index):
            return ""
        axis = 1 if self.batch_first else 0
        own = site.slice(site.node.input[index], axis, number, number + 1)
        return site.reshape(own, [self.batch, self.hidden])

    def _plus(self, own: str, state: str, matrix: str) -> str:
        """The step's own products, and those of the state before."""
        if not state:
            return own
        return self.site.add("Add", [own, self.site.add("MatMul", [state, matrix])])

    def _gate(self, value: str, number: int) -> str:
        return self.site.slice(value, 1, number * self.hidden, (number + 1) * self.hidden)

    def _lstm(self, own: str, state: str, cell: str, matrix: str) -> tuple[str, str]:
        """Gates i, o, f, and the cell's input c."""
        site, whole = self.site, self._plus(own, state, matrix)
        i, o, f = (site.add("Sigmoid", [self._gate(whole, number)]) for number in range(3))
        made = site.add("Mul", [i, site.add("Tanh", [self._gate(whole, 3)])])
        if cell:
            made = site.add("Add", [site.add("Mul", [f, cell]), made])
        return site.add("Mul", [o, site.add("Tanh", [made])]), made

    def _gru(
        self, own: str, state: str, matrices: Sequence[str], before_reset: Array | None
    ) -> str:
        """Gates z and r, and the new state h: ``h + z * (state - h)``."""
        site, size = self.site, self.hidden
        gates = self._plus(site.slice(own, 1, 0, 2 * size), state, matrices[0])
        z, r = (site.add("Sigmoid", [self._gate(gates, number)]) for number in range(2))
        inner = site.slice(own, 1, 2 * size, 3 * size)
        part = ""
        if before_reset is not None:
            bias = site.weight(before_reset)
            if state:
                product = site.add("MatMul", [state, matrices[1]])
                part = site.add("Mul", [r, site.add("Add", [product, bias])])
            else:
                part = site.add("Mul", [r, bias])
        elif state:
            part = site.add("MatMul", [site.add("Mul", [r, state]), matrices[1]])
        fresh = site.add("Tanh", [site.add("Add", [inner, part]) if part else inner])
        kept = site.add("Mul", [z, fresh])
        rest = site.add("Sub", [fresh, kept])
        return rest if not state else site.add("Add", [rest, site.add("Mul", [z, state])])


def _layer_of(site: Site) -> _Layer | None:
    """The layer that a node is; None for a form that stays whole."""
    kind, shape = site.node.op_type, site.shape(0)
    weights, states = site.constant(1), site.constant(2)
    bias = site.constant(3)
    backward = DIRECTIONS.get(site.attributes.get("direction", b"forward"))
    if shape is None or weights is None or states is None or backward is None:
        return None
    given = site.attributes.get("activations", ACTIVATIONS[kind] * len(backward))
    if list(given) != ACTIVATIONS[kind] * len(backward) or weights.dtype != np.float32:
        return None
    if "clip" in site.attributes or site.attributes.get("input_forget", 0) or site.has(7):
        return None
    if (site.has(3) and bias is None) or len(shape) != 3 or weights.ndim != 3:
        return None
    batch_first = bool(site.attributes.get("layout", 0))
    steps, batch = (shape[1], shape[0]) if batch_first else (shape[0], shape[1])
    if site.has(4):
        lengths = site.constant(4)
        if lengths is None or (lengths != steps).any():
            return None
    gates, directions, hidden = GATES[kind], len(backward), states.shape[2]
    if bias is None:
        bias = np.zeros((directions, 2 * gates * hidden), np.float32)
    products = batch * gates * hidden * (shape[2] + hidden)
    if steps > MOST_STEPS or products < LEAST_PRODUCTS:
        return None
    return _Layer(
        site,
        steps,
        batch,
        shape[2],
        hidden,
        weights,
        states,
        bias.reshape(directions, 2, gates, hidden),
        backward,
        batch_first,
        bool(site.attributes.get("linear_before_reset", 0)),
    )
