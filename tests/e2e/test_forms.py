"""The command-line forms that scripts rely on, held against the golden references."""
import json
import os
import struct

import pytest

from conftest import BINARY, json_lines, run

GOLDEN = os.path.join(os.path.dirname(__file__), "..", "golden", "logits")


def golden(name):
    """Tensors of a safetensors file as flat lists (F32 and I64/I32 only)."""
    with open(os.path.join(GOLDEN, name + ".safetensors"), "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(size))
        data = f.read()
    codes = {"F32": "f", "I32": "i", "I64": "q"}
    out = {}
    for key, t in header.items():
        if key == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        code = codes[t["dtype"]]
        out[key] = list(struct.unpack(f"<{(end - begin) // struct.calcsize(code)}{code}",
                                      data[begin:end]))
    return out


@pytest.fixture(scope="module")
def prompts():
    reference = golden("smollm2")
    names = sorted({key.rsplit(".", 1)[0] for key in reference})
    return reference, [n for n in names if len(reference[n + ".ids"]) <= 300]


def tokens_file(tmp_path, lines):
    path = tmp_path / "tokens.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_generate_is_the_references_greedy_answer(smollm2, prompts, tmp_path):
    reference, names = prompts
    path = tokens_file(tmp_path, [reference[n + ".ids"] for n in names])
    done = run("generate", "--model", smollm2, "--tokens", path, "--max-tokens", 16,
               "--temperature", 0, "--seed", 1, "--threads", 2, "--profile", "cpu-f32-1",
               "--parallel", 4, "--json")
    for name, answer in zip(names, json_lines(done.stdout), strict=True):
        expected = reference[name + ".greedy_ids"][:16]
        got = answer["ids"]
        assert got == expected[:len(got)], name
        assert len(got) == 16 or answer["finish_reason"] == "stop"
        assert len(answer["logprobs"]) == len(got)
        assert answer["usage"]["prompt_tokens"] == len(reference[name + ".ids"])


def test_parallel_and_threads_change_no_answer(smollm2, prompts, tmp_path):
    reference, names = prompts
    path = tokens_file(tmp_path, [reference[n + ".ids"] for n in names])
    def answers(parallel, threads):
        done = run("generate", "--model", smollm2, "--tokens", path, "--max-tokens", 24,
                   "--temperature", 0.9, "--seed", 7, "--threads", threads, "--parallel", parallel,
                   "--json")
        return [(a["ids"], a["logprobs"]) for a in json_lines(done.stdout)]
    first = answers(1, 1)
    assert answers(len(names), 2) == first
    assert answers(3, 3) == first


def test_score_is_the_references(smollm2, prompts, tmp_path):
    reference, names = prompts
    path = tokens_file(tmp_path, [reference[n + ".ids"] for n in names])
    done = run("score", "--model", smollm2, "--tokens", path, "--top", 64, "--profile",
               "cpu-f32-1", "--json")
    for name, answer in zip(names, json_lines(done.stdout), strict=True):
        expected = reference[name + ".target_logprobs"]
        assert len(answer["logprobs"]) == len(expected)
        assert max(abs(a - b) for a, b in zip(answer["logprobs"], expected)) < 2e-3, name
        logits = dict(zip(reference[name + ".last_top64_ids"],
                          reference[name + ".last_top64_logits"]))
        assert len(answer["last_top"]) == 64
        assert answer["last_top"][0][0] == reference[name + ".last_top64_ids"][0]
        for token, logit in answer["last_top"]:
            assert token not in logits or abs(logits[token] - logit) < 2e-3, name


def test_tokenize_plain_and_special(smollm2):
    lines = '{"text": "Hello world", "special": false}\n{"text": "<|im_end|>", "special": true}\n' \
            '{"text": "<|im_end|>", "special": false}\n'
    out = json_lines(run("tokenize", "--model", smollm2, "--json", stdin=lines).stdout)
    assert out[0] == {"ids": [19556, 905]}
    assert out[1] == {"ids": [2]}
    assert 2 not in out[2]["ids"]


def test_bench_prints_one_object_a_batch_size(smollm2):
    done = run("bench", "--model", smollm2, "--prompt-tokens", 64, "--gen-tokens", 8, "--batch",
               "1,4", "--threads", 2, "--json")
    rows = json_lines(done.stdout)
    assert len(rows) == 2
    for row in rows:
        for key in ("prompt_tokens_per_second", "gen_tokens_per_second"):
            assert 0 < row[key]["min"] <= row[key]["median"] <= row[key]["max"]


def test_a_piped_question_is_answered(smollm2):
    done = run("run", smollm2, "--temperature", 0, stdin="What is the capital of France?\n")
    assert "Paris" in done.stdout


@pytest.mark.parametrize("args,code", [
    (["serve", "--model", "MODEL", "--host", "0.0.0.0", "--port", "0"], (1, 2)),
    (["generate", "--model", "/nowhere.gguf", "--prompt", "x"], (1, 2, 4)),
    (["generate", "--model", "MODEL"], (2,)),
    (["frobnicate"], (2,)),
    (["serve", "--model", "MODEL", "--no-such-flag"], (2,)),
    (["serve", "--model", "MODEL", "--max-context", "8192", "--kv-memory", "24MB"], (3,)),
])
def test_wrong_use_has_an_exit_code_and_a_sentence(smollm2, args, code):
    done = run(*[smollm2 if a == "MODEL" else a for a in args], check=False, timeout=20)
    assert done.returncode in code
    assert 0 < len(done.stderr.splitlines()) <= 12
    assert "terminate called" not in done.stderr


def test_a_truncated_model_is_named_with_its_byte(smollm2, tmp_path):
    whole = open(smollm2, "rb").read()
    for cut in (0, 3, 20, 5000, 2_000_000, len(whole) - 1):
        path = tmp_path / "cut.gguf"
        path.write_bytes(whole[:cut])
        done = run("inspect", path, check=False, timeout=20)
        assert done.returncode == 4, done.stderr
        assert "cut.gguf" in done.stderr
