"""Word errors of pocketsphinx before and after `bowline rescore`.

    python pocketsphinx_check.py DATA KN NETWORK BOWLINE

DATA is the folder test/data of pocketsphinx's source distribution (its wheel has no recordings), KN an n-gram model of Bowline and
NETWORK a network over the same words, BOWLINE the program. Needs pocketsphinx and jiwer. pocketsphinx decodes with KN as its language
model, and its n-best lists are rescored. Of a hypothesis it tells one score, s = a + w ln p, so the acoustic part is a = s - w ln p,
with p by KN and the weight w that it has by default.
"""

import importlib.metadata
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import wave

import jiwer
import pocketsphinx

WEIGHT = 6.5
"""pocketsphinx's `-lw`."""
MOST = 100
"""Hypotheses of a recording."""


def recordings(data: pathlib.Path) -> list[tuple[str, bytes, str]]:
    """Name, samples and what was said, of those that come with a transcription."""
    found = []
    for folder, file in (("librivox", "transcription"), ("cards", "cards.transcription")):
        for line in (data / folder / file).read_text().splitlines():
            text, name = re.fullmatch(r"<s> (.*?) *</s> \((.*)\)", line).groups()
            with wave.open(str(data / folder / f"{name}.wav")) as sound:
                assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (16000, 1, 2)
                found.append((f"{folder}.{name[-4:].strip('-')}", sound.readframes(sound.getnframes()), text))
    return found


def hypotheses(decoder: pocketsphinx.Decoder, samples: bytes) -> list[tuple[str, float]]:
    """What may have been said, each once, with the natural logarithm of its score; the best first."""
    decoder.start_utt()
    decoder.process_raw(samples, full_utt=True)
    decoder.end_utt()
    best = decoder.hyp().hypstr if decoder.hyp() else ""
    scores: dict[str, float] = {}
    logarithm = math.log(decoder.config["logbase"])
    for count, hypothesis in enumerate(decoder.nbest() or []):
        if count == 10 * MOST or len(scores) == MOST:
            break
        text = " ".join(word for word in re.sub(r"\(\d+\)", "", hypothesis.hypstr or "").split() if word[0] not in "<[")
        scores.setdefault(text, hypothesis.score * logarithm)
    # The decoder's own answer comes from another search of the lattice; it is the one to beat.
    return sorted(scores.items(), key=lambda pair: (pair[0] != best, -pair[1]))


def run(*command: object) -> str:
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


def main(data: str, kn: str, network: str, bowline: str) -> None:
    said = recordings(pathlib.Path(data))
    truth = [text for _, _, text in said]
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("pocketsphinx", "jiwer")]
    print(f"{', '.join(versions)}: {len(said)} recordings, {sum(len(text.split()) for text in truth)} words")

    def errors(what: str, answers: list[str]) -> None:
        measured = jiwer.process_words(truth, answers)
        wrong = measured.substitutions + measured.deletions + measured.insertions
        print(f"{what:45} {wrong:3} word errors, {100 * measured.wer:5.1f}%")

    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        run(bowline, "arpa", "write", kn, place / "kn.arpa")
        for whose, options in (("its own", {}), ("our", {"lm": str(place / "kn.arpa")})):
            decoder = pocketsphinx.Decoder(loglevel="FATAL", lw=WEIGHT, **options)
            lists = {name: hypotheses(decoder, samples) for name, samples, _ in said}
            errors(f"decoded with {whose} language model", [found[0][0] if found else "" for found in lists.values()])
            nearest = [
                min((text for text, _ in found), key=lambda text: jiwer.process_words(truth[i], text).wer, default="")
                for i, found in enumerate(lists.values())
            ]
            errors("  the best of its n-best lists", nearest)
            if whose == "its own":
                continue
            lines = [(f"{name}-{k + 1}", text, score) for name, found in lists.items() for k, (text, score) in enumerate(found)]
            (place / "texts").write_text("".join(f"{text}\n" for _, text, _ in lines))
            scored = run(bowline, "score", kn, place / "texts", "--format", "json").splitlines()
            old = [-json.loads(line)["logprob"] for line in scored]
            (place / "nbest").write_text("".join(f"{key} {text}\n" for key, text, _ in lines))
            (place / "old").write_text("".join(f"{key} {cost}\n" for (key, _, _), cost in zip(lines, old)))
            acoustic = "".join(f"{key} {-score - WEIGHT * cost}\n" for (key, _, score), cost in zip(lines, old))
            (place / "acoustic").write_text(acoustic)
            print(f"  {len(lines)} hypotheses")
            for share in (0.0, 0.5, 1.0):
                options = ["--scores", place / "old", "--acoustic", place / "acoustic", "--acoustic-scale", 1 / WEIGHT]
                found = run(bowline, "rescore", network, place / "nbest", *options, "--lm-weight", share).splitlines()
                best = {line.split()[0]: " ".join(line.split()[1:]) for line in found}
                errors(f"  rescored, the network's share {share}", [best[name] for name, _, _ in said])


main(*sys.argv[1:])
