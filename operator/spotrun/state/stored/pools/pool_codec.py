"""The storage format of a pool's state: `read` and `write` are the only way there and back."""

from spotrun.api import capacitypool as api
from spotrun.api.field_types.amounts import Amount
from spotrun.api.field_types.text_values import Time
from spotrun.api.meta import ConditionStatus
from spotrun.money.price_history import NodePrice, PriceChange
from spotrun.money.units import UsdPerHour
from spotrun.state.stored.optional_values import amount_of, decimal_of, moment_of, time_of
from spotrun.state.stored.pools.pool_state import (
    AGES,
    AtAge,
    Lifetimes,
    PoolInterruption,
    PoolNode,
    PoolState,
)


def read(status: api.CapacityPoolStatus) -> PoolState:
    """Read the state from the status of a CapacityPool."""
    return PoolState(
        types=status.types,
        zones=status.zones,
        nodes=status.nodes or 0,
        workers=status.workers,
        node=_read_node(status.node),
        empty_since=moment_of(status.empty_since),
        price=read_price(status.price),
        unpriced=status.unpriced,
        available=_AVAILABLE.get(status.available or ConditionStatus.UNKNOWN),
        retry_at=moment_of(status.retry_at),
        provision_seconds=decimal_of(status.provision_seconds),
        interruptions_24h=status.interruptions_24h or 0,
        interruptions=tuple(map(_read_interruption, status.interruptions or ())),
        interruptions_per_hour=decimal_of(status.interruptions_per_hour),
        lifetimes=read_lifetimes(status.lifetimes),
        as_of=moment_of(status.as_of),
    )


def write(state: PoolState) -> api.CapacityPoolStatus:
    """Write the state as it is stored."""
    # Policies respect the limits of the CRD; the API server checks them, and a refusal is reported.
    return api.CapacityPoolStatus.model_construct(
        types=state.types,
        zones=state.zones,
        nodes=state.nodes,
        workers=state.workers,
        node=_write_node(state.node),
        empty_since=time_of(state.empty_since),
        price=_write_price(state.price),
        unpriced=state.unpriced,
        available=_STORED[state.available],
        retry_at=time_of(state.retry_at),
        provision_seconds=amount_of(state.provision_seconds),
        interruptions_24h=state.interruptions_24h,
        interruptions=tuple(map(_write_interruption, state.interruptions)) or None,
        interruptions_per_hour=amount_of(state.interruptions_per_hour),
        lifetimes=write_lifetimes(state.lifetimes) or None,
        as_of=time_of(state.as_of),
    )


def read_price(price: api.Price | None) -> NodePrice | None:
    """Read the price of a node; None where none was ever known."""
    if price is None:
        return None
    return NodePrice(
        usd_per_hour=_rate(price.usd_per_hour),
        on_demand_usd_per_hour=_rate(price.on_demand_usd_per_hour),
        source=price.source,
        as_of=moment_of(price.as_of),
        is_stale=bool(price.stale),
        recent=tuple(
            PriceChange(one.time.datetime, UsdPerHour.of(one.usd_per_hour))
            for one in price.recent or ()
        ),
    )


def read_lifetimes(text: str | None) -> Lifetimes:
    """Read how long nodes lived; a part that does not have the written format is ignored."""
    found: dict[str, AtAge] = {}
    for part in (text or "").split(","):
        age, _, counts = part.strip().partition(" ")
        taken, _, reached = counts.partition("/")
        if age in AGES and taken.isdecimal() and reached.isdecimal():
            found[age] = AtAge(int(taken), int(reached))
    return found


def write_lifetimes(known: Lifetimes) -> str:
    """Write how long nodes lived: for each age, how many reached it, and how many were taken."""
    counts = ((age, known[age]) for age in AGES if age in known)
    return ", ".join(f"{age} {one.taken}/{one.reached}" for age, one in counts)


_AVAILABLE = {ConditionStatus.TRUE: True, ConditionStatus.FALSE: False}
_STORED = {
    True: ConditionStatus.TRUE,
    False: ConditionStatus.FALSE,
    None: ConditionStatus.UNKNOWN,
}


def _read_node(node: api.PoolNode | None) -> PoolNode | None:
    if node is None:
        return None
    return PoolNode(node.cpu.decimal, node.memory.decimal, node.gpus, node.accelerator or "")


def _write_node(node: PoolNode | None) -> api.PoolNode | None:
    if node is None:
        return None
    return api.PoolNode.model_construct(
        cpu=Amount.of(node.cpu),
        memory=Amount.of(node.memory),
        gpus=node.gpus,
        accelerator=node.accelerator or None,
    )


def _write_price(price: NodePrice | None) -> api.Price | None:
    if price is None:
        return None
    return api.Price.model_construct(
        usd_per_hour=_amount(price.usd_per_hour),
        on_demand_usd_per_hour=_amount(price.on_demand_usd_per_hour),
        source=price.source,
        as_of=time_of(price.as_of),
        stale=price.is_stale or None,
        recent=tuple(
            api.PriceChange.model_construct(
                time=Time.of(one.time), usd_per_hour=one.usd_per_hour.amount
            )
            for one in price.recent
        )
        or None,
    )


def _read_interruption(one: api.PoolInterruption) -> PoolInterruption:
    return PoolInterruption(one.time.datetime, one.nodes, one.node_hours.decimal)


def _write_interruption(one: PoolInterruption) -> api.PoolInterruption:
    return api.PoolInterruption.model_construct(
        time=Time.of(one.time), nodes=one.nodes, node_hours=Amount.of(one.node_hours)
    )


def _rate(amount: Amount | None) -> UsdPerHour | None:
    return None if amount is None else UsdPerHour.of(amount)


def _amount(rate: UsdPerHour | None) -> Amount | None:
    return None if rate is None else rate.amount
