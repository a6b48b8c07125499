from collections.abc import Collection, Sequence
from typing import Any

from ._native import LanguageModel

__all__ = ["flashlight_model", "pyctcdecode_model"]

def pyctcdecode_model(
    model: LanguageModel,
    unigrams: Collection[str] | None = None,
    *,
    alpha: float = 0.5,
    beta: float = 1.5,
    unk_score_offset: float = -10.0,
    score_boundary: bool = True,
) -> Any: ...
def flashlight_model(model: LanguageModel, words: Sequence[str]) -> Any: ...
