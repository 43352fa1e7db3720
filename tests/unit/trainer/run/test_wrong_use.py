"""What is said to a script that uses the API wrongly."""

from collections.abc import Callable, Iterator
from tempfile import gettempdir

import pytest
import torch
from torch import nn
from torch.utils.data import IterableDataset
from typing_extensions import override

from spotrun_trainer import Run
from tests.unit.trainer.run.begun import Made, first_step
from tests.unit.trainer.run.scripts import dataset


def update_without_the_loop(made: Made) -> None:
    run, _, optimizer = made
    with first_step(run) as step:
        step.update(optimizer)


def leave_the_loop_by_break(made: Made) -> None:
    run, model, optimizer = made
    with first_step(run) as step:
        for features, _ in step:
            step.backward(model(features).sum(), weight=2)
            break
        step.update(optimizer)


def end_without_update(made: Made) -> None:
    run, model, _ = made
    with first_step(run) as step:
        for features, _ in step:
            step.backward(model(features).sum(), weight=2)


def update_twice(made: Made) -> None:
    run, model, optimizer = made
    with first_step(run) as step:
        for features, _ in step:
            step.backward(model(features).sum(), weight=2)
        step.update(optimizer)
        step.update(optimizer)


def go_through_twice(made: Made) -> None:
    run, _, _ = made
    with first_step(run) as step:
        list(step)
        list(step)


def backward_without_weight(made: Made) -> None:
    run, model, _ = made
    with first_step(run) as step:
        for features, _ in step:
            step.backward(model(features).sum())


def backward_of_a_sum_and_a_mean(made: Made) -> None:
    run, model, _ = made
    with first_step(run) as step:
        for features, _ in step:
            step.backward(model(features).sum(), weight=2, mean_of=2)


def backward_of_many_losses(made: Made) -> None:
    run, model, _ = made
    with first_step(run) as step:
        for features, _ in step:
            step.backward(model(features), weight=2)


def update_without_its_scaler(made: Made) -> None:
    run, model, optimizer = made
    run.track(scaler=torch.amp.GradScaler("cpu"))
    with first_step(run) as step:
        for features, _ in step:
            step.backward(model(features).sum(), weight=2)
        step.update(optimizer)


def update_with_a_strange_scaler(made: Made) -> None:
    run, model, optimizer = made
    with first_step(run) as step:
        for features, _ in step:
            step.backward(model(features).sum(), weight=2)
        step.update(optimizer, scaler=torch.amp.GradScaler("cpu"))


def two_scalers(made: Made) -> None:
    made[0].track(one=torch.amp.GradScaler("cpu"), other=torch.amp.GradScaler("cpu"))
    first_step(made[0])


def loss_before_update(made: Made) -> None:
    run, _, _ = made
    with first_step(run) as step:
        step.loss.item()


def loss_after_the_step(made: Made) -> None:
    run, model, optimizer = made
    with first_step(run) as step:
        for features, _ in step:
            step.backward(model(features).sum(), weight=2)
        step.update(optimizer)
    step.loss.item()


def norm_without_clip(made: Made) -> None:
    run, model, optimizer = made
    with first_step(run) as step:
        for features, _ in step:
            step.backward(model(features).sum(), weight=2)
        step.update(optimizer)
        step.norm.item()


def update_of_a_stranger(made: Made) -> None:
    run, model, _ = made
    with first_step(run) as step:
        for features, _ in step:
            step.backward(model(features).sum(), weight=2)
        step.update(torch.optim.SGD(model.parameters(), lr=0.1))


def buffers_by_an_unknown_rule(made: Made) -> None:
    made[0].track(buffers="first", other=nn.Linear(1, 1))  # type: ignore[arg-type]


def update_by_an_untracked_schedule(made: Made) -> None:
    run, model, optimizer = made
    with first_step(run) as step:
        for features, _ in step:
            step.backward(model(features).sum(), weight=2)
        step.update(optimizer, schedule=torch.optim.lr_scheduler.StepLR(optimizer, 1))


def update_of_an_untracked_module(made: Made) -> None:
    run, model, _ = made
    other = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    run.track(second=optimizer)
    with first_step(run) as step:
        for features, _ in step:
            step.backward(other(model(features)).sum(), weight=2)
        step.update(optimizer)


def update_without_gradients(made: Made) -> None:
    run, _, optimizer = made
    with first_step(run) as step:
        for _ in step:
            step.backward(torch.ones((), requires_grad=True), weight=2)
        step.update(optimizer)


def update_without_scaled_gradients(made: Made) -> None:
    run, _, optimizer = made
    scaler = torch.amp.GradScaler("cpu")
    run.track(scaler=scaler)
    with first_step(run) as step:
        for _ in step:
            step.backward(torch.ones((), requires_grad=True), weight=2)
        step.update(optimizer, scaler=scaler)


def steps_twice(made: Made) -> None:
    run, _, _ = made
    first_step(run)
    first_step(run)


def steps_without_track(_made: Made) -> None:
    first_step(Run())


def track_after_steps(made: Made) -> None:
    run, _, _ = made
    first_step(run)
    run.track(ema=nn.Linear(1, 1))


def microbatches_that_do_not_divide(made: Made) -> None:
    first_step(made[0], microbatch=3)


def an_unsized_dataset(made: Made) -> None:
    class Endless(IterableDataset[int]):
        @override
        def __iter__(self) -> Iterator[int]:
            return iter(range(10))

    for _ in made[0].steps(Endless(), global_batch=2, microbatch=2, epochs=1, num_workers=0):
        pass


def deal_a_stream_by_speed(made: Made) -> None:
    class Endless(IterableDataset[int]):
        @override
        def __iter__(self) -> Iterator[int]:
            return iter(range(10))

    run = made[0]
    run._balance = "measured"
    run.steps(Endless(), global_batch=2, microbatch=2, total=1, num_workers=0)


def two_optimizers_of_one_parameter(made: Made) -> None:
    run, model, _ = made
    run.track(other=torch.optim.SGD(model.parameters(), lr=0.1))
    first_step(run)


def plateau_of(made: Made) -> torch.optim.lr_scheduler.ReduceLROnPlateau:
    return torch.optim.lr_scheduler.ReduceLROnPlateau(made[2])


def update_by_a_plateau(made: Made) -> None:
    run, model, optimizer = made
    plateau = plateau_of(made)
    run.track(plateau=plateau)
    with first_step(run) as step:
        for features, _ in step:
            step.backward(model(features).sum(), weight=2)
        step.update(optimizer, schedule=plateau)  # type: ignore[arg-type]


def an_untracked_plateau(made: Made) -> None:
    _plateau = plateau_of(made)
    first_step(made[0])


def one_text_for_the_names_of_sums(made: Made) -> None:
    first_step(made[0], sums="hits")


def a_sum_that_is_named_twice(made: Made) -> None:
    first_step(made[0], sums=["hits", "seen", "hits"])


def unfreeze_within_a_step(made: Made) -> None:
    run, model, optimizer = made
    model.bias.requires_grad = False
    with first_step(run) as step:
        model.bias.requires_grad_()
        for features, _ in step:
            step.backward(model(features).sum(), weight=2)
        step.update(optimizer)


def evaluate_inside_a_step(made: Made) -> None:
    run, model, optimizer = made
    with first_step(run) as step:
        for features, _ in step:
            step.backward(model(features).sum(), weight=2)
        step.update(optimizer)
        run.evaluate(model, dataset(), lambda model, batch: model(batch[0]).mean())


def evaluate_in_front_of_a_step(made: Made) -> None:
    run, model, _ = made
    first_step(run)
    run.evaluate(model, dataset(), lambda model, batch: model(batch[0]).mean())


def sum_outside_of_microbatches(made: Made) -> None:
    run, _, _ = made
    with first_step(run):
        run.sum(hits=1)


def sum_before_steps(made: Made) -> None:
    made[0].sum(hits=1)


def sum_of_an_unknown_name(made: Made) -> None:
    run, _, _ = made
    with first_step(run) as step:
        for _ in step:
            run.sum(hits=1)


def sums_before_update(made: Made) -> None:
    with first_step(made[0]) as step:
        assert step.sums


def evaluate_before_steps(made: Made) -> None:
    run, model, _ = made
    run.evaluate(model, dataset(), lambda model, batch: model(batch[0]).mean())


def a_loop_before_a_phase(made: Made) -> None:
    run, _, _ = made
    with first_step(run) as step:
        list(step)
        with step.phase("late"):
            pass


def a_phase_without_update(made: Made) -> None:
    run, _, _ = made
    with first_step(run) as step, step.phase("d"):
        list(step)


def saving_all_the_time(_made: Made) -> None:
    Run(every=0)


def keeping_no_checkpoints(_made: Made) -> None:
    run = Run(checkpoint=gettempdir(), keep=0)
    run.track(model=nn.Linear(1, 1))
    first_step(run)


def test_a_place_that_is_not_built_is_refused_before_the_device_is_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "spotrun_trainer.elastic.world_context.install_failure_note", lambda _reporter: None
    )
    touched: list[object] = []
    monkeypatch.setattr("torch.cuda.set_device", touched.append)
    monkeypatch.setenv("SPOTRUN_CHECKPOINT", "ftp://your-server/a")

    with pytest.raises(ValueError, match="cannot be kept in ftp://your-server/a"):
        Run(device="cuda")
    assert touched == []


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (update_without_the_loop, "before the end of the step's microbatches"),
        (leave_the_loop_by_break, "run to its end, without break"),
        (end_without_update, r"step 1 ended without step.update\(...\)"),
        (deal_a_stream_by_speed, "read again from its beginning each time"),
        (update_twice, "step.update was called twice"),
        (go_through_twice, "gives its microbatches only once"),
        (backward_without_weight, "step.backward needs weight="),
        (backward_of_a_sum_and_a_mean, "got weight= and mean_of="),
        (backward_of_many_losses, r"a loss of shape \(2, 1\)"),
        (update_without_its_scaler, r"call step.update\(..., scaler=scaler\)"),
        (update_with_a_strange_scaler, "a GradScaler that is not tracked"),
        (two_scalers, "two GradScalers are tracked"),
        (loss_before_update, "step.loss is known after step.update"),
        (loss_after_the_step, "step.loss was read after `with step:` had ended: read it inside"),
        (norm_without_clip, r"known after step.update\(..., clip=...\)"),
        (update_of_a_stranger, "a SGD that is not tracked"),
        (buffers_by_an_unknown_rule, "buffers='first': give"),
        (update_by_an_untracked_schedule, "a StepLR that is not tracked"),
        (update_of_an_untracked_module, r"shape \(1, 1\) of a module that is not tracked"),
        (update_without_gradients, "no parameter of the optimizer got a gradient"),
        (update_without_scaled_gradients, "no parameter of the optimizer got a gradient"),
        (steps_twice, "run.steps was called twice"),
        (steps_without_track, "before run.steps: name the model"),
        (track_after_steps, "run.track was called after run.steps"),
        (microbatches_that_do_not_divide, "global_batch=4 is not a multiple of microbatch=3"),
        (an_unsized_dataset, "epochs=1 needs a dataset with a length"),
        (two_optimizers_of_one_parameter, "share a parameter"),
        (sum_outside_of_microbatches, "call run.sum in the loop over a step's microbatches"),
        (sum_before_steps, "run.sum was called before run.steps"),
        (sum_of_an_unknown_name, r'run.steps\(..., sums=\["hits"\]\)'),
        (sums_before_update, "step.sums is known after step.update"),
        (update_by_a_plateau, r"call plateau.step\(run.evaluate\(...\)\)"),
        (an_untracked_plateau, "is not tracked itself, so a worker that joins"),
        (one_text_for_the_names_of_sums, r'give a list of names, sums=\["hits"\]'),
        (a_sum_that_is_named_twice, "sums= names hits more than once"),
        (unfreeze_within_a_step, r"shape \(1,\) was unfrozen, .* before `with step:`"),
        (evaluate_inside_a_step, "belongs after a step that is done"),
        (evaluate_in_front_of_a_step, "belongs after a step that is done"),
        (evaluate_before_steps, "needs microbatch="),
        (a_loop_before_a_phase, "the phase late began after the step's own loop"),
        (a_phase_without_update, "phase d of step 1 ended without"),
        (saving_all_the_time, "every=0: give a number of seconds above 0"),
        (keeping_no_checkpoints, "the number of checkpoints to keep must be at least 1, not 0"),
    ],
)
def test_wrong_use_is_said_in_a_sentence(
    made: Made, use: Callable[[Made], None], message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        use(made)
