"""`vta-tune --remote`: servers as places that measure schedules.

The servers run in threads of this process, their workers in processes of their own; what they
measure is an artificial space, but for the last tests, which measure a kernel.
"""

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import artificial_space as artificial
import pytest
from artificial_space import Counting, problem_of, task
from te_kernels import random_kernel

pytest.importorskip("aiohttp", reason="aiohttp is not installed")
pytest.importorskip("urllib3", reason="urllib3 is not installed")

import vtac
from vtac.dialects.errors import CompileError
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.runtime.remote.client import RemoteDevice
from vtac.runtime.remote.limits import Limits
from vtac.runtime.remote.server import Admission, AnsweredRequest, Server
from vtac.runtime.remote.service import Service
from vtac.tools.commands import vta_tune
from vtac.tools.files.ir_files import module_text
from vtac.tools.tune import remote_work
from vtac.tools.tune.measure import FAILED_TIME, FAILED_WORKER
from vtac.tools.tune.protocol import Stops, Trial
from vtac.tools.tune.remote_pool import RemotePool
from vtac.tools.tune.tuner import tune

TOKEN = "a secret"
ARTIFICIAL = remote_work.services(artificial.judge, artificial.proved)
POINTS = [{"slots": number} for number in (2, 3, 4)]


class Place:
    """A server in a thread of this process, which can be ended and started again."""

    def __init__(self, services: Mapping[str, Service], limits: Limits) -> None:
        self._services, self._limits = services, limits
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._server: Server | None = None
        self._port = 0
        self.told: list[AnsweredRequest] = []

    def start(self) -> str:
        self._server = Server(self._limits, Admission(TOKEN), self.told.append, self._services)
        host, self._port = self._run(self._server.start("127.0.0.1", self._port))
        return f"{host}:{self._port}"

    def stop(self) -> None:
        if self._server is not None:
            self._run(self._server.stop())
            self._server = None

    def close(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


@contextmanager
def place_of(
    services: Mapping[str, Service] = ARTIFICIAL, **limits: Any
) -> Iterator[tuple[Place, RemoteDevice]]:
    """A server and a device that knows it."""
    chosen = Limits(**{"workers": 1, "seconds": 600.0, **limits})
    with ExitStack() as opened:
        place = opened.enter_context(closing(Place(services, chosen)))
        yield place, opened.enter_context(vtac.connect(place.start(), TOKEN))


@pytest.fixture(scope="module")
def places() -> Iterator[list[tuple[Place, RemoteDevice]]]:
    with place_of() as one, place_of() as other:
        yield [one, other]


def searched(measurer: Any, **keywords: Any) -> list[list[Trial]]:
    """The trials of a search over two kernels, one of which has a point that fails."""
    tasks = [task("a", module="raise=3"), task("b", multiplicity=3)]
    stops = Stops(trials=32, near=0.5)
    found = tune(tasks, stops=stops, measurer=measurer, problem_of=problem_of, **keywords)
    assert all(result.best is not None and result.best.proved for result in found)
    return [list(result.trials) for result in found]


@pytest.mark.parametrize("count", [1, 2])
def test_any_number_of_places_gives_the_same_trials(
    places: list[tuple[Place, RemoteDevice]], count: int
) -> None:
    with closing(RemotePool([device for _, device in places[:count]], seconds=600)) as pool:
        assert searched(pool) == searched(Counting())


def test_a_server_that_dies_loses_no_trial(places: list[tuple[Place, RemoteDevice]]) -> None:
    (_, stays), expected = places[0], searched(Counting())

    class Progress:
        """Ends the second server after the first batch that is told."""

        def told(self, *_: object) -> None:
            leaves.stop()

        def finished(self, *_: object) -> None:
            pass

    with (
        place_of() as (leaves, device),
        closing(RemotePool([stays, device], seconds=600)) as pool,
    ):
        assert searched(pool, progress=Progress()) == expected


def test_a_server_that_comes_back_is_used_again() -> None:
    with place_of() as (place, device), closing(RemotePool([device], patience=600)) as pool:
        place.stop()
        wanted = pool.submit(task(), POINTS)
        place.start()
        assert [trial.cycles for trial in wanted()] == list(map(artificial.cycles, POINTS))


def test_without_any_place_the_search_ends() -> None:
    with place_of() as (place, device), closing(RemotePool([device], patience=0)) as pool:
        place.stop()
        with pytest.raises(CompileError, match=r"does not answer any more\n.*goes on with"):
            pool.submit(task(), POINTS)()
    with pytest.raises(CompileError, match="there is no server"):
        RemotePool([])


def test_points_fail_alone(places: list[tuple[Place, RemoteDevice]], tmp_path: Path) -> None:
    (_, device), _ = places
    with closing(RemotePool([device], seconds=600)) as pool:
        trials = pool.submit(task(module="die=3"), POINTS)()
        assert [trial.why for trial in trials] == ["", FAILED_WORKER, ""]
        trials = pool.submit(task(module=f"once={tmp_path / 'died'}"), POINTS)()
        assert [trial.why for trial in trials] == ["", "", ""]
    with closing(RemotePool([device], seconds=0.5)) as pool:
        (hung,) = pool.submit(task(module="hang=7"), [{"slots": 7}])()
        assert hung.why == FAILED_TIME


def test_a_server_with_another_compiler_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    body = remote_work.request_of("module", "tiles", {})
    monkeypatch.setattr(remote_work, "code_digest", lambda: "another")
    with place_of() as (place, device), closing(RemotePool([device])) as pool:
        with pytest.raises(CompileError, match="another vtac runs here than there"):
            pool.submit(task(), POINTS)()
        assert any(event.status == 422 and event.is_refusal for event in place.told)
        with pytest.raises(CompileError, match="another vtac"):
            remote_work.services()[remote_work.MEASURE].function(None, body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[1, 2]",
        b"{}",
        b"[" * 100_000,
        json.dumps({"module": "", "template": 3, "point": {}}).encode(),
        json.dumps({"module": "", "template": "tiles", "point": {"a": [1, "b"]}}).encode(),
        json.dumps({"module": "", "template": "tiles", "point": [1]}).encode(),
    ],
)
def test_what_is_no_request_is_refused(
    places: list[tuple[Place, RemoteDevice]], body: bytes
) -> None:
    (_, device), _ = places
    for service in (remote_work.MEASURE, remote_work.PROVE):
        with pytest.raises(CompileError, match="is no request for a schedule"):
            device.ask(service, body, 1.0, 60.0)
    assert device.is_well()


def test_a_module_that_is_none_fails_with_its_reason() -> None:
    services = remote_work.services()
    function, arguments = services[remote_work.MEASURE].function, ()
    arguments = services[remote_work.MEASURE].arguments
    for text in ("", "no IR", "builtin.module {}", "te.kernel @k(%0: tensor<1xi8>) {"):
        answer = function(*arguments, remote_work.request_of(text, "tiles", {}))
        assert remote_work.trial_of(answer.encode(), {}).why.startswith("failed: ")
        prove = services[remote_work.PROVE]
        told = prove.function(*prove.arguments, remote_work.request_of(text, "tiles", {}))
        assert remote_work.proof_of(told.encode()).problem.startswith("failed: ")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"cycles": 0, "why": "", "millis": 1}', '{"cycles": true, "why": ""}']
)
def test_answers_are_looked_at(text: str) -> None:
    for read in (lambda t: remote_work.trial_of(t, {}), remote_work.proof_of):
        with pytest.raises(ValueError):
            read(text.encode())


def test_a_service_is_bounded_and_known(places: list[tuple[Place, RemoteDevice]]) -> None:
    (_, device), _ = places
    with pytest.raises(CompileError, match="does not offer schedules/other"):
        device.ask("schedules/other", b"", 1.0, 10.0)
    with pytest.raises(CompileError, match="is no time"):
        device.ask(remote_work.MEASURE, b"", -1.0, 10.0)
    refused = pytest.raises(CompileError, match="the token is missing or wrong")
    with vtac.connect(device.address, "wrong") as other, closing(RemotePool([other])) as pool:
        wanted = pool.submit(task(), POINTS)
        with refused:
            wanted()
    with place_of(request_bytes=100) as (_, small), closing(RemotePool([small])) as pool:
        wanted = pool.submit(task(module=" " * 1000), POINTS)
        with pytest.raises(CompileError, match="the body has more than 100 bytes"):
            wanted()


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a kernel, and its machine beside it."""
    path = tmp_path_factory.mktemp("kernel") / "kernel.mlir"
    module, _ = random_kernel(Random(3))
    path.write_text(module_text(module))
    target = module.attributes[TARGET_ATTRIBUTE]
    assert isinstance(target, Target)
    path.with_name("machine.json").write_text(json.dumps(target.to_replay_config()))
    return path


def test_the_command_measures_there(
    kernel: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("VTAC_TOKEN", TOKEN)
    with place_of(remote_work.services()) as (_, device):
        found = []
        for name, more in (("here", []), ("there", ["--remote", device.address])):
            database = str(tmp_path / f"{name}.db")
            options = ["--database", database, "--trials", "8", "--batch", "4", "--json"]
            options += ["--target", str(kernel.with_name("machine.json"))]
            vta_tune.main([str(kernel), *options, *more])
            values = json.loads(capsys.readouterr().out)
            assert values.pop("database") == database
            found.append(values)
        assert found[0] == found[1] and found[0]["kernels"][0]["proved"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--remote", "127.0.0.1:1"], "no answer"),
        (["--remote", "127.0.0.1:1", "--jobs", "2"], "--jobs: is for measurement here"),
        (["--remote-certificates", "KERNEL"], "--remote-certificates: is for --remote"),
    ],
)
def test_arguments_that_make_no_sense(
    kernel: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(kernel) if option == "KERNEL" else option for option in options]
    with pytest.raises(SystemExit) as end:
        vta_tune.main([str(kernel), *given])
    assert end.value.code == 1 and message in capsys.readouterr().err
