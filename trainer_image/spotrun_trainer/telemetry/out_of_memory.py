"""Errors of memory that ran out, of a GPU's or of the CPU's allocator."""

_TYPE = "OutOfMemoryError"  # torch's, which this module need not import
_SAID = (
    "DefaultCPUAllocator: can't allocate memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)
"""The words of torch's plain RuntimeErrors: for the CPU, and where a library wanted the memory."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out where an operation of torch wanted some."""
    if type(error).__name__ == _TYPE:
        return True
    return isinstance(error, RuntimeError) and any(said in str(error) for said in _SAID)
