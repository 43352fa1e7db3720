"""Objects of every kind go on from where a flattened state says they were."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel

from spotrun_trainer.state.flatten import Flat
from spotrun_trainer.state.tracked import Tracked
from tests.unit.trainer.checkpoint.states import Held, copied, same, tracked


class Odd(torch.optim.Optimizer):
    """State in all the shapes that optimizers have: nested, listed, of other types, missing."""

    def __init__(self, parameters: Iterator[nn.Parameter]) -> None:
        super().__init__(parameters, {"lr": 0.1, "schedule": (1, 2), "dtype": torch.bfloat16})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override, explicit-override]
        for group in self.param_groups:
            for number, parameter in enumerate(group["params"]):
                state = self.state[parameter]
                if not state:
                    state["name"], state["none"], state["steps"] = "odd", None, 0
                    state["moment"] = torch.zeros_like(parameter, dtype=torch.float64)
                    state["factors"] = [torch.zeros(2), {"q": torch.zeros((), dtype=torch.int8)}]
                if number == 1:
                    state["only here"] = torch.ones(1)
                state["steps"] += 1
                state["moment"] += parameter.grad
                state["factors"][0] += 1
                parameter.sub_(group["lr"] * state["moment"].to(parameter.dtype))


def network(dtype: torch.dtype = torch.float32) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 4, bias=False)).to(dtype)


def matrices(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.dim() == 2]


OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "AdamW": lambda model: torch.optim.AdamW(model.parameters(), lr=0.01, amsgrad=True),
    "AdamW, two groups": lambda model: torch.optim.AdamW(
        [{"params": [p], "weight_decay": 0.1 * n} for n, p in enumerate(model.parameters())]
    ),
    "AdamW, named": lambda model: torch.optim.AdamW(model.named_parameters()),
    "AdamW, lr in a tensor": lambda model: torch.optim.AdamW(
        model.parameters(), lr=torch.tensor(0.01)
    ),
    "SGD": lambda model: torch.optim.SGD(model.parameters(), lr=0.01),
    "SGD, momentum": lambda model: torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
    "Adafactor": lambda model: torch.optim.Adafactor(model.parameters()),
    "Muon": lambda model: torch.optim.Muon(matrices(model), lr=0.01),
    "LBFGS": lambda model: torch.optim.LBFGS(model.parameters(), max_iter=2),
    "odd": lambda model: Odd(model.parameters()),
}
SCHEDULES: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "LambdaLR": lambda opt: lr_scheduler.LambdaLR(opt, lambda step: 0.9**step),
    "OneCycleLR": lambda opt: lr_scheduler.OneCycleLR(opt, 0.1, 100, cycle_momentum=False),
    "CosineAnnealingWarmRestarts": lambda opt: lr_scheduler.CosineAnnealingWarmRestarts(opt, 3),
    "MultiStepLR": lambda opt: lr_scheduler.MultiStepLR(opt, [1, 2, 2]),
    "ReduceLROnPlateau": lambda opt: lr_scheduler.ReduceLROnPlateau(opt, patience=0),
    "SequentialLR": lambda opt: lr_scheduler.SequentialLR(
        opt, [lr_scheduler.ConstantLR(opt), lr_scheduler.LinearLR(opt)], [2]
    ),
}


class Training:
    """A network, its optimizer and schedule, an average, a scaler, and something of one's own."""

    def __init__(self, seed: int, optimizer: str = "AdamW", schedule: str = "LambdaLR") -> None:
        torch.manual_seed(seed)
        self.model = network()
        self.opt = OPTIMIZERS[optimizer](self.model)
        self.schedule = SCHEDULES[schedule](self.opt)
        self.average = AveragedModel(self.model, use_buffers=True)
        self.scaler = torch.amp.GradScaler("cpu")
        self.held = Held(seen=(1, [2.5]), generator=torch.get_rng_state())
        self.tracked = tracked(
            model=self.model,
            opt=self.opt,
            schedule=self.schedule,
            average=self.average,
            scaler=self.scaler,
            held=self.held,
        )

    def step(self, times: int = 1) -> None:
        for number in range(times):

            def closure(number: int = number) -> Tensor:
                self.opt.zero_grad()
                x = torch.linspace(-1, 1, 32).reshape(8, 4) + number
                loss: Tensor = (self.model(x) - x).square().mean()
                loss.backward()  # type: ignore[no-untyped-call]
                return loss

            loss = closure()
            if isinstance(self.opt, torch.optim.LBFGS):
                self.opt.step(closure)  # type: ignore[no-untyped-call]
            else:
                self.opt.step()
            plateau = isinstance(self.schedule, lr_scheduler.ReduceLROnPlateau)
            self.schedule.step(*([loss.detach()] if plateau else []))
            self.average.update_parameters(self.model)


def hand_over(saved: Flat, target: Tracked) -> None:
    """Load as a reader does: content into the tensors that it is told, then the objects."""
    landed = target.landing(saved.specs(), saved.values)
    for name, tensor in landed.tensors.items():
        tensor.copy_(saved.tensors[name])
    target.load(landed)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_goes_on_as_if_it_had_not_been_interrupted(optimizer: str) -> None:
    whole = Training(1, optimizer)
    whole.step(3)
    saved = copied(whole.tracked.flatten())
    whole.step(3)

    resumed = Training(2, optimizer)
    hand_over(saved, resumed.tracked)
    assert same(saved, resumed.tracked.flatten())
    resumed.step(3)

    assert same(whole.tracked.flatten(), resumed.tracked.flatten())


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_go_on(schedule: str) -> None:
    whole = Training(1, schedule=schedule)
    whole.step(2)
    saved = copied(whole.tracked.flatten())
    whole.step(3)

    resumed = Training(2, schedule=schedule)
    hand_over(saved, resumed.tracked)
    resumed.step(3)

    assert same(whole.tracked.flatten(), resumed.tracked.flatten())
    assert whole.opt.param_groups[0]["lr"] == resumed.opt.param_groups[0]["lr"]


@pytest.mark.parametrize("optimizer", ["AdamW", "SGD, momentum", "odd"])
def test_a_state_from_before_the_first_step_takes_what_came_since_away(optimizer: str) -> None:
    fresh, stepped = Training(1, optimizer), Training(2, optimizer)
    saved = copied(fresh.tracked.flatten())
    stepped.step(2)

    hand_over(saved, stepped.tracked)

    assert same(saved, stepped.tracked.flatten())
    assert stepped.opt.state_dict()["state"] == {}


@pytest.mark.parametrize("optimizer", ["AdamW", "SGD, momentum", "odd"])
def test_loading_goes_into_the_tensors_that_are_there(optimizer: str) -> None:
    saved, live = Training(1, optimizer), Training(2, optimizer)
    saved.step(2)
    live.step(1)
    parameters = list(live.model.parameters())
    places = {name: one.data_ptr() for name, one in live.tracked.flatten().tensors.items()}

    hand_over(copied(saved.tracked.flatten()), live.tracked)

    assert parameters == list(live.model.parameters())
    assert places == {name: one.data_ptr() for name, one in live.tracked.flatten().tensors.items()}


def test_loading_goes_into_tensors_that_require_gradients() -> None:
    held = Held(x=torch.zeros(2, requires_grad=True))
    target = tracked(held=held)
    saved = copied(tracked(held=Held(x=torch.ones(2))).flatten())

    for _ in range(2):  # from the second on its tensors are known
        target.flatten()
        landing = target.landing(saved.specs(), saved.values)
        assert not landing.tensors["held/x"].requires_grad


def test_moments_of_half_precision_weights_keep_their_own_type() -> None:
    def half(seed: int) -> tuple[Tracked, Odd]:
        torch.manual_seed(seed)
        model = network(torch.bfloat16)
        return tracked(model=model, opt=(opt := Odd(model.parameters()))), opt

    (saved, opt), (resumed, _) = half(1), half(2)
    for parameter in opt.param_groups[0]["params"]:
        parameter.grad = torch.full_like(parameter, 0.1)
    opt.step()

    hand_over(copied(saved.flatten()), resumed)

    assert torch.float64 == resumed.flatten().tensors["opt/state/0/moment"].dtype
    assert same(saved.flatten(), resumed.flatten())


def test_only_buffers_and_tensors_of_ones_own_may_change_before_an_update() -> None:
    training = Training(1, "AdamW, lr in a tensor")
    training.step()

    flat = training.tracked.flatten()

    rest = {name for name in flat.tensors if name not in flat.volatile}
    assert {"held/generator", "average/n_averaged", "opt/param_groups/0/lr"} <= flat.volatile
    assert "model/1.running_mean" in flat.volatile
    assert {"model/0.weight", "average/module.0.weight", "opt/state/0/exp_avg"} <= rest


def test_a_name_is_given_once() -> None:
    things = tracked(model=network())

    with pytest.raises(ValueError, match="model is tracked already: give each object a name"):
        things.add("model", network())


def test_an_object_is_tracked_once() -> None:
    model = network()

    with pytest.raises(ValueError, match="copy is tracked already, as model"):
        tracked(model=model, copy=model)


@pytest.mark.parametrize("name", ["", "a/b", "a b", "1"])
def test_a_name_is_a_word(name: str) -> None:
    with pytest.raises(
        ValueError, match="cannot be the name of a tracked object: use a word like `model`"
    ):
        Tracked().add(name, network())


def test_what_has_no_state_cannot_be_tracked() -> None:
    with pytest.raises(ValueError, match=r"steps cannot be tracked: a int has no state_dict\(\)"):
        Tracked().add("steps", 3)  # type: ignore[arg-type]


def test_a_state_is_a_dict() -> None:
    thing = Held()
    thing.content = [1]  # type: ignore[assignment]

    with pytest.raises(ValueError, match=r"held.state_dict\(\) returned a list, not a dict"):
        tracked(held=thing).flatten()


def test_tensors_of_kinds_that_are_not_saved_yet_are_named() -> None:
    class Sharded(Tensor):
        pass

    held = Held(weight=torch.ones(2).as_subclass(Sharded))

    with pytest.raises(ValueError, match=r"held/weight cannot be saved: it is a .*Sharded, and"):
        tracked(held=held).flatten()


@pytest.mark.parametrize(
    ("saved", "live", "reason"),
    [
        pytest.param(
            nn.Linear(2, 2),
            nn.Linear(2, 2, bias=False),
            "tensors unknown to this script: model/bias",
            id="bias",
        ),
        pytest.param(
            nn.Linear(2, 2, bias=False),
            nn.Linear(2, 2),
            "tensors missing in the saved state: model/bias",
            id="none",
        ),
        pytest.param(
            nn.Linear(2, 3, bias=False),
            nn.Linear(3, 3, bias=False),
            r"model/weight is float32\[3, 2\] in the saved state, float32\[3, 3\] in this script",
            id="shape",
        ),
        pytest.param(
            nn.Linear(2, 2, bias=False, dtype=torch.float64),
            nn.Linear(2, 2, bias=False),
            r"model/weight is float64\[2, 2\] in the saved state, float32\[2, 2\] in this script",
            id="type",
        ),
        pytest.param(
            nn.Sequential(*(nn.Linear(1, 1) for _ in range(3))),
            nn.Sequential(),
            "unknown to this script: model/0.bias, model/0.weight, model/1.bias and 3 more",
            id="many",
        ),
    ],
)
def test_a_model_that_does_not_fit_is_refused_before_anything_changes(
    saved: nn.Module, live: nn.Module, reason: str
) -> None:
    flat, target = tracked(model=saved).flatten(), tracked(model=live)
    before = copied(target.flatten())

    with pytest.raises(ValueError, match=rf"does not fit what is tracked: .*{reason}"):
        target.landing(flat.specs(), flat.values)

    assert same(before, target.flatten())


def test_objects_that_are_missing_or_new_are_named() -> None:
    flat = tracked(model=network(), ema=network()).flatten()

    with pytest.raises(
        ValueError,
        match=r"objects missing in the saved state: schedule; objects unknown to .*: ema",
    ):
        tracked(model=network(), schedule=Held()).landing(flat.specs(), flat.values)


def test_an_optimizer_of_another_kind_says_so() -> None:
    one, other = Training(1), Training(1)
    group = other.opt.param_groups[0]
    other.opt.add_param_group({"params": [group["params"].pop()]})
    one.step()

    with pytest.raises(ValueError, match=r"opt did not take its state: .*parameter groups"):
        hand_over(copied(one.tracked.flatten()), other.tracked)


def test_an_optimizer_with_state_of_another_shape_is_refused() -> None:
    def stepped(*shapes: int) -> Tracked:
        parameters = [nn.Parameter(torch.ones(shape)) for shape in shapes]
        opt = torch.optim.SGD(parameters, momentum=0.9)
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        opt.step()
        return tracked(opt=opt)

    flat = stepped(2, 3).flatten()

    with pytest.raises(
        ValueError, match=r"opt/state/0/momentum_buffer is float32\[2\] in the saved state"
    ):
        stepped(3, 2).landing(flat.specs(), flat.values)
