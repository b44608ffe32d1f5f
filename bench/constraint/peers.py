#!/usr/bin/env python3
"""Compile and mask times of llguidance and xgrammar on the same rows as constraint_bench.

    python3 -m venv V && V/bin/pip install llguidance==1.9.1 xgrammar==0.2.9 transformers
    V/bin/python bench/constraint/peers.py TOKENIZER.json ROWS.jsonl
"""
import json
import sys
import time

import numpy as np


def report(name, compile_us, mask_us, refused):
    def line(values):
        v = np.array(values or [0.0])
        p = np.percentile(v, [50, 90, 99, 99.9])
        return (f"n {len(values)} mean {v.mean():.1f} p50 {p[0]:.1f} p90 {p[1]:.1f} "
                f"p99 {p[2]:.1f} p99.9 {p[3]:.1f} max {v.max():.1f} us")
    print(f"{name}: refused {refused}\n  compile {line(compile_us)}\n  mask    {line(mask_us)}")


def run_llguidance(tokenizer_file, rows):
    import llguidance
    import llguidance.numpy as ln
    tokenizer = llguidance.LLTokenizer(open(tokenizer_file).read())
    compile_us, mask_us, refused = [], [], 0
    mask = ln.allocate_token_bitmask(1, tokenizer.vocab_size)
    for row in rows:
        begun = time.perf_counter()
        try:
            grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(row["schema"]))
            first = llguidance.LLMatcher(tokenizer, grammar, log_level=0)
        except Exception:
            refused += 1
            continue
        if first.is_error():
            refused += 1
            continue
        compile_us.append((time.perf_counter() - begun) * 1e6)
        for instance in row["instances"]:
            if not instance["valid"]:
                continue
            matcher = first.deep_copy()
            for token in tokenizer.tokenize_str(instance["text"]):
                begun = time.perf_counter()
                ln.fill_next_token_bitmask(matcher, mask, 0)
                mask_us.append((time.perf_counter() - begun) * 1e6)
                if not matcher.consume_token(token):
                    break
    report("llguidance", compile_us, mask_us, refused)


def run_xgrammar(tokenizer_file, rows):
    import xgrammar
    from transformers import PreTrainedTokenizerFast
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=tokenizer_file)
    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, stop_token_ids=[1])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    mask = xgrammar.allocate_token_bitmask(1, info.vocab_size)
    compile_us, mask_us, refused = [], [], 0
    for row in rows:
        begun = time.perf_counter()
        try:
            compiled = compiler.compile_json_schema(json.dumps(row["schema"]), strict_mode=False)
        except Exception:
            refused += 1
            continue
        compile_us.append((time.perf_counter() - begun) * 1e6)
        for instance in row["instances"]:
            if not instance["valid"]:
                continue
            matcher = xgrammar.GrammarMatcher(compiled)
            for token in tokenizer.encode(instance["text"], add_special_tokens=False):
                begun = time.perf_counter()
                matcher.fill_next_token_bitmask(mask)
                mask_us.append((time.perf_counter() - begun) * 1e6)
                if not matcher.accept_token(token):
                    break
    report("xgrammar", compile_us, mask_us, refused)


def main():
    tokenizer_file, rows_file = sys.argv[1:3]
    rows = [json.loads(line) for line in open(rows_file)]
    if len(sys.argv) > 3:
        rows = rows[::int(sys.argv[3])]
    run_llguidance(tokenizer_file, rows)
    run_xgrammar(tokenizer_file, rows)


main()
