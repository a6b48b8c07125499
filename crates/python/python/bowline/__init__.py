"""Word-level language models on ordinary CPUs: train, score, generate.

>>> import bowline
>>> model = bowline.load("runs/cats")
>>> score = model.score("the cat sat on the mat")
>>> score.words[-1], len(score)
('<eos>', 7)
>>> model.next("the cat sat on the", k=1)[0][0]
'mat'

`bowline.kenlm` has the classes of KenLM's module, `bowline.decoders` language models for pyctcdecode and flashlight-text.
"""

from . import kenlm
from ._native import (
    Error,
    LanguageModel,
    Run,
    Score,
    Surprisal,
    __version__,
    load,
    resume,
    train,
)

__all__ = [
    "Error",
    "LanguageModel",
    "Run",
    "Score",
    "Surprisal",
    "__version__",
    "kenlm",
    "load",
    "resume",
    "train",
]
