"""Speech decoders that others wrote decode with our model.

The letters that a recogniser heard are made: of one letter it is not sure, and takes a wrong one to be a little likelier. A
decoder without a language model follows the ears; with one it writes what makes sense.
"""

import numpy as np
import pytest

import bowline
from bowline import decoders

LETTERS = ["", " ", *"abcdefghijklmnopqrstuvwxyz"]
HEARD, SAID = "the mat sat on the mat", "the cat sat on the mat"


def heard() -> np.ndarray:
    """Log-probabilities of a letter or a pause at each moment, (2 letters, 28)."""
    rows = np.full((2 * len(SAID), len(LETTERS)), 1e-4)
    for i, (sure, maybe) in enumerate(zip(SAID, HEARD)):
        rows[2 * i, LETTERS.index(sure)] = 0.45 if sure != maybe else 0.99
        rows[2 * i, LETTERS.index(maybe)] = 0.54 if sure != maybe else 0.99
        rows[2 * i + 1, 0] = 0.99
    return np.log(rows / rows.sum(axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("run", ["runs/cats", "runs/kn"])
def test_pyctcdecode(run: str) -> None:
    pyctcdecode = pytest.importorskip("pyctcdecode")
    model = bowline.load(run, threads=1)
    alphabet = pyctcdecode.Alphabet.build_alphabet(LETTERS)
    assert pyctcdecode.BeamSearchDecoderCTC(alphabet).decode(heard()) == HEARD
    lm = decoders.pyctcdecode_model(model)
    decoder = pyctcdecode.BeamSearchDecoderCTC(alphabet, lm)
    assert decoder.decode(heard()) == SAID
    # What the decoder adds up is what the model says: the words and the end.
    best = decoder.decode_beams(heard())[0]
    words = len(SAID.split())
    acoustic, joint = best[-2], best[-1]
    expected = lm.alpha * model.score(SAID).logprob + lm.beta * words
    assert joint - acoustic == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("run", ["runs/cats", "runs/kn"])
def test_flashlight(run: str) -> None:
    pytest.importorskip("flashlight.lib.text")
    from flashlight.lib.text.decoder import (  # type: ignore[import-not-found]
        CriterionType,
        LexiconDecoder,
        LexiconDecoderOptions,
        SmearingMode,
        Trie,
        ZeroLM,
    )

    model = bowline.load(run, threads=1)
    words = [word for word in model.words if not word.startswith("<")]
    space, blank = LETTERS.index(" "), 0

    def decode(lm: object, weight: float) -> tuple[str, float, float]:
        trie = Trie(len(LETTERS), space)
        for i, word in enumerate(words):
            trie.insert([LETTERS.index(letter) for letter in word] + [space], i, 0.0)
        trie.smear(SmearingMode.MAX)
        options = LexiconDecoderOptions(
            beam_size=50, beam_size_token=28, beam_threshold=100.0, lm_weight=weight, word_score=0.0,
            unk_score=-np.inf, sil_score=0.0, log_add=False, criterion_type=CriterionType.CTC,
        )
        decoder = LexiconDecoder(options, trie, lm, space, blank, -1, [], False)
        emissions = np.ascontiguousarray(np.vstack([heard(), heard()[7:8]]))  # a space ends the last word
        best = decoder.decode(emissions.ctypes.data, *emissions.shape)[0]
        return " ".join(words[i] for i in best.words if i >= 0), best.score, best.emittingModelScore

    assert decode(ZeroLM(), 0.0)[0] == HEARD
    text, score, acoustic = decode(decoders.flashlight_model(model, words), 2.0)
    assert text == SAID
    assert score - acoustic == pytest.approx(2.0 * bowline.kenlm.Model(model).score(SAID), abs=1e-3)
