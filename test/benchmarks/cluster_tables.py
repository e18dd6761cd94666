"""The tables of the cluster's evaluation in Markdown, from the records of `cluster_steps`."""

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log

from cluster_networks import NETWORKS
from cluster_steps import COPIES, DEFAULT, ONE_CORE, Record, machine_named

from vtac.dialects.target import ClusterTarget, Memory

Records = Mapping[tuple[str, int, str, str], Record]

COLUMNS = {
    COPIES: "copies",
    "layers": "layers",
    "semaphores": "layers, semaphores",
    "GB": "GB",
    "instances": "+ instances",
    "DMA": "+ DMA",
    DEFAULT: "default",
    "no early weights": "- early weights",
}
"""Steps in the order of the tables, with their headings."""

BATCHES = (1, 2, 4, 8, 16, 32)
"""Batches of the paper's table 1."""

LAYERS_OF_THE_PROTOTYPE = {
    ("resnet18", 1): 3.33, ("resnet50", 1): 9.46, ("mobilenet_v2", 1): 3.29,
    ("googlenet", 1): 4.72, ("yolo", 1): 13.8, ("vgg16", 1): 27.7, ("resnet18", 8): 13.0,
    ("resnet50", 8): 44.6, ("mobilenet_v2", 8): 15.4, ("googlenet", 8): 19.1, ("yolo", 8): 94.5,
    ("vgg16", 8): 107.0,
}  # fmt: skip
"""Millions of cycles of *layers* on ``cluster-8`` in the specification's prototype."""

LIMITS = (
    ("resnet18", 1, "cluster-4", ("", "gb_bytes=8388608", "ddr_channels=2", "gb_bytes=4194304",
        "gb_bytes=8388608 ddr_channels=2")),
    ("mobilenet_v2", 1, "cluster-8", ("", "gb_bytes=4194304", "ddr_channels=2")),
)  # fmt: skip
"""Networks, batches and clusters, with changes of the cluster's values: the table of larger
memories."""

BARS = {
    ("resnet18", 1): (2.15, 17), ("resnet50", 1): (4.9, 34), ("mobilenet_v2", 1): (0.95, 7),
    ("googlenet", 1): (1.80, 13), ("yolo", 1): (9.5, 55), ("resnet18", 8): (9.2, 38),
    ("resnet50", 8): (27.5, 135), ("mobilenet_v2", 8): (5.2, 12), ("googlenet", 8): (11.5, 52),
    ("yolo", 8): (65.0, 260),
}  # fmt: skip
"""What the specification asks of ``cluster-8``: millions of cycles, and MB of DDR."""


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table whose first column is text, and whose others are numbers."""
    yield f"| {' | '.join(headings)} |"
    yield f"| --- |{' ---: |' * (len(headings) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


class Tables:
    """All tables, of those records that there are.

    state: of the compiler; cycles of records of another state stand in parentheses.
    """

    def __init__(self, records: Records, state: str) -> None:
        self.records, self.state = records, state

    def _millions(self, network: str, batch: int, machine: str, step: str) -> str:
        """The cycles of a measurement in millions; empty if it is missing."""
        cycles = self.cycles(network, batch, machine, step)
        if cycles is None:
            return ""
        is_new = self.records[network, batch, machine, step].state == self.state
        return millions(cycles) if is_new else f"({millions(cycles)})"

    def cycles(self, network: str, batch: int, machine: str, step: str) -> int | None:
        """The cycles of a measurement, None if it is missing or did not compile."""
        record = self.records.get((network, batch, machine, step))
        return record.cycles if record is not None and not record.error else None

    def bound(self, network: str, batch: int, machine: str) -> int | None:
        """The largest lower bound of the cycles of a batch on a cluster.

        Compute over all cores; weights once, inputs and results over the rate of DDR; and for one
        image, for each cut of the order of layers, the compute before it and then the weights
        behind it which the global buffer and the cores' buffers cannot hold.
        """
        one = self.records.get((network, 1, "chisel-pynq", ONE_CORE))
        if one is None or one.error:
            return None
        cluster = machine_named(machine)
        assert isinstance(cluster, ClusterTarget)
        timing = cluster.timing
        rate = timing.core.port_bytes * timing.ddr_channels / timing.ddr_beat_cycles
        compute, weights = list(one.compute.items()), one.weights
        total = sum(cycles for _, cycles in compute)
        moved = sum(weights.values()) + batch * one.outside
        bounds = [batch * total / cluster.cores, moved / rate]
        if batch == 1:
            depth = cluster.core.wgt_depth * cluster.core.element_bytes(Memory.WGT)
            held, before = cluster.gb_bytes + cluster.cores * depth, 0
            behind = sum(weights.values())
            for layer, cycles in compute:
                bounds.append(before / cluster.cores + (behind - held) / rate)
                before += cycles
                behind -= weights.get(layer, 0)
        return round(max(bounds))

    def steps(self, machine: str, batch: int) -> Iterator[str]:
        """The steps of the ablation on one cluster, in millions of cycles."""
        headings = ["network", "bound", *COLUMNS.values(), "x layers", "x GB", "x bound", "DDR MB"]
        rows = []
        for network, entry in NETWORKS.items():
            found = [self.cycles(network, batch, machine, step) for step in COLUMNS]
            if not any(found):
                continue
            bound, best = self.bound(network, batch, machine), found[list(COLUMNS).index(DEFAULT)]
            ratios = [
                ratio(self.cycles(network, batch, machine, step), best) for step in ("layers", "GB")
            ]
            rows.append(
                [
                    *(entry.title, millions(bound)),
                    *(self._millions(network, batch, machine, step) for step in COLUMNS),
                    *ratios,
                    *(ratio(best, bound), self._moved(network, batch, machine)),
                ]
            )
        yield from table(headings, rows)

    def _moved(self, network: str, batch: int, machine: str) -> str:
        ends = [
            self.records.get((network, batch, machine, step)) for step in ("semaphores", DEFAULT)
        ]
        texts = [f"{record.ddr / 1e6:.0f}" if record else "" for record in ends]
        return " -> ".join(filter(None, texts))

    def means(self) -> Iterator[str]:
        """Geometric means over the networks of which all steps are known."""
        rows = []
        for batch in (1, 8):
            for machine in ("cluster-2", "cluster-4", "cluster-8"):
                names = [n for n in NETWORKS if n != "small"]
                pairs = {
                    step: [
                        (
                            self.cycles(n, batch, machine, step),
                            self.cycles(n, batch, machine, DEFAULT),
                        )
                        for n in names
                    ]
                    for step in ("layers", "GB")
                }
                bounds = [
                    (self.cycles(n, batch, machine, DEFAULT), self.bound(n, batch, machine))
                    for n in names
                ]
                means = [mean(pairs["layers"]), mean(pairs["GB"]), mean(bounds)]
                count = sum(a is not None and b is not None for a, b in bounds)
                if count:
                    rows.append([f"{machine}, batch {batch}", str(count), *means])
        yield from table(["", "networks", "x layers", "x GB", "x bound"], rows)

    def bars(self) -> Iterator[str]:
        """What was asked for, beside what was measured."""
        rows = []
        for (network, batch), (cycles, moved) in BARS.items():
            record = self.records.get((network, batch, "cluster-8", DEFAULT))
            honest = LAYERS_OF_THE_PROTOTYPE[network, batch]
            rows.append(
                [
                    f"{NETWORKS[network].title}, batch {batch}",
                    f"{cycles:.2f}",
                    self._millions(network, batch, "cluster-8", DEFAULT),
                    str(moved),
                    "" if record is None else f"{record.ddr / 1e6:.0f}",
                    f"{honest:.2f}",
                    self._millions(network, batch, "cluster-8", "layers"),
                ]
            )
        headings = [
            "cluster-8",
            "cycles asked",
            "cycles",
            "MB asked",
            "MB",
            "layers of the prototype",
        ]
        yield from table([*headings, "layers"], rows)

    def limits(self) -> Iterator[str]:
        """The default on machines with larger memories."""
        rows = []
        for network, batch, machine, changes in LIMITS:
            one = self.cycles(network, 1, "chisel-pynq", ONE_CORE)
            for change in changes:
                name = f"{machine} {change}".strip()
                if cycles := self.cycles(network, batch, name, DEFAULT):
                    bound = self.bound(network, batch, name)
                    times = ratio(one and one * batch, cycles)
                    best = ratio(one and one * batch, bound)
                    measured = self._millions(network, batch, name, DEFAULT)
                    title = f"{NETWORKS[network].title}, batch {batch}, {name}"
                    rows.append([title, millions(bound), measured, times, best])
        yield from table(["", "bound", "cycles", "times", "times by the bound"], rows)

    def scopes(self) -> Iterator[str]:
        """Tensors between layers by memory (the paper's table 3)."""
        rows = []
        for network, entry in NETWORKS.items():
            for batch in (1, 8):
                found = [
                    self.records.get((network, batch, "cluster-8", step))
                    for step in ("semaphores", "GB", DEFAULT)
                ]
                if any(r and r.layers for r in found):
                    texts = ["{} / {}".format(*r.tensors) if r and r.layers else "" for r in found]
                    last = found[-1]
                    shown = str(last.instances) if last and last.layers else ""
                    rows.append([f"{entry.title}, batch {batch}", *texts, shown])
        headings = ["cluster-8: in the global buffer / in DDR", "layers, semaphores", "GB"]
        yield from table([*headings, "default", "its instances"], rows)

    def stages(self) -> Iterator[str]:
        """Cycles and utilisation of stages (the paper's figures 16 and 17)."""
        for network in ("small", "resnet18", "resnet50", "mobilenet_v2", "googlenet"):
            for batch in (1, 8):
                found = {
                    step: record
                    for step in ("semaphores", "GB", DEFAULT)
                    if (record := self.records.get((network, batch, "cluster-8", step)))
                }
                if not any(record.stages for record in found.values()):
                    continue
                names = dict.fromkeys(s for record in found.values() for s in record.stages)
                rows = []
                for stage in names:
                    cells = [record.stages.get(stage) for record in found.values()]
                    texts = [f"{c[0]:,} ({c[1]:.0%})" if c else "" for c in cells]
                    rows.append([stage, *texts])
                headings = [f"{NETWORKS[network].title}, batch {batch}"]
                yield from table([*headings, *(COLUMNS[step] for step in found)], rows)

    def batches(self) -> Iterator[str]:
        """Thousands of cycles per image by batch (the paper's table 1)."""
        rows = []
        for network, entry in NETWORKS.items():
            found = [self.cycles(network, batch, "cluster-8", DEFAULT) for batch in BATCHES]
            if sum(c is not None for c in found) > 2:
                texts = [
                    "" if c is None else f"{c / b / 1e3:,.0f}"
                    for c, b in zip(found, BATCHES, strict=True)
                ]
                known = [(c / b, b) for c, b in zip(found, BATCHES, strict=True) if c is not None]
                rows.append([entry.title, *texts, str(min(known)[1])])
        yield from table(["cluster-8", *map(str, BATCHES), "best"], rows)

    def seconds(self) -> Iterator[str]:
        """Processor seconds of compilations behind calibration (the paper's table 4)."""
        rows = []
        for network, entry in NETWORKS.items():
            one = self.records.get((network, 1, "chisel-pynq", ONE_CORE))
            ends = [self.records.get((network, b, "cluster-8", DEFAULT)) for b in (1, 8)]
            if one is not None and any(ends):
                texts = [f"{r.seconds:.0f}" if r and r.seconds else "" for r in ends]
                times = [f"{r.seconds / one.seconds:.1f}" if r and r.seconds else "" for r in ends]
                cells = [f"{one.seconds:.0f}", texts[0], times[0], texts[1], times[1]]
                rows.append([entry.title, *cells])
        headings = ["", "one core", "cluster-8, batch 1", "times", "cluster-8, batch 8", "times"]
        yield from table(headings, rows)

    def better_without(self) -> Iterator[str]:
        """Ablations that beat the whole by more than 1 %."""
        found = []
        for (network, batch, machine, step), record in self.records.items():
            best = self.cycles(network, batch, machine, DEFAULT)
            beaten = best is not None and not record.error and record.cycles * 1.01 < best
            if step in COLUMNS and step != COPIES and beaten:
                share = best / record.cycles - 1 if best else 0
                title = f"{NETWORKS[network].title}, batch {batch}, {machine}"
                found.append(f"- {title}: *{COLUMNS[step]}* is {share:.1%} faster than the whole.")
        yield from found or ["None."]
        yield ""

    def errors(self) -> Iterator[str]:
        """Measurements that failed."""
        for record in self.records.values():
            if record.error:
                where = f"{record.network}, batch {record.batch}, {record.machine}, {record.step}"
                yield f"- {where}: {record.error}"


def millions(cycles: int | None) -> str:
    """Cycles in millions."""
    return "" if cycles is None else f"{cycles / 1e6:.2f}"


def ratio(slow: int | None, fast: int | None) -> str:
    """How many times slower one is than the other."""
    return f"{slow / fast:.2f}" if slow and fast else ""


def mean(pairs: Sequence[tuple[int | None, int | None]]) -> str:
    """The geometric mean of ratios of which both numbers are known."""
    known = [a / b for a, b in pairs if a and b]
    return f"{exp(sum(map(log, known)) / len(known)):.2f}" if known else ""
