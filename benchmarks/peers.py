"""The peers' environments, apart from ours: made from their requirements and remade when those change.

`python -m benchmarks.peers opacus` makes the one that is too large to be made unasked.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent


class PeerMissing(Exception):
    """A peers' environment is not there and cannot be made; the text says why."""


@dataclass(frozen=True)
class Environment:
    """Where peers are installed, and from what. With `unasked` a benchmark that needs it makes it."""

    folder: Path
    requirements: Path
    hashed: bool = True
    unasked: bool = True


SMALL: Final = Environment(ROOT / ".venv-peers", Path(__file__).with_name("peers.lock"))
FLOWER: Final = Environment(ROOT / ".venv-flower", Path(__file__).with_name("flower.lock"))
# Without hashes: which wheel of polars, JAX or PyTorch it is depends on the machine.
OPENDP: Final = Environment(ROOT / ".venv-opendp", Path(__file__).with_name("opendp.in"), hashed=False)
AIM: Final = Environment(ROOT / ".venv-aim", Path(__file__).with_name("aim.in"), hashed=False)
OPACUS: Final = Environment(ROOT / ".venv-opacus", Path(__file__).with_name("opacus.in"), hashed=False, unasked=False)


def peer_python(environment: Environment = SMALL, *, asked: bool = False) -> Path:
    """The interpreter of an environment."""
    folder, requirements = environment.folder, environment.requirements
    python, stamp = folder / "bin" / "python", folder / ".locked"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return python
    if not (environment.unasked or asked):
        raise PeerMissing(f"{folder.name} is made only when asked for: python -m benchmarks.peers {requirements.stem}")
    sys.stderr.write(f"Making {folder.name} from {requirements.name} (once; about a minute) …\n")
    try:
        venv.create(folder, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        hashes = ["--require-hashes", "--no-deps"] if environment.hashed else []
        subprocess.run([*pip, *hashes, "-r", str(requirements)], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        told = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        raise PeerMissing(told[-1] if told else type(error).__name__) from None
    stamp.write_text(digest)
    return python


if __name__ == "__main__":
    known = {environment.requirements.stem: environment for environment in (SMALL, FLOWER, OPENDP, AIM, OPACUS)}
    if len(sys.argv) != 2 or sys.argv[1] not in known:
        sys.exit(f"usage: python -m benchmarks.peers {'|'.join(known)}")
    print(peer_python(known[sys.argv[1]], asked=True))
