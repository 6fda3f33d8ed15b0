"""What a consortium can expect of its secure sums, from how many members may be dishonest and how many may leave."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from sudare.errors import InvalidParameter
from sudare.sums.context import check_threshold
from sudare.sums.neighbour_graph import (
    liveness_failure_log2,
    most_separated,
    privacy_failure_log2,
    sum_neighbourhood,
)


@dataclass(frozen=True)
class SumAssessment:
    """Numbers of one secure sum. Failures are bounds, as base-2 logarithms; −∞ where nothing can fail."""

    members: int
    dishonest: int
    leaving: int
    threshold: int
    degree: int
    share_threshold: int
    privacy_failure_log2: float
    liveness_failure_log2: float
    most_separated: int

    @property
    def serverless(self) -> bool:
        """Whether everybody must stay, so that no collector is needed."""
        return self.threshold == self.members

    @property
    def complete(self) -> bool:
        """Whether everybody is everybody's neighbour."""
        return self.degree == self.members - 1

    @property
    def honest_addends(self) -> int:
        """The least number of honest members' addends in any sum that is opened: more than half of them in any case."""
        return max(self.threshold - self.dishonest - self.most_separated, (self.members - self.dishonest) // 2 + 1)

    @property
    def largest_threshold(self) -> int:
        """The largest number of votes that lets as many leave."""
        return self.members - self.leaving

    def to_dict(self) -> dict[str, Any]:
        """All numbers, by name."""
        return {
            **asdict(self),
            "complete": self.complete,
            "serverless": self.serverless,
            "honest_addends": self.honest_addends,
            "largest_threshold": self.largest_threshold,
        }


def assessed_sum(members: int, dishonest: int, leaving: int, threshold: int | None = None) -> SumAssessment:
    """Votes, neighbours and shares for such a consortium, and what they withstand; by default as many votes as leaving members allow.

    Raise InvalidParameter unless dishonest + 2·leaving < members, two members are honest and the threshold fits both numbers.
    """
    if dishonest + 2 * leaving >= members:
        raise InvalidParameter(
            f"{dishonest} dishonest and {leaving} leaving members are too many for {members}: "
            f"{dishonest} + 2·{leaving} must be below the number of members.",
            _remedies(members, dishonest, leaving),
        )
    votes = members - leaving if threshold is None else threshold
    check_threshold(members, votes, dishonest)
    if votes > members - leaving:
        raise InvalidParameter(
            f"A threshold of {votes} is more than the {members - leaving} members that stay when {leaving} leave.",
            f"Use a threshold of at most {members - leaving}, or fewer that leave.",
        )
    found = sum_neighbourhood(members, dishonest, votes)
    numbers = (members, dishonest, leaving, votes, found.degree, found.threshold)
    if found.is_complete(members):
        return SumAssessment(*numbers, -math.inf, -math.inf, 0)
    return SumAssessment(
        *numbers,
        privacy_failure_log2(members, dishonest, found.degree, found.threshold),
        liveness_failure_log2(members, leaving, found.degree, found.threshold),
        most_separated(members, dishonest, members - votes, found.degree),
    )


def _remedies(members: int, dishonest: int, leaving: int) -> str:
    """Which of the three numbers to change, and to what."""
    changes = [f"Use at least {dishonest + max(2 * leaving + 1, 2)} members."]
    if dishonest < members:
        changes.append(f"Or let at most {(members - dishonest - 1) // 2} leave.")
    if 2 * leaving < members:
        changes.append(f"Or expect at most {min(members - 2 * leaving - 1, members - 2)} dishonest ones.")
    return " ".join(changes)
