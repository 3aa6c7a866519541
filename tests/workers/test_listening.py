"""What listens for RPC listens where it was told to, and nowhere else unless asked for in words."""

from __future__ import annotations

import logging
import socket

import pytest

from tunebook.workers.boards.server.listening import (
    MeansEverywhereError,
    listening_address,
    warn_where_everywhere,
)


@pytest.mark.parametrize("given", ["127.0.0.1", "::1", "192.0.2.7", "0.0.0.0", "::"])
def test_an_address_is_taken_as_it_is(given: str) -> None:
    assert listening_address(given) == given


def test_an_interface_stands_for_its_address() -> None:
    assert listening_address("lo") == "127.0.0.1"


def test_a_host_name_stands_for_its_address() -> None:
    assert listening_address("localhost") in ("127.0.0.1", "::1")


@pytest.mark.parametrize("given", ["0", "0x0", "::0", "0.0"])
def test_other_spellings_of_all_addresses_are_refused(given: str) -> None:
    with pytest.raises(MeansEverywhereError, match=r"name one, or a network interface.*0\.0\.0\.0"):
        listening_address(given)


@pytest.mark.parametrize("given", ["", "*", "wg-nowhere0", "no such host"])
def test_what_is_no_address_is_refused_with_the_interfaces_that_there_are(given: str) -> None:
    with pytest.raises(ValueError, match="lo") as error:
        listening_address(given)
    assert "\n" not in str(error.value)


def test_an_interface_without_an_address_is_refused_by_name() -> None:
    bare = [name for _, name in socket.if_nameindex() if not _has_address(name)]
    if not bare:
        pytest.skip("every interface of this machine has an address")
    with pytest.raises(ValueError, match=f"{bare[0]} has no address"):
        listening_address(bare[0])


def _has_address(name: str) -> bool:
    import psutil

    kinds = (socket.AF_INET, socket.AF_INET6)
    return any(one.family in kinds for one in psutil.net_if_addrs().get(name, ()))


@pytest.mark.parametrize(("address", "lines"), [("0.0.0.0", 1), ("::", 1), ("127.0.0.1", 0)])
def test_listening_everywhere_is_said_in_one_line(
    address: str, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        warn_where_everywhere(address)
    assert len(caplog.records) == lines
    assert all("runs what it is sent" in record.getMessage() for record in caplog.records)
