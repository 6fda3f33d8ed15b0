"""A task of an agreement as a job in a federation that already runs FLARE, in FLARE's own simulator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sudare.consortium import LearningTask
from sudare.consortium.node_control_files import states_of
from sudare.privacy.release import audited, read
from tests.consortium.clinics import IDENTITIES, NAMES, founded

PASSPHRASE = "only for this test"


@pytest.mark.long
def test_the_sites_of_a_federation_learn_together_in_a_job(tmp_path: Path) -> None:
    pytest.importorskip("nvflare")
    members = founded(tmp_path, LearningTask("risk", "one-sum", 1.0))
    for member in members:
        IDENTITIES[member.name].save(member.key_path, PASSPHRASE.encode())
        text = (member.folder / "member.toml").read_text()
        (member.folder / "member.toml").write_text(text + "\n[policy]\napproval = []\n")
    job = tmp_path / "job"
    config = job / "app" / "config"
    config.mkdir(parents=True)
    room = "sudare.consortium.flare_job"
    executor = {
        "path": f"{room}.SudareExecutor",
        "args": {"member_file": f"{tmp_path}/<site>/member.toml", "task": "risk"},
    }
    documents = {
        job / "meta.json": {"name": "risk", "resource_spec": {}, "min_clients": 3, "deploy_map": {"app": ["@ALL"]}},
        config / "config_fed_server.json": {
            "format_version": 2,
            "workflows": [{"id": "risk", "path": f"{room}.SudareController", "args": {}}],
            "components": [],
        },
        config / "config_fed_client.json": {
            "format_version": 2,
            "executors": [{"tasks": ["sudare"], "executor": executor}],
            "components": [],
        },
    }
    # A site lets only those classes into its process that its own file names.
    allowed = {"format_version": 2, "class_allow_list": ["nvflare.", f"{room}."]}
    documents[tmp_path / "workspace" / "local" / "resources.json"] = allowed
    (tmp_path / "workspace" / "local").mkdir(parents=True)
    for path, document in documents.items():
        path.write_text(json.dumps(document))
    program = [str(Path(sys.executable).parent / "nvflare"), "simulator", str(job), "-w", str(tmp_path / "workspace")]
    environment = {**os.environ, "SUDARE_PASSPHRASE": PASSPHRASE}
    done = subprocess.run(
        [*program, "-c", ",".join(NAMES), "-t", "3"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    output = done.stdout + done.stderr
    assert [states_of(member).get("risk", {}).get("state") for member in members] == ["finished"] * 3, output[-5000:]
    releases = [audited(read(member.folder / "results/risk/model.sudare")) for member in members]
    assert len({release.content.digest() for release in releases}) == 1
