"""Writes formats.txt: random blocks of each GGUF format and their values as the gguf package reads them.

Usage: python3 make_formats.py > formats.txt    (needs: pip install gguf==0.19.0 numpy)
A line: format name, blocks in hex, values as little-endian f32 in hex.
"""
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.quants import dequantize

BLOCK_BYTES = {"Q4_0": 18, "Q4_1": 20, "Q5_0": 22, "Q5_1": 24, "Q8_0": 34,
               "Q4_K": 144, "Q5_K": 176, "Q6_K": 210}
# Where a block's f16 values lie; other bytes are random.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
EDGES = np.array([0.0, -0.0, 6e-8, -6e-8, 1e-5, 65504.0, 1.0, -1.0], dtype=np.float16)


def main():
    rng = np.random.default_rng(20250131)
    for name, size in BLOCK_BYTES.items():
        blocks = rng.integers(0, 256, (10, size), dtype=np.uint8)
        for i, block in enumerate(blocks):
            for at in HALVES[name]:
                edge = i == 0 or i == 1
                half = rng.choice(EDGES) if edge else np.float16(rng.normal() * 0.1)
                block[at:at + 2] = np.frombuffer(half.tobytes(), dtype=np.uint8)
        values = dequantize(blocks, T[name]).astype("<f4")
        print(name, blocks.tobytes().hex(), values.tobytes().hex())
    halves = np.concatenate([EDGES, rng.integers(0, 0x7c00, 56, dtype=np.uint16).view(np.float16)])
    print("F16", halves.tobytes().hex(), halves.astype("<f4").tobytes().hex())
    brain = rng.integers(0, 0x7f80, 64, dtype=np.uint16)
    values = dequantize(brain.view(np.uint8).reshape(1, -1), T.BF16).astype("<f4")
    print("BF16", brain.tobytes().hex(), values.tobytes().hex())


main()
