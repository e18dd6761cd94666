"""The attribute of a cluster, its address map, and the commands of its DMA."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from vtac.dialects.target import (
    CLUSTER_PRESETS,
    ClusterTarget,
    MemoryScope,
    Target,
    TargetDialect,
    TargetError,
    machine_from_fields,
    machine_of,
)
from vtac.dialects.target.windows import (
    GB_BASE,
    HIGH_DDR_BASE,
    SEMAPHORE_BASE,
    ddr_address,
    semaphore_at,
    semaphore_units,
)
from vtac.dialects.vta.dma import (
    Copy,
    DmaCommand,
    DmaFinish,
    Signal,
    Wait,
    decode_dma,
    encode_dma,
)
from vtac.dialects.vta.encoding import EncodingError

CLUSTERS = st.builds(
    lambda core, cores, pages, dma, latency, banks: ClusterTarget.named("cluster-8").replace(
        core=core,
        cores=cores,
        gb_bytes=4096 * pages,
        dma=dma,
        ddr_latency=latency,
        gb_banks=banks,
    ),
    st.sampled_from(["chisel-pynq", "chisel-de10", "sim"]),
    st.integers(1, 15),
    st.integers(0, 4096),
    st.booleans(),
    st.none() | st.integers(0, 99),
    st.sampled_from([None, 16, 32]),
)


def parse(text: str) -> ClusterTarget:
    context = Context()
    context.load_dialect(TargetDialect)
    attribute = Parser(context, text).parse_attribute()
    assert isinstance(attribute, ClusterTarget)
    return attribute


@pytest.mark.parametrize("cores", [1, 2, 4, 8])
def test_presets(cores: int) -> None:
    cluster = machine_of(f"cluster-{cores}")
    assert isinstance(cluster, ClusterTarget)
    assert (cluster.cores, cluster.gb_bytes, cluster.dma) == (cores, 2 << 20, True)
    assert cluster.core == Target.named("chisel-pynq")
    assert cluster.timing.gb_banks == {1: 1, 2: 4, 4: 8, 8: 16}[cores]
    assert (cluster.timing.ddr_latency, cluster.timing.sem_latency) == (16, 4)
    assert cluster.units == cores + 1 and cluster.unit_name(cores) == "dma"


@given(CLUSTERS)
def test_text_and_fields_round_trip(cluster: ClusterTarget) -> None:
    assert parse(str(cluster)) == cluster
    assert machine_from_fields(json.loads(json.dumps(cluster.fields()))) == cluster
    assert hash(parse(str(cluster))) == hash(cluster)


def test_text() -> None:
    assert str(ClusterTarget.named("cluster-2").replace(ddr_beat_cycles=2)) == (
        '#target.cluster<core = #target.vta<"chisel-pynq">, cores = 2, gb_bytes = 2097152,'
        " dma = true, ddr_beat_cycles = 2>"
    )
    assert parse("#target.cluster<cores = 4>") == ClusterTarget.named("cluster-4")


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    with pytest.raises(TargetError) as error:
        machine_of("cluster-8").replace(cores=16, gb_bytes=100, ddr_channels=3, sem_latency=-1)
    assert len(error.value.problems) == 4
    with pytest.raises(TargetError) as error:
        machine_of("cluster-8").replace(cores="4", colour=1, latency=True)
    text = str(error.value)
    assert "cores must be int" in text and "'colour'" in text and "latency must be int" in text
    path = tmp_path / "bad.toml"
    path.write_text('base = "cluster-2"\ngb_bytes = 5\ncores = 0\n')
    with pytest.raises(TargetError) as error:
        machine_of(path)
    assert len(error.value.problems) == 2
    assert all(str(path) in str(problem) for problem in error.value.problems)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gb_banks": 8}, "9 units take turns"),
        ({"gb_banks": 12}, "power of two"),
        ({"read_channels": 2}, "one channel"),
        ({"ideal_memory": True}, "ideal_memory"),
        ({"core": "zynq"}, "neither a target preset"),
        ({"core": 3}, "core must be"),
        ({"log_batch": 3, "log_wgt_buff_size": 18}, "128 bytes"),
    ],
)
def test_refusals(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(TargetError, match=reason):
        machine_of("cluster-8").replace(**changes)


def test_refused_text() -> None:
    with pytest.raises(ParseError, match="cores must be 1 to 15"):
        parse("#target.cluster<cores = 16>")


def test_files(tmp_path: Path) -> None:
    toml, text = tmp_path / "a.toml", tmp_path / "b.json"
    toml.write_text('base = "cluster-4"\ngb_bytes = 65536\nlatency = 40\n')
    text.write_text(
        json.dumps({"cores": 4, "gb_bytes": 65536, "core": {"base": "chisel-pynq", "latency": 40}})
    )
    expected = ClusterTarget.named("cluster-4").replace(gb_bytes=65536, latency=40)
    assert expected.core.timing.latency == expected.timing.ddr_latency == 40
    assert machine_of(toml) == ClusterTarget.of(text) == expected
    single = tmp_path / "c.toml"
    single.write_text('base = "chisel-pynq"\nlatency = 40\n')
    assert machine_of(single) == Target.of(single)
    with pytest.raises(TargetError, match="not a cluster"):
        ClusterTarget.of(single)
    with pytest.raises(TargetError, match="cluster-8"):
        machine_of("cluster-3")


def test_values_as_text() -> None:
    changes = {"gb_bytes": "0x100000", "dma": "false", "gb_banks": "none", "latency": "40"}
    expected = CLUSTER_PRESETS["cluster-8"].replace(gb_bytes=1 << 20, dma=False, latency=40)
    assert ClusterTarget.named("cluster-8").replace_text(changes).data == expected
    with pytest.raises(TargetError) as error:
        ClusterTarget.named("cluster-8").replace_text({"cores": "many", "latency": "x"})
    assert len(error.value.problems) == 2


@given(st.integers(1, 15), st.data())
def test_semaphores(cores: int, data: st.DataObject) -> None:
    cluster = ClusterTarget.named("cluster-8").replace(cores=cores)
    units = st.integers(0, cores)
    source, destination = data.draw(units), data.draw(units)
    address = cluster.semaphore_address(source, destination)
    number = cluster.semaphore_number(source, destination)
    assert semaphore_units(cores, number) == (source, destination)
    assert semaphore_at(cores, address) == number
    assert semaphore_at(cores, address + 16) is None
    assert cluster.scope_of(address, address + 64) is MemoryScope.SEMAPHORES


def test_windows() -> None:
    cluster = ClusterTarget.named("cluster-2").replace(gb_bytes=8192)
    scopes = {
        (0, 8): None,
        (0x1000, GB_BASE): MemoryScope.DDR,
        (GB_BASE - 8, GB_BASE + 8): None,
        (GB_BASE, GB_BASE + 8192): MemoryScope.GB,
        (GB_BASE + 8184, GB_BASE + 8200): None,
        (SEMAPHORE_BASE, SEMAPHORE_BASE + 9 * 64): MemoryScope.SEMAPHORES,
        (SEMAPHORE_BASE, SEMAPHORE_BASE + 10 * 64): None,
        (HIGH_DDR_BASE, 1 << 31): MemoryScope.DDR,
    }
    assert {span: cluster.scope_of(*span) for span in scopes} == scopes
    lone = ClusterTarget.named("cluster-1").replace(gb_bytes=0, dma=False)
    assert lone.scope_of(GB_BASE - 8, GB_BASE + 8) is MemoryScope.DDR


@given(st.integers(0, 1 << 27), st.integers(1, 1 << 25), st.sampled_from([16, 64, 4096]))
def test_buffers_lie_in_ddr(at: int, size: int, alignment: int) -> None:
    address = ddr_address(at, size, alignment)
    assert address >= at and address % alignment == 0
    assert ClusterTarget.named("cluster-8").scope_of(address, address + size) is MemoryScope.DDR


COMMANDS = st.one_of(
    st.builds(
        lambda size, source, destination: Copy(nbytes=size, source=source, destination=destination),
        st.integers(0, 2**40 - 1),
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**32 - 1),
    ),
    st.integers(0, 2**16 - 1).map(Wait),
    st.integers(0, 2**16 - 1).map(Signal),
    st.just(DmaFinish()),
)


@given(st.lists(COMMANDS))
def test_dma_commands_round_trip(commands: list[DmaCommand]) -> None:
    words = encode_dma(commands)
    assert words.shape == (len(commands), 2)
    assert decode_dma(words) == commands


@pytest.mark.parametrize(
    "word", [(4, 0), (3 | 8, 0), (3, 1), (1 | 1 << 19, 0), (2, 5), (1 << 43, 0)]
)
def test_bits_that_mean_nothing_are_refused(word: tuple[int, int]) -> None:
    with pytest.raises(EncodingError) as error:
        decode_dma(np.array([(3, 0), word], np.uint64))
    assert error.value.index == 1
    with pytest.raises(EncodingError, match="40 bits"):
        encode_dma([Copy(nbytes=1 << 40, source=0, destination=0)])
