"""From a table to a release and back: `sudare fit` and `sudare inspect`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from sudare.errors import InvalidParameter
from sudare.privacy import Ledger, Release
from tests.cli.conftest import FIT_MEAN, PASSPHRASE, Sudare

SIGN = ("--key", "key.pem")


def spent(house: Path) -> float:
    return Ledger(house / "ledger.db").account("patients").spent().epsilon


@pytest.mark.parametrize(
    ("statistic", "learner"),
    [("mean", "PrivateMean"), ("histogram", "PrivateHistogram"), ("scaler", "PrivateStandardScaler")],
)
def test_every_statistic_becomes_a_release(house: Path, sudare: Sudare, statistic: str, learner: str) -> None:
    words = ("fit", statistic, *FIT_MEAN[2:])
    made = sudare(*words, "-o", "new.sudare", *SIGN, "--json")
    assert made.values["guarantee"]["epsilon"] == 0.5
    assert made.values["remaining"]["epsilon"] == 1.0
    assert made.values["strength"] == "strong"
    assert spent(house) == 1.0
    inspected = sudare("inspect", "new.sudare", "--trusted", "key-public.pem", "--json").values
    assert inspected["manifest"]["learner"] == learner
    assert inspected["manifest"]["receipt"] == made.values["receipt"]


@pytest.mark.parametrize("asked", [("mean",), ("histogram",), ("table", "--by", "age")])
def test_a_table_is_never_held(
    house: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...]
) -> None:
    """Rows are looked through in batches by the learner, once."""
    monkeypatch.setattr("sudare.frames.sources.read", None)
    words = [*asked, *FIT_MEAN[2:]]
    assert sudare("fit", *words, "-o", "batches.sudare", *SIGN).exit_code == 0


def test_a_table_by_group(house: Path, sudare: Sudare) -> None:
    words = ("fit", "table", *FIT_MEAN[2:], "-o", "new.sudare", *SIGN)
    made = sudare(*words, "--by", "smoker", "--mean-of", "age", "--neighbours", "add-remove", "--json")
    assert made.exit_code == 0, made.stderr
    # The account counts replaced records, for which the ε of added ones is twice as large.
    assert (made.values["guarantee"]["neighbours"], made.values["guarantee"]["epsilon"]) == ("replace-one", 1.0)
    manifest = sudare("inspect", "new.sudare", "--json").values["manifest"]
    assert (manifest["parameters"]["by"], manifest["parameters"]["mean_of"]) == (["smoker"], ["age"])
    rehearsed = (*words, "--by", "smoker", "--mean-of", "age", "--dry-run")
    assert "only you see it" in sudare(*rehearsed, "--neighbours", "add-remove").stdout
    assert "only you see it" not in sudare(*rehearsed).stdout
    for wrong in (words, ("fit", "mean", *FIT_MEAN[2:], "--by", "smoker"), (*FIT_MEAN, "--neighbours", "add-remove")):
        assert sudare(*wrong, "--dry-run").exit_code == 10


def test_disjoint_slices_cost_their_most(house: Path, sudare: Sudare) -> None:
    words = ("fit", "histogram", *FIT_MEAN[2:], "--neighbours", "add-remove", *SIGN)
    for value in ("no", "yes"):
        made = sudare(*words, "--slice", f"smoker={value}", "-o", f"{value}.sudare", "--json")
        assert made.exit_code == 0, made.stderr
        assert made.values["remaining"]["epsilon"] == 0.5
    assert all("the rows with “smoker” = “no”" in sudare(each, "no.sudare").stdout for each in ("inspect", "show"))
    told = sudare("budget", "show", "patients").stdout
    assert "records of smoker=yes: ε 1.5, δ 0 spent" in told
    values = sudare("budget", "show", "patients", "--json").values["accounts"][0]
    assert [each["where"] for each in values["slices"]] == [{"smoker": "no"}, {"smoker": "yes"}]
    again = sudare(*words, "--slice", "smoker=no", "--dry-run", "--json").values
    assert (again["left_before"]["epsilon"], again["admitted"]) == (0.5, False)


def test_an_account_opened_for_a_slice_has_the_relation_of_the_fit(house: Path, sudare: Sudare) -> None:
    words = ("fit", "histogram", "table.parquet", "--schema", "schema.toml", "--epsilon", 0.5, *SIGN)
    words = (*words, "--neighbours", "add-remove", "--slice", "smoker=no")
    twice = sudare(*words, "--account", "patients", "--dry-run")
    assert "costs it twice its ε" in twice.stdout
    refused = sudare(*words[:5], "--epsilon", 1.4, *words[7:], "--account", "patients", "-o", "no.sudare")
    assert "it counts replaced records, which are two steps" in refused.stderr
    new = (*words, "--ledger", "new.db", "--account", "slices", "--budget", 2)
    assert sudare(*new, "--dry-run", "--json").values["asked"]["epsilon"] == 0.5
    for name in ("first", "second"):
        made = sudare(*new, "-o", f"{name}.sudare")
        assert made.exit_code == 0, made.stderr
        assert "twice" not in made.stdout
    (account,) = sudare("budget", "show", "--ledger", "new.db", "--json").values["accounts"]
    assert (account["neighbours"], account["spent"]["epsilon"]) == ("add-remove", 1.0)


@pytest.mark.parametrize(
    ("said", "exit_code"),
    [
        (["smoker"], 10),
        (["smoker=perhaps"], 10),
        (["age=3"], 10),
        (["=no"], 10),
        (["smoker=no", "smoker=yes"], 10),
    ],
)
def test_slices_that_are_refused(house: Path, sudare: Sudare, said: list[str], exit_code: int) -> None:
    words = ("fit", "histogram", *FIT_MEAN[2:], "--neighbours", "add-remove", *SIGN, "-o", "new.sudare")
    assert sudare(*words, *(word for each in said for word in ("--slice", each))).exit_code == exit_code
    assert spent(house) == 0.5


def test_a_mean_of_a_slice_is_refused(house: Path, sudare: Sudare) -> None:
    refused = sudare(*FIT_MEAN, "--slice", "smoker=no", "-o", "new.sudare", *SIGN)
    assert refused.exit_code != 0
    assert refused.stderr.count("add-remove") == 1
    assert spent(house) == 0.5


def test_what_is_told_after_a_fit(house: Path, sudare: Sudare) -> None:
    told = sudare(*FIT_MEAN, "-o", "new.sudare", *SIGN).stdout
    assert "Wrote new.sudare: ε = 0.5, δ = 0, replace-one record, towards everyone (strong)." in told
    assert "has ε = 1.0, δ = 1e-6 left" in told
    assert "2 values lay outside the bounds" in told


def test_what_is_left_of_delta_is_told_beside_epsilon(house: Path, sudare: Sudare) -> None:
    words = (*FIT_MEAN[:7], "--ledger", "own.db", *SIGN)
    opened = sudare(*words, "--budget", 3, "--budget-delta", "3e-6", "--delta", "1e-6", "-o", "one.sudare")
    assert "Account 'table' has ε = 2.5, δ = 2e-6 left." in opened.stdout
    # It counts for an account that has some, also where this fit takes none and where none is left.
    assert "has ε = 2.0, δ = 2e-6 left." in sudare(*words, "-o", "two.sudare").stdout
    last = sudare(*words, "--delta", "2e-6", "-o", "three.sudare")
    assert "has ε = 1.5, δ = 0 left." in last.stdout
    japanese = sudare("--lang", "ja", *words, "-o", "four.sudare").stdout
    assert "口座 'table' の残りは ε = 1.0, δ = 0 です。" in japanese


def test_the_key_comes_from_the_environment(house: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `perturb` and `synthesize`."""
    monkeypatch.setenv("SUDARE_KEY", "key.pem")
    assert sudare(*FIT_MEAN, "-o", "new.sudare").exit_code == 0
    assert sudare("inspect", "new.sudare", "--trusted", "key-public.pem").exit_code == 0


def test_the_python_side_can_read_it(house: Path) -> None:
    public = load_pem_public_key((house / "key-public.pem").read_bytes())
    release = Release.load(house / "mean.sudare", trusted=[public])  # type: ignore[list-item]
    assert release.learner == "PrivateMean"


def test_a_dry_run_tells_the_price_and_changes_nothing(house: Path, sudare: Sudare) -> None:
    before = {path.name: path.read_bytes() for path in house.iterdir()}
    told = sudare(*FIT_MEAN, "--dry-run")
    assert "would cost ε = 0.5 (strong) of account 'patients', which has ε = 1.5 left" in told.stdout
    values = sudare(*FIT_MEAN, "--dry-run", "--json").values
    assert values["asked"] == {"epsilon": 0.5, "delta": 0.0}
    assert values["left_after"]["epsilon"] == 1.0
    assert values["admitted"] is True
    too_much = ("fit", "mean", *FIT_MEAN[2:6], 9, *FIT_MEAN[7:])
    assert "it would be refused" in sudare(*too_much, "--dry-run").stdout
    assert {path.name: path.read_bytes() for path in house.iterdir()} == before


def test_a_dry_run_with_a_new_account_creates_nothing(house: Path, sudare: Sudare) -> None:
    new = ("fit", "mean", *FIT_MEAN[2:7], "--account", "new", "--budget", 1, "--ledger", "new.db", "--dry-run")
    assert sudare(*new, "--json").values["left_after"]["epsilon"] == 0.5
    assert not (house / "new.db").exists()
    taken = ("fit", "mean", *FIT_MEAN[2:7], "--account", "second", "--budget", 1, "--dry-run")
    assert sudare(*taken).exit_code == 34


def test_gaussian_noise_and_composition(house: Path, sudare: Sudare) -> None:
    new = ("fit", "histogram", *FIT_MEAN[2:7], "--account", "new", "--budget", 1, "--budget-delta", 1e-6)
    made = sudare(
        *new, "--composition", "gaussian", "--delta", 1e-8, "--ledger", "new.db", "-o", "g.sudare", *SIGN, "--json"
    )
    assert made.values["guarantee"]["delta"] == 1e-8
    (account,) = sudare("budget", "--ledger", "new.db", "--json").values["accounts"]
    assert account["composition"] == "gaussian"
    assert 0 < account["spent"]["delta"] <= 1e-6


@pytest.mark.parametrize(
    ("changed", "exit_code", "says"),
    [
        ({"-o": "mean.sudare"}, 55, "exists already"),
        ({"-o": "nowhere/new.sudare"}, 10, "no folder"),
        ({"--key": "schema.toml"}, 10, "not an Ed25519 private key"),
        ({"--key": "key-public.pem"}, 10, "not an Ed25519 private key"),
        ({"--key": "none.pem"}, 10, "cannot be read"),
        ({"--epsilon": 5}, 31, "1.5 of 2 is left"),
        ({"--epsilon": 0}, 32, "epsilon"),
        ({"--schema": "none.toml"}, 11, "none.toml"),
        ({"--account": "nobody"}, 35, "nobody"),
        ({"--budget": 7}, 33, "opened with another"),
    ],
)
def test_refusals_before_anything_is_charged(
    house: Path, sudare: Sudare, changed: dict[str, object], exit_code: int, says: str
) -> None:
    before = (house / "ledger.db").read_bytes()
    options: dict[str, object] = {
        "--schema": "schema.toml", "--epsilon": 0.5, "--account": "patients", "-o": "new.sudare", "--key": "key.pem",
    }  # fmt: skip
    words = [word for pair in (options | changed).items() for word in pair]
    refused = sudare("fit", "mean", "table.parquet", *words)
    assert refused.exit_code == exit_code
    assert says in refused.stderr
    assert refused.stdout == ""
    assert (house / "ledger.db").read_bytes() == before
    assert not (house / "new.sudare").exists()


def test_a_table_that_is_not_there_is_told_before_an_account_of_its_name(house: Path, sudare: Sudare) -> None:
    words = ("--schema", "schema.toml", "--epsilon", 1, "-o", "new.sudare", "--key", "key.pem")
    refused = sudare("fit", "mean", "tabel.parquet", *words)
    assert (refused.exit_code, "no data files at 'tabel.parquet'" in refused.stderr) == (21, True)
    (house / "other.parquet").write_bytes((house / "table.parquet").read_bytes())
    refused = sudare("fit", "mean", "other.parquet", *words)
    assert refused.exit_code == 35
    assert "has no account 'other'" in refused.stderr
    assert "(--budget in the shell) opens a new one" in refused.stderr


def test_a_release_needs_a_name_and_a_key(house: Path, sudare: Sudare) -> None:
    assert "needs --output and --key" in sudare(*FIT_MEAN).stderr


def test_a_locked_key_asks_for_its_passphrase(house: Path, sudare: Sudare) -> None:
    words = (*FIT_MEAN, "--key", "key-locked.pem")
    made = sudare(*words, "-o", "locked.sudare", "--json", typed=f"{PASSPHRASE}\n")
    assert made.exit_code == 0
    # The runner ends the hidden line on standard output; a terminal would not.
    assert json.loads(made.stdout.splitlines()[-1])["output"] == "locked.sudare"
    wrong = sudare(*words, "-o", "wrong.sudare", typed="battery staple\n")
    assert wrong.exit_code == 10
    assert PASSPHRASE not in wrong.stderr
    assert spent(house) == 1.0


def test_inspect_without_a_trusted_key_says_so(house: Path, sudare: Sudare) -> None:
    shown = sudare("inspect", "mean.sudare")
    assert shown.exit_code == 0
    assert "NOT CHECKED against a key you trust" in shown.stdout
    assert "ε = 0.5, δ = 0: strong" in shown.stdout
    assert sudare("inspect", "mean.sudare", "--json").values["signature"] == "unchecked"


def test_inspect_with_trusted_keys(house: Path, sudare: Sudare) -> None:
    trusted = sudare("inspect", "mean.sudare", "--trusted", "other-public.pem", "--trusted", "key-public.pem")
    assert trusted.exit_code == 0
    assert "by a key you trust" in trusted.stdout
    foreign = sudare("inspect", "mean.sudare", "--trusted", "other-public.pem")
    assert foreign.exit_code == 52
    assert foreign.stdout == ""


def test_inspect_shows_the_numbers_that_were_released(house: Path, sudare: Sudare) -> None:
    values = sudare("inspect", "mean.sudare", "--json").values
    (mean,) = values["tensors"]["mean"]
    assert 0 <= mean <= 110
    assert values["strength"]["word"] == "strong"


def changed_at(content: bytes, position: int) -> bytes:
    return content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]


def test_inspect_refuses_what_was_changed(house: Path, sudare: Sudare) -> None:
    content = (house / "mean.sudare").read_bytes()
    (house / "payload.sudare").write_bytes(changed_at(content, len(content) - 1))
    assert sudare("inspect", "payload.sudare").exit_code == 51
    signature = content.index(b'"signature":"') + len(b'"signature":"')
    digit = b"0" if content[signature : signature + 1] != b"0" else b"1"
    (house / "signature.sudare").write_bytes(content[:signature] + digit + content[signature + 1 :])
    assert sudare("inspect", "signature.sudare").exit_code == 52


@pytest.mark.parametrize(("file", "exit_code"), [("none.sudare", 21), ("schema.toml", 51)])
def test_inspect_of_other_files(house: Path, sudare: Sudare, file: str, exit_code: int) -> None:
    assert sudare("inspect", file).exit_code == exit_code


@pytest.mark.parametrize("key", ["key.pem", "schema.toml", "none.pem"])
def test_a_trusted_key_must_be_a_public_key(house: Path, sudare: Sudare, key: str) -> None:
    assert sudare("inspect", "mean.sudare", "--trusted", key).exit_code == 10


def test_a_cluster_gives_the_release_of_one_machine(house: Path, sudare: Sudare) -> None:
    import distributed

    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(protocol="tcp://", **options) as cluster:
        told = sudare(*FIT_MEAN, "-o", "there.sudare", *SIGN, "--cluster", cluster.scheduler_address)
    assert told.exit_code == 0
    assert spent(house) == 1.0
    assert (house / "there.sudare").exists()
    nowhere = sudare(*FIT_MEAN, "-o", "nowhere.sudare", *SIGN, "--cluster", "no address")
    assert nowhere.exit_code == InvalidParameter.exit_code
    assert spent(house) == 1.0


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("link.sudare", 55, "'link.sudare' exists already."),
        ("x" * 300 + ".sudare", 10, "File name too long"),
    ],
)
def test_a_name_that_cannot_be_written_costs_nothing(
    house: Path, sudare: Sudare, name: str, code: int, said: str
) -> None:
    """A link that leads nowhere is there, although it does not exist to those who follow it."""
    (house / "link.sudare").symlink_to(house / "nowhere" / "x")
    before = Ledger(house / "ledger.db").account("patients").spent()
    refused = sudare(*FIT_MEAN, "-o", name, *SIGN)
    assert (refused.exit_code, said in refused.stderr) == (code, True), refused.stderr
    assert Ledger(house / "ledger.db").account("patients").spent() == before


def test_rows_beside_a_release_need_a_name_as_well(house: Path, sudare: Sudare) -> None:
    name = "x" * 245 + ".sudare"
    words = ("perturb", "table.parquet", "--schema", "schema.toml", "--epsilon", 1, "--account", "patients")
    before = Ledger(house / "ledger.db").account("patients").spent()
    refused = sudare(*words, "-o", name, *SIGN)
    assert (refused.exit_code, "File name too long" in refused.stderr) == (10, True), refused.stderr
    assert Ledger(house / "ledger.db").account("patients").spent() == before
