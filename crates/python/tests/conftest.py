"""What the tests share: a small text, and models trained on it, in a folder that they run in."""

import os
import pathlib

import pytest

import bowline

SENTENCES = ["the cat sat on the mat", "the dog ran to the cat", "a bird sang near the dog"]


@pytest.fixture(scope="session", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("place")
    os.chdir(folder)
    (folder / "cats.txt").write_text("\n".join(SENTENCES * 100) + "\n")
    (folder / "runs").mkdir()
    (folder / "words.txt").write_text("the cat sat on mat dog ran to a bird\n".replace(" ", "\n"))
    bowline.train("cats.txt", "runs/cats", hidden=32, epochs=12, batch=4, vocab="words.txt", threads=1)
    bowline.train("cats.txt", "runs/kn", model="kn", order=3)
    return folder


@pytest.fixture(scope="session")
def model(place: pathlib.Path) -> bowline.LanguageModel:
    return bowline.load("runs/cats", threads=1)


@pytest.fixture(scope="session")
def ngrams(place: pathlib.Path) -> bowline.LanguageModel:
    return bowline.load("runs/kn")


@pytest.fixture(scope="session")
def program() -> str:
    """The program `bowline` of the same sources."""
    path = os.environ.get("BOWLINE_PROGRAM")
    if not path:
        pytest.skip("BOWLINE_PROGRAM does not name the program; `cargo xtask python` does")
    return path
