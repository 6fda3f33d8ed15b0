"""How likely a released row can be linked to a record: the k rule, its reverse, and what is said about it.

A table is Pk-anonymous (Igarashi, Chida and Takahashi 2009) when nobody who sees the perturbed, shuffled rows, and even
knows all the records, can tell which row came from a given record with probability above 1/k. Proof: proofs/pk_anonymity.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any, Final, cast

from flint import arb

from sudare.ball_precision import ball_precision
from sudare.errors import InvalidParameter
from sudare.parameter_checks import Numbers
from sudare.perturbation.shuffle_amplification import shuffled_epsilon
from sudare.privacy.accounting import decimal_down, exact
from sudare.privacy.guarantee import Guarantee, readable_up
from sudare.report.number_formatting import percent_up, rounded_down, rounded_up, whole
from sudare.report.privacy_card import strength_of

CENTRAL_DELTA: Final = 1e-6
SMALLEST_EPSILON: Final = 1e-3
LARGEST_EPSILON: Final = 16.0

_BALL_BITS: Final = 192


def checked_count(name: str, number: object, least: int) -> int:
    """`number` if it is a whole number from `least`. Raise InvalidParameter otherwise."""
    Numbers(least, whole=True).check(name, number)
    return int(cast(int, number))


def epsilon_of_k(k: int, n_records: int, rows_per_person: int = 1) -> float:
    """The largest local ε of a row, rounded down, for which no row can be linked with probability above 1/k.

    ½·ln((N − m)/(m·(k − 1))) for persons with at most m rows each; with one row each that is ½·ln((N − 1)/(k − 1)).
    """
    checked_count("k", k, 2)
    checked_count("n_records", n_records, 1)
    checked_count("rows_per_person", rows_per_person, 1)
    squared = Fraction(n_records - rows_per_person, rows_per_person * (k - 1))
    if squared <= 1:
        raise InvalidParameter(
            f"k = {k} cannot be reached among {whole(n_records)} {'record' if n_records == 1 else 'records'}"
            + (f" of persons with up to {rows_per_person} rows." if rows_per_person > 1 else "."),
            _reachable(k, n_records, rows_per_person),
        )
    with ball_precision(_BALL_BITS):
        ball = (arb(squared.numerator) / arb(squared.denominator)).log() / 2
        below = math.nextafter(float(ball.lower()), 0.0)
    return decimal_down(Fraction(below))


def _reachable(k: int, n_records: int, rows_per_person: int) -> str:
    """What to do about a k that so many records cannot have."""
    below = (n_records - rows_per_person) // rows_per_person + 1
    enough = f"{rows_per_person * k + 1:,}"
    if below > 2:
        return f"Use k below {below}, or perturb {enough} or more records together."
    return f"Perturb {enough} or more records together."


def k_of_epsilon(epsilon: float, n_records: int, rows_per_person: int = 1) -> float:
    """The k that rows of local ε have, rounded down: 1 + (N − m)/(m·e^{2ε})."""
    if not (isinstance(epsilon, Real) and 0 < epsilon < math.inf):
        raise InvalidParameter(f"epsilon must be a positive number, got {epsilon!r}.", "Use for example 1.0.")
    checked_count("n_records", n_records, 1)
    checked_count("rows_per_person", rows_per_person, 1)
    others = Fraction(n_records - rows_per_person, rows_per_person)
    rate = exact(epsilon)
    with ball_precision(_BALL_BITS):
        growth = (2 * arb(rate.numerator) / arb(rate.denominator)).exp()
        ball = 1 + arb(others.numerator) / arb(others.denominator) / growth
        return max(1.0, math.nextafter(float(ball.lower()), 0.0))


def resolved_epsilon(epsilon: float | None, k: int | None, n_records: int | None) -> float:
    """The local ε that is given, or that follows from k and n_records; one of the two must be."""
    if (epsilon is None) == (k is None):
        raise InvalidParameter(
            "A perturbation needs either epsilon or k.", "Give epsilon=…, or k=… together with n_records=…."
        )
    if k is None:
        if n_records is not None:
            checked_count("n_records", n_records, 1)
        return checked_local_epsilon(epsilon)
    if n_records is None:
        raise InvalidParameter("k needs to know among how many records.", "Give n_records=….")
    return checked_local_epsilon(epsilon_of_k(k, n_records))


def checked_local_epsilon(epsilon: object) -> float:
    """`epsilon` if a perturbation can be made for it."""
    try:
        number = float(epsilon) if isinstance(epsilon, int | float) and not isinstance(epsilon, bool) else math.nan
    except OverflowError:
        epsilon = number = math.inf
    if not SMALLEST_EPSILON <= number <= LARGEST_EPSILON:
        raise InvalidParameter(
            f"The ε of one perturbed value must lie from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}, got {epsilon!r}.",
            "Below, nothing is left of the value; above, nothing protects it. A split over fewer columns gives each more.",
        )
    return number


@dataclass(frozen=True)
class PerturbationPromise:
    """What is promised for a perturbed table, in three ways that belong together: linking, local, central.

    `local` is the promise that is charged. `k` and `central_epsilon` are None where they are withheld: without shuffling
    nobody is hidden among the others.
    """

    local: Guarantee
    rows: int
    shuffled: bool
    k: float | None
    central_epsilon: float | None
    central_delta: float
    answered_of: int | None = None
    is_repeated: bool = False

    @classmethod
    def of(
        cls,
        local: Guarantee,
        rows: int,
        *,
        shuffled: bool = True,
        row_epsilon: float | None = None,
        rows_per_person: int = 1,
        answered_of: int | None = None,
        is_repeated: bool = False,
    ) -> PerturbationPromise:
        """The statement for so many rows, each of local `row_epsilon`, of records or of persons with so many rows each.

        `answered_of` is the number of columns of which each row answers one, where that is so. Answers that are repeated in other releases
        can be found again there: nobody is hidden among the others.
        """
        delta = min(CENTRAL_DELTA, 0.1 / rows)
        if is_repeated or not shuffled or not local.valid or rows <= rows_per_person:
            return cls(local, rows, shuffled, None, None, delta, answered_of, is_repeated)
        epsilon = local.epsilon / rows_per_person if row_epsilon is None else row_epsilon
        central = central_epsilon(epsilon, rows, delta, rows_per_person)
        k = k_of_epsilon(epsilon, rows, rows_per_person)
        return cls(local, rows, shuffled, k, central, delta, answered_of)

    @property
    def lines(self) -> tuple[str, ...]:
        """Linking, local and central promise, each in a sentence that says how weak it is; and how rows were sampled, where they were."""
        told = [self._linking, self._local, self._central]
        if self.answered_of is not None:
            told.append(
                f"Sampled: every row answers one of {self.answered_of} columns, drawn at random, with the whole ε; "
                "its other columns hold nothing of the record."
            )
        if self.is_repeated:
            told.append(
                "Repeated: every person gives the first answer again in each collection, and the local ε is for all of them together. Who takes "
                "part in which one is not protected, and links rows of one person."
            )
        return tuple(told)

    @property
    def _linking(self) -> str:
        if self.k is None:
            return f"Linking: no statement; {self._why_withheld}."
        shown = rounded_down(self.k).removesuffix(".0")
        among = f"k = {shown} among {whole(self.rows)} shuffled rows"
        whom = "a given person" if self.local.unit == "person" else "a given record"
        if self.k < 2:
            return f"Linking: a row may be linked to {whom} with probability up to {percent_up(1 / self.k)} ({among}): weak."
        return f"Linking: nobody can link a row to {whom} with probability above 1/{shown} ({among})."

    @property
    def _local(self) -> str:
        strength = strength_of(self.local.epsilon, notion="local", valid=self.local.valid)
        return (
            f"Local: ε = {readable_up(self.local.epsilon)} for every {self.local.unit}, also towards whoever sees the rows "
            f"unshuffled: {strength.word} on its own ({strength.reason})."
        )

    @property
    def _central(self) -> str:
        if self.central_epsilon is None:
            return f"Central, after shuffling: no statement; {self._why_withheld}."
        if self.central_epsilon >= self.local.epsilon:
            return f"Central, after shuffling: no useful amplification at this size; ε = {readable_up(self.local.epsilon)} holds."
        word = strength_of(self.central_epsilon, self.central_delta, rows=self.rows).word
        return (
            f"Central, after shuffling: ε = {rounded_up(self.central_epsilon)} at δ = {rounded_up(self.central_delta)}, "
            f"replace-one {self.local.unit}: {word}."
        )

    @property
    def _why_withheld(self) -> str:
        if not self.local.valid:
            return "the noise came from a seed"
        if self.is_repeated:
            return "answers are given again in other releases, where rows can be found again"
        return "there is nobody to hide among" if self.shuffled else "the rows were not shuffled"

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "rows": self.rows,
            "shuffled": self.shuffled,
            "k": self.k,
            "local": self.local.to_dict(),
            "central": None
            if self.central_epsilon is None
            else {"epsilon": self.central_epsilon, "delta": self.central_delta},
            "text": list(self.lines),
        }

    def __str__(self) -> str:
        return "\n".join(self.lines)


def central_epsilon(row_epsilon: float, rows: int, delta: float, rows_per_person: int = 1) -> float:
    """The ε at δ that shuffling gives, for a record or for a person with several rows; at most the local one."""
    local = row_epsilon * rows_per_person
    if rows_per_person == 1:
        return shuffled_epsilon(row_epsilon, rows, delta)
    # Replacing m rows one after the other: (mε′, δ′·(e^{mε′} − 1)/(e^{ε′} − 1)) ≤ (mε′, δ′·m·e^{mε}), so δ′ is chosen from ε.
    share = delta / (rows_per_person * math.exp(min(local, 600.0)))
    return min(local, rows_per_person * shuffled_epsilon(row_epsilon, rows, share))
