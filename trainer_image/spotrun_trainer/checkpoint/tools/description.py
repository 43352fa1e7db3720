"""`show`: what is in a checkpoint, without reading its tensors."""

from collections.abc import Mapping
from typing import Any

from spotrun_trainer.checkpoint.foreign.saved import Saved, kind_of
from spotrun_trainer.checkpoint.tools.listing import writers_of
from spotrun_trainer.process.commands.texts import short, size_text, table
from spotrun_trainer.state.flatten import JSON, Spec


def as_json(saved: Saved) -> dict[str, Any]:
    """Return all that is known about it, as `-o json` prints it."""
    return {
        "name": str(saved.name),
        "folder": saved.place.where(),
        "bytes": saved.bytes,
        "processes": len(saved.manifests),
        "parts": len(saved.parts),
        "mesh": saved.meshes,
        "tracked": {name: kind_of(value) for name, value in saved.values.items()},
        "tensors": {path: _tensor(saved, path, spec) for path, spec in saved.specs.items()},
        "values": saved.values,
        "extra": dict(saved.extra),
    }


def description(saved: Saved) -> str:
    """Return it as text: what is tracked, its values, and a table of the tensors."""
    lines = [
        f"{saved.name} in {saved.place.where()}",
        f"{size_text(saved.bytes)}, written by {writers_of(saved)}",
        "",
        _tracked(saved),
        "",
        *(f"{key}: {short(value)}" for key, value in saved.extra.items()),
        "",
        _tensors(saved),
    ]
    return "\n".join(lines)


def _tracked(saved: Saved) -> str:
    rows = []
    for name, value in saved.values.items():
        own = {path: spec for path, spec in saved.specs.items() if path.startswith(f"{name}/")}
        size = sum(_bytes(one) for path, one in own.items() if path not in saved.aliases)
        rows.append((name, kind_of(value), str(len(own)), size_text(size), _notes(value)))
    return table(("TRACKED", "KIND", "TENSORS", "SIZE", "VALUES"), rows)


def _notes(value: JSON) -> str:
    """Return the values of an optimizer's groups, or of an object without tensors."""
    if not isinstance(value, dict) or kind_of(value) == "module":
        return ""
    groups = value.get("param_groups")
    if kind_of(value) == "object" or not isinstance(groups, list):
        return short({key: one for key, one in value.items() if not _is_deep(one)})
    learning_rates = [short(one.get("lr")) for one in groups if isinstance(one, Mapping)]
    return f"lr {', '.join(learning_rates)}"


def _is_deep(value: JSON) -> bool:
    return isinstance(value, (dict, list))


def _tensors(saved: Saved) -> str:
    rows = []
    for path, spec in saved.specs.items():
        one = _tensor(saved, path, spec)
        shared = f"is {one['shares']}" if "shares" in one else ""
        rows.append((path, spec.dtype, str([*spec.shape]), str(one["parts"]), shared))
    return table(("TENSOR", "TYPE", "SHAPE", "PARTS", ""), rows)


def _tensor(saved: Saved, path: str, spec: Spec) -> dict[str, Any]:
    boxes = {part.box(path) for part in saved.parts if path in part.paths}
    shares = {"shares": saved.aliases[path]} if path in saved.aliases else {}
    return {"dtype": spec.dtype, "shape": [*spec.shape], "parts": len(boxes), **shares}


def _bytes(spec: Spec) -> int:
    return spec.numel * spec.itemsize
