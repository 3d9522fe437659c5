"""The recipes: three ways to treat the activations of the same model. One function each."""


def none(model) -> None:
    """Autograd keeps every activation until backward."""


def torch(model) -> None:
    """torch.utils.checkpoint around every layer, through the switch of transformers."""
    model.activation_checkpointing_enable({"use_reentrant": False})
    # The switch also makes the embedding's output require a gradient, a crutch of reentrant
    # checkpoints. Left on, this run would compute one gradient more than the others.
    model.disable_input_require_grads()


def full(model) -> None:
    """The same switch, with remat in the place of torch.utils.checkpoint."""
    import remat

    remat.install()
    torch(model)


RECIPES = {recipe.__name__: recipe for recipe in (none, torch, full)}
