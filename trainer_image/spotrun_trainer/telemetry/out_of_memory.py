"""Errors because memory ran out, on a GPU or in the CPU's allocator, and what to try then."""

from collections.abc import Mapping

_TYPE = "OutOfMemoryError"  # torch's, which this module need not import
_SAID = (
    "DefaultCPUAllocator: can't allocate memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)
"""The texts of torch's plain RuntimeErrors: for the CPU, and for memory that a library wanted."""
_ADVICE = "advice on memory"
_TRY = (
    'run.prepare(model, checkpointing="full") or precision="bf16", Parallel(shard=...); '
    "`kubectl tjob plan --script` says what each needs, and which GPUs have that"
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out in an operation of torch."""
    if type(error).__name__ == _TYPE:
        return True
    return isinstance(error, RuntimeError) and any(said in str(error) for said in _SAID)


def explain(
    error: BaseException, *, held: Mapping[str, int], capacity: int | None, batch: tuple[int, int]
) -> None:
    """Add to an error how many bytes the process holds, by name, and what to try.

    `batch` is the number of samples in a step and in a microbatch. The note is printed with the
    traceback (not by Python 3.10, which prints none).
    """
    global_batch, microbatch = batch
    there = "" if capacity is None else f" of {_gib(capacity)}"
    kept = ", ".join(f"{name} {_gib(size)}" for name, size in held.items())
    smaller = 'microbatch="auto" or a smaller one (the global batch stays), '
    if microbatch == 1:
        smaller = "shorter samples (a microbatch of one cannot be smaller), "
    note = (
        f"this process holds {kept}{there} beside a microbatch of {microbatch} of {global_batch} "
        f"samples; what to try: {smaller}{_TRY}"
    )
    vars(error).setdefault("__notes__", []).append(note)
    vars(error)[_ADVICE] = note


def advice_on(error: BaseException) -> str:
    """Return what to try, with figures where they are known."""
    note: str | None = vars(error).get(_ADVICE)
    return note or f'what to try: microbatch="auto" or a smaller one, {_TRY}'


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**26 else f"{size / 2**20:.1f} MiB"
