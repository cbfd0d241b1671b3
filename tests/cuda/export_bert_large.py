#!/usr/bin/env python3
"""Exports BERT large (24 layers of 1024, random weights) as export_models.py exports BERT base.

Usage: export_bert_large.py DIRECTORY_OF_EXPORT_MODELS [arguments of export_models.py]
"""

import sys

sys.path.insert(0, sys.argv.pop(1))
import export_models  # noqa: E402
from transformers import BertConfig, BertModel  # noqa: E402


def bert_large():
    config = BertConfig(
        vocab_size=export_models.VOCABULARY,
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
        attn_implementation="sdpa",
    )
    return export_models.Encoder(BertModel(config, add_pooling_layer=False)).eval()


export_models.MODELS["bert_large"] = (bert_large, *export_models.MODELS["bert_base"][1:])
sys.argv.append("bert_large")
sys.exit(export_models.main())
