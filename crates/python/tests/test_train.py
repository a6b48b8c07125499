"""Runs from Python: heard, stopped, resumed."""

import json
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import bowline

SMALL: dict = {"hidden": 16, "batch": 4, "vocab": "words.txt", "threads": 1}


def test_events_are_those_of_the_log() -> None:
    heard: list[dict] = []
    run = bowline.train("cats.txt", "runs/heard", epochs=2, on_event=heard.append, **SMALL)
    logged = [json.loads(line) for line in pathlib.Path("runs/heard/events.jsonl").read_text().splitlines()]
    assert [event for event in heard if event["event"] != "notice"] == logged
    assert (run.epochs, run.path) == (2, pathlib.Path("runs/heard"))
    assert run.summary == json.loads(pathlib.Path("runs/heard/summary.json").read_text())
    assert (run.valid, run.test, run.best_epoch) == tuple(run.summary[key] for key in ["valid", "test", "best_epoch"])
    assert run.load().score("the cat").logprob < 0


def test_settings_have_the_program_s_names(program: str) -> None:
    ours = bowline.train("cats.txt", "runs/ours", epochs=2, seed=3, keep=0.5, augment__tau=5, **SMALL)
    theirs = subprocess.run(
        [program, "train", "--data", "cats.txt", "--out", "runs/theirs", "--vocab", "words.txt", "--json", "--epochs", "2",
         "--seed", "3", "--set", "keep=0.5", "--set", "augment.tau=5", "--set", "hidden=16", "--set", "batch=4", "--threads", "1"],
        capture_output=True, text=True, check=True,
    )
    assert ours.summary["weights_sha256"] == json.loads(theirs.stdout)["weights_sha256"]
    names = ["config.toml"]
    assert [pathlib.Path("runs/ours", n).read_text() for n in names] == [
        pathlib.Path("runs/theirs", n).read_text() for n in names
    ]


def test_settings_that_fit_a_text_are_chosen_and_said(program: str) -> None:
    notices: list[str] = []

    def listen(event: dict) -> None:
        if event["event"] == "notice":
            notices.append(event["text"])

    pathlib.Path("rare.txt").write_text("some rare words, seen once\n" + pathlib.Path("cats.txt").read_text())
    bowline.train("rare.txt", "runs/rare", epochs=1, hidden=16, on_event=listen, threads=1)
    subprocess.run(
        [program, "train", "--data", "rare.txt", "--out", "runs/rare-too", "--epochs", "1", "--set", "hidden=16", "--threads", "1"],
        capture_output=True, check=True,
    )
    assert pathlib.Path("runs/rare/config.toml").read_text() == pathlib.Path("runs/rare-too/config.toml").read_text()
    assert any("min_count=1 keeps them" in text for text in notices) and any("batch=" in text for text in notices)


def test_a_budget_chooses_the_network_and_how_it_predicts() -> None:
    notices: list[dict] = []
    pathlib.Path("long.txt").write_text(pathlib.Path("cats.txt").read_text() * 5)
    run = bowline.train("long.txt", "runs/timed", budget="20s", hidden=16, network__projection=16, epochs=2, threads=1,
                        on_event=notices.append)
    assert any("plan: one Mogrifier LSTM of 16 units" in event.get("text", "") for event in notices)
    with_everything = run.summary["predictor"]
    assert with_everything["full"][0] <= with_everything["plain"][0]
    with pytest.raises(ValueError, match="has no unit"):
        bowline.train("cats.txt", "runs/never", budget="20")
    with pytest.raises(ValueError, match="budget"):
        bowline.train("cats.txt", "runs/never", budget="20s", model="re")
    assert not pathlib.Path("runs/never").exists()


def test_ctrl_c_leaves_a_run_that_resumes_to_the_same_bits(tmp_path: pathlib.Path) -> None:
    whole = bowline.train("cats.txt", "runs/whole", epochs=12, **SMALL)
    out = pathlib.Path("runs/stopped")
    code = (
        "import bowline, signal, time\n"
        # Where tests run in the background, signals are ignored unless one asks for them.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        # So slow a listener that the run is not over before the signal comes.
        "def listen(event):\n"
        "    print(event['event'], flush=True)\n"
        "    time.sleep(0.02)\n"
        "try:\n"
        f"    bowline.train('cats.txt', {str(out)!r}, epochs=12, on_event=listen, **{SMALL!r})\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    while "epoch" not in child.stdout.readline():
        pass
    began = time.monotonic()
    child.send_signal(signal.SIGINT)
    rest, _ = child.communicate(timeout=60)
    # The signal may come while Python prints an event; then the listener is not told of the stop.
    assert rest.splitlines()[-1] == "interrupted", rest
    assert time.monotonic() - began < 20
    assert not (out / "summary.json").exists()
    resumed = bowline.resume(out)
    assert resumed.summary["weights_sha256"] == whole.summary["weights_sha256"]
    assert resumed.valid == whole.valid


def test_an_exception_of_the_listener_stops_and_saves() -> None:
    class Enough(Exception):
        pass

    def listen(event: dict) -> None:
        if event["event"] == "epoch":
            raise Enough

    with pytest.raises(Enough):
        bowline.train("cats.txt", "runs/enough", epochs=12, on_event=listen, **SMALL)
    assert not pathlib.Path("runs/enough/summary.json").exists()
    assert pathlib.Path("runs/enough/checkpoints/last.safetensors").exists()


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(FileNotFoundError, match="none.txt"):
        bowline.train("none.txt", "runs/x")
    with pytest.raises(bowline.Error, match="(?s)setting `hiden`.*hidden"):
        bowline.train("cats.txt", "runs/x", hiden=16)
    with pytest.raises(bowline.Error, match="there is no recipe"):
        bowline.train("cats.txt", "runs/x", model="rael")
    with pytest.raises(ValueError, match="size: 'tiny'|size: \"tiny\""):
        bowline.train("cats.txt", "runs/x", size="tiny")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="hidden: a number"):
        bowline.train("cats.txt", "runs/x", hidden={})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="on_event: a function"):
        bowline.train("cats.txt", "runs/x", on_event=3)  # type: ignore[arg-type]
    with pytest.raises(bowline.Error, match="a network has no n-grams"):
        bowline.train("cats.txt", "runs/x", order=3)
    with pytest.raises(bowline.Error, match="has no such setting"):
        bowline.train("cats.txt", "runs/x", model="kn", hidden=3)
    with pytest.raises(bowline.Error, match="resume"):
        bowline.train("cats.txt", "runs/cats", **SMALL)
    with pytest.raises(FileNotFoundError):
        bowline.resume("runs/none")
    assert not pathlib.Path("runs/x").exists()
