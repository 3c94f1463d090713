"""Writes random Gemma-4 checkpoints in Hugging Face's layout: every family, odd sizes and ids, the same bytes by seed.

Usage: make_random.py --list
       make_random.py NAME OUT              one of the named variants below
       make_random.py --random SEED OUT     a checkpoint drawn at random (for tools/compare/sweep.sh)

The weights are random but tame: every block adds about a fifth of the stream (a random network with larger blocks
amplifies rounding errors thirty times), the last layer adds several times the stream so that text does not repeat its
input, and embedding rows differ in length. Norm weights, layer scalars, router scales and per-expert scales are all
far from 1, so that ignoring one shows.
"""

import argparse
import json
import math
import os
import pathlib
import random
import zlib

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
from safetensors.torch import load_file, save_file
from transformers import Gemma4Config, Gemma4ForCausalLM, Gemma4ForConditionalGeneration, Gemma4TextConfig
from transformers.models.gemma4_unified.configuration_gemma4_unified import Gemma4UnifiedConfig, Gemma4UnifiedTextConfig
from transformers.models.gemma4_unified.modeling_gemma4_unified import (
    Gemma4UnifiedForCausalLM,
    Gemma4UnifiedForConditionalGeneration,
)

S, F = "sliding_attention", "full_attention"
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def pattern(text):
    return [{"S": S, "F": F}[letter] for letter in text]


def rope(full_theta=1e6, partial=0.25, sliding_theta=1e4, factor=None):
    full = {"rope_type": "proportional", "rope_theta": full_theta, "partial_rotary_factor": partial}
    if factor is not None:
        full["factor"] = factor
    return {"full_attention": full, "sliding_attention": {"rope_type": "default", "rope_theta": sliding_theta}}


# Each variant: family, text (fields of text_config), and optionally ids (bos, eos, pad, suppress), store (dtype of the
# files), lm_head (equal or different), shards (bytes each), seed, text_only, shared_kv (store the unused k/v of shared
# layers), vision (a tiny tower).
# fmt: off
VARIANTS = {
    # Committed under tests/goldens/checkpoints: one odd checkpoint of each family.
    "e2b-odd": dict(
        family="E2B", shared_kv=True, ids=dict(bos=2, eos=[1, 106], pad=0, suppress=[]),
        text=dict(vocab_size=163, hidden_size=44, num_hidden_layers=7, layer_types=pattern("SFSFSSF"),
                  num_kv_shared_layers=3, use_double_wide_mlp=True, num_attention_heads=3, num_key_value_heads=1,
                  head_dim=20, global_head_dim=32, intermediate_size=30, sliding_window=7,
                  hidden_size_per_layer_input=12)),
    "e4b-sharded": dict(
        family="E4B", shards=60_000, ids=dict(bos=5, eos=[3, 17, 90], pad=7, suppress=[11]),
        text=dict(vocab_size=177, hidden_size=36, num_hidden_layers=7, layer_types=pattern("SSFSFSF"),
                  num_kv_shared_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=20,
                  global_head_dim=32, intermediate_size=42, sliding_window=9, hidden_size_per_layer_input=10)),
    "12b-odd": dict(
        family="12B", ids=dict(bos=2, eos=[1], pad=0, suppress=[181, 182]),
        text=dict(vocab_size=191, hidden_size=72, num_hidden_layers=4, layer_types=pattern("SFSF"),
                  num_attention_heads=4, num_key_value_heads=2, num_global_key_value_heads=1, head_dim=20,
                  global_head_dim=24, intermediate_size=66, sliding_window=7)),
    # Seven slots, 56 columns and this seed: the orders in which the reference adds slots and router weights show in a
    # bf16 value.
    "26b-odd": dict(
        family="26B", seed=6, lm_head="equal", ids=dict(bos=2, eos=[1, 106], pad=0, suppress=[]),
        text=dict(vocab_size=187, hidden_size=56, num_hidden_layers=3, layer_types=pattern("SSF"),
                  num_attention_heads=4, num_key_value_heads=2, num_global_key_value_heads=2, head_dim=16,
                  global_head_dim=24, intermediate_size=28, num_experts=9, top_k_experts=7, moe_intermediate_size=16,
                  sliding_window=8)),
    "31b-odd": dict(
        family="31B", lm_head="different", ids=dict(bos=2, eos=[1, 106], pad=3, suppress=[]),
        text=dict(vocab_size=177, hidden_size=52, num_hidden_layers=4, layer_types=pattern("SFSF"),
                  num_attention_heads=8, num_key_value_heads=4, num_global_key_value_heads=2, head_dim=12,
                  global_head_dim=20, intermediate_size=70, sliding_window=11)),
    "text-only-f16": dict(
        family="E2B", text_only=True, store="f16", ids=dict(bos=9, eos=[4], pad=0, suppress=[]),
        text=dict(vocab_size=171, hidden_size=40, num_hidden_layers=5, layer_types=pattern("SFSSF"),
                  num_kv_shared_layers=2, use_double_wide_mlp=True, num_attention_heads=2, num_key_value_heads=1,
                  head_dim=24, global_head_dim=48, intermediate_size=46, sliding_window=7,
                  hidden_size_per_layer_input=7)),
    # Not committed: made when wanted.
    "e2b-even": dict(
        family="E2B", ids=dict(bos=2, eos=[1, 106, 50], pad=0, suppress=[]),
        text=dict(vocab_size=512, hidden_size=128, num_hidden_layers=10, layer_types=pattern("SSSSFSSSSF"),
                  num_kv_shared_layers=5, use_double_wide_mlp=True, num_attention_heads=4, num_key_value_heads=1,
                  head_dim=64, global_head_dim=128, intermediate_size=256, sliding_window=16,
                  hidden_size_per_layer_input=64)),
    "e2b-100": dict(
        family="E2B", vision=True, ids=dict(bos=2, eos=[1, 106], pad=0, suppress=[]),
        text=dict(vocab_size=401, hidden_size=100, num_hidden_layers=9, layer_types=pattern("SSSFSSSSF"),
                  num_kv_shared_layers=4, use_double_wide_mlp=True, num_attention_heads=5, num_key_value_heads=1,
                  head_dim=40, global_head_dim=72, intermediate_size=149, sliding_window=7,
                  hidden_size_per_layer_input=20)),
    "e4b-f32": dict(
        family="E4B", store="f32", ids=dict(bos=2, eos=[1], pad=0, suppress=[5, 6, 7]),
        text=dict(vocab_size=299, hidden_size=72, num_hidden_layers=12, num_kv_shared_layers=4, num_attention_heads=4,
                  num_key_value_heads=2, head_dim=24, global_head_dim=40, intermediate_size=110, sliding_window=7,
                  hidden_size_per_layer_input=17)),
    "12b-text-only": dict(
        family="12B", text_only=True, ids=dict(bos=2, eos=[1], pad=0, suppress=[]),
        text=dict(vocab_size=257, hidden_size=88, num_hidden_layers=6, num_attention_heads=6, num_key_value_heads=3,
                  num_global_key_value_heads=2, head_dim=28, global_head_dim=52, intermediate_size=131,
                  sliding_window=10)),
    "26b-many-experts": dict(
        family="26B", shards=300_000, ids=dict(bos=2, eos=[1, 106], pad=0, suppress=[]),
        text=dict(vocab_size=333, hidden_size=104, num_hidden_layers=4, layer_types=pattern("SFSF"),
                  num_attention_heads=4, num_key_value_heads=2, num_global_key_value_heads=1, head_dim=32,
                  global_head_dim=64, intermediate_size=75, num_experts=130, top_k_experts=2,
                  moe_intermediate_size=40, sliding_window=7)),
    "31b-no-cap": dict(
        family="31B", ids=dict(bos=2, eos=[1], pad=0, suppress=[]),
        text=dict(vocab_size=255, hidden_size=60, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2,
                  num_global_key_value_heads=1, head_dim=36, global_head_dim=56, intermediate_size=97,
                  sliding_window=13, final_logit_softcapping=None, rope_parameters=rope(5e5, 0.5, 2e4, 2.0))),
}
# fmt: on
COMMITTED = ["e2b-odd", "e4b-sharded", "12b-odd", "26b-odd", "31b-odd", "text-only-f16"]


def draw(seed):
    """A variant nobody chose: family, sizes and ids drawn at random within what Transformers accepts."""
    r = random.Random(seed)
    family = r.choice(["E2B", "E4B", "12B", "26B", "31B"])
    layers = r.randint(4, 9)
    kinds = [r.choice("SSF") for _ in range(layers)]
    kinds[0], kinds[1], kinds[-1] = "S", "F", "F"
    kv = r.choice([1, 2, 3])
    text = dict(
        vocab_size=r.randrange(151, 499, 2),
        num_hidden_layers=layers,
        layer_types=pattern("".join(kinds)),
        num_attention_heads=kv * r.choice([1, 2, 3]),
        num_key_value_heads=kv,
        head_dim=2 * r.randint(6, 40),
        global_head_dim=2 * r.randint(8, 70),
        intermediate_size=r.randint(20, 200),
        sliding_window=r.choice([5, 7, 7, 8, 11, 16, 33]),
        hidden_size=(
            8 * r.randint(4, 14) if family == "26B" else r.choice([2 * r.randint(16, 60), r.randrange(33, 120, 2)])
        ),
        rope_parameters=rope(r.choice([1e6, 5e5]), r.choice([0.25, 0.25, 0.5, 1.0]), r.choice([1e4, 1e4, 3e4])),
        final_logit_softcapping=r.choice([30.0, 30.0, 20.0, None]),
        rms_norm_eps=r.choice([1e-6, 1e-6, 1e-5]),
    )
    if r.random() < 0.2:
        del text["layer_types"]
    if family in ("E2B", "E4B"):
        text.update(hidden_size_per_layer_input=r.randint(3, 40), use_double_wide_mlp=family == "E2B")
        types = text.get("layer_types") or [F if i % 6 == 5 or i == layers - 1 else S for i in range(layers)]
        # The shared part needs a donor of each type it uses.
        choices = [n for n in range(1, layers - 1) if set(types[layers - n :]) <= set(types[: layers - n])]
        text["num_kv_shared_layers"] = r.choice(choices) if choices else 0
    else:
        heads = text["num_attention_heads"]
        text["num_global_key_value_heads"] = r.choice([n for n in range(1, heads + 1) if heads % n == 0])
    if family == "26B":
        experts = r.randint(3, 40)
        text.update(
            num_experts=experts, top_k_experts=r.randint(1, min(8, experts)), moe_intermediate_size=8 * r.randint(1, 12)
        )
    ids = r.sample(range(text["vocab_size"]), 8)
    variant = dict(
        family=family,
        text=text,
        ids=dict(
            bos=ids[0], eos=sorted(ids[1 : r.randint(2, 4)]), pad=ids[4], suppress=sorted(ids[5 : 5 + r.randint(0, 3)])
        ),
    )
    variant["store"] = r.choice(["bf16", "bf16", "bf16", "f16", "f32"])
    if r.random() < 0.25:
        variant["lm_head"] = r.choice(["equal", "different"])
    if r.random() < 0.25:
        variant["shards"] = 100_000
    if r.random() < 0.25:
        variant["text_only"] = True
    if r.random() < 0.5:
        variant["shared_kv"] = True
    return variant


def text_config(variant):
    family, text = variant["family"], dict(variant["text"])
    text.setdefault("rope_parameters", rope())
    text.setdefault("final_logit_softcapping", 30.0)
    text.setdefault("rms_norm_eps", 1e-6)
    text.setdefault("max_position_embeddings", 4096)
    if family in ("E2B", "E4B"):
        text["vocab_size_per_layer_input"] = text["vocab_size"]
    elif family == "12B":
        text.update(attention_k_eq_v=True, use_bidirectional_attention="vision")
    else:
        text.update(attention_k_eq_v=True, use_bidirectional_attention="vision", hidden_size_per_layer_input=0)
    if family == "26B":
        text["enable_moe_block"] = True
    ids = variant["ids"]
    text.update(bos_token_id=ids["bos"], eos_token_id=ids["eos"][0], pad_token_id=ids["pad"])
    return (Gemma4UnifiedTextConfig if family == "12B" else Gemma4TextConfig)(**text)


def media_ids(vocab_size):
    """Seven media ids at the end of the vocabulary, in an order of their own."""
    names = (
        "boi_token_id",
        "eoi_token_id",
        "image_token_id",
        "video_token_id",
        "boa_token_id",
        "eoa_token_index",
        "audio_token_id",
    )
    return {name: vocab_size - 9 + i for i, name in enumerate(names)}


def build(variant):
    config = text_config(variant)
    unified = variant["family"] == "12B"
    if variant.get("text_only"):
        return (Gemma4UnifiedForCausalLM if unified else Gemma4ForCausalLM)(config)
    kwargs = dict(text_config=config, **media_ids(config.vocab_size))
    if variant.get("vision"):
        kwargs["vision_config"] = dict(
            hidden_size=24,
            intermediate_size=40,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=12,
            global_head_dim=12,
            position_embedding_size=16,
            use_clipped_linears=True,
        )
    if unified:
        return Gemma4UnifiedForConditionalGeneration(Gemma4UnifiedConfig(**kwargs))
    return Gemma4ForConditionalGeneration(Gemma4Config(**kwargs))


def fill(model, variant, seed):
    """Overwrites every weight, and the layer scalars, which are buffers."""
    config = model.config.get_text_config()
    named = dict(model.named_parameters())
    named.update((name, buffer) for name, buffer in model.named_buffers() if name.endswith("layer_scalar"))

    def generator(name):
        return torch.Generator().manual_seed(zlib.crc32(f"{seed}/{name}".encode()))

    def uniform(name, tensor, low, high, signs=0.0):
        g = generator(name)
        value = torch.rand(tensor.shape, generator=g) * (high - low) + low
        return torch.where(torch.rand(tensor.shape, generator=g) < signs, -value, value)

    # What a block may add is set by its post norm; the stream's size is followed layer by layer.
    layers = config.num_hidden_layers
    has_ple = bool(getattr(config, "hidden_size_per_layer_input", 0))
    stream, scalars, share = 1.0, [], []
    for layer in range(layers):
        scalar = float(uniform(f"scalar {layer}", torch.empty(1), 0.35, 1.4))
        last = layer == layers - 1
        parts = (0.2, 2.5 if last else 0.2, (2.5 if last else 0.2) if has_ple else 0.0)
        share.append(tuple(part * stream for part in parts))
        stream = scalar * math.sqrt(stream**2 + sum(part**2 for part in share[-1]))
        scalars.append(scalar)

    with torch.no_grad():
        for name, tensor in sorted(named.items()):
            g = generator(name)
            layer = int(name.split(".layers.")[1].split(".")[0]) if ".layers." in name else 0
            normal = torch.randn(tensor.shape, generator=g)
            if "vision" in name or "audio" in name:
                tensor.copy_(normal * 0.1)
            elif name.endswith("layer_scalar"):
                tensor.fill_(scalars[layer])
            elif name.endswith(("q_norm.weight", "k_norm.weight")):
                tensor.copy_(uniform(name, tensor, 0.3, 0.9, 0.15))
            elif name.endswith("post_attention_layernorm.weight"):
                tensor.copy_(uniform(name, tensor, 0.5, 1.5, 0.15) * share[layer][0])
            elif name.endswith("post_feedforward_layernorm.weight"):
                tensor.copy_(uniform(name, tensor, 0.5, 1.5, 0.15) * share[layer][1])
            elif name.endswith("post_per_layer_input_norm.weight"):
                tensor.copy_(uniform(name, tensor, 0.5, 1.5, 0.15) * share[layer][2])
            elif name.endswith(("language_model.norm.weight", "model.norm.weight")):
                tensor.copy_(uniform(name, tensor, 3.0, 7.0, 0.4))
            elif "norm" in name and tensor.ndim == 1:
                tensor.copy_(uniform(name, tensor, 0.4, 1.8, 0.15))
            elif name.endswith(("router.scale", "per_expert_scale")):
                tensor.copy_(uniform(name, tensor, 0.5, 1.6))
            elif name.endswith("router.proj.weight"):
                tensor.copy_(normal * 1.5)
            elif "experts." in name:
                shared = torch.randn(tensor.shape[1:], generator=g)
                tensor.copy_((normal + shared) * (2 * tensor.shape[-1]) ** -0.5)
            elif "embed_tokens_per_layer" in name:
                tensor.copy_(normal * 0.08)
            elif "embed_tokens" in name or name == "lm_head.weight":
                length = torch.exp(0.2 * torch.randn(tensor.shape[0], 1, generator=g))
                for token in variant["ids"]["eos"]:
                    length[token] = 1.6
                for token in variant["ids"]["suppress"]:
                    length[token] = 2.5
                tensor.copy_(normal * length * tensor.shape[1] ** -0.5)
            elif tensor.ndim >= 2:
                tensor.copy_(normal * tensor.shape[-1] ** -0.5)
            else:
                raise SystemExit(f"no rule for the weight {name}")


def write(variant, seed, out):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    model = build(variant)
    fill(model, variant, seed)
    ids = variant["ids"]
    config = model.config
    config.eos_token_id, config.bos_token_id, config.pad_token_id = ids["eos"], ids["bos"], ids["pad"]
    model.generation_config = type(model.generation_config)(
        bos_token_id=ids["bos"],
        eos_token_id=ids["eos"],
        pad_token_id=ids["pad"],
        do_sample=True,
        temperature=1.0,
        top_k=64,
        top_p=0.95,
        **({"suppress_tokens": ids["suppress"]} if ids["suppress"] else {}),
    )
    dtype = DTYPES[variant.get("store", "bf16")]
    model.to(dtype).save_pretrained(out)  # names and config as Transformers writes them

    tensors = load_file(out / "model.safetensors")
    (out / "model.safetensors").unlink()
    prefix = "model." if variant.get("text_only") else "model.language_model."
    table = tensors[prefix + "embed_tokens.weight"]
    if variant.get("lm_head") == "equal":
        tensors["lm_head.weight"] = table.clone()
    elif variant.get("lm_head") == "different":
        g = torch.Generator().manual_seed(seed + 1)
        tensors["lm_head.weight"] = (torch.randn(table.shape, generator=g) * table.shape[1] ** -0.5).to(dtype)
    shared = getattr(config.get_text_config(), "num_kv_shared_layers", 0) or 0
    if variant.get("shared_kv") and shared:
        # Published E2B and E4B files carry k and v of shared layers; nothing may read them.
        types = config.get_text_config().layer_types
        first = len(types) - shared
        for layer in range(first, len(types)):
            donor = max(i for i in range(first) if types[i] == types[layer])
            for name in ("k_proj", "v_proj", "k_norm"):
                source = tensors.get(f"{prefix}layers.{donor}.self_attn.{name}.weight")
                if source is not None:
                    tensors[f"{prefix}layers.{layer}.self_attn.{name}.weight"] = -2 * source
    save(tensors, out, variant.get("shards"))
    written = json.loads((out / "config.json").read_text())
    if variant["text"].get("layer_types") is None:
        # The key is left out, as in old files: the reference then assumes five sliding layers and a full one.
        written.get("text_config", written).pop("layer_types", None)
    (out / "config.json").write_text(json.dumps(written, indent=2, sort_keys=True) + "\n")
    if (out / "generation_config.json").exists():
        text = json.loads((out / "generation_config.json").read_text())
        (out / "generation_config.json").write_text(json.dumps(text, indent=2, sort_keys=True) + "\n")


def save(tensors, out, shard_bytes):
    """One file, or shards of at most shard_bytes with an index."""
    metadata = {"format": "pt"}
    tensors = {name: tensors[name].contiguous() for name in sorted(tensors)}
    if not shard_bytes:
        save_file(tensors, out / "model.safetensors", metadata)
        (out / "model.safetensors").chmod(0o644)
        return
    groups, size = [{}], 0
    for name, tensor in tensors.items():
        count = tensor.numel() * tensor.element_size()
        if groups[-1] and size + count > shard_bytes:
            groups.append({})
            size = 0
        groups[-1][name] = tensor
        size += count
    names = [f"model-{i + 1:05d}-of-{len(groups):05d}.safetensors" for i in range(len(groups))]
    for name, group in zip(names, groups):
        save_file(group, out / name, metadata)
        (out / name).chmod(0o644)
    index = {
        "metadata": {"total_size": sum(t.numel() * t.element_size() for t in tensors.values())},
        "weight_map": {key: name for name, group in zip(names, groups) for key in group},
    }
    (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", help="a variant")
    parser.add_argument("out", nargs="?", help="folder to write")
    parser.add_argument(
        "--list", action="store_true", help="print the names of the variants; those committed are marked"
    )
    parser.add_argument("--random", type=int, metavar="SEED", help="draw a checkpoint at random")
    parser.add_argument(
        "--seed", type=int, help="seed of the weights of a named variant (default: the variant's own, or 1)"
    )
    args = parser.parse_args()
    if args.list:
        for name in VARIANTS:
            print(name, "(committed)" if name in COMMITTED else "")
        return
    if args.random is not None:
        if args.name is None:
            parser.error("give a folder to write")
        variant = draw(args.random)
        write(variant, args.random, args.name)
        print(json.dumps(variant))
        return
    if args.name not in VARIANTS or args.out is None:
        parser.error("give a variant (see --list) and a folder to write")
    variant = VARIANTS[args.name]
    write(variant, variant.get("seed", 1) if args.seed is None else args.seed, args.out)


if __name__ == "__main__":
    main()
