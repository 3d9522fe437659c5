#!/usr/bin/env bash
# Builds the wheel from what `make build` compiled, installs it into a folder of its own and uses it
# from there: that its parts find each other, and libtorch, without the working tree.
set -euo pipefail
cd "$(dirname "$0")/.."

rm -rf build/wheel
.venv/bin/python -m pip wheel . --quiet --disable-pip-version-check \
  --no-build-isolation --no-deps --wheel-dir build/wheel --config-settings build-dir=build/release
.venv/bin/python -m pip install --quiet --disable-pip-version-check \
  --no-deps --target build/wheel/site build/wheel/remat-*.whl

cd build/wheel
PYTHONPATH=site ../../.venv/bin/python - <<'END'
import remat
import torch

assert remat.__file__.startswith(torch.os.getcwd()), remat.__file__

x = torch.randn(4, 8, requires_grad=True)
remat.checkpoint(torch.sin, x).sum().backward()
assert torch.equal(x.grad, x.detach().cos()), x.grad
print(f"remat {remat.__version__} works from its wheel")
END
