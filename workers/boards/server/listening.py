"""Where to listen: an address, or the network interface that has one."""

from __future__ import annotations

import fcntl
import ipaddress
import logging
import socket
import struct
from pathlib import Path

from tunebook.workers.boards.server.system_files import text_of

logger = logging.getLogger("tunebook.board")

SIOCGIFADDR = 0x8915
EVERYWHERE = ("0.0.0.0", "::")


class MeansEverywhereError(ValueError):
    """All addresses of this machine, where nobody has asked for them in so many words."""


def listening_address(given: str) -> str:
    """The address to listen on: the one that is given, or that of the network interface that is.

    Raises ValueError, in words, for what is neither and for an interface without an address, and
    MeansEverywhereError for another spelling of all addresses of this machine.
    """
    if given in EVERYWHERE:
        return given
    interfaces = [name for _, name in socket.if_nameindex()]
    if given in interfaces:
        return _interface_address(given)
    try:
        found = socket.getaddrinfo(given or "*", None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ValueError(
            f"{given!r} is no address of this machine and none of its network interfaces, which "
            f"are {', '.join(interfaces)}"
        ) from None
    address = str(next((one for one in found if one[0] is socket.AF_INET), found[0])[4][0])
    if ipaddress.ip_address(address.partition("%")[0]).is_unspecified:
        raise MeansEverywhereError(
            f"{given!r} means all addresses of this machine; name one, or a network interface "
            f"({', '.join(interfaces)}), or say {EVERYWHERE[0]} if that is meant"
        )
    return address


def _interface_address(name: str) -> str:
    """Its IPv4 address, else its IPv6 one that is not of the link alone."""
    request = struct.pack("256s", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket.fileno(), SIOCGIFADDR, request)
            return socket.inet_ntoa(answer[20:24])
        except OSError:
            pass
    for line in (text_of(Path("/proc/net/if_inet6")) or "").splitlines():
        digits, *_, of = line.split()
        address = ipaddress.ip_address(bytes.fromhex(digits))
        if of == name and not address.is_link_local:
            return str(address)
    raise ValueError(
        f"the network interface {name} has no address; bring it up, or name an address"
    )


def warn_where_everywhere(address: str) -> None:
    """Says in one line what it means to listen on all addresses of this machine."""
    if address in EVERYWHERE:
        logger.warning(
            "listening on %s, all addresses of this machine: the RPC protocol asks nobody who they "
            "are and runs what it is sent; keep all of its networks such as you trust",
            address,
        )
