"""Cables between network namespaces on which every frame takes a while, each way. Not every kernel has `netem`.

    python -m tests.consortium.delay_line SECONDS SPACE:DEVICE:SPACE:DEVICE ...

Makes both devices of every cable (TAP), prints `ready`, and passes frames on until it is ended; the devices end with it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import selectors
import struct
import sys
import time
from collections import deque

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
MOST_FRAME_BYTES = 2048


def device(space: str, name: str) -> int:
    """A TAP device of this name in this namespace, and the file that is its other end."""
    with open(f"/run/netns/{space}") as there:
        if ctypes.CDLL(None, use_errno=True).setns(there.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"the namespace {space} cannot be entered")
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return end


def pass_on(delay_seconds: float, cables: list[tuple[int, int]]) -> None:
    """What comes in at one end goes out at the other, so many seconds later and in the same order."""
    other = {end: far for near, far in cables for end, far in ((near, far), (far, near))}
    under_way: deque[tuple[float, int, bytes]] = deque()
    with selectors.DefaultSelector() as selector:
        for end in other:
            selector.register(end, selectors.EVENT_READ)
        while True:
            wait = max(under_way[0][0] - time.monotonic(), 0.0) if under_way else None
            for key, _ in selector.select(wait):
                frame = os.read(key.fd, MOST_FRAME_BYTES)
                under_way.append((time.monotonic() + delay_seconds, other[key.fd], frame))
            while under_way and under_way[0][0] <= time.monotonic():
                _, end, frame = under_way.popleft()
                try:
                    os.write(end, frame)
                except OSError:
                    # The device is down: the frame is lost, as on a cable that is out.
                    continue


if __name__ == "__main__":
    given = [argument.split(":") for argument in sys.argv[2:]]
    opened = [(device(near, name), device(far, other_name)) for near, name, far, other_name in given]
    print("ready", flush=True)
    pass_on(float(sys.argv[1]), opened)
