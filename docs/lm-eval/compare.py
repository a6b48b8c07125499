"""Compares what the harness got from the server with `bowline score`: compare.py RESULTS_FOLDER SCORES.jsonl."""

import glob
import json
import sys

scores = [json.loads(line) for line in open(sys.argv[2], encoding="utf-8")]


def samples(task):
    path = sorted(glob.glob(f"{sys.argv[1]}/**/samples_{task}_*.jsonl", recursive=True))[-1]
    rows = sorted((json.loads(line) for line in open(path, encoding="utf-8")), key=lambda row: row["doc_id"])
    # A log-likelihood, or one with whether the continuation is the likeliest.
    return [row["resps"][0][0] for row in rows]


whole = [float(value[0] if isinstance(value, list) else value) for value in samples("bowline_rolling")]
last = [float(value[0]) for value in samples("bowline_last_word")]
assert len(whole) == len(last) == len(scores)
for name, found, expected in [
    ("whole sentences", whole, [score["logprob"] for score in scores]),
    ("last words", last, [score["logprobs"][-2] for score in scores]),
]:
    worst = max(abs(a - b) for a, b in zip(found, expected))
    print(f"{name}: {len(found)}, sum {sum(found):.6f}, score says {sum(expected):.6f}, largest difference {worst:.2e}")
