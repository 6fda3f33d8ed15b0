"""Who can damage a member's state wants it to pay twice, to send something else, or to fall over without a word."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sudare.consortium import LearningTask, Member, ModelsTask
from sudare.consortium.tasks.task_activities import activity_of
from sudare.errors import NotApproved, StateDamaged
from tests.consortium.clinics import founded, node_of
from tests.consortium.local_transport import LocalHub

MODELS = ModelsTask("models", "PrivateLogisticRegression", 2.0)


def _run_file(member: Member) -> Path:
    return member.task_folder(member.agreement(), "models") / "run"


def _damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    path.unlink()
    if how == "folder":
        path.mkdir()
    elif how == "earlier":
        # As earlier versions wrote it, with a byte that is no text.
        path.write_bytes(content[-32:-1] + b"\xb1")
    else:
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize("how", ["bit", "folder", "earlier"])
def test_damage_in_the_name_of_a_run_makes_nobody_pay_twice(tmp_path: Path, how: str) -> None:
    member = founded(tmp_path, MODELS)[0]
    place = node_of(member, LocalHub())._environment
    activity_of(MODELS, place)
    _damage(_run_file(member), how)
    # The release is there: it goes on with it.
    activity_of(MODELS, place)
    member.own_release("models").unlink()
    with pytest.raises((StateDamaged, NotApproved)):
        activity_of(MODELS, place)
    assert place.account.spent().epsilon == MODELS.epsilon


@pytest.mark.parametrize("how", ["bit", "folder", "earlier"])
def test_the_name_of_a_run_that_nobody_has_paid_for_is_made_anew(tmp_path: Path, how: str) -> None:
    member = founded(tmp_path, MODELS)[0]
    place = node_of(member, LocalHub())._environment
    place.store(MODELS).save("run", b"0" * 32)
    _damage(_run_file(member), how)
    activity_of(MODELS, place)
    assert len(list((_run_file(member).parent / ".damaged").iterdir())) == 1
    assert place.account.spent().epsilon == MODELS.epsilon


@pytest.mark.parametrize("name", ["models/own.sudare", "models/run", "risk/keys"])
def test_a_folder_in_the_place_of_a_file_stops_its_task_in_words(tmp_path: Path, name: str) -> None:
    member = founded(tmp_path, MODELS, LearningTask("risk", "one-sum", 1.0))[0]
    task, file = name.split("/")
    node = node_of(member, LocalHub())
    folder = member.results_folder(task) if file == "own.sudare" else member.task_folder(member.agreement(), task)
    (folder / file).mkdir(parents=True)
    if file == "run":
        # Paid before.
        node._environment.store(MODELS)
        (folder / file).rmdir()
        activity_of(MODELS, node._environment)
        (folder / file).unlink()
        (folder / file).mkdir()
        member.own_release(task).unlink()
    node.ask(task)
    end = time.monotonic() + 30.0
    while node.task_runs[task].state != "failed" and time.monotonic() < end:
        node._looked_at = float("-inf")
        node._poll(stay=True)
        node.dispatcher.tick(time.monotonic())
        time.sleep(0.01)
    error = node.task_runs[task].error
    assert isinstance(error, StateDamaged), error
    assert "Is a directory" in str(error)
    node.transport.close()
