"""Programs for KenLM find what they expect."""

import copy
import math
import pickle

import pytest

import bowline
from bowline import kenlm

TEXT = "the cat sat on the mat"


@pytest.fixture(params=["runs/cats", "runs/kn"])
def shaped(request: pytest.FixtureRequest) -> kenlm.Model:
    return kenlm.Model(bowline.load(request.param, threads=1))


def by_states(model: kenlm.Model, text: str) -> list[float]:
    state, scores = kenlm.State(), []
    model.BeginSentenceWrite(state)
    for word in [*text.split(), "</s>"]:
        after = kenlm.State()
        scores.append(model.BaseScore(state, word, after))
        state = after
    return scores


def test_scores_are_base_10(shaped: kenlm.Model) -> None:
    model = bowline.load(shaped.path, threads=1)
    score = model.score(TEXT)
    assert shaped.score(TEXT) == pytest.approx(score.logprob / math.log(10), abs=1e-12)
    assert shaped.score(TEXT.encode()) == shaped.score(TEXT)
    assert shaped.score(TEXT, eos=False) == pytest.approx(sum(score.logprobs[:-1]) / math.log(10), abs=1e-12)
    assert shaped.perplexity(TEXT) == pytest.approx(score.perplexity)
    assert shaped.perplexity(TEXT) == pytest.approx(10 ** (-shaped.score(TEXT) / 7))


def test_word_by_word_is_the_same(shaped: kenlm.Model) -> None:
    full = list(shaped.full_scores(TEXT))
    assert by_states(shaped, TEXT) == pytest.approx([score for score, _, _ in full], abs=1e-6)
    assert sum(score for score, _, _ in full) == pytest.approx(shaped.score(TEXT))
    assert not any(oov for _, _, oov in full)
    assert next(shaped.full_scores(TEXT))[0] == full[0][0]


def test_one_object_may_be_both_states(shaped: kenlm.Model) -> None:
    state, scores = kenlm.State(), []
    shaped.BeginSentenceWrite(state)
    for word in [*TEXT.split(), "</s>"]:
        scores.append(shaped.BaseScore(state, word, state))
    assert scores == by_states(shaped, TEXT)


def test_n_grams_say_how_long_they_are() -> None:
    model = kenlm.Model("runs/kn")
    assert model.order == 3 and kenlm.Model("runs/cats").order > 10**9
    assert [length for _, length, _ in model.full_scores("the cat the on")] == [2, 3, 1, 1, 1]
    null, begun = kenlm.State(), kenlm.State()
    model.NullContextWrite(null)
    model.BeginSentenceWrite(begun)
    assert model.BaseScore(null, "the", kenlm.State()) != model.BaseScore(begun, "the", kenlm.State())
    assert model.score("cat", bos=False) != model.score("cat")


def test_unknown_words() -> None:
    model = kenlm.Model("runs/cats")
    assert "cat" in model and "</s>" in model and "dragon" not in model and b"cat" in model
    details = model.BaseFullScore(kenlm.State(), "dragon", kenlm.State())
    assert details.oov and details.log_prob < 0 and details.ngram_length == 2
    with pytest.raises(ValueError, match="dragon"):
        kenlm.Model("runs/kn").BaseScore(kenlm.State(), "dragon", kenlm.State())


def test_states_are_values(shaped: kenlm.Model) -> None:
    a, b = kenlm.State(), kenlm.State()
    assert a == b and hash(a) == hash(b)
    shaped.BeginSentenceWrite(a)
    assert a != b and a == copy.copy(a) == copy.deepcopy(a) and len({a, copy.copy(a)}) == 1
    after, also = kenlm.State(), kenlm.State()
    shaped.BaseScore(a, "the", after)
    shaped.BaseScore(copy.copy(a), "the", also)
    assert after == also and hash(after) == hash(also) and after != a


def test_what_cannot_be_is_said(model: bowline.LanguageModel) -> None:
    shaped, other = kenlm.Model(model), kenlm.Model("runs/kn")
    state = kenlm.State()
    other.BeginSentenceWrite(state)
    with pytest.raises(ValueError, match="another model"):
        shaped.BaseScore(state, "the", kenlm.State())
    with pytest.raises(TypeError, match="a str or bytes"):
        shaped.score(3)  # type: ignore[arg-type]
    with pytest.raises(UnicodeDecodeError):
        shaped.score(b"\xff")
    with pytest.raises(TypeError):
        kenlm.Model(3)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        kenlm.Model("nowhere")


def test_pickle(shaped: kenlm.Model) -> None:
    assert pickle.loads(pickle.dumps(shaped)).score(TEXT) == shaped.score(TEXT)
