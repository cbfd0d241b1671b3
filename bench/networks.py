"""Networks of random weights for bench/compare_networks.py: torchvision's and transformers' architectures and own ones.

NETWORKS names what makes each; a maker returns (module, inputs). Weights are seeded; running statistics of batch norms
are random too, or folding them would be the identity.
"""
import torch
import torchvision.models as tv
from torch import nn
from torch.nn import functional as F


def conv(c_in: int, c_out: int, kernel: int = 3, stride: int = 1, groups: int = 1, dilation: int = 1, rank: int = 2) -> nn.Sequential:
    of_rank = {1: (nn.Conv1d, nn.BatchNorm1d), 2: (nn.Conv2d, nn.BatchNorm2d), 3: (nn.Conv3d, nn.BatchNorm3d)}[rank]
    pad = kernel // 2 * dilation
    return nn.Sequential(of_rank[0](c_in, c_out, kernel, stride, pad, dilation, groups, bias=False), of_rank[1](c_out), nn.ReLU())


class Residual(nn.Module):
    """x + body(x)."""

    def __init__(self, *body: nn.Module):
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x):
        return x + self.body(x)


class UNet(nn.Module):
    """Encoder and decoder with concatenations; goes up by transposed convolution or by bilinear resizing."""

    def __init__(self, rank: int = 2, width: int = 32, levels: int = 3, transposed: bool = True):
        super().__init__()
        up = nn.ConvTranspose3d if rank == 3 else nn.ConvTranspose2d
        widths = [width << i for i in range(levels + 1)]
        self.first = conv(1 if rank == 3 else 3, width, rank=rank)
        self.down = nn.ModuleList(conv(a, b, stride=2, rank=rank) for a, b in zip(widths, widths[1:]))
        self.up = nn.ModuleList(
            up(b, a, 2, 2) if transposed
            else nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), conv(b, a, rank=rank))
            for a, b in zip(widths, widths[1:]))
        self.join = nn.ModuleList(conv(2 * a, a, rank=rank) for a in widths[:-1])
        self.last = (nn.Conv3d if rank == 3 else nn.Conv2d)(width, 2, 1)

    def forward(self, x):
        seen = [self.first(x)]
        for down in self.down:
            seen.append(down(seen[-1]))
        x = seen.pop()
        for up, join in zip(reversed(self.up), reversed(self.join)):
            x = join(torch.cat([up(x), seen.pop()], 1))
        return self.last(x)


class RepVggBlock(nn.Module):
    """The three branches before they are joined to one convolution."""

    def __init__(self, c: int):
        super().__init__()
        self.three, self.one, self.norm = nn.Conv2d(c, c, 3, 1, 1), nn.Conv2d(c, c, 1), nn.BatchNorm2d(c)

    def forward(self, x):
        return F.relu(self.three(x) + self.one(x) + self.norm(x))


class Diffusion(nn.Module):
    """A block of a diffusion network: group norm, convolution, self-attention over pixels."""

    def __init__(self, c: int = 128):
        super().__init__()
        self.first = nn.Conv2d(4, c, 3, 1, 1)
        self.body = Residual(nn.GroupNorm(32, c), nn.SiLU(), nn.Conv2d(c, c, 3, 1, 1), nn.GroupNorm(32, c), nn.SiLU(),
                             nn.Conv2d(c, c, 3, 1, 1))
        self.norm, self.qkv, self.out = nn.GroupNorm(32, c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)
        self.last = nn.Conv2d(c, 4, 3, 1, 1)

    def forward(self, x):
        x = self.body(self.first(x))
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(n, 3, c, h * w).unbind(1)
        mixed = torch.softmax(q.transpose(1, 2) @ k * c ** -0.5, -1) @ v.transpose(1, 2)
        return self.last(x + self.out(mixed.transpose(1, 2).reshape(n, c, h, w)))


class WaveNet(nn.Module):
    """Gated dilated 1-D convolutions."""

    def __init__(self, c: int = 64, layers: int = 8):
        super().__init__()
        self.first, self.last = nn.Conv1d(1, c, 1), nn.Conv1d(c, 256, 1)
        self.gates = nn.ModuleList(nn.Conv1d(c, 2 * c, 3, padding=1 << i % 5, dilation=1 << i % 5) for i in range(layers))

    def forward(self, x):
        x = self.first(x)
        for gate in self.gates:
            a, b = gate(x).chunk(2, 1)
            x = x + torch.tanh(a) * torch.sigmoid(b)
        return self.last(x)


class Recogniser(nn.Module):
    """Speech: strided 2-D convolutions, a depthwise 1-D stack, characters by log softmax."""

    def __init__(self, c: int = 256):
        super().__init__()
        self.front = nn.Sequential(conv(1, 32, stride=2), conv(32, 32, stride=2))
        self.project = nn.Linear(32 * 20, c)
        self.body = nn.Sequential(*(Residual(conv(c, c, 31, groups=c, rank=1), nn.Conv1d(c, c, 1)) for _ in range(4)))
        self.head = nn.Linear(c, 1000)

    def forward(self, x):
        x = self.front(x)
        x = self.project(x.permute(0, 3, 1, 2).flatten(2))
        return torch.log_softmax(self.head(self.body(x.transpose(1, 2)).transpose(1, 2)), -1)


class Output(nn.Module):
    """One tensor of what a module returns."""

    def __init__(self, module: nn.Module, key: str):
        super().__init__()
        self.module, self.key = module, key

    def forward(self, x):
        return self.module(x)[self.key]


class Detector(nn.Module):
    """The scores of the boxes that non-maximum suppression leaves in a picture: boxes of equal scores have no order."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, x):
        found = self.module([x[0]])  # traced: (losses, found)
        return (found[1] if isinstance(found, tuple) else found)[0]["scores"]


def picture(size: int = 224, channels: int = 3) -> torch.Tensor:
    return torch.randn(1, channels, size, size)


def vision(name: str, size: int = 224, key: str = "", **settings):
    def make():
        if name in ("googlenet", "inception_v3"):
            settings.update(aux_logits=False, init_weights=True)
        elif key:
            settings.update(weights_backbone=None)
        module = getattr(tv.segmentation if key else tv, name)(weights=None, **settings)
        return (Output(module, key) if key else module), (picture(size),)
    return make


def detector(name: str, size: int = 320, **settings):
    """Random weights give low scores: no limit, or nothing would be found."""
    return lambda: (Detector(getattr(tv.detection, name)(weights=None, weights_backbone=None, **settings)), (torch.rand(1, 3, size, size),))


def video(name: str, frames: int = 8, size: int = 112):
    return lambda: (getattr(tv.video, name)(weights=None), (torch.randn(1, 3, frames, size, size),))


def text(name: str, **settings):
    def make():
        import transformers
        config = getattr(transformers, name + "Config")(attn_implementation="eager", **settings)
        module = getattr(transformers, name + "Model" if name != "T5" else "T5EncoderModel")(config)
        return Output(module, "last_hidden_state"), (torch.randint(0, config.vocab_size, (1, 128)),)
    return make


def speech():
    import transformers
    config = transformers.Wav2Vec2Config(hidden_size=384, num_hidden_layers=4, num_attention_heads=6, intermediate_size=1536,
                                         attn_implementation="eager")
    return Output(transformers.Wav2Vec2Model(config), "last_hidden_state"), (torch.randn(1, 16000),)


def stack(*layers: nn.Module, size: int = 224, channels: int = 3):
    return nn.Sequential(*layers), (picture(size, channels),)


NETWORKS = {
    "alexnet": vision("alexnet"),
    "vgg11": vision("vgg11"),
    "vgg16_bn": vision("vgg16_bn"),
    "resnet18": vision("resnet18"),
    "resnet101": vision("resnet101"),
    "resnext50_32x4d": vision("resnext50_32x4d"),
    "wide_resnet50_2": vision("wide_resnet50_2"),
    "densenet121": vision("densenet121"),
    "googlenet": vision("googlenet"),
    "inception_v3": vision("inception_v3", 299),
    "mnasnet1_0": vision("mnasnet1_0"),
    "mobilenet_v3_large": vision("mobilenet_v3_large"),
    "shufflenet_v2_x1_0": vision("shufflenet_v2_x1_0"),
    "squeezenet1_1": vision("squeezenet1_1"),
    "efficientnet_b1": vision("efficientnet_b1", 240),
    "efficientnet_v2_s": vision("efficientnet_v2_s"),
    "regnet_x_800mf": vision("regnet_x_800mf"),
    "regnet_y_400mf": vision("regnet_y_400mf"),
    "convnext_tiny": vision("convnext_tiny"),
    "swin_t": vision("swin_t"),
    "maxvit_t": vision("maxvit_t"),
    "fcn_resnet50": vision("fcn_resnet50", 256, "out"),
    "deeplabv3_resnet50": vision("deeplabv3_resnet50", 256, "out"),
    "deeplabv3_mobilenet": vision("deeplabv3_mobilenet_v3_large", 256, "out"),
    "lraspp_mobilenet": vision("lraspp_mobilenet_v3_large", 256, "out"),
    "ssd300": detector("ssd300_vgg16", 300),
    "ssdlite320": detector("ssdlite320_mobilenet_v3_large"),
    "retinanet": detector("retinanet_resnet50_fpn", min_size=320, max_size=320, score_thresh=0),
    "fcos": detector("fcos_resnet50_fpn", min_size=320, max_size=320, score_thresh=0),
    "fasterrcnn_mobilenet": detector("fasterrcnn_mobilenet_v3_large_320_fpn", box_score_thresh=0),
    "r3d_18": video("r3d_18"),
    "mc3_18": video("mc3_18"),
    "s3d": video("s3d", 16, 224),
    "bert": text("Bert", num_hidden_layers=6),
    "gpt2": text("GPT2", n_layer=6, use_cache=False),
    "distilbert": text("DistilBert", n_layers=6),
    "electra": text("Electra", num_hidden_layers=6),
    "albert": text("Albert", hidden_size=768, num_attention_heads=12, intermediate_size=3072, num_hidden_layers=6),
    "t5_encoder": text("T5"),
    "wav2vec2": speech,
    "unet_transposed": lambda: (UNet(), (picture(256),)),
    "unet_resize": lambda: (UNet(transposed=False), (picture(256),)),
    "unet_3d": lambda: (UNet(rank=3, width=16), (torch.randn(1, 1, 32, 64, 64),)),
    "repvgg": lambda: stack(conv(3, 64, stride=2), *(RepVggBlock(64) for _ in range(3)), conv(64, 128, stride=2),
                            *(RepVggBlock(128) for _ in range(4)), conv(128, 256, stride=2), *(RepVggBlock(256) for _ in range(4))),
    "convmixer": lambda: stack(conv(3, 256, 7, 7), *(nn.Sequential(Residual(conv(256, 256, 9, groups=256)), conv(256, 256, 1))
                                                     for _ in range(6))),
    "dilated": lambda: stack(conv(3, 64, stride=2), *(conv(64, 64, dilation=d) for d in (1, 2, 4, 8, 4, 2)), nn.Conv2d(64, 19, 1), size=256),
    "super_resolution": lambda: stack(nn.Conv2d(3, 64, 9, 1, 4), *(Residual(conv(64, 64), nn.Conv2d(64, 64, 3, 1, 1)) for _ in range(5)),
                                      nn.Conv2d(64, 256, 3, 1, 1), nn.PixelShuffle(2), nn.Conv2d(64, 3, 9, 1, 4), size=96),
    "generator": lambda: stack(*(layer for i in range(4) for layer in (nn.ConvTranspose2d(512 >> i, 256 >> i, 4, 2, 1), nn.BatchNorm2d(256 >> i), nn.ReLU())),
                               nn.Conv2d(32, 3, 3, 1, 1), size=8, channels=512),
    "diffusion_block": lambda: (Diffusion(), (picture(32, 4),)),
    "wavenet": lambda: (WaveNet(), (torch.randn(1, 1, 8000),)),
    "speech_conv": lambda: (Recogniser(), (torch.randn(1, 1, 80, 400),)),
}


def network(name: str):
    """(module, inputs) of a name, ready to be run."""
    torch.manual_seed(sorted(NETWORKS).index(name))
    module, inputs = NETWORKS[name]()
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            nn.init.normal_(layer.running_mean, 0, 0.1), nn.init.uniform_(layer.running_var, 0.5, 1.5)
            nn.init.uniform_(layer.weight, 0.5, 1.5), nn.init.normal_(layer.bias, 0, 0.1)
    return module.eval(), inputs
