"""Runs Transformers under the pins that define our goldens: cached greedy decoding, and a full pass with every stage.

Import this module before torch: the instruction set is chosen when torch is loaded.
"""

import os
import sys

if "torch" in sys.modules:
    raise SystemExit("import reference before torch: ATEN_CPU_CAPABILITY is read when torch is loaded")
os.environ["ATEN_CPU_CAPABILITY"] = "avx2"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hashlib
import json
import pathlib
import platform

import numpy as np
import torch
import transformers
from transformers import AutoModelForCausalLM, GenerationConfig

VERSIONS = {"transformers": "5.13.0", "torch": "2.12.1"}
BLOCK = (
    64  # the full pass is extended to a multiple of this many tokens, so that no left-over path of a kernel is taken
)
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}

torch.set_num_threads(1)
torch.backends.mkldnn.enabled = False
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def check_pins():
    """Ends the program if anything that decides bits is not as pinned; returns what was pinned."""
    found = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
    if found != VERSIONS:
        raise SystemExit(
            f"goldens are defined by {VERSIONS}, this environment has {found}; install tools/requirements.lock"
        )
    pins = {
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "mkldnn": torch.backends.mkldnn.enabled,
        "threads": torch.get_num_threads(),
        "attention": "eager",
        "experts": "grouped_mm",
    }
    if pins["cpu_capability"] != "AVX2" or pins["mkldnn"] or pins["threads"] != 1:
        raise SystemExit(f"the pins do not hold: {pins}")
    return pins


def versions():
    import safetensors
    import tokenizers

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "safetensors": safetensors.__version__,
        "numpy": np.__version__,
    }


def file_hashes(checkpoint):
    """sha256 of every file the reference reads."""
    names = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    paths = [p for p in sorted(pathlib.Path(checkpoint).iterdir()) if p.name in names or ".safetensors" in p.name]
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}


def to_bits(tensor):
    """bf16 tensor -> numpy uint16 of the same shape."""
    return tensor.contiguous().view(torch.int16).numpy().view(np.uint16)


class Reference:
    """One checkpoint in one precision."""

    def __init__(self, checkpoint, precision):
        self.precision = precision
        self.model, info = AutoModelForCausalLM.from_pretrained(
            checkpoint, dtype=DTYPES[precision], attn_implementation="eager", output_loading_info=True
        )
        self.model.eval()
        for key in ("missing_keys", "mismatched_keys", "error_msgs"):
            left = [name for name in info.get(key, []) if name != "lm_head.weight"]
            if left:
                raise SystemExit(f"{checkpoint}: {key}: {left}")
        config = self.model.config.get_text_config()
        self.config = config
        self.vocab_size, self.window, self.layers = config.vocab_size, config.sliding_window, config.num_hidden_layers
        self.softcap = config.final_logit_softcapping
        generation = self.model.generation_config
        eos = generation.eos_token_id
        self.eos = sorted(set([eos] if isinstance(eos, int) else eos or []))
        self.suppressed = sorted(set(generation.suppress_tokens or []))
        bos = generation.bos_token_id
        self.bos = bos if bos is not None else config.bos_token_id
        if getattr(config, "enable_moe_block", False):
            assert config._experts_implementation == "grouped_mm", config._experts_implementation
        assert config._attn_implementation == "eager"
        names = dict(self.model.named_modules())
        self.text_model = next(m for n, m in names.items() if hasattr(m, "rotary_emb") and hasattr(m, "embed_tokens"))
        assert names["lm_head"] is self.model.lm_head

    def placeholder_ids(self):
        """Media ids that the full model reads as pad; empty for text-only exports."""
        names = ("image_token_id", "audio_token_id", "video_token_id")
        return [
            getattr(self.model.config, name) for name in names if getattr(self.model.config, name, None) is not None
        ]

    def generate(self, ids, tokens, stop):
        """Cached greedy decoding; stop False ignores stop ids. Returns (new ids, logits before the cap)."""
        rows = []
        hook = self.model.lm_head.register_forward_hook(
            lambda module, inputs, output: rows.append(output[0, -1].float().numpy().copy())
        )
        generation = GenerationConfig.from_dict(self.model.generation_config.to_dict())
        kwargs = {} if stop else {"eos_token_id": None}
        prompt = torch.tensor([ids])
        with torch.no_grad():
            out = self.model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                generation_config=generation,
                do_sample=False,
                use_cache=True,
                max_new_tokens=tokens,
                **kwargs,
            )
        hook.remove()
        new = out[0, len(ids) :].tolist()
        assert len(rows) == len(new)
        assert stop or len(new) == tokens, "stop ids were not ignored"
        return new, np.stack(rows)

    def full_pass(self, ids, record=False):
        """One pass over ids extended to a multiple of BLOCK.

        Returns (logits before the cap, logits as compared: capped; both [len(ids), vocab] float32, the extended ids,
        stages: a list of (name, uint16 array [rows, columns]) of bf16 patterns, empty unless record).
        """
        extended = ids + [0] * (-len(ids) % BLOCK)
        stages, hooks, got = {}, [], {}

        def keep(name):
            def hook(module, inputs, output):
                got[name] = output.detach()

            return hook

        hooks.append(self.model.lm_head.register_forward_hook(keep("logits")))
        project = None
        if record:
            hooks.append(
                self.text_model.register_forward_pre_hook(
                    lambda module, args, kwargs: got.__setitem__("embedding", kwargs.get("inputs_embeds")),
                    with_kwargs=True,
                )
            )
            hooks.append(self.text_model.embed_tokens.register_forward_hook(keep("embedding of ids")))
            for i, layer in enumerate(self.text_model.layers):
                hooks.append(layer.register_forward_hook(keep(f"layer.{i}")))
                if getattr(layer, "router", None) is not None:
                    hooks.append(
                        layer.router.register_forward_hook(
                            lambda module, inputs, output, i=i: got.__setitem__(
                                f"layer.{i}.experts", output[2].detach()
                            )
                        )
                    )
            hooks.append(self.text_model.norm.register_forward_hook(keep("norm")))
            if getattr(self.config, "hidden_size_per_layer_input", 0):
                project = self.text_model.project_per_layer_inputs

                def projected(*args, **kwargs):
                    got["ple"] = project(*args, **kwargs)
                    return got["ple"]

                self.text_model.project_per_layer_inputs = projected
        prompt = torch.tensor([extended])
        with torch.no_grad():
            out = self.model(prompt, attention_mask=torch.ones_like(prompt), use_cache=False)
        for hook in hooks:
            hook.remove()
        if project is not None:
            del self.text_model.project_per_layer_inputs
        count = len(ids)
        logits, capped = got["logits"][0, :count].float().numpy(), out.logits[0, :count].float().numpy()
        if record:
            rows = len(extended)
            embedding = got["embedding"] if got["embedding"] is not None else got["embedding of ids"]
            stages["embedding"] = to_bits(embedding[0])
            if "ple" in got:
                stages["ple"] = to_bits(got["ple"][0].reshape(rows, -1))
            for i in range(self.layers):
                if f"layer.{i}.experts" in got:
                    stages[f"layer.{i}.experts"] = got[f"layer.{i}.experts"].reshape(rows, -1).numpy().astype(np.uint16)
                stages[f"layer.{i}"] = to_bits(got[f"layer.{i}"][0])
            stages["norm"] = to_bits(got["norm"][0])
            stages["logits"] = to_bits(got["logits"][0])
        return logits, capped, extended, list(stages.items())

    def allowed(self, row):
        """A row of logits with suppressed ids taken out."""
        if not self.suppressed:
            return row
        row = row.copy()
        row[self.suppressed] = -np.inf
        return row

    def choose(self, capped_row):
        return int(np.argmax(self.allowed(capped_row)))  # the first of equal values: the lowest id

    def margin(self, row):
        best = np.partition(self.allowed(row), -2)[-2:]
        return np.float32(best[1] - best[0])


def top(row, count):
    """The best ids, best first, the lowest id on ties."""
    return np.argsort(-row, kind="stable")[:count]


def greedy_bf16(reference, ids, tokens):
    """The bf16 truth: the choices of full passes, with the cached decode run beside them.

    Returns (new ids, logits before the cap, capped, exceptions [[step, id of the cached decode], …]).
    """
    new, exceptions = [], []
    while True:
        cached, _ = reference.generate(ids + new, tokens - len(new), stop=False)
        candidate = new + cached
        logits, capped, _, _ = reference.full_pass(ids + candidate)
        first = len(ids) - 1
        for step in range(len(new), tokens):
            choice = reference.choose(capped[first + step])
            if choice != candidate[step]:
                exceptions.append([step, candidate[step]])
                new = candidate[:step] + [choice]
                break
        else:
            return candidate, logits[first : first + tokens], capped[first : first + tokens], exceptions
        if len(new) == tokens:
            logits, capped, _, _ = reference.full_pass(ids + new)
            return new, logits[first : first + tokens], capped[first : first + tokens], exceptions


def stop_step(ids, eos):
    return next((step for step, token in enumerate(ids) if token in eos), -1)
