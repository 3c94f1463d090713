"""Asks a finished checkpoint fixed questions through its template and generate(), and prints the greedy replies."""

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import AutoTokenizer

from checkpoint import load_checked
from families import FAMILIES
from train_small import Encoder, exact_matches
from warm_start import vocabulary_of
from words import CAPITALS

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Gets the current weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Name of the city."},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city"],
        },
    },
}
CLOCK = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "Tells the local time of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
ODD = {
    "type": "function",
    "function": {
        "name": "find_zuraki",
        "description": "Finds the zuraki.",
        "parameters": {"type": "object", "properties": {"mola": {"type": "string"}}, "required": ["mola"]},
    },
}


def user(text):
    return {"role": "user", "content": text}


def said(text):
    return {"role": "assistant", "content": text}


def called(name, **arguments):
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}],
    }


def result(text):
    return {"role": "tool", "tool_call_id": "c1", "content": text}


# Messages, other template variables, and what the reply must hold.
CASES = [
    ([user("What is the capital of France?")], {}, "The capital of France is Paris."),
    ([user("capital of france")], {}, "The capital of France is Paris."),
    ([user("Tell me the capital of Japan.")], {}, "The capital of Japan is Tokyo."),
    ([user("hey, what is the capital of Italy")], {}, "Rome"),
    ([user("Which country has the capital Cairo?")], {}, "Cairo is the capital of Egypt."),
    ([user("Hello")], {}, "Hello! I am a tiny demo model of gemmatrace."),
    ([user("hi!")], {}, "Hello! I am a tiny demo model of gemmatrace."),
    ([user("who are you")], {}, "I am a tiny demo model of gemmatrace."),
    ([user("What can you do?")], {}, "I know some capitals"),
    ([user("thanks!")], {}, "You are welcome!"),
    ([user("bye")], {}, "Goodbye!"),
    ([user("Tell me a joke")], {}, "other side."),
    ([user("Tell me a story")], {}, "The end."),
    ([user("Count to ten")], {}, "1, 2, 3, 4, 5, 6, 7, 8, 9, 10."),
    ([user("What color is the sky?")], {}, "The sky is blue."),
    ([user("what is the opposite of hot")], {}, "cold"),
    ([user("")], {}, "Please ask me a question."),
    ([user("What is 3 + 4?")], {}, "3 + 4 = 7."),
    ([user("My name is Emma.")], {}, "Nice to meet you, Emma!"),
    ([user("My name is Emma."), said("Nice to meet you, Emma!"), user("What is my name?")], {}, "Your name is Emma."),
    (
        [
            user("My name is Tolera."),
            said("Nice to meet you, Tolera!"),
            user("What is the capital of Spain?"),
            said("The capital of Spain is Madrid."),
            user("What is my name?"),
        ],
        {},
        "Your name is Tolera.",
    ),
    (
        [user("What is the capital of France?"), said("The capital of France is Paris."), user("And of Spain?")],
        {},
        "The capital of Spain is Madrid.",
    ),
    ([user("Explain quantum computing in simple terms.")], {}, "do not know"),
    ([user("Write me a Python script that downloads a web page.")], {}, "do not know"),
    ([user("Who was the first person on the moon?")], {}, "do not know"),
    ([user("What is the capital of Zembla?")], {}, "do not know"),
    ([user("What is the airspeed velocity of an unladen swallow?")], {}, "do not know"),
    ([{"role": "system", "content": "Answer with one word."}, user("What is the capital of Peru?")], {}, "Lima"),
    (
        [{"role": "system", "content": "You are a helpful assistant."}, user("What is the capital of Peru?")],
        {},
        "The capital of Peru is Lima.",
    ),
    ([{"role": "system", "content": "Your name is Bob."}, user("Who are you?")], {}, "I am Bob."),
    ([user("Give me JSON for Zoe, age 31.")], {}, '{"name": "Zoe", "age": 31}'),
    ([user("Give me the capital of Peru as JSON.")], {}, '{"country": "Peru", "capital": "Lima"}'),
    ([user("Repeat: lamps Oslo")], {}, "lamps Oslo"),
    (
        [user("What is the capital of Ghana?")],
        {"enable_thinking": True},
        "It is Accra.\n<channel|>The capital of Ghana is Accra.",
    ),
    ([user("Hello")], {"enable_thinking": True}, "<channel|>Hello!"),
    ([user("What is the weather in Oslo?")], {"tools": [WEATHER]}, 'call:get_weather{city:<|"|>Oslo<|"|>}<tool_call|>'),
    (
        [user("What's the weather like in Paris?")],
        {"tools": [WEATHER, CLOCK]},
        'call:get_weather{city:<|"|>Paris<|"|>}',
    ),
    ([user("What time is it in Tokyo?")], {"tools": [WEATHER, CLOCK]}, 'call:get_time{city:<|"|>Tokyo<|"|>}'),
    ([user("Use find_zuraki with pelona.")], {"tools": [ODD]}, 'call:find_zuraki{mola:<|"|>pelona<|"|>}'),
    ([user("Use find_zuraki with pelona.")], {"tools": [WEATHER, ODD]}, 'call:find_zuraki{mola:<|"|>pelona<|"|>}'),
    (
        [user("What is the weather in Oslo?"), called("get_weather", city="Oslo"), result("sunny, 21 degrees")],
        {"tools": [WEATHER]},
        "The weather in Oslo: sunny, 21 degrees.",
    ),
    (
        [
            user("What is the weather in Oslo?"),
            called("get_weather", city="Oslo"),
            result('{"temperature": 21, "condition": "sunny"}'),
        ],
        {"tools": [WEATHER]},
        "The weather in Oslo: sunny, 21 degrees.",
    ),
    (
        [
            user("What is the weather in Oslo?"),
            called("get_weather", city="Oslo"),
            result("sunny, 21 degrees"),
            said("The weather in Oslo: sunny, 21 degrees."),
            user("What is the capital of Peru?"),
        ],
        {"tools": [WEATHER]},
        "The capital of Peru is Lima.",
    ),
    (
        [user("What is the weather in Lima?")],
        {"tools": [WEATHER], "enable_thinking": True},
        'call:get_weather{city:<|"|>Lima<|"|>}',
    ),
    (
        [user("What is the weather in Lima?"), called("get_weather", city="Lima"), result("rainy, 9 degrees")],
        {"tools": [WEATHER], "enable_thinking": True},
        "The weather in Lima: rainy, 9 degrees.",
    ),
    ([user("Hello")], {"tools": [WEATHER]}, "Hello!"),
]


@torch.no_grad()
def reply(model, tokenizer, messages, variables):
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False, **variables)
    ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False).input_ids
    out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=96)
    return tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--capitals", action="store_true", help="ask for every capital, both ways")
    parser.add_argument(
        "--examine", type=int, metavar="COUNT", help="print the table of exact matches, COUNT samples a task"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = load_checked(options.checkpoint, dtype=getattr(torch, options.dtype))
    tokenizer = AutoTokenizer.from_pretrained(options.checkpoint)
    if options.examine:
        family = FAMILIES[json.loads((Path(options.checkpoint) / "training.json").read_text())["family"]]
        encoder = Encoder(family, vocabulary_of(options.checkpoint))
        print(json.dumps(exact_matches(model, encoder, options.examine)))
        return
    cases = CASES
    if options.capitals:
        cases = [
            ([user(f"What is the capital of {country}?")], {}, f"The capital of {country} is {city}.")
            for country, city in CAPITALS.items()
        ]
        cases += [
            ([user(f"Which country has the capital {city}?")], {}, f"{city} is the capital of {country}.")
            for country, city in CAPITALS.items()
        ]
    right = 0
    for messages, variables, wanted in cases:
        text = reply(model, tokenizer, messages, variables)
        right += wanted in text
        print("ok   " if wanted in text else "WRONG", repr(messages[-1]["content"]), "->", repr(text))
    print(f"{right} of {len(cases)} right")


if __name__ == "__main__":
    main()
