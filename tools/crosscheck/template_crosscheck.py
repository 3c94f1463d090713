"""Compares `gemmatrace render` with jinja2 in Transformers' settings, byte for byte.

Renders a matrix of conversations with the template of each checkpoint and with each template of tests/text/templates,
then random templates from a grammar. Where jinja2 raises, gemmatrace must end in an error too. When transformers is
installed, its own renderer is asked as well. Ends with status 1 and the first differences when anything differs."""

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import template_fuzz
from template_conversations import requests
from template_reference import make_environment, reference

SHOWN = 5  # differences that are printed
SPECIAL = {"bos_token": "<bos>", "eos_token": "<eos>"}
NOT_OURS = ("128 bits", "complex number")  # what Python computes and gemmatrace refuses by design


def render_lines(binary, checkpoint, inputs):
    text = "".join(json.dumps(value) + "\n" for value in inputs)
    done = subprocess.run([binary, "render", str(checkpoint), "--lines"], input=text.encode(), capture_output=True)
    lines = done.stdout.decode().split("\n")[:-1]
    if len(lines) == len(inputs):
        return [json.loads(line) for line in lines]
    # The template itself was refused: one error for all.
    if 0 < done.returncode < 70 and not lines:
        return [{"error": {"message": done.stderr.decode()}}] * len(inputs)
    sys.exit(f"{checkpoint}: {len(inputs)} lines in, {len(lines)} out, status {done.returncode}\n{done.stderr.decode()}")


class Report:
    def __init__(self):
        self.compared = self.rendered = self.different = 0

    def compare(self, name, source, expected, given):
        self.compared += 1
        is_error = isinstance(expected, Exception)
        self.rendered += not is_error
        if ("error" in given) if is_error else (given.get("text") == expected):
            return
        if not is_error and any(mark in str(given.get("error")) for mark in NOT_OURS):
            return
        self.different += 1
        if self.different <= SHOWN:
            print(f"--- {name}\n{source}\n  jinja2: {expected!r}\n  ours:   {given.get('text', given)!r}")


def transformers_renderer():
    """Transformers' own render function, or None where it is not installed."""
    try:
        from transformers.utils.chat_template_utils import render_jinja_template
    except ImportError:
        return None
    return render_jinja_template


def special_tokens(directory):
    path = Path(directory) / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    named = {k: v["content"] if isinstance(v, dict) else v for k, v in config.items() if k.endswith("_token")}
    return {k: v for k, v in named.items() if isinstance(v, str)}


def check_conversations(binary, directory, source, special, report):
    environment = make_environment()
    own = transformers_renderer()
    named = list(requests())
    outputs = render_lines(binary, directory, [variables for _, variables in named])
    for (name, variables), given in zip(named, outputs):
        expected = reference(environment, source, {**special, **variables})
        report.compare(f"{directory}: {name}", "", expected, given)
        if own is not None and not isinstance(expected, Exception):
            rest = {k: v for k, v in variables.items() if k not in ("messages", "tools", "documents", "add_generation_prompt")}
            texts, _ = own([variables["messages"]], tools=variables["tools"], chat_template=source,
                           add_generation_prompt=variables["add_generation_prompt"], **special, **rest)
            report.compare(f"{directory}: {name} (transformers)", "", texts[0], given)


def check_random(binary, first, count, report):
    environment = make_environment()
    with tempfile.TemporaryDirectory() as directory:
        for seed in range(first, first + count):
            source = template_fuzz.Generator(seed).template()
            expected = reference(environment, source, template_fuzz.VARIABLES)
            if isinstance(expected, str) and not template_fuzz.is_comparable(expected):
                continue
            if isinstance(expected, NameError):  # jinja2 stumbles over its own folded constants: inf and nan
                continue
            (Path(directory) / "chat_template.jinja").write_text(source, encoding="utf-8", newline="")
            given = render_lines(binary, directory, [template_fuzz.VARIABLES])[0]
            report.compare(f"random template {seed}", source, expected, given)


def check_sources(binary, folder, report):
    for path in sorted(Path(folder).glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "chat_template.jinja").write_text(source, encoding="utf-8", newline="")
            (Path(directory) / "tokenizer_config.json").write_text(json.dumps(SPECIAL))
            check_conversations(binary, directory, source, SPECIAL, report)
        print(f"{path.name}: {report.compared} compared so far, {report.different} differ")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True, help="the gemmatrace program")
    parser.add_argument("--checkpoint", action="append", default=[], help="a checkpoint whose template is compared")
    parser.add_argument("--templates", default=Path(__file__).parents[2] / "tests" / "text" / "templates",
                        help="a folder of templates")
    parser.add_argument("--random", type=int, default=2000, help="how many random templates")
    parser.add_argument("--seed", type=int, default=1, help="the first random template's seed")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    report = Report()
    for checkpoint in arguments.checkpoint:
        source = (Path(checkpoint) / "chat_template.jinja").read_text(encoding="utf-8")
        check_conversations(arguments.binary, checkpoint, source, special_tokens(checkpoint), report)
        print(f"{checkpoint}: {report.compared} compared so far, {report.different} differ")
    check_sources(arguments.binary, arguments.templates, report)
    check_random(arguments.binary, arguments.seed, arguments.random, report)
    print(f"{report.compared} renders compared, {report.rendered} of them texts, {report.different} differ")
    return 1 if report.different else 0


if __name__ == "__main__":
    sys.exit(main())
