#!/usr/bin/env python3
"""Writes small/tokenizer.json (256 bytes, 20 merges, added tokens with every flag) and small/lines.jsonl
with the ids of the reference runtime on random texts.

usage: make_small.py FOLDER     (needs PyPI tokenizers 0.23.3)
"""
import json
import random
import sys
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "Ġw o", "r l", "rl d", "Ġwo rld", "a b", "ab c",
          "b c", "Ġ Ġ", "ĠĠ ĠĠ", "1 2", "n t", "' s", "Ã ©", "t h", "th e"]
ADDED = [("<l>", dict(lstrip=True)), ("<r>", dict(rstrip=True)), ("<w>", dict(single_word=True)),
         ("<lr>", dict(lstrip=True, rstrip=True)), ("<n>", dict(normalized=True)),
         ("abc!", dict(single_word=True)), ("<a", {}), ("<a>", {}), ("<a>b", {}), ("n>", {})]
PARTS = ["<l>", "<r>", "<w>", "<lr>", "<n>", "<a", "<a>", "<a>b", "n>", "abc!", "abc", " ", "  ",
         "\n", "\u00a0", "\u3000", "é", "_", "1", "12", "hello", " world", "the", "'s", "-", "<", ">",
         "l>", "日本", "x", "\u0301"]


def main(folder):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {c: i for i, c in enumerate(alphabet)}
    merges = [tuple(m.split(" ")) for m in MERGES]
    for left, right in merges:
        vocab[left + right] = len(vocab)
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    t.decoder = decoders.ByteLevel()
    t.add_tokens([AddedToken(s, special=True, **{"normalized": False, **flags})
                  for s, flags in ADDED])
    t.save(folder + "/tokenizer.json", pretty=False)
    rng = random.Random(20261130)
    with open(folder + "/lines.jsonl", "w", encoding="utf-8") as out:
        for _ in range(400):
            text = "".join(rng.choice(PARTS) for _ in range(rng.randrange(1, 10)))
            ids = t.encode(text).ids
            out.write(json.dumps({"text": text, "ids": ids}, ensure_ascii=False) + "\n")


main(sys.argv[1])
