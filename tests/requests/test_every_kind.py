"""Every kind of release can be asked for, priced and run as a request."""

from __future__ import annotations

import dataclasses

import pytest

from sudare import Ledger, Release
from sudare.requests.approved_request_job import run
from sudare.requests.price import price_now
from sudare.requests.request_actions import ask, decide
from sudare.requests.request_kinds import KINDS
from sudare.requests.steward_settings import RequestSettings

VALUES: dict[str, dict[str, list[str]]] = {
    "mean": {"epsilon": ["0.5"]},
    "histogram": {"epsilon": ["0.5"]},
    "table": {"epsilon": ["0.5"], "by": ["ward"], "mean_of": ["age"], "quantile_of": ["age"]},
    "quantiles": {"epsilon": ["0.5"]},
    "scaler": {"epsilon": ["0.5"]},
    "logistic": {"epsilon": ["0.5"], "target": ["ward"]},
    "svc": {"epsilon": ["0.5"], "target": ["ward"]},
    "additive": {"epsilon": ["0.5"], "delta": ["1e-6"], "target": ["ward"], "monotone": ["age=increasing"]},
    "ridge": {"epsilon": ["0.5"], "target": ["age"]},
    "gibbs": {"epsilon": ["0.5"], "delta": ["1e-6"], "target": ["ward"]},
    "perturbation": {"epsilon": ["0.5"]},
    "synthesis": {"epsilon": ["0.5"]},
}


def with_delta(settings: RequestSettings) -> RequestSettings:
    table = dataclasses.replace(settings.tables["visits"], budget=20.0, budget_delta=1e-5)
    return dataclasses.replace(settings, tables={"visits": table})


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in VALUES])
def test_a_kind_is_asked_for_approved_and_released(settings: RequestSettings, kind: str) -> None:
    settings = with_delta(settings)
    request = ask(settings, "visits", kind, VALUES[kind], who="aiko", purpose="a talk")
    asked = price_now(settings, request).quote.asked
    decide(settings, request.identity, 1, "approved", who="mori", reason="seen")
    ended = run(settings, request.identity)
    assert ended.state == "done", ended.outcome
    assert ended.outcome is not None
    assert (ended.outcome.epsilon, ended.outcome.delta) == asked
    release = Release.load(settings.releases_folder / ended.outcome.file, trusted=[settings.key().public_key()])
    release.check_entered(Ledger(settings.ledger))
    assert release.learner in KINDS[kind].names


NETWORK = {"epsilon": ["3"], "delta": ["1e-6"], "target": ["ward"], "max_iter": ["5"], "hidden_layer_sizes": ["4"]}


@pytest.mark.parametrize(
    ("kind", "values", "after"), [("network", NETWORK, "done"), ("mean", VALUES["mean"], "interrupted")]
)
def test_a_result_whose_file_was_not_written(
    settings: RequestSettings, monkeypatch: pytest.MonkeyPatch, kind: str, values: dict[str, list[str]], after: str
) -> None:
    """A network is trained again with the noise of its checkpoint and comes out the same; what keeps nothing is lost, and says so."""
    settings = with_delta(settings)
    request = ask(settings, "visits", kind, values, who="aiko", purpose="a talk")
    decide(settings, request.identity, 1, "approved", who="mori", reason="seen")

    def fails(*_: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr("sudare.requests.approved_request_job.Release.of", fails)
        assert run(settings, request.identity).state == "failed"
    ended = run(settings, request.identity)
    assert ended.state == after, ended.outcome
    assert ended.outcome is not None
    assert ended.outcome.epsilon == float(values["epsilon"][0])
    entries = Ledger(settings.ledger).account("visits").entries()
    assert [entry.kind for entry in entries].count("charge") == 1
