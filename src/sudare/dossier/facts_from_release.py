"""The facts of a release that was read."""

from __future__ import annotations

from sudare.dossier.statement_facts import Facts, Linking
from sudare.privacy import Release
from sudare.report.privacy_card import Signature


def facts_of(release: Release, signature: Signature) -> Facts:
    """Plain values about a release; of perturbed rows also what their model states about linking."""
    linking = None
    if release.learner == "RecordPerturbation":
        stated = release.model().statement()
        linking = Linking(stated.k, stated.shuffled, stated.central_epsilon, stated.central_delta, stated.is_repeated)
    return Facts.of(release.manifest(), release.card(signature), linking)
