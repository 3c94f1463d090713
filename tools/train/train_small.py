"""Trains one small checkpoint of a family and writes it as a Hugging Face folder with its record, training.json."""

import argparse
import itertools
import json
import math
import os
import platform
import random
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import tokenizers
import torch
import torch.nn.functional as functional
import transformers
from torch import nn
from transformers import Gemma4ForCausalLM, Gemma4TextConfig, Gemma4UnifiedForCausalLM, Gemma4UnifiedTextConfig

from checkpoint import TEMPLATES, load_checked, write_checkpoint
from corpus import MAKERS, MIX, Renderer, samples
from families import FAMILIES
from tokenizer import lay_out, tokenizer_json
from warm_start import start_from, vocabulary_of

ROWS, ROW_TOKENS = 2, 256
LONG_SHARE, LONG_TOKENS = 0.03, (512, 1024, 1536)
PEAK_RATE, WARM_UP_STEPS, FLAT_SHARE, FINAL_SHARE = 4e-3, 60, 0.3, 0.02
OTHER_WEIGHT = 0.1  # loss weight of tokens that are not the model's to say
VOCABULARY_SEED, EXAMINATION_SEED = 7, 90210


# ---- data ----


class Encoder:
    """Samples to token ids with a weight each."""

    def __init__(self, family, tokens):
        self.renderer = Renderer(TEMPLATES / f"{family.template}.jinja")
        self.tokenizer = tokenizers.Tokenizer.from_str(json.dumps(tokenizer_json(tokens, **family.tokenizer)))

    def encode(self, sample):
        ids, learn = [], []
        for text, is_reply in self.renderer.pieces(sample):
            piece = self.tokenizer.encode(text, add_special_tokens=False).ids
            ids += piece
            learn += [is_reply] * len(piece)
        return ids, learn


def make_vocabulary():
    """One vocabulary for all families: learned from a fixed stretch of the corpus."""
    renderer = Renderer(TEMPLATES / "effective.jinja")
    return lay_out(
        "".join(text for text, _ in renderer.pieces(sample))
        for sample in itertools.islice(samples(VOCABULARY_SEED), 20000)
    )


def batches(encoder, seed):
    """Endless (ids, weights) of packed samples: [rows, tokens + 1] and the weight of each target."""
    rng = random.Random(seed + 1)
    stream = samples(seed)
    ids, weights = [], []
    while True:
        long = rng.random() < LONG_SHARE
        rows, length = (1, rng.choice(LONG_TOKENS)) if long else (ROWS, ROW_TOKENS)
        row_ids, row_weights = [], []
        for _ in range(rows):
            ids, weights = [], []  # a row starts with a whole sample; the cut end of the last one is dropped
            while len(ids) <= length:
                more, learn = encoder.encode(next(stream))
                ids += more
                weights += [1.0 if is_reply else OTHER_WEIGHT for is_reply in learn]
            row_ids.append(ids[: length + 1])
            row_weights.append(weights[1 : length + 1])
        yield torch.tensor(row_ids), torch.tensor(row_weights)


# ---- model ----


def new_model(family, seed):
    torch.manual_seed(seed)
    text = {key: value for key, value in family.text_config().items() if key != "model_type"}
    if family.unified:
        model = Gemma4UnifiedForCausalLM(Gemma4UnifiedTextConfig(**text)).float()
    else:
        model = Gemma4ForCausalLM(Gemma4TextConfig(**text)).float()
    model.set_attn_implementation("sdpa")
    model.config._experts_implementation = "eager"
    initialise(model)
    return model


@torch.no_grad()
def initialise(model):
    """Starting values that keep attention soft and the stream even (there is no 1/sqrt(d) in the scores)."""
    for name, weight in model.named_parameters():
        if "embed_tokens_per_layer" in name:
            weight.normal_(0, 0.3)
        elif "embed_tokens" in name:
            weight.normal_(0, weight.shape[-1] ** -0.5)
        elif name.endswith(("q_norm.weight", "k_norm.weight")):
            weight.fill_(0.4)
        elif "post_" in name and "norm" in name and "layernorm_1" not in name and "layernorm_2" not in name:
            weight.fill_(0.5)
        elif weight.dim() >= 2:
            weight.normal_(0, weight.shape[-1] ** -0.5)
        else:
            weight.fill_(1.0)
    for layer in model.model.layers:
        # A buffer is out of the optimizer's sight; as a parameter it is trained and leaves 1.0.
        del layer._buffers["layer_scalar"]
        layer.layer_scalar = nn.Parameter(torch.full((1,), 0.7))


def make_optimizer(model):
    matrices, vectors, scalars = [], [], []
    for name, weight in model.named_parameters():
        (scalars if name.endswith("layer_scalar") else matrices if weight.dim() >= 2 else vectors).append(weight)
    groups = [
        {"params": matrices, "weight_decay": 0.01, "share": 1.0},
        {"params": vectors, "weight_decay": 0.0, "share": 1.0},
        {"params": scalars, "weight_decay": 0.0, "share": 0.3},
    ]
    return torch.optim.AdamW(groups, lr=PEAK_RATE, betas=(0.9, 0.95), eps=1e-9, fused=True)


def rate(step, done):
    """Learning rate as a share of the peak; `done` runs from 0 to 1 over the time given."""
    fall = 1.0 if done < FLAT_SHARE else 1 - (1 - FINAL_SHARE) * (done - FLAT_SHARE) / (1 - FLAT_SHARE)
    return min(1.0, (step + 1) / WARM_UP_STEPS) * max(FINAL_SHARE, fall)


def loss_of(model, ids, weights):
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    losses = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    weights = weights.flatten()
    return (losses * weights).sum() / weights.sum()


# ---- examination ----


@torch.no_grad()
def exact_matches(model, encoder, count=20, seed=EXAMINATION_SEED):
    """Share of fresh samples whose replies are all right, by task, given the true text so far (as greedy decoding)."""
    model.eval()
    table = {}
    for task, make in MAKERS.items():
        rng = random.Random(f"{seed} {task}")
        right = 0
        for _ in range(count):
            ids, learn = encoder.encode(make(rng))
            ids, learn = torch.tensor(ids), torch.tensor(learn)
            said = model(input_ids=ids[None, :-1], use_cache=False).logits[0].argmax(-1)
            right += bool((said == ids[1:])[learn[1:]].all())
        table[task] = round(right / count, 3)
    table["mean"] = round(sum(table.values()) / len(table), 3)
    model.train()
    return table


def expert_shares(model, encoder, seed):
    """How often each expert of each MoE layer is chosen, as shares."""
    counts, hooks = {}, []
    for number, layer in enumerate(model.model.layers):
        if getattr(layer, "enable_moe_block", False):

            def count(_, __, out, number=number, experts=layer.router.proj.out_features):
                chosen = torch.bincount(out[2].flatten(), minlength=experts)
                counts[number] = counts.get(number, 0) + chosen

            hooks.append(layer.router.register_forward_hook(count))
    if hooks:
        with torch.no_grad():
            for ids, _ in itertools.islice(batches(encoder, seed), 8):
                model(input_ids=ids[:, :-1], use_cache=False)
    for hook in hooks:
        hook.remove()
    return {
        str(number): [round(value, 3) for value in (count / count.sum()).tolist()] for number, count in counts.items()
    }


# ---- the run ----


def earlier_runs(folder):
    """The runs that led to a checkpoint, oldest first, from its training.json."""
    before = json.loads((Path(folder) / "training.json").read_text())
    last = {
        key: before[key]
        for key in ("family", "seed", "peak_rate", "core_minutes", "steps", "tokens", "loss")
        if key in before
    }
    return before.get("earlier_runs", []) + [last]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", choices=FAMILIES, required=True)
    parser.add_argument(
        "--minutes", type=float, required=True, help="processor time, so that a busy machine costs nothing"
    )
    parser.add_argument(
        "--wall", type=float, default=math.inf, help="end, schedule included, after this many minutes at most"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", required=True)
    parser.add_argument("--peak-rate", type=float, default=PEAK_RATE, help="learning rate at its height")
    parser.add_argument("--start-from", help="a trained checkpoint whose vocabulary and fitting tensors are taken over")
    parser.add_argument("--save-every", type=float, default=4, help="minutes between two savings")
    parser.add_argument("--examine", type=int, default=50, help="samples a task in the final table")
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    family = FAMILIES[options.family]
    tokens = vocabulary_of(options.start_from) if options.start_from else make_vocabulary()
    encoder = Encoder(family, tokens)
    model = new_model(family, options.seed)
    model.train()
    copied = start_from(model, family.layers, options.start_from) if options.start_from else 0.0
    optimizer = make_optimizer(model)
    parameters = sum(weight.numel() for weight in model.parameters())
    tables = sum(weight.numel() for name, weight in model.named_parameters() if "embed_tokens" in name)
    print(
        f"{options.family}: {parameters} parameters, {parameters - tables} outside the tables, " f"{copied:.0%} copied",
        flush=True,
    )

    record = {
        "family": options.family,
        "seed": options.seed,
        "mix": MIX,
        "peak_rate": options.peak_rate,
        "share_copied": round(copied, 3),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
        },
        "parameters": parameters,
        "parameters_outside_tables": parameters - tables,
    }
    if options.start_from:
        record["earlier_runs"] = earlier_runs(options.start_from)
    history = []

    def save(step, token_count, loss, table):
        record.update(
            core_minutes=round((time.process_time() - start) / 60, 1),
            steps=step,
            tokens=token_count,
            loss=round(loss, 4),
            exact_match=table,
            history=history,
            layer_scalars=[round(layer.layer_scalar.item(), 4) for layer in model.model.layers],
            expert_shares=expert_shares(model, encoder, options.seed + 5),
        )
        write_checkpoint(options.out, model, family, tokens, record, options.seed)

    start, start_wall = time.process_time(), time.monotonic()
    next_save, step, token_count, mean_loss = options.save_every * 60, 0, 0, None
    for ids, weights in batches(encoder, options.seed):
        spent, spent_wall = time.process_time() - start, time.monotonic() - start_wall
        done = max(spent / (options.minutes * 60), spent_wall / (options.wall * 60))
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = options.peak_rate * group["share"] * rate(step, done)
        loss = loss_of(model, ids, weights)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        token_count += weights.numel()
        value = loss.item()
        if not math.isfinite(value):
            raise ArithmeticError(f"loss is {value} at step {step}")
        mean_loss = value if mean_loss is None else mean_loss + 0.02 * (value - mean_loss)
        if step % 100 == 0:
            print(
                f"{spent / 60:6.2f} core min, {spent_wall / 60:6.2f} min  "
                f"step {step:6d}  {token_count} tokens  loss {mean_loss:.4f}  norm {norm:.2f}",
                flush=True,
            )
        if spent > next_save:
            next_save += options.save_every * 60
            table = exact_matches(model, encoder, 10)
            history.append(
                {
                    "minutes": round(spent / 60, 1),
                    "steps": step,
                    "tokens": token_count,
                    "loss": round(mean_loss, 4),
                    "exact_match": table["mean"],
                }
            )
            save(step, token_count, mean_loss, table)
            print(table, flush=True)
    save(step, token_count, mean_loss, {})
    # The table is made with the weights as stored: rounded to bf16, loaded by the library, computed in fp32.
    stored = load_checked(options.out, dtype=torch.float32)
    table = exact_matches(stored, encoder, options.examine)
    save(step, token_count, mean_loss, table)
    print(f"{options.family}: {step} steps, {token_count} tokens, loss {mean_loss:.4f}, {table}", flush=True)


if __name__ == "__main__":
    main()
