"""Random residual layers, whose epilogues can take many forms, and machines to run them on."""

from random import Random

from integer_groups import IntegerFunction
from xdsl.dialects.builtin import ModuleOp

from vtac.dialects.target import Target

CHISEL = Target.named("chisel-pynq")
TARGETS = {
    "pynq": Target.named("pynq"),
    "chisel": CHISEL,
    "chisel 2x8": CHISEL.replace(log_batch=1, log_block=3, log_wgt_buff_size=15),
}


def residual(f: IntegerFunction, random: Random, channels: int) -> ModuleOp:
    """A layer, perhaps with an addend; scales and shifts differ a little, much, or not at all."""
    side, block = random.randint(1, 9), f.target.block
    acc = f.conv(f.input(random.randint(1, 3), 9, side, 3), channels, (1, 1))
    first = random.randint(0, 9)
    spread = random.choice([0, 2, 6])
    blocks = [random.randint(0, 4) for _ in range(-(-channels // block))]
    amounts = [first + random.randint(0, spread) + blocks[c // block] for c in range(channels)]
    if random.random() < 0.8:
        skip = f.shift_left(f.input(*f.values[acc].shape), amounts)
        acc = f.add(*random.sample([acc, skip], 2))
    rest = random.choice([0, 0, 1, 3])
    shifts = random.choice([None, [amount + rest for amount in amounts], [12] * channels])
    bias = random.choice([1, 100, 200_000, 1 << 24])
    return f.finish(f.requantize(acc, shift="block", shifts=shifts, lo=-128, largest_bias=bias))
