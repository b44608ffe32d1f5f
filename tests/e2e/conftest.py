"""What the end-to-end tests share: the binary and the models that ./test found."""
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def lineshaft():
    """Path of the binary."""
    path = Path(os.environ.get("LINESHAFT_BIN", ROOT / "build/release/lineshaft"))
    if not path.is_file():
        pytest.fail(f"{path} is not built")
    return str(path)


@pytest.fixture(scope="session")
def smollm2():
    """Path of the SmolLM2 model file."""
    path = os.environ.get("LINESHAFT_SMOLLM2")
    if not path:
        pytest.skip("LINESHAFT_SMOLLM2 is not set (./test sets it)")
    return path
