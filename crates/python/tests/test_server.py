"""The server as tools of others see it: schemathesis reads its description and sends what that allows, and what it does not;
promtool reads its metrics; openai's client asks as it asks others."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest


PLACE: list[pathlib.Path] = []
"""Where the server runs."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    program = os.environ.get("BOWLINE_PROGRAM")
    if not program:
        pytest.skip("BOWLINE_PROGRAM does not name the program")
    place = tmp_path_factory.mktemp("server")
    PLACE.append(place)
    (place / "text.txt").write_text("the cat sat on the mat\na dog saw the cat\n" * 40)
    train = [program, "train", "--data", "text.txt", "--vocab", "words.txt", "--model", "re", "--epochs", "1", "--out", "run"]
    # A vocabulary with <unk>, so that every text can be read.
    (place / "words.txt").write_text("the\ncat\nsat\non\nmat\ndog\n<unk>\n<eos>\n")
    subprocess.run([*train, "--set", "hidden=8", "--threads", "1"], cwd=place, check=True, capture_output=True)
    command = [program, "serve", "run", "--port", "0", "--runs", ".", "--access-log", "access.jsonl"]
    serve = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in serve.stdout:
        if found := re.search(r"http://[\w.:\[\]]+", line):
            yield found.group()
            break
    serve.terminate()
    assert serve.wait(20) is not None
    # Whatever was sent has its line, and each is one object.
    lines = [json.loads(line) for line in (place / "access.jsonl").read_text().splitlines()]
    assert lines and all(200 <= line["status"] < 500 for line in lines)


def test_schemathesis_finds_no_answer_that_the_description_does_not_allow(server):
    # Which tokens a model has, and how many words an answer may have in all, no schema can say: so what it allows may be refused.
    checks = ["--exclude-checks", "positive_data_acceptance"]
    command = [pathlib.Path(sys.executable).with_name("schemathesis"), "run", server + "/openapi.json", *checks]
    ended = subprocess.run([*command, "--max-examples", "25", "--seed", "1", "--no-color"], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr


def test_promtool_finds_nothing_wrong_with_the_metrics(server):
    import urllib.request

    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed")
    metrics = urllib.request.urlopen(server + "/metrics").read()
    assert b"bowline_" in metrics
    subprocess.run(["promtool", "check", "metrics"], input=metrics, check=True)


def test_openai_reads_the_models_and_the_log_probabilities_of_a_prompt(server, program):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=server + "/v1", api_key="none")
    assert [model.id for model in client.models.list()] == ["run"]
    prompt = "the cat sat on the mat\na dog saw the cat\n"
    answer = client.completions.create(model="run", prompt=prompt, echo=True, logprobs=5, max_tokens=0)
    found = answer.choices[0].logprobs
    score = [program, "score", "run", "-", "--format", "json", "--carry", "--threads", "1"]
    scored = subprocess.run(score, input=prompt, cwd=PLACE[0], capture_output=True, text=True, check=True).stdout
    ours = [p for line in scored.splitlines() for p in json.loads(line)["logprobs"]]
    assert found.token_logprobs == ours
    # The five likeliest, and the word itself if it is none of them.
    assert all(5 <= len(top) <= 6 for top in found.top_logprobs)
    options = {"model": "run", "prompt": "the cat", "max_tokens": 8, "seed": 3}
    whole = client.completions.create(**options).choices[0].text
    pieces = [choice.text for event in client.completions.create(**options, stream=True) for choice in event.choices]
    assert len(pieces) > 1 and "".join(pieces) == whole
    with pytest.raises(openai.BadRequestError, match="max_tokens"):
        client.completions.create(model="run", prompt="the", max_tokens=-1)
