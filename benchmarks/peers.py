"""The peers' environment: made on demand from peers.lock, apart from ours, and remade when the lock changes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = Path(__file__).with_name("peers.lock")
FOLDER = ROOT / ".venv-peers"


class PeerMissing(Exception):
    """The peers' environment cannot be made; the text says why."""


def peer_python(folder: Path = FOLDER, lock: Path = LOCK) -> Path:
    """The interpreter of the peers' environment."""
    python, stamp = folder / "bin" / "python", folder / ".locked"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return python
    sys.stderr.write(f"Making {folder.name} from {lock.name} (once; about a minute) …\n")
    try:
        venv.create(folder, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        subprocess.run([*pip, "--require-hashes", "-r", str(lock)], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        told = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        raise PeerMissing(told[-1] if told else type(error).__name__) from None
    stamp.write_text(digest)
    return python
