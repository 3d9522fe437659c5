"""One fine-tuning: LoRA on every linear layer of a model, in float32 on the CPU."""

import gc
import hashlib
import time
import warnings
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from recipe import RECIPES
from result import Step
from settings import Settings
from transformers import AutoModelForCausalLM

import remat


class FineTuning:
    """A model under training with one recipe. Needs a process of its own: recipes are global."""

    def __init__(self, recipe: str, settings: Settings):
        # Before the first tensor: one allocated earlier is not counted when it dies.
        remat.memory.install()
        torch.set_num_threads(settings.threads)
        torch.manual_seed(settings.seed)

        self._model = _model_with_lora(settings)
        self._trained = [p for p in self._model.parameters() if p.requires_grad]
        for parameter in self._trained:
            parameter.grad = torch.zeros_like(parameter)
        self._optimizer = torch.optim.AdamW(self._trained, lr=settings.learning_rate)
        RECIPES[recipe](self._model)

    def step(self, block: list[int]) -> Step:
        """Trains on one block of tokens."""
        tokens = _batch(block)
        self._model.train()
        self._optimizer.zero_grad(set_to_none=False)
        gc.collect()  # else the garbage of the last step dies in this one and hides bytes of it

        before = remat.memory.live_bytes()
        remat.memory.reset_peak()
        start = time.perf_counter()
        loss = self._model(input_ids=tokens, labels=tokens).loss
        after_forward = remat.memory.live_bytes()
        loss.backward()
        peak = remat.memory.peak_bytes()
        self._optimizer.step()
        seconds = time.perf_counter() - start
        return Step(loss.item(), seconds, peak - before, after_forward - before)

    def held_out_loss(self, blocks: list[list[int]]) -> float:
        """The mean loss on blocks that are not trained on."""
        self._model.eval()
        with torch.no_grad():
            batches = [_batch(block) for block in blocks]
            losses = [self._model(input_ids=b, labels=b).loss.item() for b in batches]
        return sum(losses) / len(losses)

    def save_adapter(self, folder: Path) -> None:
        """The LoRA weights as they are now, for another program to start from."""
        self._model.save_pretrained(folder)

    def ops_replayed(self) -> int:
        """Operators that remat ran a second time, since the start."""
        return int(remat.stats()["ops_replayed"])

    def adapter_sha256(self) -> str:
        """Tells two trained adapters apart by one bit."""
        digest = hashlib.sha256()
        for parameter in self._trained:
            digest.update(parameter.detach().numpy().tobytes())
        return digest.hexdigest()


def _model_with_lora(settings: Settings):
    # peft and transformers call names of their own that transformers is about to drop.
    warnings.simplefilter("ignore", FutureWarning)
    model = AutoModelForCausalLM.from_pretrained(settings.model, dtype=torch.float32)
    # Checkpointed layers have no key-value cache; with one, only the run `none` would fill it.
    model.config.use_cache = False
    lora = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, lora)


def _batch(block: list[int]):
    return torch.tensor([block])
