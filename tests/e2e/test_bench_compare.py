"""`bench compare` beside programs that answer as llama.cpp's do: the amounts asked of both sides, the
arithmetic of the ratios, and what becomes of a peer that is missing, fails or prints nonsense."""
import os
import stat

import pytest

from conftest import json_lines, run

# Prints what llama-bench (0c1e570) printed, cut to the fields that matter, and notes its arguments.
LLAMA_BENCH = r"""#!/bin/sh
echo "llama-bench $*" >> "$0.calls"
echo "ggml: some talk" >&2
count=$(grep -c . "$0.calls")
cat <<END
[
  {
    "build_commit": "0c1e570",
    "model_type": "llama 256M Q4_1",
    "n_threads": 2,
    "n_prompt": 64,
    "n_gen": 0,
    "avg_ns": 135638599,
    "avg_ts": ${count}00.842090,
    "samples_ts": [ 471.842 ]
  }
]
END
"""
LLAMA_BATCHED_BENCH = r"""#!/bin/sh
echo "llama-batched-bench $*" >> "$0.calls"
echo "main: n_kv_max = 1024"
echo '{"n_kv_max": 1024, "n_threads": 2, "pp": 128, "tg": 64, "pl": 2, "t_tg": 0.1, "speed_tg": 216.4, "speed": 372.4}'
"""


@pytest.fixture
def peers(tmp_path):
    def make(bench=LLAMA_BENCH, batched=LLAMA_BATCHED_BENCH):
        for name, text in (("llama-bench", bench), ("llama-batched-bench", batched)):
            file = tmp_path / name
            file.write_text(text)
            file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return tmp_path
    return make


def calls(folder):
    return [line for name in ("llama-bench", "llama-batched-bench")
            if (folder / f"{name}.calls").exists()
            for line in (folder / f"{name}.calls").read_text().splitlines()]


def compare(model, *flags, **more):
    return run("bench", "compare", "--model", model, "--threads", "1", *flags, **more)


def test_both_sides_run_the_same_amounts(lineshaft, smollm2, peers):
    folder = peers()
    rows = json_lines(compare(smollm2, "--peer-dir", folder, "--rounds", 3, "--rows",
                              "prefill-24,decode-1,decode-2", "--json").stdout)
    assert [r["work"] for r in rows] == ["prefill 24", "decode, 1 sequence", "decode, 2 sequences"]
    # llama-bench counts up: 100, 200, 300 for the first row.
    assert [rows[0]["llama.cpp"][k] for k in ("min", "median", "max")] == [
        100.84209, 200.84209, 300.84209]
    assert rows[2]["llama.cpp"] == {"min": 216.4, "median": 216.4, "max": 216.4}
    for row in rows:
        ours, ratio = row["lineshaft"], row["ratio"]
        assert 0 < ours["min"] <= ours["median"] <= ours["max"]
        assert ours["min"] / row["llama.cpp"]["max"] <= ratio["min"] <= ratio["median"]
        assert ratio["median"] <= ratio["max"] <= ours["max"] / row["llama.cpp"]["min"]
        assert row["run"]["threads"] == 1 and row["run"]["kernels"] and row["rounds"] == 3
    model = os.path.realpath(smollm2)
    assert [c.replace(str(smollm2), model) for c in calls(folder)[::3]] == [
        f"llama-bench -m {model} -p 24 -n 0 -t 1 -r 1 -o json",
        f"llama-bench -m {model} -p 0 -n 128 -t 1 -r 1 -o json",
        f"llama-batched-bench -m {model} -c 448 -b 2048 -ub 512 -npp 128 -ntg 64 -npl 2 -t 1 -tb 1 "
        "--output-format jsonl"]


def test_the_table(lineshaft, smollm2, peers):
    text = compare(smollm2, "--peer-dir", peers(), "--rounds", 1, "--rows", "prefill-16").stdout
    assert "| prefill 16 " in text and "101 / 101 / 101" in text


def test_peers_of_the_path(lineshaft, smollm2, peers, monkeypatch):
    monkeypatch.setenv("PATH", f"{peers()}:{os.environ['PATH']}")
    row, = json_lines(compare(smollm2, "--rounds", 1, "--rows", "prefill-16", "--json").stdout)
    assert row["llama.cpp"]["median"] == 100.84209


def test_a_prompt_longer_than_the_context_is_left_out(lineshaft, smollm2, peers):
    done = compare(smollm2, "--peer-dir", peers(), "--rounds", 1, "--rows", "prefill-8193", "--json")
    assert done.stdout == "" and "8192" in done.stderr


@pytest.mark.parametrize("rows", ["prefill", "decode-0", "decode-x", "prefill-5-5", "speed-3"])
def test_rows_that_are_none(lineshaft, smollm2, peers, rows):
    done = compare(smollm2, "--peer-dir", peers(), "--rows", rows, check=False)
    assert done.returncode == 2 and rows in done.stderr


def test_a_missing_peer(lineshaft, smollm2, tmp_path):
    done = compare(smollm2, "--peer-dir", tmp_path, check=False)
    assert done.returncode == 1
    assert "llama-bench" in done.stderr and "--peer-dir" in done.stderr


@pytest.mark.parametrize("script, words", [
    ("#!/bin/sh\necho first >&2\necho 'no such tensor' >&2\nexit 3\n", "code 3: no such tensor"),
    ("#!/bin/sh\nkill -9 $$\n", "signal 9"),
    ("#!/bin/sh\necho not json\n", "prefill 16"),
    ("#!/bin/sh\necho '[]'\n", "not one result"),
    ("#!/bin/sh\necho '[{\"avg_ts\": \"fast\"}]'\n", "avg_ts"),
    ("#!/bin/sh\necho '[{\"avg_ts\": 0}]'\n", "not above zero"),
    ("not a script at all, \\0", "can't be run"),
])
def test_a_peer_that_fails(lineshaft, smollm2, peers, script, words):
    done = compare(smollm2, "--peer-dir", peers(bench=script), "--rows", "prefill-16", "--rounds", 1,
                   check=False)
    assert done.returncode == 1 and words in done.stderr, done.stderr


def test_help(lineshaft):
    for args in (("bench", "compare", "--help"), ("help", "bench", "compare")):
        assert "--peer-dir" in run(*args).stdout
    assert "--repetitions" in run("bench", "--help").stdout
