"""Bowline's models as language models of speech decoders: pyctcdecode and flashlight-text.

Both packages are imported when they are asked for, and neither is needed for anything else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from . import kenlm
from ._native import LanguageModel


def pyctcdecode_model(
    model: LanguageModel,
    unigrams: Collection[str] | None = None,
    *,
    alpha: float = 0.5,
    beta: float = 1.5,
    unk_score_offset: float = -10.0,
    score_boundary: bool = True,
) -> Any:
    """A language model for pyctcdecode's `BeamSearchDecoderCTC(alphabet, language_model)`.

    `unigrams` are the words that the decoder shall know: those of the model unless told otherwise. The other parameters
    are those of pyctcdecode's own `LanguageModel`, with its defaults.
    """
    from pyctcdecode.constants import LOG_BASE_CHANGE_FACTOR  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from pyctcdecode.language_model import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        LanguageModel as Base,
    )

    class BowlineModel(Base):  # type: ignore[misc,unused-ignore]
        """Its own `LanguageModel` with our states: that one asks the module `kenlm` for them."""

        def get_start_state(self) -> kenlm.State:
            state = kenlm.State()
            if self.score_boundary:
                shaped.BeginSentenceWrite(state)
            return state

        def score(
            self, prev_state: kenlm.State, word: str, is_last_word: bool = False
        ) -> tuple[float, kenlm.State]:
            after = kenlm.State()
            score = shaped.BaseScore(prev_state, word, after)
            if word not in known:
                score += self.unk_score_offset
            if is_last_word and self.score_boundary:
                score += shaped.BaseScore(after, "</s>", kenlm.State())
            return self.alpha * score * LOG_BASE_CHANGE_FACTOR + self.beta, after

    shaped = kenlm.Model(model)
    known = {word for word in (unigrams or model.words) if word in shaped and not word.startswith("<")}
    return BowlineModel(
        shaped, known, alpha=alpha, beta=beta, unk_score_offset=unk_score_offset, score_boundary=score_boundary
    )


def flashlight_model(model: LanguageModel, words: Sequence[str]) -> Any:
    """A language model for flashlight-text's `LexiconDecoder`; `words[i]` is the word that the decoder calls `i`.

    Scores are base-10 logarithms, as those of flashlight's own `KenLM`.
    """
    from flashlight.lib.text.decoder import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        LM,
        LMState,
    )

    class BowlineModel(LM):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            LM.__init__(self)
            self.known: dict[Any, tuple[float, kenlm.State]] = {}

        def start(self, start_with_nothing: bool) -> Any:
            self.known.clear()
            state, ours = LMState(), kenlm.State()
            if not start_with_nothing:
                shaped.BeginSentenceWrite(ours)
            self.known[state] = (0.0, ours)
            return state

        def after(self, state: Any, index: int, word: str) -> tuple[Any, float]:
            child = state.child(index)
            if child not in self.known:
                ours = kenlm.State()
                score = shaped.BaseScore(self.known[state][1], word, ours)
                self.known[child] = (score, ours)
            return child, self.known[child][0]

        def score(self, state: Any, usr_token_idx: int) -> tuple[Any, float]:
            return self.after(state, usr_token_idx, words[usr_token_idx])

        def finish(self, state: Any) -> tuple[Any, float]:
            return self.after(state, len(words), "</s>")

    shaped = kenlm.Model(model)
    return BowlineModel()


__all__ = ["flashlight_model", "pyctcdecode_model"]
