"""The Unix account at the other end of a connection from this machine.

On a Unix socket the kernel names it. On TCP over loopback it is in the kernel's table of
connections: each row has the account that opened its end, while the connection is established.
"""

from __future__ import annotations

import pwd
import socket
import struct
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
ESTABLISHED = "01"  # in other states a row may name root in place of its owner
CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class Peer:
    def __init__(self, connection: socket.socket) -> None:
        self.is_unix = connection.family == socket.AF_UNIX
        self._uid: int | None = None
        if self.is_unix:
            self._uid = unix_uid(connection)
        else:
            self._here, self._there = connection.getsockname(), connection.getpeername()

    @cached_property
    def uid(self) -> int | None:
        """The calling account; None if it is unknown, or on another machine.

        Looked up once, while the client waits for an answer, so that the connection is established.
        """
        return self._uid if self.is_unix else tcp_uid(self._here, self._there)

    @property
    def name(self) -> str:
        """The account or address to which the limit on connections applies."""
        return f"uid {self._uid}" if self.is_unix else str(self._there[0])


def unix_uid(connection: socket.socket) -> int | None:
    """Return the account at the other end of a Unix socket; None if the system lacks that."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, option, CREDENTIALS.size)
    return int(CREDENTIALS.unpack(credentials)[1])


def tcp_uid(here: tuple[str, int], there: tuple[str, int]) -> int | None:
    """Return the account that opened the other end of a TCP connection over loopback."""
    address = ip_address(there[0])
    if not address.is_loopback:
        return None
    row = f"{_in_table(address, there[1])} {_in_table(ip_address(here[0]), here[1])} {ESTABLISHED}"
    try:
        lines = TABLES[address.version].read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        if " ".join(fields[1:4]) == row:
            return int(fields[7])
    return None


def account_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _in_table(address: IPv4Address | IPv6Address, port: int) -> str:
    """Return an address in the format of the kernel's table: words in the processor's order."""
    packed = address.packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"
