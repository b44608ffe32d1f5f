#!/usr/bin/env python3
"""Compares ids with the reference runtime on random texts of all planes. By hand, not in ./test.

usage: differential.py TOKENIZER_JSON SEED COUNT COMMAND...
COMMAND reads lines {"text": …, "special": bool} and writes {"ids": […]} or […] for each, such as
`build/release/lineshaft tokenize --tokenizer FILE --json`. Needs PyPI tokenizers 0.23.3.
Control tokens are, as in the goldens: all added tokens, for Gemma those marked special.
"""
import json
import random
import subprocess
import sys
import unicodedata
from tokenizers import Tokenizer

EDGES = ["'s", "'S", "'re", "'VE", "'\u017f", "'ll", "don't", "👨\u200d👩\u200d👧", "👍🏽", "🇩🇪", "e\u0301",
         "\u200d", "\ufeff", "▁", "▁▁", "</", ">▁</", "> <", "Ġ", "가", "\u1100\u1161", "٣½²Ⅷ", "\x0b", "\x85",
         "\u00a0", "\u3000", "\u2028"]


def load(path):
    """The runtime with all added tokens and with the text tokens among them only."""
    raw = json.load(open(path, encoding="utf-8"))
    if (raw.get("post_processor") or {}).get("type") in ("TemplateProcessing", "Sequence"):
        raw["post_processor"] = None
    full = Tokenizer.from_str(json.dumps(raw))
    vocab = raw["model"]["vocab"]
    raw["added_tokens"] = [a for a in raw["added_tokens"]
                           if not a["special"] and a["content"] in vocab]
    return full, Tokenizer.from_str(json.dumps(raw))


def fragment(rng, added, classes):
    kind = rng.randrange(10)
    if kind == 0:
        return rng.choice(" \n\t\r") * rng.randrange(1, 40)
    if kind == 1:
        return str(rng.randrange(10 ** rng.randrange(1, 9)))
    if kind == 2:
        return "".join(chr(rng.randrange(33, 127)) for _ in range(rng.randrange(1, 9)))
    if kind == 3:
        return "".join(chr(rng.randrange(0x4E00, 0xA000)) for _ in range(rng.randrange(1, 8)))
    if kind == 4:
        return "".join(chr(rng.randrange(0x3040, 0x3100)) for _ in range(rng.randrange(1, 6)))
    if kind == 5:
        return rng.choice(added)
    if kind == 6:
        token = rng.choice(added)
        return token[:rng.randrange(len(token) + 1)]
    if kind == 7:
        return rng.choice(EDGES)
    if kind == 8:
        return rng.choice(["", " "]) + "".join(chr(rng.choice(classes["L"])) for _ in range(4))
    return chr(rng.choice(classes[rng.choice("LNMPSZC")]))


def main(path, seed, count, command):
    full, plain = load(path)
    rng = random.Random(int(seed))
    classes = {}
    for c in range(0x110000):
        if not 0xD800 <= c <= 0xDFFF:
            classes.setdefault(unicodedata.category(chr(c))[0], []).append(c)
    added = [token.content for token in full.get_added_tokens_decoder().values()]
    texts = ["".join(fragment(rng, added, classes) for _ in range(rng.randrange(1, 12)))
             for _ in range(int(count))]
    lines = [(t, special) for t in texts for special in (True, False)]
    given = "".join(json.dumps({"text": t, "special": s}) + "\n" for t, s in lines)
    out = subprocess.run(command, input=given.encode(), stdout=subprocess.PIPE, check=True).stdout
    answers = [json.loads(line) for line in out.splitlines()]
    assert len(answers) == len(lines), (len(answers), len(lines))
    differ = 0
    for (text, special), answer in zip(lines, answers):
        got = answer["ids"] if isinstance(answer, dict) else answer
        want = (full if special else plain).encode(text, add_special_tokens=False).ids
        if got != want:
            differ += 1
            print(json.dumps({"text": text, "special": special, "want": want, "got": got}))
    print(f"{path}: {len(lines)} lines, {differ} differ")
    return 1 if differ else 0


sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
