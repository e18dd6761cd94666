"""RNN, GRU and LSTM unrolled: products for the accelerator, gates for the host.

All steps of a sequence share one product with the input's weights, which is one launch. Each step
adds the product of its state, and the gates follow as ONNX has them (ONNX, Operators.md: RNN, GRU,
LSTM). Sums of products become integers; sigmoid, tanh and the cell's state stay float.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vtac.dialects.context import Array
from vtac.lowering.onnx_to_graph.expansions.site import Site

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""How many gates each operator has; its weights are those of all gates, one below the other."""

ACTIVATIONS = {
    "RNN": ["Tanh"],
    "GRU": ["Sigmoid", "Tanh"],
    "LSTM": ["Sigmoid", "Tanh", "Tanh"],
}
"""Of one direction, where the node names none."""

_PARAMETERS: Mapping[str, Mapping[str, float]] = {
    "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "LeakyRelu": {"alpha": 0.01},
    **{name: {} for name in ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")},
}
"""The parameters of each activation that a gate may have, with their defaults."""

Activation = tuple[str, Mapping[str, Any]]
"""An operator and its attributes."""

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
    the end. batch_first: whether the batch is the first dimension. activations: of each direction.
    clip: the bound of what activations of gates take; None without one. peepholes: [D, 3, H], from
    the cell to the gates i, o, f. is_coupled: whether an LSTM forgets what it does not take in.
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
    activations: Sequence[Sequence[Activation]]
    clip: float | None
    peepholes: Array | None
    is_coupled: bool
    _acting: Sequence[Activation] = ()
    """Those of the direction that is being written."""

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
        self._acting = self.activations[number]
        peepholes = self._peepholes(number)
        for step in order:
            first = step * self.batch
            own = site.slice(products, 0, first, first + self.batch)
            if kind == "RNN":
                state = self._activated(0, self._plus(own, state, matrices[0]))
            elif kind == "GRU":
                state = self._gru(own, state, matrices, before_reset)
            else:
                state, cell = self._lstm(own, state, cell, matrices[0], peepholes)
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

    def _peepholes(self, number: int) -> Sequence[str]:
        """The weights of the cell for the gates i, o, f of a direction; nothing without them."""
        return [] if self.peepholes is None else [*map(self.site.weight, self.peepholes[number])]

    def _activated(self, which: int, value: str, *, is_gate: bool = True) -> str:
        """A value behind an activation of the direction, clipped before it if it is a gate's."""
        operator, attributes = self._acting[which]
        if is_gate and self.clip is not None:
            value = self.site.clip(value, -self.clip, self.clip)
        return self.site.add(operator, [value], **attributes)

    def _gate(self, value: str, number: int) -> str:
        return self.site.slice(value, 1, number * self.hidden, (number + 1) * self.hidden)

    def _lstm(
        self, own: str, state: str, cell: str, matrix: str, peepholes: Sequence[str]
    ) -> tuple[str, str]:
        """Gates i, o, f, and the cell's input c."""
        site, whole = self.site, self._plus(own, state, matrix)

        def gate(number: int, seen: str) -> str:
            value = self._gate(whole, number)
            if peepholes and seen:
                value = site.add("Add", [value, site.add("Mul", [seen, peepholes[number]])])
            return self._activated(0, value)

        i = gate(0, cell)
        made = site.add("Mul", [i, self._activated(1, self._gate(whole, 3))])
        if cell:
            one = site.weight(np.ones((), np.float32)) if self.is_coupled else ""
            f = site.add("Sub", [one, i]) if self.is_coupled else gate(2, cell)
            made = site.add("Add", [site.add("Mul", [f, cell]), made])
        o = gate(1, made)
        return site.add("Mul", [o, self._activated(2, made, is_gate=False)]), made

    def _gru(
        self, own: str, state: str, matrices: Sequence[str], before_reset: Array | None
    ) -> str:
        """Gates z and r, and the new state h: ``h + z * (state - h)``."""
        site, size = self.site, self.hidden
        gates = self._plus(site.slice(own, 1, 0, 2 * size), state, matrices[0])
        z, r = (self._activated(0, self._gate(gates, number)) for number in range(2))
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
        fresh = self._activated(1, site.add("Add", [inner, part]) if part else inner)
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
    activations, peepholes = _activations_of(site, len(backward)), site.constant(7)
    if activations is None or weights.dtype != np.float32:
        return None
    if site.has(7) and peepholes is None:
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
        activations,
        site.attributes.get("clip"),
        None if peepholes is None else peepholes.reshape(directions, 3, hidden),
        bool(site.attributes.get("input_forget", 0)),
    )


def _activations_of(site: Site, directions: int) -> list[list[Activation]] | None:
    """The activations of each direction; None if one of them is not in the table.

    Parameters are given in one list for alpha and one for beta. Each activation that has such a
    parameter takes the next of the list, or its default (onnxruntime, rnn_helpers.cc).
    """
    defaults, known = ACTIVATIONS[site.node.op_type], {name.lower(): name for name in _PARAMETERS}
    given = [name.decode() for name in site.attributes.get("activations", [])]
    names = [known.get(name.lower(), "") for name in given or defaults * directions]
    if len(names) != len(defaults) * directions or "" in names:
        return None
    left: dict[str, list[Any]] = {
        name: list(site.attributes.get(f"activation_{name}", [])) for name in ("alpha", "beta")
    }
    found: list[Activation] = [
        (name, {p: left[p].pop(0) if left[p] else default for p, default in table.items()})
        for name, table in ((name, _PARAMETERS[name]) for name in names)
    ]
    size = len(defaults)
    return [found[start : start + size] for start in range(0, len(found), size)]
