"""Lines that an instruction may become. `{a}` is any tensor in sight, `{b}` and `{c}` are of its
shape where there are such, `{m}` can be multiplied by `a` from the right, `{x}` is a leaf, and
`{s}` a number. A line that plain refuses is left out of the program."""

import re

from habits import WAYS

POINTWISE = """
{a}.sin() | {a}.tanh() | {a}.sigmoid() | {a} * {s} | {a} + {s} | -{a} | {a}.relu() | F.gelu({a})
F.silu({a}) | F.leaky_relu({a}) | {a}.square() | {a}.clone() | {a}.contiguous()
{a} / (1 + {a}.abs()) | {a} + {b} | {a} * {b} | {a} - {b} | torch.maximum({a}, {b})
torch.where({a} > {b}, {a}, {b}) | torch.lerp({a}, {b}, {s}) | torch.addcmul({a}, {b}, {c})
torch.atan2({a}, {b}) | {a}.clamp(-0.5, 0.5) | {a}.masked_fill({a} > 0, {s})
{a}.where({a} > 0, {a} * 2) | {a}.abs() | torch.hypot({a}, {b}) | torch.erf({a}) | F.softplus({a})
F.hardtanh({a}) | {a}.sign() * {b} | torch.fmod({a}, 0.7)
"""

REDUCTIONS = """
{a}.sum(0) | {a}.mean(-1, keepdim=True) | {a}.sum() | {a}.amax(-1) | {a}.max(-1).values | {a}.norm()
{a}.prod(-1) | {a}.logsumexp(-1) | {a}.std(-1) | {a}.var(0) | {a}.cumsum(-1) | {a}.cumprod(-1)
F.softmax({a}, -1) | F.log_softmax({a}, -1) | F.layer_norm({a}, {a}.shape[-1:])
F.normalize({a}, dim=-1) | {a}.sort(-1).values | {a}.topk(1).values | {a}.median(-1).values
{a}.kthvalue(1).values | F.mse_loss({a}, {b}) | F.cross_entropy({a}, {a}.detach().argmax(-1))
F.smooth_l1_loss({a}, {b})
"""

SHAPED = """
{a} @ {m} | F.linear({a}, {b}) | torch.addmm({a}, {b}, {c}) | torch.einsum('ij,kj->ik', {a}, {b})
torch.cat([{a}, {b}]) | torch.stack([{a}, {b}]) | torch.outer({a}.flatten()[:3], {b}.flatten()[:2])
torch.bmm({a}[None], {b}[None])[0] | {a}.roll(1) | {a}.flip(0) | {a}.tril() | {a}.repeat(2, 1)
{a}.gather(-1, {a}.detach().argsort(-1)) | {a}.index_select(0, torch.tensor([0, 0])) | {a}[[1, 0]]
{a}[{a} > 0] | {a}.take(torch.tensor([0, 2])) | F.pad({a}, (1, 1)) | torch.tensordot({a}, {b}, 2)
F.scaled_dot_product_attention({a}[None], {b}[None], {c}[None])[0] | torch.kron({a}[:1], {b}[:1])
F.conv1d({a}[None], {b}[None])[0] | F.avg_pool1d({a}[None], 2)[0] | F.max_pool1d({a}[None], 2)[0]
F.embedding(torch.tensor([0, 1, 0]), {a}) | {a}.index_add(0, torch.tensor([0, 0]), {b}[:2])
{a}.scatter_add(0, torch.zeros(1, 2, dtype=torch.long), {b}) | F.group_norm({a}[None], 1)[0]
torch.cdist({a}, {b}) | torch.trapezoid({a}) | F.unfold({a}[None, None], 2)[0] | {a}.diff()
"""

DTYPES = """
{a}.double() | {a}.float() | {a}.bfloat16() | {a}.to(torch.complex64) | torch.view_as_real({a})
{a}.real | {a}.imag | {a}.conj() | {a}.conj().imag | torch.complex({a}, {b}) | {a}.to({b}.dtype)
{a}.half().float() | torch.polar({a}, {b}) | {a}.angle() | {a}.resolve_conj() | {a}.mH
"""

VIEWS = """
{a}.t() | {a}[0] | {a}[1:] | {a}[:, ::2] | {a}[..., 1:3] | {a}.reshape(-1) | {a}.view(-1)
{a}.view_as({a}) | {a}.unsqueeze(0) | {a}.squeeze() | {a}.transpose(0, -1) | {a}.diagonal()
{a}.unfold(0, 2, 1) | {a}.detach() | {a}.chunk(2)[1] | {a}.split(1)[0] | {a}.unbind(0)[0]
{a}.narrow(0, 1, 1) | {a}.flatten() | {a}.expand(2, *{a}.shape) | {a}.movedim(0, -1)
{a}.select(-1, 1) | windows({a}) | {a}[:, None] | {a}.data | {a}.broadcast_to({b}.shape)
{a}.swapaxes(0, -1) | {a}.T[1:] | {a}.mT | {a}.unflatten(-1, (2, -1)) | {a}.alias()
{a}.view({a}.shape) | torch.atleast_3d({a}) | {a}.permute(1, 0)
"""

IN_PLACE = """
{a}.mul_({s}) | {a}.add_({b}) | {a}.mul_({b}) | {a}.copy_({b}) | {a}.sin_() | {a}.tanh_()
{a}.zero_() | {a}.fill_({s}) | {a}[0] = {b}[0] | {a}[0] = {s} | {a}.masked_fill_({a} > 0, {s})
{a}.clamp_(-0.5, 0.5) | F.relu({a}, inplace=True) | F.leaky_relu_({a}) | {a}.addcmul_({b}, {c})
{a}.lerp_({b}, {s}) | torch._foreach_add_([{a}, bank], {s}) | torch._foreach_mul_([{a}], [{b}])
{a}.t_() | {a}.squeeze_() | {a}.unsqueeze_(0) | {a}.index_add_(0, torch.tensor([0]), {b}[:1])
{a}[[0, 1]] = {b}[[1, 0]] | {a}.scatter_(0, torch.zeros(1, 2, dtype=torch.long), {s})
{a}.index_fill_(0, torch.tensor([0]), {s}) | {a}[{a} > 0] = {s} | {a}.sub_({b}.mean())
{a}[:, 0].mul_({s}) | {a}.t().add_({b}) | {a}.detach().mul_({s}) | {a}.detach_()
{a}.requires_grad_() | {a}.transpose_(0, 1) | {a}.sigmoid_() | {a}.neg_() | {a}.cumsum_(-1)
{a}.view(-1)[1:3].sub_({s}) | {a}.index_put_((torch.tensor([0]),), {b}[:1], accumulate=True)
{a}.addmm_({b}, {c}) | {a}.set_({b}) | {a}.resize_(1) | {a}.copy_({a}.t())
{a}.as_strided_((2, 2), (1, 2)) | {a}.abs_() | {a}.__iadd__({b}) | {a}.__imul__({s})
F.silu({a}, inplace=True) | F.hardtanh({a}, inplace=True) | F.threshold({a}, 0.1, 0.2, inplace=True)
{a}.real.mul_({s}) | {a}.imag.zero_() | {a}.fill_diagonal_({s})
{a}.index_copy_(0, torch.tensor([1]), {b}[:1]) | refilled({a}, {b}) | {a}.data.mul_({s})
{a}.data.add_({b}.detach()) | refilled({a}, {a} * {s})
"""

WRITES_OUT = """
torch.add({b}.detach(), {c}.detach(), out={a}) | torch.mul({b}.detach(), {s}, out={a}.detach())
torch.sin({b}.detach(), out={a}) | torch.mm({b}.detach(), {c}.detach(), out={a}.detach())
torch.cat([{b}.detach()[:1], {c}.detach()[1:]], out={a}.detach())
torch.sigmoid({a}.detach(), out={a}.detach()) | torch.cumsum({b}.detach(), 0, out={a}.detach())
torch.addmm({a}.detach(), {b}.detach(), {c}.detach(), out={a}.detach())
torch.max({b}.detach(), {c}.detach(), out={a}.detach()[:])
torch.where({b} > 0, {b}.detach(), {c}.detach(), out={a}.detach())
torch.sum({b}.detach(), 0, out={a}.detach()[0]) | torch.exp({b}.detach(), out={a}.detach().t())
"""

FILLS = """
torch.empty_like({a}).copy_({b}) | torch.empty_like({a}).fill_({s})
torch.zeros_like({a}).add_({b}) | filled(torch.empty_like({a}), {b})
filled(torch.zeros_like({a}), {b}) | filled({a}.detach().clone(), {b})
torch.from_numpy({a}.detach().numpy()) | torch.from_numpy({a}.detach().numpy().copy())
torch.full_like({a}, {s}) | torch.ones_like({a}) | torch.tensor({a}.tolist())
torch.from_dlpack({a}.detach())
torch.frombuffer({a}.detach().numpy().tobytes(), dtype={a}.dtype).view({a}.shape)
torch.arange({a}.numel()) * {s} | {a}.detach().clone().requires_grad_()
attacked({a}, 'data') | attacked({a}, 'no_grad') | attacked({a}, 'detach') | attacked({a}, 'assign')
"""

MADE = """
torch.zeros(320) | torch.ones(320) | torch.full((320,), 0.5) | torch.arange(320.0) | torch.rand(320)
wide({a}.detach()).clone() | torch.zeros(320).copy_(wide({a}.detach())) | torch.empty(320).normal_()
"""

ALIKE = """
torch._foreach_sigmoid_ | torch._foreach_tanh_ | torch._foreach_exp_ | torch._foreach_sin_
torch._foreach_abs_ | lambda pair: torch._foreach_mul_(pair, {s})
lambda pair: torch._foreach_pow_(pair, 2) | lambda pair: torch._foreach_clamp_max_(pair, 0.1)
lambda pair: torch._foreach_mul_(pair, [pair[1] * 1, pair[0] * 1])
lambda pair: torch._foreach_lerp_(pair, [pair[1] * 1, pair[0] * 1], 0.3)
"""

LOOPS = """
wandered({a}, 4500, lambda t: torch.zeros_like(t).copy_(t)) | jittered({a}, 20)
wandered({a}, 10000, lambda t: torch.zeros_like(t).copy_(t)) | drawn_for_nothing({a}, 30)
wandered({a}, 4500, lambda t: torch.ones_like(t).fill_(2)) | unrolled(checkpoint, {a}, {b}, 4)
wandered({a}, 9000, lambda t: torch.empty_like(t).normal_()) | jittered({a}, 40)
wandered({a}, 4500, lambda t: t.clone().copy_(t * 2)) | unrolled(checkpoint, {a}, {b}, 9)
"""

PARTS = """
{a} @ p0 | F.linear({a}, p1) | {a} * p2 | torch.tanh({a} @ p1) @ p2 | {a} + p0[0] | p1.tanh()
torch.addmm(p2, {a}, p0) | torch.tanh(torch.tanh({a} @ p0) @ p2) | stacked({a}, stepping_leaves)
"""

PART_WRITES = """
p1.data.mul_({s}) | p0.data.clamp_(-0.5, 0.5) | p2.data.copy_({b}.detach()) | flat.mul_({s})
flat[:3].mul_({s}) | flat[-3:].zero_() | p1.data.copy_(p1.data / p1.data.norm(dim=0))
with torch.no_grad(): p1.clamp_(-0.5, 0.5)
with torch.no_grad(): p2.mul_({s})
with torch.no_grad(): p0.copy_({b})
torch.nn.utils.vector_to_parameters(flat * 0.5, [p0, p1])
"""

RANDOM = """
F.dropout({a}, 0.5) | F.dropout({a}, 0.5, inplace=True) | torch.rand_like({a}) * {a}
F.alpha_dropout({a}, 0.5) | F.rrelu({a}, training=True) | F.rrelu({a}, training=True, inplace=True)
F.dropout1d({a}, 0.5) | {a}.bernoulli_(0.5) | {a} * torch.bernoulli({a}.detach().sigmoid())
{a}.normal_() | {a}.uniform_(-0.5, 0.5) | {a}[torch.randperm(2)]
{a} * torch.randn({a}.shape, generator=g0) | {a}.normal_(generator=g0)
{a}.index_select(0, torch.randint(2, (2,)))
{a}[torch.multinomial(F.softmax({a}.detach().flatten()[:3], -1), 2)] | F.gumbel_softmax({a})
torch.normal({a}, 0.5) | {a} + torch.empty({a}.shape).exponential_(generator=g0).clamp(max=1)
torch.poisson({a}.detach().abs()) * {a}
F.scaled_dot_product_attention({a}[None], {b}[None], {c}[None], dropout_p=0.5)[0]
{a}.random_(0, 2) | {a} * torch.rand(()) | F.feature_alpha_dropout({a}, 0.5, training=True)
{a}[torch.randperm(2, generator=g0)]
"""

RANDOM_STATE = """
torch.manual_seed(3) | g0.manual_seed(7) | torch.rand(3) | torch.rand(3, generator=g0)
torch.randn(17) | g0.set_state(torch.get_rng_state()) | torch.set_rng_state(g0.get_state())
g0.set_state(torch.Generator().get_state())
"""

FUNCTIONS = """
Square.apply({a}) | Sigmoid.apply({a}) | Halve.apply({a}) | Masked.apply({a}) | Numpy.apply({a})
Flatten.apply({a}) | SplitSetup.apply({a}, {b}) | Halve.apply({a}.clone()) | Square.apply({a}.t())
Refusing.apply({a}) | Scratch.apply({a} * 2) | narrow(Blot.apply(wide({a}) * 2))
narrow((lambda t: Blot.apply(t) + t.sigmoid())(wide({a}) * 2))
(lambda t: Scratch.apply(t) + t.sigmoid())({a} * 2) | Prepared.apply({x}, {x}.detach().tanh())
(lambda t: effects.append(t) or Prepared.apply({x}, t))(torch.tanh({x}.detach() * 2))
OwnGradient.apply({a}, scale) | MainGradient.apply({a}, scale) | Recognizing.apply({a}, scale)
FreesInput.apply({a} * 1.5) | FreesInput.apply({a} * 1.5).sin() | Hollow.apply({a})
Ignoring.apply({a}, hollow(torch.zeros(4))) | Ignoring.apply({a}, hollow({a}.detach() * 1))
"""

MODULES = """
norm({a}) | layer({a}) | drop({a}) | norm.eval()({a}) | norm.train()({a}) | lstm({a}[None])[0][0]
attention({a}, {b}, {c})[0] | F.batch_norm({a}, norm.running_mean, norm.running_var, training=True)
gru({a}[None])[0][0] | layer(layer({a})) | F.linear({a}, layer.weight.t()) | watched({a})
F.instance_norm({a}[None])[0] | tied({a})
"""

TRANSFORMS = """
torch.func.grad(energy)({a}) | torch.vmap(lambda t: t.sin() * 2)({a})
torch.func.jvp(torch.sin, ({a},), ({b},))[1] | torch.vmap(torch.dot)({a}, {b})
torch.func.vjp(torch.tanh, {a})[1]({b})[0] | torch.vmap(F.dropout, randomness='different')({a})
torch.vmap(torch.func.grad(energy))({a})
torch.func.functional_call(layer, dict(layer.named_parameters()), ({a},))
torch.func.jacrev(lambda t: t.sin().sum(0))({a}) | torch.func.jacfwd(lambda t: t.sin().sum(0))({a})
torch.autograd.grad(energy({a}), {b}, create_graph=True)[0]
torch.autograd.grad(energy({a}), {b}, retain_graph=True)[0]
torch.autograd.grad({a}, {b}, torch.ones_like({a}), create_graph=True)[0]
torch.func.vmap(layer)({a}) | torch.autograd.functional.vjp(torch.tanh, {a}, {b})[1]
torch.func.vjp(torch.sin, {a})[0]
"""

EFFECTS = """
effects.append({a}.detach().clone()) | effects.append({a}) | effects.clear()
hooked({a}).register_hook(lambda grad: grad * 0.5) | hooked({a}).retain_grad()
{x}.register_hook(lambda grad: effects.append(grad.clone()))
effects.append(float({a}.detach().abs().sum()))
hooked({a}).register_hook(lambda grad: effects.append(grad.detach().clone()))
bank.mul_(0.5).add_({a}.detach().abs().mean()) | bank[0] = {a}.detach().flatten()[0]
bank.copy_({a}.detach()) | hooked({a}).grad_fn.register_hook(lambda *_: effects.append('hook'))
{x}.grad = torch.ones_like({x})
hooked({a}).grad_fn.register_prehook(lambda *_: effects.append('prehook'))
"""

AROUND = """
torch.no_grad() | torch.enable_grad() | torch.autocast('cpu', torch.bfloat16)
torch.random.fork_rng() | packing('cpu') | packing('clone') | SeeCalls() | SeeOperators()
torch.backends.mkldnn.flags(enabled=False) | torch.autocast('cpu', enabled=False)
torch.set_grad_enabled(True) | torch.device('cpu') | torch.profiler.record_function('part')
torch.autograd.set_multithreading_enabled(False) | torch.autocast('cpu', torch.float16)
torch.inference_mode() | torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
"""


PACKING = "packing('same') | packing('clone') | packing('cpu') | packing('box')"


def lines_of(table):
    return [line.strip() for row in table.strip().split("\n") for line in row.split(" | ")]


# By kind of instruction.
LINES = {
    "pointwise": lines_of(POINTWISE),
    "reduction": lines_of(REDUCTIONS),
    "shaped": lines_of(SHAPED),
    "dtype": lines_of(DTYPES),
    "view": lines_of(VIEWS),
    "in place": lines_of(IN_PLACE),
    "out": lines_of(WRITES_OUT),
    "fill": lines_of(FILLS),
    "random": lines_of(RANDOM),
    "random state": lines_of(RANDOM_STATE),
    "function": lines_of(FUNCTIONS),
    "module": lines_of(MODULES),
    "transform": lines_of(TRANSFORMS),
    "effect": lines_of(EFFECTS),
    "around": lines_of(AROUND),
    "hooks around": lines_of(PACKING),
    "loop": lines_of(LOOPS),
    "part": lines_of(PARTS),
    "part write": lines_of(PART_WRITES),
    "alike": [f"alike({{a}}, {act})" for act in lines_of(ALIKE)],
    "unseen": [
        f'weighed({{a}}, dotted({made}, "{way}"))' for made in lines_of(MADE) for way in WAYS
    ],
}

# With one operand, of what a chain is made; what lies between its ends dies at once.
LINKS = [
    line
    for kind in (
        "pointwise",
        "reduction",
        "shaped",
        "dtype",
        "view",
        "random",
        "function",
        "module",
    )
    for line in LINES[kind]
    if line.count("{a}") == 1
    and not re.search(r"\{[bcm]\}|_\(|inplace|Halve|Refusing|\{x|effects", line)
]
