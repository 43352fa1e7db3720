"""Leadership, as far as agents need to know it."""

from spotrun.kube.lease import Election


class Leadership:
    """The leader, and its address as its identity in the lease has it: `host:port/random`."""

    def __init__(self, election: Election, own_address: str) -> None:
        self._election = election
        self._own_address = own_address

    @property
    def leads(self) -> bool:
        """Whether this replica may act."""
        return self._election.leads

    @property
    def address(self) -> str | None:
        """The address at which agents reach the leader; None if nobody is known to lead.

        A lease with our own address is that of the process before us, and so of nobody.
        """
        address = self._election.leader.rpartition("/")[0]
        if address == self._own_address and not self.leads:
            return None
        return address or None
