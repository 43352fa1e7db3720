"""The part of leadership that agents need to know."""

from spotrun.kube.lease import Election


class Leadership:
    """The leader, and its address, read from its identity in the lease: `host:port/random`."""

    def __init__(self, election: Election, own_address: str) -> None:
        self._election = election
        self._own_address = own_address

    @property
    def leads(self) -> bool:
        """Whether this replica may act."""
        return self._election.leads

    @property
    def address(self) -> str | None:
        """The address at which agents reach the leader; None if no leader is known.

        If this replica is not the leader, a lease with its address is of a process that has ended.
        """
        address = self._election.leader.rpartition("/")[0]
        if address == self._own_address and not self.leads:
            return None
        return address or None
