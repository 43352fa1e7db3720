"""Population-based training (Jaderberg et al. 2017): each round has one trial per member.

What a member does in the next round depends only on the round before. So neither the order in which
trials end nor a lost node that delays one of them matters.
"""

from spotrun.search.algorithms import Population
from spotrun.search.draws import draw
from spotrun.search.proposal import Nothing, Suggestion
from spotrun.search.space import Domain, Space, Value
from spotrun.search.trial import Direction, Outcome, Trial

_FACTORS = (0.8, 1.2)
"""The factors by one of which a number is multiplied, as published."""


def next_member(
    space: Space,
    population: Population,
    direction: Direction,
    history: tuple[Trial, ...],
    number: int,
) -> Suggestion | Nothing:
    """Return how this trial begins: with new values, its own, or those of one of the best."""
    seed, size = population.seed, population.size
    this_round, member = divmod(number, size)
    if this_round >= population.rounds:
        return Nothing(f"all {population.rounds} rounds of the population are done", is_final=True)
    if this_round == 0:
        return Suggestion(space.at(lambda name: draw(seed, number, name)))
    first = (this_round - 1) * size
    before = {trial.number: trial for trial in history if first <= trial.number < first + size}
    unfinished = [n for n in range(first, first + size) if not _has_ended(before.get(n))]
    if unfinished:
        return Nothing(
            f"round {this_round + 1} of the population begins when all of the one before have "
            f"ended: {len(unfinished)} of {size} have not"
        )
    ranked = sorted(before.values(), key=lambda trial: (_loss(trial, direction), trial.number))
    usable = [trial for trial in ranked if trial.outcome is Outcome.COMPLETE]
    if not usable:
        return Nothing("all members of the population have failed", is_final=True)
    own = before[first + member]
    num_replaced = max(1, int(population.replaced * size))
    best = usable[:num_replaced]
    is_replaced = own in ranked[size - num_replaced :] and own not in best
    if own.outcome is Outcome.COMPLETE and not is_replaced:
        return Suggestion(own.values, own.number)
    parent = best[int(draw(seed, number, "parent") * len(best))]
    values = _explored(space, population, parent, number)
    return Suggestion(
        values, parent.number, f"member {member} continues from trial {parent.number}, a better one"
    )


def _has_ended(trial: Trial | None) -> bool:
    return trial is not None and trial.outcome is not Outcome.RUNNING


def _loss(trial: Trial, direction: Direction) -> float:
    if trial.outcome is not Outcome.COMPLETE:
        return float("inf")
    return direction.loss(trial.objective)


def _explored(space: Space, population: Population, parent: Trial, number: int) -> dict[str, Value]:
    def chance(name: str, what: str) -> float:
        return draw(population.seed, number, name, what)

    def value(name: str, domain: Domain) -> Value:
        if name not in parent.values or chance(name, "resample") < population.resampled:
            return domain.at(chance(name, "value"))
        factor = _FACTORS[int(chance(name, "factor") * len(_FACTORS))]
        return domain.near(parent.values[name], factor)

    return space.fill(lambda parameter: value(parameter.name, parameter.domain))
