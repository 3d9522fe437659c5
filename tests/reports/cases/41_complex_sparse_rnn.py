"""Less usual tensors and ops: complex FFT, sparse embedding gradient, sparse matmul, LSTM, integer
indexing.

Source: derived (no clear public report found for complex/sparse); LSTM after
    https://github.com/facebookresearch/fairscale/issues/766
Class: op coverage.
"""

import torch
from torch import nn

EXPECT = {
    "equal_plain": ["g_z", "g_emb", "emb_sparse", "g_spmm", "g_lstm", "g_seq", "hidden", "g_idx"],
    "value": {"emb_sparse": (True, "a sparse embedding keeps its sparse gradient")},
}


def run(checkpoint):
    torch.manual_seed(41)
    z = torch.randn(6, dtype=torch.complex64, requires_grad=True)
    checkpoint(
        lambda t: (torch.fft.ifft(torch.fft.fft(t).exp() * 0.1) * t.conj()).abs(), z
    ).sum().backward()

    emb = nn.Embedding(7, 3, sparse=True)
    checkpoint(lambda i: torch.tanh(emb(i)).square(), torch.tensor([1, 3, 3])).sum().backward()

    s = torch.eye(4).to_sparse()
    d = torch.randn(4, 2, requires_grad=True)
    checkpoint(lambda m, t: torch.sparse.mm(m, t.sin()).exp(), s, d).sum().backward()

    rnn = nn.LSTM(3, 4, 2, batch_first=True)
    seq = torch.randn(2, 5, 3, requires_grad=True)
    o, (hn, cn) = checkpoint(rnn, seq)
    (o.square().sum() + hn.sum() + cn.sin().sum()).backward()

    t = torch.randn(5, 4, requires_grad=True)

    def pick(u):
        u = u.clone()
        u[:, 1] = u[:, 0].exp()
        u[u > 0.5] *= 2
        a, b = u.topk(2, 1)
        return torch.where(b > 1, a, a.sin()).unbind(1)[0] + u.cumsum(0).amax(1)

    checkpoint(pick, t).sum().backward()
    g = emb.weight.grad
    return {
        "g_z": z.grad,
        "g_emb": g.to_dense(),
        "emb_sparse": g.is_sparse,
        "g_spmm": d.grad,
        "g_lstm": torch.cat([p.grad.flatten() for p in rnn.parameters()]),
        "g_seq": seq.grad,
        "hidden": hn.detach(),
        "g_idx": t.grad,
    }
