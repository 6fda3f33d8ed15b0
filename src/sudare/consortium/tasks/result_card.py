"""The privacy card of what members made together and nobody signs: what was shown, under which promise, and who paid."""

from __future__ import annotations

import math

from sudare.consortium.agreement.agreement import Agreement
from sudare.joint.dictionary_script import TrainedDictionary
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger_chain import Receipt
from sudare.report.card import Card, card_rows
from sudare.report.numbers import whole
from sudare.schema import Number


def dictionary_card(found: TrainedDictionary, guarantee: Guarantee, receipt: Receipt, agreement: Agreement) -> str:
    """The card of a private dictionary as one member holds it."""
    dictionary, members = found.dictionary, len(agreement.members)
    columns = [name for name, column in agreement.schema.features.items() if isinstance(column, Number)]
    patterns = len(dictionary.patterns)
    card = Card(
        # The first of the sums is the number of rows, which is public.
        what=f"PatternDictionary: {whole(found.numbers - 1)} noisy totals in {found.sums - 1} sums, {patterns} "
        f"{'pattern' if patterns == 1 else 'patterns'} computed from them",
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        neighbours=guarantee.neighbours,
        unit=guarantee.unit,
        notion=guarantee.notion,
        towards=guarantee.towards,
        valid=guarantee.valid,
        rows=math.floor(dictionary.overall.rows),
        columns=columns,
        account=receipt.account,
        entry=receipt.position,
        ledger=receipt.ledger,
        signature="unchecked",
        schema_digest=agreement.schema.digest,
        remarks=(
            (
                "members",
                f"{members}, each with a share of the noise; {agreement.colluders} of the shares may be known to whoever looks (its own is) or missing",
            ),
            (
                "not covered",
                "this member's own weights (own_weights in dictionary.json): exact functions of its records, which must stay here",
            ),
        ),
    )
    # The document beside it is this member's own and nobody has signed it.
    rows = [(label, text) for label, text in card_rows(card) if label != "signature"]
    width = max(len(label) for label, _ in rows)
    return "".join(f"{label:<{width}}  {text}\n" for label, text in rows)
