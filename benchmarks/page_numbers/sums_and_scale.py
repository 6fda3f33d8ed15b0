"""Numbers of docs/scale.md, of sums, and of the page under load."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from benchmarks import scale
from benchmarks.page_numbers.places import Told, result, row, told, up
from sudare.consortium.network.transport.flare import _MOST_HEARD
from sudare.sums.context import Participant, Roster, SumContext
from sudare.sums.keys import MemberKeys
from sudare.sums.messages import Heard, Message, heard_content
from sudare.sums.neighbour_graph import neighbourhood
from sudare.sums.statements import stated

PAGE = "scale"
BILLION = 10**9
# Questions and answers of a sum with a collector, as the page says.
ROUNDS_OF_THE_NODE = 6
# Shares of members that are dishonest and that leave, in percent: the columns of the table of neighbours.
SHARES = ((5, 5), (10, 10), (20, 5), (20, 20), (33, 0), (33, 5))
_OWN_KEYS: Final = MemberKeys.generated()
SIZES = (50, 100, 200, 500, 1_000)


def all_told() -> Iterator[Told]:
    """What the pages say."""
    yield from _pieces()
    yield from _sums()
    yield from _neighbours()
    yield from _page_load()


def _pieces() -> Iterator[Told]:
    """Pieces of the work of ten thousand members, and of one with a billion rows."""
    costs = result("benchmarks/scale.json")
    yield told(PAGE, "Rows have {} columns, vectors {} numbers, and S = {}", scale.COLUMNS, scale.WIDTH, scale.MEMBERS)
    yield told(PAGE, "A round between machines is taken as {} ms", 1000 * scale.ROUND_SECONDS)
    yield told(PAGE, "a relay keeps the hellos of {} members at most", _MOST_HEARD)
    rounds = math.ceil(math.log2(scale.MEMBERS))
    yield told(
        PAGE,
        "at most 1.8 vectors of {} words a round, {} rounds: {} kB",
        scale.WIDTH,
        rounds,
        1.8 * scale.WIDTH * 8 * rounds / 1000,
    )
    yield told(
        PAGE,
        "and its statement on the total to everyone, {} MB. Its memory: {} MB of rows, {} MB of keys",
        (scale.MEMBERS - 1) * len(_statement_on_total().to_bytes()) / 1e6,
        scale.OWN_ROWS * scale.WIDTH * 8 / 1e6,
        scale.MEMBERS * (len(_OWN_KEYS.public.exchange) + len(_OWN_KEYS.public.signing)) / 1e6,
    )
    yield told(PAGE, "times √(S/(S−t)) = {}", math.sqrt(1 / (1 - 1 / 3)))
    yield told("consortium-learning", "nothing at t = 1 of 100, {}% at t = 33", 100 * (math.sqrt(100 / (100 - 33)) - 1))
    read, bound, add, gradient = (
        BILLION * costs[piece] for piece in (scale.READING, scale.BOUNDING, scale.MEAN, scale.GRADIENT)
    )
    once, anew, first = (read + bound + add) / 60, scale.STEPS * (read + bound + gradient) / 3600, (read + bound) / 60
    yield told(
        PAGE,
        "| {} + {} + {} s = {} minutes | {} minutes/W |",
        *(round(each, -1) for each in (read, bound, add)),
        once,
        once,
    )
    yield told(PAGE, "| descent, {} steps, read anew each time | {} hours | {} hours/W |", scale.STEPS, anew, anew)
    yield told(
        PAGE, "| descent, {0} steps over rows that workers keep | | {1} minutes/W for the first pass, then {0} × {2} s/W |",
        scale.STEPS, first, gradient,
    )  # fmt: skip
    kept = 4 * scale.COLUMNS + 1
    yield told(
        PAGE,
        "Kept rows of {} columns take {} bytes each: {} GB for all workers together",
        scale.COLUMNS,
        kept,
        kept * BILLION / 1e9,
    )


def _statement_on_total() -> Message:
    """What a member of a sum that nobody may leave sends each other one when it has the total; its size does not depend on how many they are."""
    roster = Roster(("a", "b", "c"), (_OWN_KEYS.public, MemberKeys.generated().public, MemberKeys.generated().public))
    me = Participant(SumContext("scale", "learning", 0, 0, roster, 3, 0), 0, _OWN_KEYS)
    content = heard_content(me.context, me.context.everyone, np.zeros(scale.WIDTH, np.uint64))
    return Message(scale.MEMBERS - 2, scale.MEMBERS - 1, Heard(stated(me, "heard", content), None))


def _sums() -> Iterator[Told]:
    """Sums that members may leave."""
    sums = result("benchmarks/secure_sums.json")
    large = row(sums, who="sudare", members=10_000)
    yield told(PAGE, "runs one sum of {} numbers among S members", large["numbers"])
    yield told(
        PAGE, "A member receives 64 bytes a signature, {} MB at ten thousand members", large["certificate_bytes"] / 1e6
    )
    yield told(
        PAGE,
        "nothing to spare and all are verified, {} ms each: {} s at ten thousand",
        1000 * result("benchmarks/scale.json")[scale.STATEMENT],
        # The lowest threshold where one in twenty is dishonest.
        ((10_000 + 500) // 2 + 1) * result("benchmarks/scale.json")[scale.STATEMENT],
    )
    yield told(PAGE, "Three sets of members, a bit each: {} kB", 3 * large["members"] / 8 / 1000)
    yield told(
        PAGE, "{} GB at ten thousand members, nearly all of it twice the same {} MB for everyone",
        large["collector_bytes_sent"] / 1e9, large["certificate_bytes"] / 2e6,
    )  # fmt: skip
    yield told(PAGE, "a sum takes a member less than {} s", up(large["member_seconds"]))
    thousand, theirs = (row(sums, who=who, members=1_000) for who in ("sudare", "flower"))
    yield told(
        "benchmarks",
        "with {} neighbours each, a server of a thousand members takes {} s, nearly all of them to open shares, ours {} s",
        theirs["degree"],
        theirs["collector_seconds"],
        thousand["collector_seconds"],
    )
    pieces = result("benchmarks/scale.json")
    waited = large["member_seconds"] + ROUNDS_OF_THE_NODE * scale.ROUND_SECONDS
    rows = scale.OWN_ROWS * (pieces[scale.READING] + pieces[scale.BOUNDING])
    pure = rows + scale.OWN_ROWS * pieces[scale.MEAN] + pieces[scale.PURE_SHARE] + 2 * waited
    descent = rows + scale.STEPS * (scale.OWN_ROWS * pieces[scale.GRADIENT] + pieces[scale.GAUSSIAN_SHARE])
    descent += (scale.STEPS + 1) * waited
    yield told(PAGE, "as above, **{} s** for one pure sum and **{} minutes** for descent", pure, descent / 60)
    yield told(PAGE, "(at 1,000 members, 5 % and 5 %: {} and {})", thousand["degree"], thousand["threshold"])


def _neighbours() -> Iterator[Told]:
    """k and t_k; the longer lines of the table are compared with the code by the long tests of tests/cli/test_risk.py."""
    degree = row(result("benchmarks/secure_sums.json"), who="sudare", members=10_000)["degree"]
    yield told(
        PAGE,
        "a member deals {} shares and masks with about {} others: {} % of all",
        degree,
        2 * degree,
        200 * degree / 10_000,
    )
    yield told("secure-sums", "5 % of them dishonest and 5 % leaving, about {} of them", 2 * degree)
    yield told("benchmarks", "only masks with {} neighbours are counted", 2 * degree)
    yield told("proofs/neighbourhoods.md", "so smaller: {} of 10,000 at 5 % and 5 %", degree)
    proved = result("benchmarks/addend_proofs.json")["sums"]
    least = min(each[what] / each["without_seconds"] for each in proved for what in ("prove_seconds", "verify_seconds"))
    yield told("benchmarks", "takes at least {} times as long as the sum here", least // 100 * 100)
    for members in SIZES:
        cells = []
        for corrupt, gone in SHARES:
            dishonest, leaving = members * corrupt // 100, members * gone // 100
            found = neighbourhood(members, dishonest, leaving, (members + dishonest) // 2 + 1)
            cells.append(None if found.is_complete(members) else (found.degree, found.threshold))
        line = " | ".join("all" if cell is None else "{}, {}" for cell in cells)
        yield told(PAGE, f"| {members:,} | {line} |", *(number for cell in cells if cell for number in cell))


def _page_load() -> Iterator[Told]:
    """The page with fifty users, in both languages."""
    load = result("benchmarks/page_load.json")
    slowest = up(max(page["p95_milliseconds"] for page in load["pages"].values()))
    values = (
        load["load_average"],
        load["answers"],
        load["p95_milliseconds"],
        slowest,
        load["server_processor_milliseconds_per_answer"],
    )
    yield told(
        "page",
        "(load average {}, no priority) there was no error in {} answers; 95 of 100 took less than {} ms, on every page less than {} ms, and the server took {} ms of a processor",
        *values,
    )
    yield told(
        "ja/page",
        "（ロードアベレージ {}、優先度は普通）で、{} の応答にエラーはなく、100 のうち 95 は {} ms 未満、どのページでも {} ms 未満で、一つあたりのサーバのプロセッサ時間は {} ms でした",
        *values,
    )
    sign_in = up(load["sign_in_p95_milliseconds"])
    yield told("page", "95 of 100 sign-ins, one after another, took less than {} ms there", sign_in)
    yield told("ja/page", "続けて行ったサインインの 100 のうち 95 は、そこでは {} ms 未満でした", sign_in)
