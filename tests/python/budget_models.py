"""Models of many kinds, small, for checks of byte budgets: each with a batch and a loss."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
import transformers
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Kind:
    make: Callable[[], nn.Module]
    batch: Callable[[int], torch.Tensor]  #: of a size
    loss: Callable[[nn.Module, torch.Tensor], torch.Tensor]
    size: int


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x):
        return F.relu_(self.body(x) + x)


def resnet():
    stem = nn.Conv2d(3, 16, 3, padding=1)
    return nn.Sequential(stem, *[Residual(16) for _ in range(6)])


class UNet(nn.Module):
    """Three levels; the skips live from the way down to the way up."""

    def __init__(self, width=8):
        super().__init__()
        widths = [width, 2 * width, 4 * width]
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList(
            nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in itertools.pairwise(widths)
        )
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in itertools.pairwise(widths)
        )
        self.blocks = nn.ModuleList(nn.Conv2d(2 * a, a, 3, padding=1) for a in widths[:-1])
        self.norms = nn.ModuleList(nn.GroupNorm(4, a) for a in widths[:-1])

    def forward(self, x):
        skips = [F.silu(self.stem(x))]
        for down in self.down:
            skips.append(F.silu(down(skips[-1])))
        x = skips.pop()
        for up, block, norm in reversed(list(zip(self.up, self.blocks, self.norms, strict=True))):
            x = F.silu(norm(block(torch.cat([up(x), skips.pop()], 1))))
        return x


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(64, 64)
        self.lstm = nn.LSTM(64, 128, num_layers=3, dropout=0.1, batch_first=True)
        self.head = nn.Linear(128, 64)

    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0])


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=512, n_positions=256, n_embd=96, n_layer=5, n_head=4, use_cache=False
    )
    return transformers.GPT2LMHeadModel(config)  # dropout 0.1 is its default


def mixture_of_experts():
    config = transformers.MixtralConfig(
        vocab_size=512,
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        use_cache=False,
        output_router_logits=True,
    )
    return transformers.MixtralForCausalLM(config)


def images(size):
    return torch.randn(size, 3, 32, 32)


def texts(size):
    return torch.randint(0, 64, (size, 128))


def language_loss(model, tokens):
    return model(input_ids=tokens, labels=tokens).loss


def loss_beside_hidden_states(model, tokens):
    """The model holds each layer's input to the end of forward."""
    return model(input_ids=tokens, labels=tokens, output_hidden_states=True, use_cache=True).loss


def square_loss(model, batch):
    return model(batch).square().mean()


KINDS = {
    "resnet": Kind(resnet, images, square_loss, 16),
    "u-net": Kind(UNet, images, square_loss, 16),
    "lstm": Kind(Recurrent, texts, square_loss, 8),
    "gpt2": Kind(gpt2, texts, language_loss, 4),
    "gpt2 with hidden states": Kind(gpt2, texts, loss_beside_hidden_states, 4),
    "mixture of experts": Kind(mixture_of_experts, texts, language_loss, 4),
}
