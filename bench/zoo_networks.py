"""Networks of random weights for bench/zoo.py: at least one of each common family, as timm, torchvision and transformers
build them, and own ones.

FAMILIES names what makes each, by family; a maker returns (module, inputs of one picture, text or sound). The first
output alone is looked at.
"""

import zlib

import torch
from networks import UNet, stack, video
from networks import network as own
from torch import nn

PICTURE = 224


class First(nn.Module):
    """The first tensor that a module returns."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, *inputs):
        out = self.module(*inputs)
        while not isinstance(out, torch.Tensor):
            out = next(iter(out.values())) if isinstance(out, dict) else out[0]
        return out


class TwoTexts(nn.Module):
    """An encoder and a decoder of text."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, ids, decoded):
        return self.module(input_ids=ids, decoder_input_ids=decoded, use_cache=False)[0]


class Scan(nn.Module):
    """A diagonal state space unrolled over time: h = a * h + b of each step, then a gate."""

    def __init__(self, channels: int = 128, states: int = 16, steps: int = 64):
        super().__init__()
        self.steps, self.enter, self.leave = steps, nn.Linear(channels, 2 * channels), nn.Linear(channels, channels)
        self.b, self.c, self.delta = (nn.Linear(channels, n) for n in (states, states, channels))
        self.a = nn.Parameter(-torch.rand(channels, states) - 0.1)

    def forward(self, x):
        x, gate = self.enter(x).chunk(2, -1)
        delta = nn.functional.softplus(self.delta(x))[..., None]
        decay, added = torch.exp(delta * self.a), delta * self.b(x)[:, :, None] * x[..., None]
        state, seen = torch.zeros_like(added[:, 0]), []
        for t in range(self.steps):
            state = decay[:, t] * state + added[:, t]
            seen.append((state * self.c(x)[:, t, None]).sum(-1))
        return self.leave(torch.stack(seen, 1) * nn.functional.silu(gate))


class Recurrent(nn.Module):
    def __init__(self, cell: type):
        super().__init__()
        self.layers, self.head = cell(80, 256, 2, batch_first=True, bidirectional=True), nn.Linear(512, 100)

    def forward(self, x):
        return self.head(self.layers(x)[0])


def timm(name: str, size: int = PICTURE, **settings):
    def make():
        import timm as library

        return library.create_model(name, pretrained=False, **settings), (torch.randn(1, 3, size, size),)

    return make


def from_config(name: str, inputs, wrap=First, kind: str = "Model", **settings):
    """transformers' |name| of |settings|. |inputs|: of its configuration."""

    def make():
        import transformers

        config = getattr(transformers, name + "Config")(**settings)
        config.use_cache = False
        return wrap(getattr(transformers, name + kind)(config)), inputs(config)

    return make


def text(length: int = 128, count: int = 1):
    return lambda config: tuple(torch.randint(3, config.vocab_size, (1, length)) for _ in range(count))


def pixels(size: int = PICTURE):
    return lambda config: (torch.randn(1, 3, size, size),)


def existing(*names: str) -> dict:
    return {name: lambda name=name: own(name) for name in names}


def detector(name: str, size: int):
    """The dense part of a detector: backbone, pyramid and heads."""

    def make():
        import torchvision

        module = getattr(torchvision.models.detection, name)(weights=None, weights_backbone=None)

        class Dense(nn.Module):
            def __init__(self):
                super().__init__()
                self.backbone, self.head = module.backbone, module.head

            def forward(self, x):
                return torch.cat([v.flatten(1) for v in self.head(list(self.backbone(x).values())).values()], 1)

        return Dense(), (torch.randn(1, 3, size, size),)

    return make


FAMILIES = {
    "residual": existing("resnet18", "resnext50_32x4d", "regnet_y_400mf")
    | {"resnest14d": timm("resnest14d"), "res2net50": timm("res2net50_26w_4s"), "skresnet18": timm("skresnet18")},
    "plain": existing("vgg16_bn", "alexnet", "repvgg", "squeezenet1_1"),
    "dense": existing("densenet121") | {"vovnet": timm("ese_vovnet19b_dw"), "dla34": timm("dla34"), "cspdarknet53": timm("cspdarknet53")},
    "pre-activation": {"resnetv2_50": timm("resnetv2_50"), "dpn48b": timm("dpn48b"), "nfnet_l0": timm("nfnet_l0")},
    "multi-branch": existing("googlenet") | {"inception_v4": timm("inception_v4", 299), "hrnet_w18_small": timm("hrnet_w18_small")},
    "mobile": existing("mobilenet_v3_large", "shufflenet_v2_x1_0", "mnasnet1_0")
    | {"ghostnet": timm("ghostnet_100"), "rexnet": timm("rexnet_100"), "mobileone_s1": timm("mobileone_s1")},
    "SAME padding": {"tf_efficientnet_b0": timm("tf_efficientnet_b0"), "tf_mixnet_s": timm("tf_mixnet_s")},
    "separable": {"xception41": timm("xception41")},
    "large-kernel depthwise": existing("convnext_tiny", "convmixer")
    | {"convnextv2_atto": timm("convnextv2_atto"), "edgenext_small": timm("edgenext_small"), "inception_next": timm("inception_next_tiny")},
    "pooling mixer": {"poolformer_s12": timm("poolformer_s12"), "mambaout_femto": timm("mambaout_femto")},
    "patch mixer": {"mixer_s32": timm("mixer_s32_224"), "resmlp_12": timm("resmlp_12_224"), "gmlp_ti16": timm("gmlp_ti16_224")},
    "vision transformer": {
        "deit_tiny": timm("deit_tiny_patch16_224"),
        "beit_base": timm("beit_base_patch16_224"),
        "eva02_tiny": timm("eva02_tiny_patch14_224"),
        "pit_ti": timm("pit_ti_224"),
    },
    "windowed attention": existing("swin_t", "maxvit_t")
    | {"swinv2_tiny": timm("swinv2_cr_tiny_224"), "twins_svt": timm("twins_svt_small"), "focalnet": timm("focalnet_tiny_srf")},
    "talking heads and class attention": {"cait_xxs24": timm("cait_xxs24_224")},
    "cross-covariance attention": {"xcit_nano": timm("xcit_nano_12_p16_224")},
    "hybrid": {
        "levit_128s": timm("levit_128s"),
        "mobilevit_s": timm("mobilevit_s", 256),
        "efficientformer_l1": timm("efficientformer_l1"),
        "coat_lite_tiny": timm("coat_lite_tiny"),
        "fastvit_t8": timm("fastvit_t8", 256),
        "visformer_tiny": timm("visformer_tiny"),
    },
    "segmentation": existing("fcn_resnet50", "deeplabv3_mobilenet")
    | {"segformer": from_config("Segformer", pixels(256), kind="ForSemanticSegmentation")},
    "encoder-decoder of pictures": {
        "unet_transposed": lambda: (UNet(), (torch.randn(1, 3, 256, 256),)),
        "unet_resize": lambda: (UNet(transposed=False), (torch.randn(1, 3, 256, 256),)),
    },
    "GAN": existing("generator"),
    "super resolution": existing("super_resolution"),
    "diffusion": existing("diffusion_block"),
    "detection": {
        "retinanet": detector("retinanet_resnet50_fpn", 320),
        "ssdlite": detector("ssdlite320_mobilenet_v3_large", 320),
        "yolos": from_config("Yolos", pixels(256), image_size=[256, 256], hidden_size=192, num_attention_heads=3, intermediate_size=768),
    },
    "video": {"r3d_18": video("r3d_18")},
    "speech": existing("wavenet", "speech_conv")
    | {
        "wav2vec2": from_config("Wav2Vec2", lambda config: (torch.randn(1, 16000),), hidden_size=384, num_hidden_layers=4,
                                num_attention_heads=6, intermediate_size=1536),
        "whisper_encoder": from_config("Whisper", lambda config: (torch.randn(1, 80, 3000),), wrap=lambda m: First(m.encoder),
                                       d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536),
        "gru": lambda: (Recurrent(nn.GRU), (torch.randn(1, 100, 80),)),
    },
    "text encoder": {
        "roberta": from_config("Roberta", text(), num_hidden_layers=6),
        "deberta_v2": from_config("DebertaV2", text(), num_hidden_layers=4, hidden_size=384, num_attention_heads=6, intermediate_size=1536,
                                  relative_attention=True, pos_att_type=["p2c", "c2p"]),
        "mobilebert": from_config("MobileBert", text(), num_hidden_layers=8),
        "albert": from_config("Albert", text(), hidden_size=768, num_attention_heads=12, intermediate_size=3072, num_hidden_layers=6),
        "modernbert": from_config("ModernBert", text(), num_hidden_layers=6, vocab_size=30000, pad_token_id=0),
    },
    "text decoder": {
        "gpt2": from_config("GPT2", text(), n_layer=6),
        "opt": from_config("OPT", text(), num_hidden_layers=6, hidden_size=512, ffn_dim=2048, num_attention_heads=8, word_embed_proj_dim=512),
        "llama": from_config("Llama", text(), num_hidden_layers=4, hidden_size=768, intermediate_size=2048, num_attention_heads=12,
                             num_key_value_heads=4, vocab_size=32000),
        "bloom": from_config("Bloom", text(), n_layer=6, hidden_size=512, n_head=8, vocab_size=50000),
    },
    "encoder-decoder of text": {
        "bart": from_config("Bart", text(64, 2), wrap=TwoTexts, encoder_layers=3, decoder_layers=3, d_model=512, encoder_ffn_dim=2048,
                            decoder_ffn_dim=2048, encoder_attention_heads=8, decoder_attention_heads=8),
        "t5": from_config("T5", text(64, 2), wrap=TwoTexts, num_layers=4),
    },
    "state space": {"scan": lambda: (Scan(), (torch.randn(1, 64, 128),))},
    "autoencoder": {"vae_decoder": lambda: stack(
        *(layer for i in range(3) for layer in (nn.GroupNorm(1, 128 >> i), nn.SiLU(), nn.Upsample(scale_factor=2), nn.Conv2d(128 >> i, 64 >> i, 3, 1, 1))),
        nn.InstanceNorm2d(16, affine=True), nn.Conv2d(16, 3, 3, 1, 1), size=32, channels=128)},
}
MAKERS = {name: maker for makers in FAMILIES.values() for name, maker in makers.items()}
FAMILY = {name: family for family, makers in FAMILIES.items() for name in makers}


def network(name: str, batch: int = 1):
    """(module, inputs) of a name, ready to be run."""
    torch.manual_seed(zlib.crc32(name.encode()))
    module, inputs = MAKERS[name]()
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            nn.init.normal_(layer.running_mean, 0, 0.1), nn.init.uniform_(layer.running_var, 0.5, 1.5)
    for weight in module.parameters():  # heads and scales that begin with zeros, which would make the result zero
        if weight.dim() > 1 and not weight.any():
            nn.init.normal_(weight, 0, 0.02)
    repeated = tuple(x.repeat(batch, *[1] * (x.dim() - 1)) for x in inputs)
    return (module if isinstance(module, First) else First(module)).eval(), repeated
