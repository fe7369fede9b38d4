"""`loope.transfer`: the own encoding goes out, the new one comes in, and the model agrees with what it was."""

import copy

import pytest
import torch

import loope
from loope.surgery.transfer import HandOver
from tests.surgery.models import images, make, predict

ENCODERS = ["rope_mixed", "alibi2d", "peg", "none", "sincos2d", "loope"]


def batches(model, count=3):
    return [images(model, seed=seed, batch=4) for seed in range(count)]


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("name", ["ViT", "EVA", "HF ViT"])
def test_the_encoder_ends_alone_and_agrees_better(name, encoder):
    model = loope.attach(make(name), encoder, init="own")
    given = batches(model)
    work = HandOver(model)
    work.set_progress(1.0)
    at_once = float(work.loss(given[0]).detach())
    work.set_progress(0.0)
    torch.manual_seed(0)
    result = loope.transfer(model, given, steps=30, lr=1e-3)
    assert not model.training
    assert not loope.report(model).keep_own
    with torch.no_grad():
        ended = float(HandOver(model, teacher=work.teacher).loss(given[0]))
    assert ended < at_once
    assert 0 <= result.answers <= 1
    loope.detach(model)


def test_answers_of_their_own_are_compared_one_by_one():
    """A softmax does not see all logits rise together, which turns no into yes."""
    model = loope.attach(make("ViT"), "rope_mixed", init="own").eval()
    given = images(model, seed=0, batch=4)
    classes, labels = (HandOver(model, multi_label=many, depth=1) for many in (False, True))
    for work in (classes, labels):
        assert work.loss(given).item() == pytest.approx(0, abs=1e-5)
        assert work.agreement([given]).answers == 1
    with torch.no_grad():
        before = model(given)
        model.head.bias += 3
    assert classes.loss(given).item() == pytest.approx(0, abs=1e-5)
    share = before.double().sigmoid()
    bits = torch.distributions.Bernoulli
    wanted = torch.distributions.kl_divergence(bits(share), bits((before.double() + 3).sigmoid())).sum(-1).mean()
    assert labels.loss(given).item() == pytest.approx(float(wanted), rel=1e-4)
    assert classes.agreement([given]).answers == 1
    changed = (before > 0) != (before + 3 > 0)
    assert changed.any()
    assert labels.agreement([given]).answers == pytest.approx(1 - float(changed.float().mean()))


def test_the_teacher_is_the_model_as_it_was():
    for encoder in ("rope_mixed", "sincos2d"):
        model = make("ViT")
        before = predict(model)
        loope.attach(model, encoder, init="own")
        for frozen in (False, True):
            assert torch.equal(predict(HandOver(model, freeze_backbone=frozen).teacher), before)


def test_a_frozen_backbone_is_shared_with_the_teacher_and_stays():
    model = loope.attach(make("ViT"), "rope_mixed", init="own")
    work = HandOver(model, freeze_backbone=True)
    assert work.teacher.blocks[0].attn.qkv.weight is model.blocks[0].attn.qkv.weight
    before = {name: each.clone() for name, each in model.state_dict().items()}
    encoder = model.loope.encoders[0][0]
    start = encoder.frequencies.detach().clone()
    loope.transfer(model, batches(model), steps=4, freeze_backbone=True)
    assert not torch.equal(encoder.frequencies, start)
    for name, each in model.state_dict().items():
        if not name.startswith("loope."):
            assert torch.equal(each, before[name]), name
    assert all(each.requires_grad for name, each in model.named_parameters() if not name.startswith("loope.own"))


def test_strengths_cross_over():
    model = loope.attach(make("ViT"), "rope_mixed", init="own")
    work = HandOver(model, fade=0.5)
    seen = []
    for share in (0.0, 0.25, 0.5, 1.0):
        work.set_progress(share)
        seen.append(model.loope.strengths)
    assert seen == [(0.0, 1.0), (0.5, 0.5), (1.0, 0.0), (1.0, 0.0)]


def test_the_loss_of_a_model_that_agrees_is_zero():
    model = loope.attach(make("ViT"), "rope_mixed", init="own")
    assert float(HandOver(model).loss(images(model)).detach()) == pytest.approx(0, abs=1e-9)
    assert HandOver(model).agreement([images(model)]) == pytest.approx((1, 1))


@pytest.mark.parametrize("depth", [0.5, 1])
def test_the_loss_is_that_of_answers_and_of_each_token_after_each_block(depth):
    torch.manual_seed(0)
    model = loope.attach(make("ViT"), "rope_mixed", init="own")
    work = HandOver(model, depth=depth)
    work.set_progress(1.0)
    batch = images(model)
    seen = {}
    for name, each in (("teacher", work.teacher), ("model", model)):
        tokens = []
        hooks = [block.register_forward_hook(lambda _, args, made, to=tokens: to.append(made)) for block in each.blocks]
        seen[name] = each(batch).detach().double(), [made.detach().double() for made in tokens]
        for hook in hooks:
            hook.remove()
    (given, ours), (wanted, theirs) = seen["model"], seen["teacher"]
    p, q = wanted.softmax(-1), given.softmax(-1)
    expected = float((p * (p / q).log()).sum(-1).mean()) if depth == 1 else 0.0
    count = -(-len(ours) * depth // 1)
    ours, theirs = ours[: int(count)], theirs[: int(count)]
    for mine, other in zip(ours, theirs, strict=True):
        errors = []
        for one, two in zip(mine.flatten(0, -2), other.flatten(0, -2), strict=True):
            one, two = ((each - each.mean()) / each.var(correction=0).add(1e-5).sqrt() for each in (one, two))
            errors.append(float((one - two).square().mean()))
        expected += 36 * sum(errors) / len(errors) / len(ours)
    assert float(work.loss(batch).detach()) == pytest.approx(expected, rel=1e-4)


def test_a_part_of_the_blocks_is_trained_and_the_rest_stays():
    model = loope.attach(make("ViT"), "alibi2d", init="own")
    before = {name: each.clone() for name, each in model.state_dict().items()}
    half = -(-len(model.blocks) // 2)
    loope.transfer(model, batches(model), steps=3)
    for name, each in model.state_dict().items():
        if name.startswith("blocks."):
            assert torch.equal(each, before[name]) is (int(name.split(".")[1]) >= half), name
        elif name.startswith(("norm.", "head.")):
            assert torch.equal(each, before[name]), name
    assert all(each.grad is None for each in model.parameters())


def test_forward_passes_end_after_the_blocks_that_are_trained():
    model = loope.attach(make("ViT"), "rope_mixed", init="own")
    work, seen = HandOver(model), []
    for each in (model, work.teacher):
        for number, block in enumerate(each.blocks):
            block.register_forward_hook(lambda *_, number=number: seen.append(number))
    half = -(-len(model.blocks) // 2)
    work.loss(images(model))
    assert seen == [*range(half)] * 2
    seen.clear()
    HandOver(model, depth=1, teacher=work.teacher).loss(images(model))
    assert seen == [*range(len(model.blocks))] * 2


def test_a_transferred_model_is_saved(tmp_path):
    from tests.surgery.models import TIMM

    model = loope.attach(make("ViT"), "rope_mixed", init="own")
    loope.transfer(model, batches(model), steps=2)
    args = {key: value for key, value in TIMM.items() if key not in ("img_size", "num_classes")}
    loope.save(model, tmp_path / "m.safetensors", model_args=args)
    assert torch.equal(predict(loope.load(tmp_path / "m.safetensors")), predict(model))


def nan_images():
    broken = torch.rand(2, 3, 32, 32)
    broken[0, 0, 0, 0] = float("nan")
    return broken


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "no images"),
        (iter([]), "no images"),
        ([torch.rand(2, 3, 40, 40)], "images"),
        ([torch.rand(3, 32, 32)], "B, C, H, W"),
        ([torch.zeros(2, 3, 32, 32, dtype=torch.uint8)], "float"),
        (["picture.png"], "str"),
        ([torch.rand(2, 3, 32, 32), nan_images()], "not finite in step 2"),
        (iter([torch.rand(2, 3, 32, 32)] * 3), "3 of 5"),
        (7, "batches"),
    ],
)
def test_bad_images_leave_the_model_as_it_was(given, message):
    model = loope.attach(make("ViT"), "rope_mixed", init="own").train()
    before, state = predict(model.eval()), {name: each.clone() for name, each in model.train().state_dict().items()}
    with pytest.raises(loope.LoopeError, match=message):
        loope.transfer(model, given, steps=5)
    assert model.training
    assert torch.equal(predict(model.eval()), before)
    assert all(torch.equal(each, state[name]) for name, each in model.state_dict().items())


def test_teachers_that_do_not_fit():
    model = loope.attach(make("ViT"), "rope_mixed", init="own")
    classes, deeper = make("ViT"), make("ViT")
    classes.reset_classifier(7)
    deeper.blocks.append(copy.deepcopy(deeper.blocks[0]))
    for teacher in (classes, deeper, model, "vit", torch.nn.Linear(2, 2)):
        with pytest.raises(loope.LoopeError, match="teacher"):
            loope.transfer(model, batches(model), steps=2, teacher=teacher)


def test_a_gradient_that_is_not_finite_in_the_last_step():
    model = loope.attach(make("ViT"), "rope_mixed", init="own")
    before = {name: each.clone() for name, each in model.state_dict().items()}
    taken = []

    def break_the_third(gradient):
        taken.append(gradient)
        return gradient * float("nan") if len(taken) == 3 else gradient

    hook = model.blocks[0].mlp.fc1.weight.register_hook(break_the_third)
    with pytest.raises(loope.LoopeError, match="not finite in step 3"):
        loope.transfer(model, batches(model), steps=3)
    hook.remove()
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    assert all(each.grad is None for each in model.parameters())


def test_a_last_step_too_far():
    model = loope.attach(make("ViT"), "rope_mixed", init="own")
    before = predict(model)
    with pytest.raises(loope.LoopeError, match="not finite"):
        loope.transfer(model, batches(model), steps=1, lr=1e37)
    assert torch.equal(predict(model), before)
    assert loope.report(model).keep_own


@pytest.mark.parametrize("steps", [1, 4])
def test_a_frozen_backbone_gets_no_gradients(steps):
    model = loope.attach(make("ViT"), "rope_mixed", init="own")
    seen = []
    model.blocks[0].attn.qkv.weight.register_hook(seen.append)
    loope.transfer(model, batches(model), steps=steps, freeze_backbone=True)
    assert not seen
    assert all(each.grad is None for each in model.parameters())
    assert all(each.requires_grad for each in model.blocks.parameters())


def test_modes_of_parts_and_of_the_teacher_stay():
    model, teacher = loope.attach(make("ViT"), "rope_mixed", init="own").train(), make("ViT").train()
    model.blocks[0].eval()
    modes = [module.training for module in model.modules()]
    HandOver(model).agreement(batches(model))
    assert [module.training for module in model.modules()] == modes
    with pytest.raises(loope.LoopeError, match="2 of 3"):
        loope.transfer(model, iter(batches(model, 2)), steps=3)
    assert [module.training for module in model.modules()] == modes
    loope.transfer(model, batches(model), steps=1, teacher=teacher)
    assert all(module.training for module in teacher.modules())


def test_gradients_are_needed():
    model = loope.attach(make("ViT"), "rope_mixed", init="own")
    with torch.no_grad(), pytest.raises(loope.LoopeError, match="no_grad"):
        loope.transfer(model, batches(model), steps=1)


def test_training_at_strength_0_warns():
    model = loope.attach(make("ViT"), "rope_mixed", init="own").train()
    with pytest.warns(UserWarning, match=r"strength 0.*loope\.transfer"):
        model(images(model))
    with torch.no_grad():
        model(images(model))
    model.eval()(images(model))
    loope.set_strength(model, 0.5)
    model.train()(images(model))


def test_strength_0_without_an_own_encoding():
    model = loope.attach(make("ViT"), "sincos2d", init="own").train()
    loope.set_strength(model, 0.0)
    with pytest.warns(UserWarning, match=r"strength 0.*Raise it"):
        model(images(model))
    with pytest.raises(loope.LoopeError, match=r"strength 0.*set_strength"):
        loope.transfer(model, batches(model), steps=2)


def test_bad_settings():
    with pytest.raises(loope.LoopeError, match="attach"):
        loope.transfer(make("ViT"), [])
    model = loope.attach(make("ViT"), "none", init="own", prefix="none")
    with pytest.raises(loope.LoopeError, match="Nothing would be trained"):
        loope.transfer(model, batches(model), freeze_backbone=True)
    for options in ({"steps": 0}, {"lr": -1.0}, {"fade": 0.0}, {"depth": 0.0}, {"depth": 1.5}):
        with pytest.raises(loope.LoopeError):
            loope.transfer(model, batches(model), **options)


def test_the_depth_follows_the_disturbance(monkeypatch):
    """The later half of the model, given the teacher's tokens, with the encoder beside the own encoding."""
    model = loope.attach(make("ViT"), "rope_mixed", init="own", prefix="none").eval()
    batch, half = images(model), -(-len(model.blocks) // 2)
    work = HandOver(model)
    tokens, kept = {}, {}
    for strength in (0.0, 1.0):
        loope.set_strength(model, strength)
        hooks = [model.blocks[half].register_forward_pre_hook(lambda _, args: (kept.get("tokens", args[0]),))]
        if not strength:
            hooks.append(model.blocks[half - 1].register_forward_hook(lambda _, args, made: kept.update(tokens=made)))
        hooks.append(
            model.blocks[-1].register_forward_hook(lambda _, args, made, at=strength: tokens.update({at: made}))
        )
        with torch.no_grad():
            model(batch)
        for hook in hooks:
            hook.remove()
    loope.set_strength(model, 0.0)
    first, second = (torch.nn.functional.layer_norm(each, each.shape[-1:]) for each in tokens.values())
    expected = float((first - second).square().mean())
    assert expected > 1e-6
    assert work._disturbance(batch) == pytest.approx(expected, rel=1e-3)
    assert model.loope.strengths == (0.0, 1.0)
    for most, blocks in ((1.1 * expected, half), (0.9 * expected, None)):
        monkeypatch.setitem(HandOver.prepare.__globals__, "align", lambda *_: False)
        monkeypatch.setitem(HandOver.prepare.__globals__, "DISTURBED", most)
        for depth, chosen in ((None, blocks), (0.5, half)):
            work = HandOver(model, depth=depth)
            work.prepare(batch)
            assert work.blocks == chosen


def test_shared_biases_count_for_the_disturbance():
    model = loope.attach(make("ViT"), "alibi2d", init="own").eval()
    assert HandOver(model)._disturbance(images(model)) > 1e-6


@pytest.mark.parametrize("name", ["BEiT", "EVA", "BEiT, shared bias"])
def test_all_blocks_are_trained_where_the_own_encoding_is_in_all(name):
    model = loope.attach(make(name), "rel_pos_mlp", init="own")
    assert HandOver(model).blocks is None
    assert HandOver(model, depth=0.5).blocks


def test_shares_of_the_blocks_are_rounded_up_but_not_by_float_error():
    model = make("ViT")
    model.blocks.extend(copy.deepcopy(model.blocks[0]) for _ in range(25 - len(model.blocks)))
    loope.attach(model, "alibi2d", init="own")
    assert [HandOver(model, depth=depth).blocks for depth in (7 / 25, 0.28, 0.281, 0.5)] == [7, 7, 8, 13]


def test_nothing_to_train_in_the_first_blocks():
    model = loope.attach(make("ViT"), "alibi2d", init="own", prefix="none").requires_grad_(False)
    model.head.requires_grad_(True)
    before = {name: each.clone() for name, each in model.state_dict().items()}
    with pytest.raises(loope.LoopeError, match=r"first 1 blocks.*depth=1"):
        loope.transfer(model, batches(model), steps=2)
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    loope.transfer(model, batches(model), steps=2, depth=1)
    assert not torch.equal(model.head.weight, before["head.weight"])


def test_own_options_are_those_that_the_encoder_takes():
    from loope.encoders.rotary import RopeMixed

    class Fixed(RopeMixed):
        def __init__(self, dim, grid, heads, depth):
            super().__init__(dim, grid, heads, depth, 5.0)

    assert RopeMixed.own_options({}) == {"temperature": 100.0}
    assert Fixed.own_options({}) == {}
    loope.register_encoder("fixed_rope_of_a_test")(Fixed)
    assert loope.report(loope.attach(make("ViT"), "fixed_rope_of_a_test", init="own")).keep_own


def test_within_autocast_weights_are_not_those_of_the_first_step():
    """Autocast keeps weights in half precision until it ends."""
    model = loope.attach(make("ViT"), "rope_mixed", init="own")
    given, losses = batches(model, 1), []
    loss = HandOver.loss

    def watch(self, images):
        found = loss(self, images)
        losses.append(found.item())
        return found

    with pytest.MonkeyPatch.context() as patch, torch.autocast("cpu", torch.bfloat16):
        patch.setattr(HandOver, "loss", watch)
        loope.transfer(model, given, steps=20, fade=0.01, lr=1e-3)
    assert losses[-1] < 0.8 * losses[0]
