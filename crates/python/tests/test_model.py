"""A model answers in Python as the program does, and says clearly what cannot be."""

import json
import math
import os
import pathlib
import pickle
import subprocess
import threading
import time

import numpy as np
import pytest

import bowline

TEXTS = ["the cat sat on the mat", "the dragon ran to the dog", "", "mat the on sat"]


def program_says(program: str, *arguments: str, text: str = "") -> list:
    done = subprocess.run([program, *arguments], input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("run", ["runs/cats", "runs/kn"])
@pytest.mark.parametrize("carry", [False, True])
def test_scores_are_the_program_s_to_the_last_digit(program: str, run: str, carry: bool) -> None:
    model = bowline.load(run, threads=1)
    arguments = ["score", run, "--json", "--threads", "1", *(["--carry"] if carry else [])]
    texts = [text for text in TEXTS if "<unk>" in model or "dragon" not in text]
    answers = program_says(program, *arguments, text="".join(f"{text}\n" for text in texts))
    scores = model.score_many(texts, carry=carry)
    assert len(answers) == len(scores) == len(texts) >= 3
    for answer, score in zip(answers, scores):
        assert score.words == answer["words"]
        assert list(score.logprobs) == answer["logprobs"]
        assert score.logprob == float(score) == answer["logprob"]
        assert score.unk == answer["unk"]
    if not carry:
        assert [model.score(text).logprob for text in texts] == [score.logprob for score in scores]
        assert scores[0].perplexity == pytest.approx(math.exp(-scores[0].logprob / 7))


def test_next_and_generate_are_the_program_s(program: str, model: bowline.LanguageModel) -> None:
    (answer,) = program_says(program, "next", "runs/cats", "the cat", "-k", "3", "--json", "--threads", "1")
    assert model.next("the cat", k=3) == [(word["word"], word["probability"]) for word in answer["next"]]
    done = subprocess.run(
        [program, "generate", "runs/cats", "--prompt", "the", "--seed", "5", "--samples", "4", "--threads", "1"],
        capture_output=True, text=True, check=True,
    )
    assert model.generate_many(4, "the", seed=5) == done.stdout.splitlines()
    assert model.generate("the", seed=5) == done.stdout.splitlines()[0]
    assert sum(p for _, p in model.next("the", k=100)) == pytest.approx(1, abs=1e-5)


def test_surprisal_is_the_program_s(program: str, model: bowline.LanguageModel) -> None:
    done = subprocess.run(
        [program, "score", "runs/cats", "--format", "surprisal", "--threads", "1"],
        input=TEXTS[1] + "\n", capture_output=True, text=True, check=True,
    )
    rows = [line.split("\t") for line in done.stdout.splitlines()[1:]]
    surprisal = model.surprisal(TEXTS[1])
    assert [row[2] for row in rows] == surprisal.words
    for column, array in [(3, surprisal.bits), (4, surprisal.entropy), (5, surprisal.entropy_reduction)]:
        assert [float(row[column]) for row in rows] == pytest.approx(list(array), abs=1e-6)
    assert [int(row[6]) for row in rows] == list(surprisal.rank)


def test_hidden_states_and_word_vectors_explain_the_scores(model: bowline.LanguageModel) -> None:
    """The classifier of a tied model is its embedding: logits are products of what this module gives."""
    text = TEXTS[0]
    hidden, vectors, score = model.hidden(text), model.embedding(), model.score(text)
    assert hidden.dtype == vectors.dtype == np.float32 and vectors.shape == (len(model), 32)
    logits = hidden.astype(float) @ vectors.T.astype(float)
    logprobs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    found = [logprobs[i, model.id(word)] for i, word in enumerate(score.words)]
    assert found == pytest.approx(list(score.logprobs), abs=1e-5)
    entropy = -(np.exp(logprobs) * logprobs).sum(axis=1) / math.log(2)
    assert list(model.surprisal(text).entropy) == pytest.approx(list(entropy), abs=1e-4)
    assert np.array_equal(model.embedding(["dog", "cat"]), vectors[[model.id("dog"), model.id("cat")]])


def test_words(model: bowline.LanguageModel) -> None:
    assert "cat" in model and "dragon" not in model
    assert len(model) == len(model.words) == 12 and model.words[model.id("cat")] == "cat"
    assert (model.kind, model.tokenize, model.path) == ("real", False, pathlib.Path("runs/cats"))


def test_what_cannot_be_is_said(model: bowline.LanguageModel, ngrams: bowline.LanguageModel) -> None:
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        bowline.load("runs/none")
    with pytest.raises(bowline.Error, match="neither `model.safetensors`"):
        bowline.load("runs")
    with pytest.raises(TypeError):
        bowline.load(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        model.score(b"the cat")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="several sentences"):
        model.score_many("the cat")
    with pytest.raises(TypeError):
        model.score_many(["the cat", 3])  # type: ignore[list-item]
    with pytest.raises(KeyError, match="caat.*did you mean.*cat"):
        model.id("caat")
    with pytest.raises(bowline.Error, match="an n-gram model has no hidden states"):
        ngrams.hidden("the cat")
    with pytest.raises(bowline.Error, match="an n-gram model has no word vectors"):
        ngrams.embedding()
    with pytest.raises(ValueError, match="temperature"):
        model.generate(temperature=-1)
    with pytest.raises(TypeError, match="top_q"):
        model.generate(top_q=1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="threads: 0"):
        bowline.load("runs/cats", threads=0)
    with pytest.raises(OverflowError):
        model.next("the", k=-1)
    assert issubclass(bowline.Error, ValueError)


def test_a_word_that_a_model_without_unk_lacks(ngrams: bowline.LanguageModel) -> None:
    assert "<unk>" not in ngrams
    with pytest.raises(bowline.Error, match="`dragon` is not among the model's"):
        ngrams.score("the dragon")


def test_other_threads_go_on_while_a_model_computes(model: bowline.LanguageModel) -> None:
    """A thread that looks at the clock all the time is never kept waiting for as long as a call takes."""
    going, longest = True, 0.0

    def watch() -> None:
        nonlocal longest
        last = time.monotonic()
        while going:
            now = time.monotonic()
            longest, last = max(longest, now - last), now

    text = TEXTS[0] * 3000
    thread = threading.Thread(target=watch)
    thread.start()
    began = time.monotonic()
    model.score(text)
    took = time.monotonic() - began
    going = False
    thread.join()
    assert longest < took / 2, (longest, took)


def test_threads_may_share_a_model(model: bowline.LanguageModel) -> None:
    expected = model.score(TEXTS[0]).logprob
    found: list[float] = []
    threads = [
        threading.Thread(target=lambda: found.extend(model.score(TEXTS[0]).logprob for _ in range(50))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 200


def test_a_model_goes_to_other_processes(model: bowline.LanguageModel) -> None:
    copy = pickle.loads(pickle.dumps(model))
    assert copy.score(TEXTS[0]).logprob == model.score(TEXTS[0]).logprob


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(model: bowline.LanguageModel) -> None:
    expected = model.score(TEXTS[0]).logprob
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, repr(model.score(TEXTS[0]).logprob).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert float(os.read(reading, 100)) == expected
