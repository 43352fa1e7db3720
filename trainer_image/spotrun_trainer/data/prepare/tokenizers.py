"""Tokenizers by name: a Python function, a file of Hugging Face's tokenizers, or a model's."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Encode = Callable[[list[str]], Sequence[Sequence[int]]]


@dataclass(frozen=True)
class Tokenizer:
    """A function from texts to tokens, and what is known about its tokens."""

    encode: Encode
    size: int | None
    """The number of different tokens, if that is known."""
    end: int | None
    """The token that ends a document, if there is one."""


def tokenizer_of(name: str) -> Tokenizer:
    """Return a tokenizer; raises ValueError that says what to try.

    `bytes`, `module:function`, a tokenizer.json, or a name or folder as AutoTokenizer takes it.
    """
    if name == "bytes":
        return Tokenizer(lambda texts: [text.encode() for text in texts], 256, None)
    if name.endswith(".json"):
        return _of_file(Path(name))
    module, separator, function = name.partition(":")
    if separator:
        return _of_function(module, function)
    return _of_model(name)


def _of_function(module: str, function: str) -> Tokenizer:
    try:
        encode: Callable[[str], Sequence[int]] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"--tokenizer {module}:{function}: {error}. It must be a function that turns a text "
            "into a list of numbers, in a module that Python finds: set PYTHONPATH to its folder"
        ) from error
    return Tokenizer(lambda texts: [encode(text) for text in texts], None, None)


def _of_file(path: Path) -> Tokenizer:
    tokenizers = _imported("tokenizers")
    if not path.is_file():
        raise ValueError(f"--tokenizer {path}: there is no such file")
    try:
        read = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # it raises no more specific type
        raise ValueError(f"--tokenizer {path} is not a tokenizer: {error}") from error

    def encode(texts: list[str]) -> list[list[int]]:
        return [one.ids for one in read.encode_batch(texts, add_special_tokens=False)]

    return Tokenizer(encode, read.get_vocab_size(), None)


def _of_model(name: str) -> Tokenizer:
    transformers = _imported("transformers")
    try:
        read = transformers.AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"--tokenizer {name}: {str(error).splitlines()[0]}. Give `bytes`, module:function, a "
            "tokenizer.json, or the name or folder of a model"
        ) from error

    def encode(texts: list[str]) -> Any:  # noqa: ANN401 - of transformers
        return read(texts, add_special_tokens=False, verbose=False)["input_ids"]

    return Tokenizer(encode, len(read), read.eos_token_id)


def _imported(package: str) -> Any:  # noqa: ANN401 - a module that may not be installed
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"this tokenizer needs a package that is not installed: pip install {package}"
        ) from error
