"""A cable that takes its time: carries frames between two TAP devices, which it makes.

    relay.py NEAR FAR DELAY MORE

Every frame is held for DELAY milliseconds, and one in ten for up to MORE longer, so that others overtake it.
Says when the devices are there, and ends with its input.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 2, 0x1000
MOST = 4096


def tap(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


def main(near: str, far: str, delay: str, more: str) -> None:
    pair = (tap(near), tap(far))
    other = dict(zip(pair, reversed(pair)))
    held: list[tuple[float, int, int, bytes]] = []
    count = 0
    print("ready", flush=True)
    while True:
        wait = max(0.0, held[0][0] - time.monotonic()) if held else None
        ready = select.select([0, *pair], [], [], wait)[0]
        now = time.monotonic()
        if 0 in ready and not os.read(0, 1):
            return
        for device in pair:
            while device in ready and len(held) < MOST:
                try:
                    frame = os.read(device, 65536)
                except (BlockingIOError, OSError):
                    break
                late = random.random() * float(more) if random.random() < 0.1 else 0.0
                heapq.heappush(held, (now + (float(delay) + late) / 1e3, count, other[device], frame))
                count += 1
        while held and held[0][0] <= time.monotonic():
            _, _, device, frame = heapq.heappop(held)
            try:
                os.write(device, frame)
            except OSError:
                # Not up yet, or full: a cable may lose frames.
                continue


if __name__ == "__main__":
    main(*sys.argv[1:])
