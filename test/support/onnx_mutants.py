"""Models that are slightly broken: bytes of a protobuf changed, or a field of a message.

Fields are found by protobuf's own reflection, so that whatever ONNX has is also broken.
"""

import numpy as np
from google.protobuf.message import DecodeError, Message
from onnx import ModelProto

LARGEST = 1 << 40
"""Integers are replaced by such ones as well."""


def mutant(data: bytes, rng: np.random.Generator) -> bytes:
    """A copy of a serialised model with one to three things changed."""
    for _ in range(rng.integers(1, 4)):
        data = _changed_bytes(data, rng) if rng.random() < 0.3 else _changed_field(data, rng)
    return data


def _changed_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """A byte changed, bytes taken out, or bytes repeated."""
    if not data:
        return data
    at, length = int(rng.integers(len(data))), int(rng.integers(1, 9))
    match rng.integers(3):
        case 0:
            return data[:at] + bytes([rng.integers(256)]) + data[at + 1 :]
        case 1:
            return data[:at] + data[at + length :]
        case _:
            return data[: at + length] + data[at:]


def _changed_field(data: bytes, rng: np.random.Generator) -> bytes:
    """A field of a message somewhere in the model cleared, repeated, or given another value."""
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        return data
    messages = _messages(model)
    message = messages[int(rng.integers(len(messages)))]
    fields = message.ListFields()
    if not fields:
        return data
    field, value = fields[int(rng.integers(len(fields)))]
    repeated = hasattr(value, "append") or hasattr(value, "add")
    if rng.random() < 0.3:
        message.ClearField(field.name)
    elif repeated:
        _change_list(value, rng)
    elif not isinstance(value, Message):
        try:
            setattr(message, field.name, _other(value, model, rng))
        except ValueError:  # a number too large for the field
            message.ClearField(field.name)
    return model.SerializeToString()


def _messages(message: Message) -> list[Message]:
    """A message and all that are in it."""
    found = [message]
    for _, value in message.ListFields():
        inner = value if hasattr(value, "add") else [value]
        found += [m for item in inner if isinstance(item, Message) for m in _messages(item)]
    return found


def _change_list(values: object, rng: np.random.Generator) -> None:
    """Take an item out, repeat one, or swap two."""
    items = list(values)  # type: ignore[call-overload]
    at, other = (int(rng.integers(len(items))) for _ in range(2))
    match rng.integers(3):
        case 0:
            del items[at]
        case 1:
            items.insert(other, items[at])
        case _:
            items[at], items[other] = items[other], items[at]
    copies = [
        type(i).FromString(i.SerializeToString()) if isinstance(i, Message) else i for i in items
    ]
    del values[:]  # type: ignore[attr-defined]
    values.extend(copies)  # type: ignore[attr-defined]


def _other(value: object, model: ModelProto, rng: np.random.Generator) -> object:
    """Another value of the same type: for strings, often a name that the model has."""
    if isinstance(value, str):
        nodes = model.graph.node
        names = [name for node in nodes for name in (*node.input, *node.output, node.op_type)]
        return str(rng.choice([*names, "", "Conv", "nowhere", "ünï\n"]))
    if isinstance(value, bytes):
        return value[: int(rng.integers(len(value) + 1))]
    if isinstance(value, float):
        return float(rng.choice([0.0, -1.0, np.inf, np.nan, 3e38]))
    assert isinstance(value, int)
    numbers = [-1, 0, 1, 2, 3, 7, 255, LARGEST]
    return int(rng.choice(numbers)) if abs(value) < LARGEST else 0
