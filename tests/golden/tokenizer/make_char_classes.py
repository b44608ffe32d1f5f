#!/usr/bin/env python3
"""Writes src/recipe/tokenizer/char_class_table.inc: the character classes that the reference runtime
of the tokenizer goldens (PyPI `tokenizers`) sees, asked code point by code point.

usage: make_char_classes.py OUT     (needs PyPI tokenizers 0.23.3: Oniguruma with Unicode 16 for
\\p{..} and \\s, Rust's char::is_numeric with Unicode 17 for Digits)
"""
import sys
import tokenizers
from tokenizers import Regex, pre_tokenizers as pre

BITS = dict(L=(r"\p{L}", 1), N=(r"\p{N}", 2), S=(r"\s", 4), M=(r"\p{M}", 8), P=(r"\p{P}", 16),
            Y=(r"\p{S}", 32))
DIGIT = 64


def removed(pattern):
    """Code points that Split(pattern, removed) takes away."""
    split, out = pre.Split(Regex(pattern), "removed"), []
    for base in range(0, 0x110000, 0x1000):
        cps = [c for c in range(base, base + 0x1000) if not 0xD800 <= c <= 0xDFFF]
        if not cps:
            continue
        kept = set()
        for _, (a, b) in split.pre_tokenize_str("".join(map(chr, cps))):
            kept.update(range(a, b))
        out += [cps[i] for i in range(len(cps)) if i not in kept]
    return out


def main():
    table = [0] * 0x110000
    for pattern, bit in BITS.values():
        for c in removed(pattern):
            table[c] |= bit
    digits = pre.Digits(individual_digits=True)
    for c in range(0x110000):
        if not 0xD800 <= c <= 0xDFFF and len(digits.pre_tokenize_str("a" + chr(c))) == 2:
            table[c] |= DIGIT
    rows, start = [], 0
    for c in range(1, 0x110001):
        if c == 0x110000 or table[c] != table[start]:
            if table[start]:
                rows.append(f"{{0x{start:x},0x{c - 1:x},{table[start]}}},")
            start = c
    lines = [f"// Written by tests/golden/tokenizer/make_char_classes.py, tokenizers "
             f"{tokenizers.__version__}. Do not edit."]
    line = ""
    for row in rows:
        if len(line) + len(row) > 99:
            lines.append(line)
            line = ""
        line += row
    lines.append(line)
    open(sys.argv[1], "w").write("\n".join(lines) + "\n")
    print(len(rows), "ranges")


main()
