"""Attacks on the steward: to make a member pay more than its policy or the agreement says, or more often than was approved."""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from sudare.consortium import (
    Agreement,
    Approvals,
    Budget,
    CensusTask,
    Deadlines,
    DictionaryTask,
    Identity,
    LearningTask,
    Member,
    MemberEntry,
    ModelsTask,
    Revocation,
    ScalerTask,
    Statements,
    Task,
    permit,
)
from sudare.consortium.agreement.signed_statements import now
from sudare.consortium.network.message_dispatch import Envelope
from sudare.consortium.node import Node
from sudare.consortium.node_control_files import ask_running_node, states_of
from sudare.consortium.node_restart_on_change import NodeReload
from sudare.consortium.tasks import task_activities
from sudare.consortium.tasks.results_folder import make_room
from sudare.consortium.tasks.task_account import TaskAccount
from sudare.consortium.tasks.task_activities import activity_of
from sudare.errors import (
    AgreementError,
    IdentityError,
    KeyRevoked,
    LedgerMissing,
    LedgerRolledBack,
    NotApproved,
    ReleaseUntrusted,
    SudareError,
    TaskStopped,
)
from sudare.frames import read
from sudare.privacy import Guarantee, Release
from sudare.privacy.accounting import pure_cost
from sudare.privacy.release_file import parsed, written
from tests.consortium.clinics import IDENTITIES, founded, node_of, patients, run_together
from tests.consortium.local_transport import LocalHub

MEAN = ModelsTask("ages", "PrivateMean", 1.0)
EXACT = DictionaryTask("patterns", 2, True, parameters={"family": "diagonal_gaussian", "search": False, "max_iter": 3})


def clinic(folder: Path, *tasks: Task, rows: int = 60, **policy: object) -> Member:
    """One of three clinics, with this policy."""
    member = founded(folder, *tasks, tables=[patients(seed, rows=rows) for seed in range(3)])[0]
    return replace(member, policy=replace(member.policy, **policy))


def attempted(member: Member, task: Task) -> None:
    """One run of the part of a task that pays, whatever comes of it."""
    with contextlib.suppress(SudareError):
        activity_of(task, node_of(member, LocalHub())._environment)


def spent(member: Member) -> tuple[float, float]:
    return tuple(member.account(member.agreement()).spent())


def test_have_a_member_pay_for_thousands_of_parameters_under_a_policy_of_one(tmp_path: Path) -> None:
    """The ε in the agreement would be a parameter's, and a record charged that of all of them: no task trains so."""
    options = {"approach": "learning_first", "accept_parameter_guarantee": True}
    task = ModelsTask("net", "PrivateMLPClassifier", 0.001, parameters=options)
    with pytest.raises(AgreementError, match="approach of paper 002"):
        clinic(tmp_path, task, most_epsilon=1.0)


def test_double_the_price_by_counting_neighbours_differently(tmp_path: Path) -> None:
    task = ModelsTask("counts", "PrivateHistogram", 1.0, parameters={"neighbours": "add-remove"})
    member = clinic(tmp_path, task, most_epsilon=1.0)
    with pytest.raises(NotApproved, match="costs ε = 2"):
        permit(member, member.agreement(), task)
    attempted(member, task)
    assert spent(member) == (0.0, 0.0)


def test_take_a_delta_that_nobody_agreed_on(tmp_path: Path) -> None:
    task = ModelsTask("means", "GibbsMean", 1.0)
    try:
        member = clinic(tmp_path, task)
    except AgreementError:
        # Nobody can sign it.
        return
    attempted(member, task)
    assert spent(member)[1] == 0.0


def test_see_exact_sums_where_the_policy_allows_an_epsilon_of_one(tmp_path: Path) -> None:
    member = clinic(tmp_path, EXACT, most_epsilon=1.0)
    with pytest.raises(NotApproved):
        permit(member, member.agreement(), EXACT)


@pytest.mark.parametrize("task", [MEAN, CensusTask("survey", ("age",), 1.0)], ids=lambda task: task.kind)
@pytest.mark.parametrize("moved", [("results",), ("results", "state")], ids="+".join)
@pytest.mark.parametrize("approval", [frozenset(), frozenset({"models", "census"})], ids=["free", "approved"])
def test_use_one_approval_three_times(task: Task, moved: tuple[str, ...], approval: frozenset, tmp_path: Path) -> None:
    member = clinic(tmp_path, task, approval=approval)
    for attempt in range(3):
        # Whoever moved the state away also puts the approval back.
        Approvals(member.state_folder).decide(member.agreement(), task, "approved", "")
        attempted(member, task)
        for name in moved:
            if (member.folder / name).exists():
                shutil.move(member.folder / name, tmp_path / f"{name} {attempt}")
    assert spent(member) == (1.0, 0.0)


def test_have_everybody_pay_for_a_sum_twice(tmp_path: Path) -> None:
    task = ScalerTask("scales", 1.0)
    members = founded(tmp_path, task, tables=[patients(seed, rows=60) for seed in range(3)])
    for attempt in range(2):
        hub = LocalHub()
        run_together([node_of(member, hub) for member in members], [task.name])
        for member in members:
            for name in ("results", "state"):
                if (member.folder / name).exists():
                    shutil.move(member.folder / name, tmp_path / f"{member.name} {name} {attempt}")
    assert {spent(member) for member in members} == {(1.0, 0.0)}


def test_see_the_exact_sums_of_two_tables_for_one_disclosure(tmp_path: Path) -> None:
    """Moved state begins the sums anew, over whatever the table holds by then, behind the masks of the first time."""
    member = clinic(tmp_path, EXACT)
    attempted(member, EXACT)
    shutil.rmtree(member.state_folder)
    patients(7, rows=59).to_csv(member.folder / "patients.csv", index=False)
    with pytest.raises(NotApproved, match="run already"):
        activity_of(EXACT, node_of(member, LocalHub())._environment)


def test_name_a_file_of_the_members_machine_in_the_agreement(tmp_path: Path) -> None:
    """Whoever writes the agreement would have every member's node write there."""
    options = {"checkpoint": str(tmp_path / "anywhere")}
    task = ModelsTask("net", "PrivateMLPClassifier", 1.0, 1e-6, parameters=options)
    agreement = clinic(tmp_path, MEAN).agreement()
    with pytest.raises(AgreementError, match="checkpoint"):
        Agreement.from_dict(replace(agreement, tasks=(task,)).to_dict()).check_complete()


def test_use_one_approval_for_a_second_table_and_account(tmp_path: Path) -> None:
    """The ledger knows that the task was paid for, whichever of its accounts paid."""
    member = clinic(tmp_path, MEAN)
    attempted(member, MEAN)
    for name in ("results", "state"):
        shutil.move(member.folder / name, tmp_path / name)
    patients(9, rows=60).to_csv(member.folder / "others.csv", index=False)
    elsewhere = replace(member, account_name="second", data=replace(member.data, source="others.csv"))
    shutil.copytree(tmp_path / "state", member.state_folder)
    shutil.rmtree(member.state_folder / "tasks")
    attempted(elsewhere, MEAN)
    assert sum(account.spent().epsilon for account in member.ledger().accounts()) == 1.0


def test_have_a_release_of_an_earlier_agreement_published_again(tmp_path: Path) -> None:
    """A task of another agreement that has the same name is another task: its steward approved, and it pays for, a model of its own."""
    members = founded(tmp_path, MEAN, tables=[patients(seed, rows=60) for seed in range(3)])
    attempted(members[0], MEAN)
    earlier = (members[0].folder / "results" / MEAN.name / "own.sudare").read_bytes()
    agreed_anew(tmp_path, MEAN)
    attempted(members[0], MEAN)
    assert (members[0].folder / "results" / MEAN.name / "own.sudare").read_bytes() != earlier
    assert spent(members[0]) == (2.0, 0.0)
    assert [path.read_bytes() for path in (members[0].folder / "results" / MEAN.name / "earlier").iterdir()] == [
        earlier
    ]


def test_pay_for_a_model_and_be_left_with_that_of_an_earlier_agreement(tmp_path: Path) -> None:
    members = founded(tmp_path, ScalerTask("scales", 1.0), tables=[patients(seed, rows=60) for seed in range(3)])
    found = []
    for epsilon in (1.0, 2.0):
        agreed_anew(tmp_path, ScalerTask("scales", epsilon))
        hub = LocalHub()
        run_together([node_of(member, hub) for member in members], ["scales"])
        path = members[0].folder / "results" / "scales" / "scaler.sudare"
        found.append(Release.load(path, trusted=[IDENTITIES["east"].signing_key.public_key()]).guarantee.epsilon)
    assert found == [1.0, 2.0]


def agreed_anew(folder: Path, *tasks: Task) -> None:
    """Another agreement of the same members in the place of the first, signed by all."""
    path = folder / "agreement.toml"
    agreement = replace(Agreement.load(path), tasks=tasks, deadlines=Deadlines(31.0, 300.0))
    agreement.save(path)
    statements = Statements()
    for name in agreement.member_names:
        statements = statements.signed(agreement, name, IDENTITIES[name])
    statements.save(path)


@pytest.mark.parametrize("name", ["own", "server"])
def test_have_a_members_release_or_relay_replaced_by_ones_own_name(name: str, tmp_path: Path) -> None:
    """Releases are kept as NAME.sudare: whoever is called "own" would overwrite every other member's own, and withdraw it."""
    agreement = clinic(tmp_path, MEAN).agreement()
    with pytest.raises(AgreementError, match="No member can have the name"):
        agreement.with_member(MemberEntry(name, Identity.generated().public_key.hex(), Budget(10.0)))


CHANGES = {
    "column": lambda parameters: parameters["columns"][0].__setitem__(0, "else"),
    "bound": lambda parameters: parameters["columns"][0][1].update(high=1e300),
}


@pytest.mark.parametrize("change", CHANGES)
def test_have_a_release_taken_that_declares_other_columns_than_were_agreed(change: str, tmp_path: Path) -> None:
    """The digest of the schema is what its sender says; what the release was made of stands beside it."""
    members = founded(tmp_path, MEAN, tables=[patients(seed, rows=60) for seed in range(3)])
    for member in members[:2]:
        attempted(member, MEAN)
    honest = parsed((members[1].folder / "results" / MEAN.name / "own.sudare").read_bytes())
    manifest = copy.deepcopy(dict(honest.manifest))
    CHANGES[change](manifest["parameters"])
    forged = written(manifest, honest.tensors, IDENTITIES["north"].signing_key)
    activity = activity_of(MEAN, node_of(members[0], LocalHub())._environment)
    activity.begin(0.0)
    activity.receive("north", Envelope(MEAN.name, "release", body=forged), 0.0)
    assert isinstance(activity.failure, ReleaseUntrusted)


@pytest.mark.parametrize("place", ["state", "member.toml"])
def test_approve_a_task_as_anybody_on_the_machine(place: str, tmp_path: Path) -> None:
    member = clinic(tmp_path, MEAN, approval=frozenset({"models"}))
    member.state_folder.mkdir()
    (member.folder / place).chmod(0o777)
    with pytest.raises(IdentityError, match="everybody on this machine"):
        node_of(Member.load(member.folder / "member.toml"), LocalHub())


@pytest.mark.parametrize("place", ["state", "member.toml"])
def test_put_another_state_or_member_file_in_the_place_of_a_members(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = clinic(tmp_path, MEAN)
    member.state_folder.mkdir()

    def begun() -> None:
        node_of(Member.load(member.folder / "member.toml"), LocalHub())

    member.folder.chmod(0o777)
    with pytest.raises(IdentityError, match="everybody can replace it"):
        begun()
    member.folder.chmod(0o1777)
    begun()
    with monkeypatch.context() as another_user:
        found = (member.folder / place).stat()
        theirs = os.stat_result([*found[:4], os.geteuid() + 1, *found[5:]])
        stat = Path.stat
        another_user.setattr(
            Path, "stat", lambda path, **options: theirs if path.name == place else stat(path, **options)
        )
        with pytest.raises(IdentityError, match="belongs to another user"):
            begun()


def polled(node: Node) -> str:
    """The state of `risk` after another look at everything, once nothing is being prepared."""
    for _ in range(2):
        node._looked_at = float("-inf")
        node._poll(stay=True)
        run = node.task_runs["risk"]
        if run.prepared is not None:
            run.prepared.exception()
    return run.state


def denied(member: Member) -> None:
    agreement = member.agreement()
    Approvals(member.state_folder).decide(agreement, agreement.task("risk"), "denied", "not this month")


RISK = LearningTask("risk", "one-sum", 1.0)


def test_have_a_task_paid_for_that_was_denied_while_it_waited_for_others(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    node = node_of(member, LocalHub())
    node.ask("risk")
    assert polled(node) == "running"
    activity = node.task_runs["risk"].activity
    denied(member)
    assert polled(node) == "denied"
    assert isinstance(activity.failure, NotApproved)
    assert spent(member) == (0.0, 0.0)


def test_have_a_task_paid_for_in_the_moment_of_its_denial(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    permission = permit(member, member.agreement(), RISK)
    steward = threading.Thread(target=denied, args=(member,))
    with permission.undenied():
        steward.start()
        steward.join(0.2)
        assert steward.is_alive(), "who denies waits for what is being entered"
    steward.join()
    account = TaskAccount(member.account(member.agreement()), permission, "run", False)
    with pytest.raises(NotApproved, match="not this month"):
        account.charge(Guarantee(1.0), pure_cost(1.0), "model")
    with pytest.raises(NotApproved, match="not this month"):
        account.disclose("sums", "members", 3)
    assert [entry.kind for entry in account.entries()] == ["open"]


@pytest.mark.parametrize("stage", ["waits for another", "reads its table"])
@pytest.mark.parametrize("ended", ["cancelled", "revoked"])
def test_have_a_task_paid_for_that_was_cancelled_or_whose_agreement_ended_while_it_was_prepared(
    stage: str, ended: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker that prepares tasks comes to it later, or is in the middle of it: nothing is paid after the word of whoever ended it."""
    member, gate, has_begun = clinic(tmp_path, MEAN), threading.Event(), threading.Event()
    node = node_of(member, LocalHub())
    node.reload = NodeReload(member, member.folder / "member.toml", lambda: member)

    def slowly(*given: object, **named: object) -> object:
        has_begun.set()
        gate.wait(30.0)
        return read(*given, **named)

    monkeypatch.setattr(task_activities, "read", slowly)
    if stage == "waits for another":
        node._workers.submit(gate.wait, 30.0)
    node.ask("ages")
    node._poll(stay=True)
    run = node.task_runs["ages"]
    assert run.state == "preparing"
    assert stage == "waits for another" or has_begun.wait(30.0)
    if ended == "cancelled":
        ask_running_node(member, "ages", cancel=True)
    else:
        gone = Revocation(IDENTITIES["west"].public_key.hex(), now(), "stolen").signed_by(IDENTITIES["west"])
        replace(Statements.load(member.agreement_path), revocations=(gone,)).save(member.agreement_path)
    node._looked_at = float("-inf")
    node._poll(stay=True)
    gate.set()
    assert isinstance(run.prepared.exception(30.0), TaskStopped if ended == "cancelled" else KeyRevoked)
    assert spent(member) == (0.0, 0.0)


@pytest.mark.parametrize("put", ["an older one", "another one", "none"])
def test_have_more_paid_than_there_is_by_putting_an_older_ledger_in_place_while_the_node_runs(
    put: str, tmp_path: Path
) -> None:
    member = founded(tmp_path, RISK, MEAN)[0]
    agreement, ledger = member.agreement(), tmp_path / "east" / "ledger.db"
    member.account(agreement)
    old = ledger.read_bytes()
    member.account(agreement).charge(Guarantee(4.0), pure_cost(4.0), "an analysis")
    node, permission = node_of(member, LocalHub()), permit(member, agreement, RISK)
    for beside in ledger.parent.glob("ledger.db*"):
        beside.unlink()
    if put != "none":
        if put == "an older one":
            ledger.write_bytes(old)
        account = TaskAccount(member.account(agreement), permission, "run", False)
        with pytest.raises(LedgerRolledBack):
            account.charge(Guarantee(1.0), pure_cost(1.0), "model")
        with pytest.raises(LedgerRolledBack):
            account.disclose("sums", "members", 3)
    # The node ends, and does not keep the end of that ledger in the place of its own.
    node.ask("ages")
    with pytest.raises(LedgerMissing if put == "none" else LedgerRolledBack):
        node._poll(stay=True)
    with pytest.raises(LedgerMissing if put == "none" else LedgerRolledBack):
        node_of(member, LocalHub())
    assert put != "none" or not ledger.exists()


def test_begin_a_task_again_that_its_member_has_cancelled(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK, approval=frozenset({"learning"}))[0]
    first = node_of(member, LocalHub())
    first.ask("risk")
    assert polled(first) == "waits for the steward"
    first._cancel("risk")
    assert polled(first) == "failed"
    later = node_of(member, LocalHub())
    later.dispatcher._note_asked("north", "risk")
    assert polled(later) == "failed"
    assert states_of(member)["risk"]["ended_by"] == "cancel"
    # Only who asks here takes it up, also where others ask at the same time.
    last = node_of(member, LocalHub())
    last.dispatcher._note_asked("north", "risk")
    ask_running_node(member, "risk")
    assert polled(last) == "waits for the steward"


def test_begin_a_task_again_that_stopped_before_its_member_cancelled_it(tmp_path: Path) -> None:
    """Also where the node was started again between the two."""
    member = founded(tmp_path, RISK, approval=frozenset({"learning"}))[0]
    first = node_of(member, LocalHub())
    first.ask("risk")
    first._fail(first.task_runs["risk"], TaskStopped("'west' stopped the task.", TaskStopped.help))
    first._write_states(is_running=False)
    node = node_of(member, LocalHub())
    ask_running_node(member, "risk", cancel=True)
    assert polled(node) == "failed"
    node.dispatcher._note_asked("north", "risk")
    assert polled(node) == "failed"
    assert states_of(member)["risk"]["ended_by"] == "cancel"


@pytest.mark.parametrize("is_finished", [False, True])
def test_begin_a_task_that_its_member_cancelled_before_the_word_of_it_came(is_finished: bool, tmp_path: Path) -> None:
    """The command said that it was ended, and the member took part and paid."""
    member = founded(tmp_path, RISK)[0]
    node = node_of(member, LocalHub())
    if is_finished:
        folder = member.results_folder("risk")
        folder.mkdir(parents=True)
        make_room(folder, node.agreement.digest)
        (folder / "model.sudare").write_bytes(b"the model")
    ask_running_node(member, "risk", cancel=True)
    node._poll(stay=True)
    assert ("risk" in node.task_runs) == (not is_finished)
    if not is_finished:
        node.dispatcher._note_asked("north", "risk")
        assert polled(node) == "failed"
        assert states_of(member)["risk"]["ended_by"] == "cancel"
        later = node_of(member, LocalHub())
        later.dispatcher._note_asked("north", "risk")
        assert polled(later) == "failed"


@pytest.mark.parametrize(("round_seconds", "longest"), [(600.0, 60.0), (30.0, 30.0), (1.0, 5.0)])
def test_keep_a_node_busy_by_beginning_and_stopping_a_task_again_and_again(
    round_seconds: float, longest: float, tmp_path: Path
) -> None:
    member = founded(tmp_path, RISK, deadlines=Deadlines(round_seconds, 900.0))[0]
    node, now = node_of(member, LocalHub()), 0.0
    node.clock = lambda: now
    stopped = TaskStopped("'west' stopped the task.", TaskStopped.help)
    node.ask("risk")
    waited = []
    for times in (0, 1, 2, 3, 4, 5, 5000):
        node.task_runs["risk"].times_resumed = times
        run, since = node.task_runs["risk"], now
        run.activity = SimpleNamespace(failure=stopped, finished=False, can_resume=True)
        node._fail(run, stopped)
        while node.task_runs["risk"] is run:
            now += 2.5
            node.dispatcher._note_asked("west", "risk")
            node._join_others(now)
        waited.append(now - since)
        assert node.task_runs["risk"].times_resumed == times + 1
    assert waited == [min(each, longest) for each in (5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0)]
    # Who asks here waits for nothing, and others' asking begins anew.
    node._fail(node.task_runs["risk"], stopped)
    node.ask("risk")
    assert (node.task_runs["risk"].state, node.task_runs["risk"].times_resumed) == ("asked for", 0)
