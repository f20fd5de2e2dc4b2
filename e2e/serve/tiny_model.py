"""Generate a two-layer model with random weights and a LoRA adapter; runs with the engine's Python.

Engines load and serve it like any Qwen3 model. The tokenizer is trained on a line of text, so that
no model hub is needed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

LINE = (
    "the quick brown fox jumps over the lazy dog; 0123456789 times, said the user to the assistant"
)
CONTEXT = 4096
SPACE, NEWLINE = "\u0120", "\u010a"
"""Their representation in byte-level tokenizers."""

SPECIAL_TOKENS = ("<think>", "</think>", "<tool_call>", "</tool_call>")

CHAT = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"


def main(model: Path, adapter: Path) -> None:
    """Write the model and the adapter to two folders."""
    _write_adapter(adapter, _write_model(model, _write_tokenizer(model)))


def _write_model(folder: Path, vocabulary_size: int) -> Any:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=vocabulary_size,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=64,  # CPU kernels reject smaller ones.
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        eos_token_id=0,
        bos_token_id=0,
    )
    # Kernels for bfloat16, the default, use instructions that not every machine has.
    model = Qwen3ForCausalLM(config).to(torch.float32)
    model.save_pretrained(folder)
    return model


def _write_tokenizer(folder: Path) -> int:
    """Write the tokenizer; return its vocabulary size.

    Tokens are ASCII text, and the marks that reasoning and tool parsers need.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=160,
        special_tokens=["<end>", *SPECIAL_TOKENS],
        initial_alphabet=[*map(chr, range(33, 127)), SPACE, NEWLINE],
        show_progress=False,
    )
    tokenizer.train_from_iterator([LINE], trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", model_max_length=CONTEXT
    )
    fast.chat_template = CHAT
    fast.save_pretrained(folder)
    # transformers 4 in old engines does not know the name that transformers 5 writes.
    settings = folder / "tokenizer_config.json"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.replace("TokenizersBackend", "PreTrainedTokenizerFast"), "utf-8")
    return len(fast)


def _write_adapter(folder: Path, model: Any) -> None:
    folder.mkdir(parents=True)
    rank, hidden = 8, model.config.hidden_size
    weights = {}
    for layer in range(model.config.num_hidden_layers):
        for name in ("q_proj", "v_proj"):
            stem = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            weights[f"{stem}.lora_A.weight"] = torch.randn(rank, hidden)
            weights[f"{stem}.lora_B.weight"] = torch.randn(hidden, rank)
    save_file(weights, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": rank,
        "lora_alpha": rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": ["q_proj", "v_proj"],
        "base_model_name_or_path": "tiny",
    }
    (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
