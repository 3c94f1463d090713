"""Writes a trained model as a checkpoint folder in Hugging Face's layout, and checks that it loads whole."""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

from tokenizer import write_tokenizer

TEMPLATES = Path(__file__).parent / "templates"


def published_tensors(model, family, seed):
    """Tensors in bf16 under the names of published files: nested, without lm_head, layer scalars included."""
    tensors = {}
    for name, value in model.state_dict().items():
        if name == "lm_head.weight" or "inv_freq" in name or "embed_scale" in name:
            continue
        name = "model.language_model." + name.removeprefix("model.")
        tensors[name] = value.detach().to(torch.bfloat16).contiguous().clone()
    if family.stored_unused_kv:
        text = family.text_config()
        noise = torch.Generator().manual_seed(seed)
        for layer in range(len(family.layers) - text["num_kv_shared_layers"], len(family.layers)):
            full = family.layers[layer] == "full_attention"
            head_dim = text["global_head_dim"] if full else text["head_dim"]
            shapes = {
                "k_proj": (text["num_key_value_heads"] * head_dim, text["hidden_size"]),
                "v_proj": (text["num_key_value_heads"] * head_dim, text["hidden_size"]),
                "k_norm": (head_dim,),
            }
            for part, shape in shapes.items():
                name = f"model.language_model.layers.{layer}.self_attn.{part}.weight"
                tensors[name] = (torch.randn(shape, generator=noise) * 0.1).to(torch.bfloat16)
    return dict(sorted(tensors.items()))


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def write_weights(folder, tensors, shards):
    for old in folder.glob("model*.safetensors*"):
        old.unlink()
    if shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    total = sum(value.nbytes for value in tensors.values())
    parts, filled = [{} for _ in range(shards)], 0
    for name, value in tensors.items():
        parts[min(shards - 1, filled * shards // total)][name] = value
        filled += value.nbytes
    where = {}
    for number, part in enumerate(parts, 1):
        file = f"model-{number:05d}-of-{shards:05d}.safetensors"
        save_file(part, folder / file, metadata={"format": "pt"})
        where |= {name: file for name in part}
    write_json(
        folder / "model.safetensors.index.json",
        {"metadata": {"total_size": total}, "weight_map": dict(sorted(where.items()))},
    )


def write_checkpoint(folder, model, family, tokens, training, seed):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", family.config(tokens))
    generation = {
        "bos_token_id": 2,
        "do_sample": False,
        "eos_token_id": [1, 106, 50],
        "pad_token_id": 0,
    } | family.generation
    if "suppress_tokens" in generation:
        generation["suppress_tokens"] = [tokens.index(token) for token in generation["suppress_tokens"]]
    write_json(folder / "generation_config.json", dict(sorted(generation.items())) | {"transformers_version": "5.13.0"})
    write_tokenizer(folder, tokens, family.positions, **family.tokenizer)
    shutil.copyfile(TEMPLATES / f"{family.template}.jinja", folder / "chat_template.jinja")
    write_weights(folder, published_tensors(model, family, seed), family.shards)
    write_json(folder / "training.json", training)


def load_checked(folder, **options):
    """The checkpoint through AutoModelForCausalLM; raises if a tensor is missing, mismatched or unexpected."""
    from transformers import AutoModelForCausalLM

    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, **options)
    wrong = {key: list(value) for key, value in info.items() if value}
    if wrong:
        raise ValueError(f"{folder} does not load cleanly: {wrong}")
    return model.eval()
