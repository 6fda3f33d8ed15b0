"""Releases from member to member: published, fetched, verified, refused, withdrawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sudare.consortium.network.message_dispatch import Envelope, MessageDispatcher
from sudare.consortium.tasks.release_exchange import RELEASE, WITHDRAW, ReleaseExchange, verified
from sudare.errors import NotConnected, ReleaseMalformed, ReleaseUntrusted, TaskStopped
from sudare.privacy import Ledger
from sudare.privacy.release import Release
from sudare.statistics import PrivateMean
from tests.consortium.simulated_consortium import (
    IDENTITIES,
    CrashingStore,
    Killed,
    RoughNetwork,
    names_of,
    session_of,
)
from tests.consortium.simulated_network import GoodNetwork, SimulatedNetwork

NAMES = names_of(3)
KEYS = {name: IDENTITIES[position].public_key for position, name in enumerate(NAMES)}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """A release of each member, and a second one of the first."""
    folder = tmp_path_factory.mktemp("releases")
    found = []
    for number, position in enumerate([0, 1, 2, 0]):
        account = Ledger(folder / f"ledger-{number}.db").account("rows", 10.0)
        model = PrivateMean(epsilon=1.0, bounds=(-1, 3), account=account).fit([[0.5], [1.0], [2.0]])
        path = folder / f"{number}.sudare"
        Release.of(model).save(path, key=IDENTITIES[position].signing_key)
        found.append(path.read_bytes())
    return found


def is_agreed(release: Release) -> None:
    if release.guarantee.epsilon != 1.0:
        raise ReleaseUntrusted("It is not what the task asks for.", "Ask.")


@dataclass
class Market:
    """Three members that exchange releases under a virtual clock."""

    own: list[bytes]
    network: RoughNetwork | GoodNetwork = field(default_factory=GoodNetwork)
    check: Callable[[Release], None] = is_agreed
    timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        self.stores = {name: CrashingStore() for name in NAMES}
        self.exchanges: dict[str, ReleaseExchange] = {}
        starts = {name: lambda now, place=place: self.started(place, now) for place, name in enumerate(NAMES)}
        self.simulation = SimulatedNetwork(starts, self.network, death=Killed)

    def started(self, position: int, now: float) -> MessageDispatcher:
        dispatcher, name = MessageDispatcher(session_of(position, 3)), NAMES[position]
        self.exchanges[name] = ReleaseExchange(
            "models",
            name,
            KEYS,
            self.own[position],
            self.stores[name],
            self.check,
            timeout_seconds=self.timeout_seconds,
        )
        dispatcher.start(self.exchanges[name], now)
        return dispatcher

    def run(self, most_seconds: float = 600.0) -> bool:
        return self.simulation.run(self.is_over, most_seconds)

    def is_over(self) -> bool:
        found = [self.exchanges.get(name) for name in NAMES]
        return all(each is not None and (each.finished or each.failure is not None) for each in found)


@pytest.mark.parametrize(
    "network",
    [GoodNetwork(), RoughNetwork(1, lost=0.3, repeated=0.3, replayed=0.3, truncated=0.1)],
    ids=["good", "rough"],
)
def test_everyone_ends_with_everyones_release(files: list[bytes], network: RoughNetwork | GoodNetwork) -> None:
    market = Market(files[:3], network)
    assert market.run()
    for exchange in market.exchanges.values():
        assert exchange.failure is None
        assert exchange.files() == dict(zip(NAMES, files[:3], strict=True))
        assert {name: release.learner for name, release in exchange.releases().items()} == dict.fromkeys(
            NAMES, "PrivateMean"
        )


def test_a_member_killed_while_it_stores_a_release_gets_it_again(files: list[bytes]) -> None:
    for step in range(1, 4):
        for after in (False, True):
            market = Market(files[:3])
            market.stores[NAMES[1]] = CrashingStore(die_at=frozenset({step}), after=after)
            assert market.simulation.run(lambda at=market: at.is_over() and at.simulation.lives(NAMES[1]) == 2, 600.0)
            assert all(exchange.files() == market.exchanges[NAMES[0]].files() for exchange in market.exchanges.values())


def test_a_store_that_was_lost_is_filled_again_by_asking(files: list[bytes]) -> None:
    market = Market(files[:3])
    assert market.run()
    market.simulation.kill(NAMES[2], restart_seconds=30.0)
    market.stores[NAMES[2]].contents.clear()
    del market.exchanges[NAMES[2]]
    assert market.run()
    assert market.exchanges[NAMES[2]].files() == market.exchanges[NAMES[0]].files()


def test_a_release_signed_by_another_key_stops_the_task_on_every_side(files: list[bytes]) -> None:
    market = Market([files[1], files[1], files[2]])
    assert market.run()
    failures = [market.exchanges[name].failure for name in NAMES]
    assert isinstance(failures[0], ReleaseUntrusted)
    assert all(isinstance(failure, TaskStopped) for failure in failures[1:])


def receiving(files: list[bytes]) -> ReleaseExchange:
    exchange = ReleaseExchange("models", NAMES[0], KEYS, files[0], CrashingStore(), is_agreed)
    exchange.begin(0.0)
    exchange.posts()
    return exchange


@pytest.mark.parametrize("spot", [0, 50, 400, -1])
def test_a_damaged_release_is_refused_and_its_sender_named(files: list[bytes], spot: int) -> None:
    exchange = receiving(files)
    body = bytearray(files[1])
    body[spot] ^= 1
    exchange.receive(NAMES[1], Envelope("models", RELEASE, body=bytes(body)), 0.0)
    assert isinstance(exchange.failure, ReleaseMalformed | ReleaseUntrusted)
    assert f"'{NAMES[1]}'" in str(exchange.failure)
    assert {envelope.kind for _, envelope in exchange.posts()} == {"stop"}


def test_somebody_elses_release_is_refused(files: list[bytes]) -> None:
    exchange = receiving(files)
    exchange.receive(NAMES[1], Envelope("models", RELEASE, body=files[2]), 0.0)
    assert isinstance(exchange.failure, ReleaseUntrusted)


def test_a_second_release_in_the_place_of_the_first_is_refused(files: list[bytes]) -> None:
    exchange = ReleaseExchange("models", NAMES[1], KEYS, files[1], CrashingStore(), is_agreed)
    exchange.begin(0.0)
    for _ in range(2):
        exchange.receive(NAMES[0], Envelope("models", RELEASE, body=files[0]), 0.0)
    assert exchange.failure is None
    exchange.receive(NAMES[0], Envelope("models", RELEASE, body=files[3]), 0.0)
    assert isinstance(exchange.failure, ReleaseUntrusted)


def test_a_release_that_is_not_what_was_agreed_is_refused(files: list[bytes]) -> None:
    def never(release: Release) -> None:
        raise ReleaseUntrusted("It is not what the task asks for.", "Ask.")

    with pytest.raises(ReleaseUntrusted, match="asks for"):
        verified(files[0], KEYS[NAMES[0]], never)
    assert verified(files[0], KEYS[NAMES[0]], is_agreed).learner == "PrivateMean"


def test_a_withdrawn_release_is_forgotten_and_stays_so(files: list[bytes]) -> None:
    market = Market(files[:3])
    assert market.run()
    market.exchanges[NAMES[1]].withdraw()
    dispatcher = market.simulation.dispatcher(NAMES[1])
    assert dispatcher is not None
    market.simulation.run(lambda: all(NAMES[1] not in each.files() for each in market.exchanges.values()), 60.0)
    exchange = market.exchanges[NAMES[0]]
    assert set(exchange.files()) == {NAMES[0], NAMES[2]}
    exchange.receive(NAMES[1], Envelope("models", RELEASE, body=files[1]), 0.0)
    assert set(exchange.files()) == {NAMES[0], NAMES[2]}
    again = market.started(1, 100.0)
    assert again is not None
    assert {envelope.kind for envelope in kinds_published(market)} == {WITHDRAW}


def kinds_published(market: Market) -> list[Envelope]:
    exchange = market.exchanges[NAMES[1]]
    exchange.receive(NAMES[0], Envelope("models", "fetch"), 0.0)
    return [envelope for _, envelope in exchange.posts()]


def test_members_that_never_come_are_named(files: list[bytes]) -> None:
    market = Market(files[:3], RoughNetwork(0, outages=((0.0, 1e9),)), timeout_seconds=30.0)
    assert market.run()
    for name, exchange in market.exchanges.items():
        assert isinstance(exchange.failure, NotConnected)
        assert all(f"'{other}'" in str(exchange.failure) for other in NAMES if other != name)


def test_a_file_survives_the_trip_to_disk(files: list[bytes], tmp_path: Path) -> None:
    path = tmp_path / "copy.sudare"
    path.write_bytes(files[0])
    assert Release.load(path, [IDENTITIES[0].signing_key.public_key()]).digest is not None
