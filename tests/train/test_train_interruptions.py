"""`remat train` interrupted, killed and out of space: nothing is lost."""

import random
import resource
import signal
import subprocess
import time

import pytest
from train_runs import command, losses, run


@pytest.fixture
def long_run(flags):
    """Long enough to be interrupted in the middle; a checkpoint every other step."""
    return flags | {
        "max_steps": 50,
        "save_steps": 4,
        "lora_dropout": 0.1,
        "activation_checkpointing": "full",
    }


def start(out, *more, **flags):
    return subprocess.Popen(
        command("train", *more, **flags, output_dir=out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_step(process, out, step):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if (out / "metrics.jsonl").exists() and f'"step":{step},' in (
            out / "metrics.jsonl"
        ).read_text():
            return
        time.sleep(0.005)
    pytest.fail(f"step {step} was not reached: {process.poll()}")


def result(out):
    final = (out / "final" / "adapter_model.safetensors").read_bytes()
    checkpoint = (out / "latest" / "optimizer.safetensors").read_bytes()
    return losses(out), final, checkpoint


def test_goes_on_after_ctrl_c_as_if_never_stopped(long_run, tmp_path):
    run("train", **long_run, output_dir=tmp_path / "whole")
    out = tmp_path / "parts"
    process = start(out, **long_run, logging_steps=1)
    wait_for_step(process, out, 9)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "interrupted" in error
    assert "--resume-from-checkpoint" in error
    assert len(losses(out)) < 50
    run("train", "--resume-from-checkpoint", **long_run, output_dir=out)
    assert result(out) == result(tmp_path / "whole")


def test_a_request_to_end_is_answered_with_143(long_run, tmp_path):
    process = start(tmp_path, **long_run, logging_steps=1)
    wait_for_step(process, tmp_path, 3)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 143, error
    assert (tmp_path / "latest" / "MANIFEST.json").exists()


def test_an_interruption_that_cannot_be_saved_ends_with_code_131(long_run, tmp_path):
    process = start(tmp_path, **long_run | {"save_steps": 0}, logging_steps=1)
    wait_for_step(process, tmp_path, 3)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (100_000, 100_000))
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 131, error
    assert "error[E131 save]" in error
    assert "File too large" in error


def run_within(limit, size, *arguments, **flags):
    """Runs the program with a limit of the system's, bytes."""
    return subprocess.run(
        command(*arguments, **flags),
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(limit, (size, size)),
        check=False,
    )


def test_too_little_memory_is_an_error_with_code_5(flags, tmp_path):
    flags |= {"lora_r": 1 << 28, "output_dir": tmp_path}
    failed = run_within(resource.RLIMIT_AS, 8 << 30, "train", **flags)
    assert failed.returncode == 5, failed.stderr
    assert "error[E5 memory]" in failed.stderr


def test_goes_on_after_being_killed_at_any_moment(long_run, tmp_path):
    # A checkpoint every step: most of the time of such small steps is a save.
    long_run |= {"save_steps": 1, "max_steps": 40}
    run("train", **long_run, output_dir=tmp_path / "whole")
    out = tmp_path / "parts"
    draw = random.Random(7)
    for _ in range(5):
        process = start(out, "--resume-from-checkpoint", **long_run)
        at = len(losses(out)) if (out / "metrics.jsonl").exists() else 0
        wait_for_step(process, out, min(at + 3, 39))
        time.sleep(draw.uniform(0, 0.03))
        process.kill()
        process.communicate()
    run("train", "--resume-from-checkpoint", **long_run, output_dir=out)
    assert result(out) == result(tmp_path / "whole")
    assert not list(out.glob(".tmp-*"))


def test_a_full_disk_loses_nothing(flags, tmp_path):
    # A constant rate: the first part ends earlier than the whole, and must not decay earlier.
    flags |= {"save_steps": 2, "output_dir": tmp_path / "out", "lr_scheduler_type": "constant"}
    run("train", **flags | {"output_dir": tmp_path / "whole"})
    run("train", **flags | {"max_steps": 2})

    failed = run_within(
        resource.RLIMIT_FSIZE, 100_000, "train", "--resume-from-checkpoint", **flags
    )
    assert failed.returncode == 1, failed.stderr
    assert "error[E1 runtime]" in failed.stderr
    assert "adapter_model.safetensors: cannot be written: File too large" in failed.stderr
    assert not list((tmp_path / "out").glob(".tmp-*"))
    run("train", "--resume-from-checkpoint", **flags)
    assert losses(tmp_path / "out") == losses(tmp_path / "whole")
