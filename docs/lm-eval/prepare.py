"""Makes sentences.jsonl for the two tasks from a text with one sentence a line: prepare.py TEXT [LINES]."""

import json
import sys

lines = [line.split() for line in open(sys.argv[1], encoding="utf-8")]
lines = [words for words in lines if len(words) > 1][: int(sys.argv[2]) if len(sys.argv) > 2 else None]
with open("sentences.jsonl", "w", encoding="utf-8") as out:
    for words in lines:
        text = " ".join(words + ["<eos>"])
        print(json.dumps({"text": text, "context": " ".join(words[:-1]), "last": words[-1]}), file=out)
with open("sentences.txt", "w", encoding="utf-8") as out:
    for words in lines:
        print(" ".join(words), file=out)
