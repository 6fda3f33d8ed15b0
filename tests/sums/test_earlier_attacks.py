"""Three attacks by which one dishonest member once read another's addend or weakened its noise: none of them opens anything now.

A false claim about who left, another's key shown as one's own, and different totals told to different members.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from sudare.errors import InvalidParameter, StatementsContradict, SumError
from sudare.sums.blame import Transcript, contradictions
from sudare.sums.context import Participant, Roster, SumContext, check_threshold, least_threshold, most_dishonest
from sudare.sums.keys import PublicKeys
from sudare.sums.masks import lasting_pair_seed
from sudare.sums.messages import Message, Passed
from sudare.sums.party import Party
from sudare.sums.simulation import simulate
from tests.sums.byzantine import World
from tests.sums.byzantine_settings import SMALL_ORDER, Setting
from tests.sums.parties import keys_of

# Where the attacks once worked.
ONCE = ((3, 2), (4, 3), (5, 3), (5, 4), (6, 4), (8, 6), (10, 7), (12, 8), (16, 12), (20, 15))


def allowed(members: int, threshold: int) -> Setting:
    """The nearest setting with a threshold below S in which one member at least may be dishonest; (3, 2) has none and stays t = S."""
    threshold = max(threshold, least_threshold(members, 1))
    return Setting(members, threshold, max(1, most_dishonest(members, threshold)))


def drawn(count: int) -> list[Setting]:
    draw = random.Random(16)
    found = []
    while len(found) < count:
        members = draw.randint(4, 10)
        dishonest = draw.randint(1, members - 3)
        least = least_threshold(members, dishonest)
        setting = Setting(members, draw.randint(least, members), dishonest)
        if setting.threshold < members and setting not in found:
            found.append(setting)
    return found


LISTED = [each for each in (allowed(*pair) for pair in ONCE) if each.threshold < each.members]
DRAWN = [each for each in drawn(50) if each not in LISTED]
# The listed ones and the first that are drawn by default; all of them in the long suite.
SETTINGS = [*LISTED, *DRAWN[:10], *(pytest.param(each, marks=pytest.mark.long) for each in DRAWN[10:])]


@pytest.mark.parametrize("pair", [(3, 2), (5, 3), (7, 4), (9, 5)])
def test_a_threshold_at_which_one_dishonest_member_could_open_two_totals_is_refused(pair: tuple[int, int]) -> None:
    with pytest.raises(InvalidParameter, match="two totals could be opened"):
        check_threshold(*pair, 1)


def check_nothing_was_learnt(world: World) -> None:
    """Whatever a victim's addend is, the attacker would have seen the same with the same sum of honest addends; and everyone has a word on it."""
    world.check()
    honest = sorted(world.honest)
    other = np.full(world.length, 1 << 40, dtype=np.uint64)
    for victim in honest:
        # In no sum that can be seen; or together with somebody else.
        changed = world.words | {victim: world.words[victim] + other}
        assert world.explains(changed) or any(
            world.explains(changed | {each: world.words[each] - other}) for each in honest if each != victim
        )
    for parties in world.parties.values():
        last = parties[max(parties)]
        assert last.stopped is None or isinstance(last.failure, SumError)


def calm(setting: Setting, plan: str, attempts: tuple[int, ...]) -> World:
    """A sum whose messages all arrive in order, with a collector that follows a plan."""
    world = World(setting.members, [setting], plan)
    world.attempts, world.lost, world.orderly, world.persists = attempts, 0.0, True, False
    world.run()
    return world


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_a_false_claim_about_who_left_opens_nothing(setting: Setting) -> None:
    for plan in ("few", "difference"):
        world = calm(setting, plan, (0, setting.members))
        check_nothing_was_learnt(world)
        if plan == "few":
            # The collector asked for a sum of few: everyone refuses and says so, and nobody gives anything out.
            assert "Revealed" not in world.reached
            failures = [parties[0].failure for parties in world.parties.values()]
            assert all(each is not None and "do not justify" in str(each) for each in failures)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_different_totals_told_to_different_members_are_not_used(setting: Setting) -> None:
    world = calm(setting, "totals", (0,))
    check_nothing_was_learnt(world)
    parties = [each[0] for each in world.parties.values()]
    assert len({each.total.tobytes() for each in parties if each.total is not None}) <= 1
    stopped = [each for each in parties if isinstance(each.failure, StatementsContradict)]
    liar = world.adversary.collectors[0]
    totals = {told.total.tobytes() for each, told in liar.told.items() if each in told.included - liar.untold}
    # Where two totals were told, some have both in hand, and the collector is named by its own signatures.
    assert bool(stopped) == (len(totals) == 2)
    context = world.context(0)
    named = {each.among for each in contradictions([Transcript(context, each.statements) for each in stopped])}
    assert not stopped or (context.members[context.collector],) in named


# Sums that nobody may leave


SERVERLESS = [
    (members, colluders) for members in (3, 4, 5, 8, 13, 20) for colluders in {1, (members - 2) // 2, members - 2} - {0}
]


@pytest.mark.parametrize(("members", "colluders"), SERVERLESS)
def test_another_members_key_shown_as_ones_own_is_refused(members: int, colluders: int) -> None:
    names = tuple(f"member-{each}" for each in range(members))
    for position in range(colluders):
        publics = [each.public for each in map(keys_of, range(members))]
        for key in (publics[-1].exchange, flipped(publics[-1].exchange), *SMALL_ORDER):
            publics[position] = PublicKeys(key, keys_of(position).public.signing)
            with pytest.raises(InvalidParameter, match=r"the same key|hides nothing"):
                Roster(names, tuple(publics))


def flipped(key: bytes) -> bytes:
    """The same X25519 key in other bytes: its last bit is ignored."""
    return key[:-1] + bytes([key[-1] ^ 0x80])


@pytest.mark.parametrize(("members", "colluders"), SERVERLESS)
def test_masks_with_a_member_that_shows_different_keys_to_different_members_do_not_cancel(
    members: int, colluders: int
) -> None:
    # Each honest member has another roster: colluders show each the key of another honest member.
    names = tuple(f"member-{each}" for each in range(members))
    honest = range(colluders, members)
    draw = random.Random(members)
    seeds: dict[bytes, list[tuple[int, int]]] = {}
    for position in honest:
        fresh = [PublicKeys(draw.randbytes(32), keys_of(each).public.signing) for each in range(colluders)]
        shown = (*fresh, *(keys_of(each).public for each in honest))
        context = SumContext("shown", "sums", 0, 0, Roster(names, shown), members, colluders)
        participant = Participant(context, position, keys_of(position))
        for other in honest:
            if other != position:
                seeds.setdefault(lasting_pair_seed(participant, other), []).append((position, other))
    # Rosters differ, so no two masks are alike: nothing cancels, and nothing is opened.
    assert all(len(each) == 1 for each in seeds.values())


class Liar(Party):
    """Passes on something else in one round."""

    def receive(self, message: Message) -> tuple[Message, ...]:
        return tuple(self._lie(each) for each in super().receive(message))

    def begin(self) -> tuple[Message, ...]:
        return tuple(self._lie(each) for each in super().begin())

    def _lie(self, message: Message) -> Message:
        body = message.body
        if isinstance(body, Passed) and body.round == 0 and body.window is not None:
            # As many more rows as once made members use a coarser clip.
            return Message(message.sender, message.receiver, Passed(0, body.window + np.uint64(1 << 28), body.partial))
        return message


@pytest.mark.parametrize("members", [3, 5, 6, 7, 11, 20])
def test_a_total_of_which_members_hold_different_values_is_not_used(members: int) -> None:
    context = Setting(members, members, 1).context("liar", 0, 0)
    words = np.arange(4, dtype=np.uint64)
    parties = [
        (Liar if position == 1 else Party)(Participant(context, position, keys_of(position)), words)
        for position in range(members)
    ]
    simulate(parties)
    held = {each.state.member.place.total.tobytes() for each in parties}
    assert len(held) == 2
    assert all(each.total is None for position, each in enumerate(parties) if position != 1)
    assert all(isinstance(each.failure, StatementsContradict) for position, each in enumerate(parties) if position != 1)
