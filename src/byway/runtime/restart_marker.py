"""The restart marker: a small file by which a broker without its state knows that it ran before.

A broker that finds it restarts: it waits until each neighbour that the file names has sent its
tables, or is forgotten. The file is written before anything is done about an input that changes the
set of neighbours, so that it names every neighbour that may hold an entry of this broker. This
module decides when the file is written; what is in it, `storage.marker_file` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byway.model.addresses import Listing, Neighbour
from byway.storage.marker_file import MarkerFile

if TYPE_CHECKING:
    from byway.runtime.server import BrokerServer


class RestartMarker:
    """The marker file of one broker process. Raises `StorageError` if it cannot be read or
    written."""

    def __init__(self, directory: str, id: str) -> None:
        self._file = MarkerFile(directory, id)
        self.path = self._file.path
        self._server: BrokerServer | None = None
        self._written: tuple[object, ...] | None = None

    def __repr__(self) -> str:
        server = self._server
        names = "" if server is None else ", ".join(server.broker.neighbours)
        names = names or "no neighbours"
        return f"<RestartMarker {self.path} of {self._file.id}: {names}>"

    @property
    def was_here(self) -> bool:
        """Whether the broker ran before this start."""
        return self._file.was_here

    def names(self, listed: tuple[Neighbour, ...]) -> list[str]:
        """The neighbours of the previous run, without those that were removed from the list of
        neighbours since."""
        return self._file.names(listed)

    @property
    def learnt(self) -> dict[str, str]:
        """Addresses of neighbours that were decided on in the previous run."""
        return self._file.learnt

    def former(self, listed: tuple[Neighbour, ...]) -> dict[str, str]:
        """Former neighbours of the previous run with the reasons, without those that were added to
        the list of neighbours since."""
        return self._file.former(listed)

    @property
    def successors(self) -> dict[str, str]:
        """By former neighbour whose place another broker has taken, that one."""
        return self._file.successors

    @property
    def listing(self) -> Listing | None:
        """The neighbours that the settings listed in the previous run; None: there was none."""
        return self._file.listing

    def follow(self, server: BrokerServer) -> None:
        """Keep the file up to date with a broker's neighbours from now on."""
        self._server = server
        self.look()
        server.driver.before_acting = self.look

    def look(self) -> None:
        """Write the file if the set of neighbours, where they were learnt to be, which of them are
        listed, or the former ones, have changed."""
        server = self._server
        assert server is not None
        broker = server.broker
        names, former = broker.neighbours, dict(broker.former)
        listing = broker.listing or Listing(server.settings.neighbours)
        learnt = broker.learnt_addresses()
        successors = {old: one.successor for old, one in broker.succession_of.items()}
        written = names, listing, learnt, former, successors
        if written == self._written:
            return
        self._file.write(names, listing.listed, learnt, former, listing.added, successors)
        self._written = written

    def forget(self) -> None:
        """Remove the file: the broker leaves for good, and its next start is its first one."""
        if self._server is not None:
            self._server.driver.before_acting = None
        self._file.remove()
