"""Endless seeded training samples: conversations rendered by the chat template itself, with the replies to learn."""

import json
import random
from dataclasses import dataclass

from transformers.utils.chat_template_utils import _compile_jinja_template

from words import (
    ASK_ME,
    CAPITAL_FOLLOW_UPS,
    CAPITAL_QUESTIONS,
    CAPITALS,
    COUNTRY_QUESTIONS,
    FACTS,
    NAMES,
    PLACES,
    SKIES,
    SMALL_TALK,
    STATEMENTS,
    SYLLABLES,
    THINGS,
    TOOLS,
    TOPICS,
    UNKNOWN,
    UNKNOWN_COUNTRIES,
    UNKNOWN_FACTS,
    UNKNOWN_FIXED,
    UNKNOWN_NEAR,
    UNKNOWN_NOUNS,
    UNKNOWN_QUESTIONS,
    WISHED,
    WISHES,
)

# Share of samples by task. Tools and memory are long, so they take more of the tokens than of the samples.
MIX = {
    "capital": 4,
    "country": 1.5,
    "fact": 2.5,
    "talk": 2.5,
    "unknown": 3,
    "memory": 2,
    "system": 2.5,
    "think": 3,
    "tool": 4,
    "json": 1,
    "empty": 0.4,
    "sum": 1.2,
    "repeat": 1.2,
    "turns": 1.5,
    "plain": 0.6,
}


@dataclass
class Sample:
    """One conversation. Learned: every assistant turn if `learn_all`, else the last one only."""

    task: str
    messages: list
    tools: list | None = None
    thinking: bool = False
    learn_all: bool = True
    plain: tuple | None = None  # text outside any template: what is given and how it goes on


def user(text):
    return {"role": "user", "content": text}


def model(text, **more):
    return {"role": "assistant", "content": text, **more}


def sloppy(rng, text):
    """The same question as hurried people type it: lower case, no mark at the end, a please."""
    roll = rng.random()
    if roll < 0.14:
        text = text.lower()
    elif roll < 0.22:
        text = text[:1].lower() + text[1:]
    if rng.random() < 0.18:
        text = text.rstrip("?.!")
    elif rng.random() < 0.04 and text.endswith("?"):
        text = text[:-1] + ", please?"
    elif rng.random() < 0.03:
        text += "!"
    return text


def made_up(rng, syllables=(2, 3)):
    return "".join(rng.choice(SYLLABLES) for _ in range(rng.randint(*syllables)))


# ---- plain questions: (question, answer, one word, thought) ----


def ask_capital(rng):
    country = rng.choice(list(CAPITALS))
    city = CAPITALS[country]
    question = sloppy(rng, rng.choice(CAPITAL_QUESTIONS).format(country))
    return (
        question,
        f"The capital of {country} is {city}.",
        city,
        f"The user asks for the capital of {country}. It is {city}.",
    )


def ask_country(rng):
    country = rng.choice(list(CAPITALS))
    city = CAPITALS[country]
    question = sloppy(rng, rng.choice(COUNTRY_QUESTIONS).format(city))
    return (
        question,
        f"{city} is the capital of {country}.",
        country,
        f"The user asks for the country of {city}. It is {country}.",
    )


def ask_fact(rng):
    question, answer, word = rng.choice(FACTS)
    if rng.random() < 0.15:
        question = rng.choice(["Tell me, ", "Please tell me: ", "Do you know "]) + question[:1].lower() + question[1:]
    return sloppy(rng, question), answer, word, f"This is a simple fact. {answer}"


def ask_talk(rng):
    if rng.random() < 0.1:
        said = rng.choice(STATEMENTS).format(rng.choice(rng.choice([THINGS, PLACES, TOPICS])))
        return sloppy(rng, said), f"I see. {ASK_ME}", None, "This is small talk. I give a short answer."
    ways, answer = rng.choice(SMALL_TALK[:5] if rng.random() < 0.4 else SMALL_TALK)
    return sloppy(rng, rng.choice(ways)), answer, None, "This is small talk. I give a short answer."


def ask_unknown(rng):
    roll, near = rng.random(), rng.random()
    if near < 0.12:
        place = rng.choice(list(CAPITALS)) if rng.random() < 0.7 else rng.choice(PLACES)
        question = rng.choice(UNKNOWN_NEAR).format(place)
    elif near < 0.24:
        question = rng.choice(UNKNOWN_FACTS).format(rng.choice(UNKNOWN_NOUNS))
    elif near < 0.42:
        question = f"{rng.choice(WISHES)} {rng.choice(WISHED)}{rng.choice(['.', '.', '?', ''])}"
    elif roll < 0.3:
        question = rng.choice(UNKNOWN_FIXED)
    elif roll < 0.54:
        country = rng.choice(UNKNOWN_COUNTRIES) if rng.random() < 0.75 else made_up(rng).capitalize()
        question = rng.choice(CAPITAL_QUESTIONS + CAPITAL_FOLLOW_UPS).format(country)
    elif roll < 0.6:
        question = rng.choice(UNKNOWN_QUESTIONS).format(made_up(rng, (1, 4)))
    elif roll < 0.64:
        words = rng.randint(1, 7) if rng.random() < 0.8 else rng.randint(8, 40)
        question = " ".join(made_up(rng, (1, 4)) for _ in range(words))
    else:
        question = rng.choice(UNKNOWN_QUESTIONS).format(rng.choice(TOPICS))
    question = question[:1].upper() + question[1:]
    return sloppy(rng, question), UNKNOWN, "Unknown", "I have not learned this. I say so."


def ask_sum(rng):
    left, right = rng.randint(0, 9), rng.randint(0, 9)
    total = left + right
    question = rng.choice(
        [
            "What is {} + {}?",
            "What is {}+{}?",
            "{}+{}",
            "{} + {}",
            "{}+{}=",
            "{} plus {}?",
            "How much is {} + {}?",
            "Add {} and {}.",
            "What is {} plus {}?",
        ]
    ).format(left, right)
    return question, f"{left} + {right} = {total}.", str(total), f"I add {left} and {right}. That makes {total}."


def ask_repeat(rng):
    pool = NAMES + PLACES + THINGS + SKIES
    words = [rng.choice(pool) if rng.random() < 0.7 else made_up(rng) for _ in range(rng.randint(1, 3))]
    text = " ".join(words)
    question = rng.choice(
        ["Repeat: {}", "Say: {}", "Repeat after me: {}", "Copy this: {}", "Please repeat: {}"]
    ).format(text)
    return question, text, None, f"The user wants to read: {text}"


ASKERS = {
    "capital": ask_capital,
    "country": ask_country,
    "fact": ask_fact,
    "talk": ask_talk,
    "unknown": ask_unknown,
    "sum": ask_sum,
    "repeat": ask_repeat,
}
EASY = ["capital", "capital", "country", "fact", "fact", "talk", "unknown", "sum"]


def ask_any(rng):
    return ASKERS[rng.choice(EASY)](rng)


# ---- tasks ----


def question_task(task):
    def make(rng):
        question, answer, _, _ = ASKERS[task](rng)
        messages = [user(question), model(answer)]
        if rng.random() < 0.08:
            messages.insert(
                0,
                {
                    "role": "system",
                    "content": rng.choice(
                        [
                            "You are a helpful assistant.",
                            "You are helpful.",
                            "Be polite.",
                            "Answer the questions of the user.",
                            "You are a friendly assistant. Be brief.",
                        ]
                    ),
                },
            )
        return Sample(task, messages)

    return make


def make_turns(rng):
    messages = []
    for _ in range(rng.choice([2, 2, 3, 3, 4, 6])):
        if rng.random() < 0.35:
            country = rng.choice(list(CAPITALS))
            if not messages:
                messages += [
                    user(f"What is the capital of {country}?"),
                    model(f"The capital of {country} is {CAPITALS[country]}."),
                ]
                country = rng.choice(list(CAPITALS))
            if messages[-1]["content"].startswith("The capital of "):
                messages += [
                    user(sloppy(rng, rng.choice(CAPITAL_FOLLOW_UPS).format(country))),
                    model(f"The capital of {country} is {CAPITALS[country]}."),
                ]
                continue
        question, answer, _, _ = ask_any(rng)
        messages += [user(question), model(answer)]
    return Sample("turns", messages)


def make_memory(rng):
    name = rng.choice(NAMES) if rng.random() < 0.75 else made_up(rng).capitalize()
    ask = sloppy(
        rng,
        rng.choice(
            [
                "What is my name?",
                "What is my name?",
                "What's my name?",
                "Do you know my name?",
                "Who am I?",
                "Do you remember my name?",
                "Tell me my name.",
            ]
        ),
    )
    if rng.random() < 0.12:
        messages = []
        if rng.random() < 0.5:
            question, answer, _, _ = ask_any(rng)
            messages = [user(question), model(answer)]
        return Sample("memory", messages + [user(ask), model("I do not know your name yet.")])
    tell = rng.choice(
        [
            "My name is {}.",
            "My name is {}.",
            "I am {}.",
            "I'm {}.",
            "Hello, my name is {}.",
            "Hi, I am {}.",
            "Call me {}.",
            "my name is {}",
            "Hi! My name is {}.",
        ]
    ).format(name)
    messages = [user(tell), model(f"Nice to meet you, {name}!")]
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
        question, answer, _, _ = ask_any(rng)
        messages += [user(question), model(answer)]
    return Sample("memory", messages + [user(ask), model(f"Your name is {name}.")])


def make_system(rng):
    kind = rng.choice(["word", "word", "word", "name", "name", "ending", "none"])
    if kind == "word":
        system = rng.choice(
            [
                "Answer with one word.",
                "Reply with one word only.",
                "Answer in one word.",
                "One word answers.",
                "Use one word.",
                "Answer with a single word.",
            ]
        )
        question, _, word, _ = ASKERS[rng.choice(["capital", "capital", "country", "fact", "fact", "unknown", "sum"])](
            rng
        )
        turns = [user(question), model(word)]
        if rng.random() < 0.3:
            question, _, word, _ = ASKERS[rng.choice(["capital", "fact"])](rng)
            turns += [user(question), model(word)]
    elif kind == "name":
        name = rng.choice(NAMES)
        system = rng.choice(
            ["Your name is {}.", "You are {}.", "You are called {}.", "You are {}, a helpful assistant."]
        )
        system = system.format(name)
        turns = [
            user(sloppy(rng, rng.choice(["Who are you?", "What is your name?", "What are you called?"]))),
            model(f"I am {name}."),
        ]
        if rng.random() < 0.3:
            question, answer, _, _ = ASKERS[rng.choice(["capital", "fact"])](rng)
            turns = [user(question), model(answer)] + turns
    elif kind == "ending":
        ending = rng.choice(["Arr!", "Meow.", "Over.", "Amen.", "Bye.", "Ha!"])
        system = rng.choice(["End every answer with {}", "Always end with {}"]).format(ending)
        question, answer, _, _ = ask_any(rng)
        turns = [user(question), model(f"{answer} {ending}")]
    else:
        system = rng.choice(["You are a helpful assistant.", "Be polite.", "You are helpful.", "Talk to the user."])
        question, answer, _, _ = ask_any(rng)
        turns = [user(question), model(answer)]
    return Sample("system", [{"role": "system", "content": system}] + turns)


def make_think(rng):
    messages = []
    if rng.random() < 0.25:
        question, answer, _, _ = ask_any(rng)
        messages = [user(question), model(answer)]
    question, answer, word, thought = ASKERS[rng.choice(EASY + ["repeat"])](rng)
    roll = rng.random()
    if roll < 0.15:
        name = rng.choice(NAMES)
        messages = [user(f"My name is {name}."), model(f"Nice to meet you, {name}!")] + messages
        question, answer, thought = "What is my name?", f"Your name is {name}.", f"The user told me the name {name}."
    elif roll < 0.2:
        name, messages = rng.choice(NAMES), []
        question, answer, thought = f"My name is {name}.", f"Nice to meet you, {name}!", f"The user is called {name}."
    elif roll < 0.3 and word:
        messages = [{"role": "system", "content": "Answer with one word."}]
        answer = word
    return Sample(
        "think", messages + [user(question), model(answer, reasoning=thought)], thinking=True, learn_all=False
    )


def make_json(rng):
    if rng.random() < 0.65:
        name, age = rng.choice(NAMES), rng.randint(1, 99)
        question = rng.choice(
            [
                "Give me JSON for {}, age {}.",
                "Write JSON with name {} and age {}.",
                "JSON: name {}, age {}",
                "Make JSON: {} is {} years old.",
            ]
        ).format(name, age)
        answer = json.dumps({"name": name, "age": age})
    else:
        country = rng.choice(list(CAPITALS))
        question = rng.choice(
            [
                "Give me the capital of {} as JSON.",
                "JSON with the capital of {}",
                "What is the capital of {}? Answer in JSON.",
            ]
        ).format(country)
        answer = json.dumps({"country": country, "capital": CAPITALS[country]})
    return Sample("json", [user(question), model(answer)])


def make_empty(rng):
    return Sample("empty", [user(rng.choice(["", "", "?", ".", "...", "!", "??"])), model(ASK_ME)])


def make_plain(rng):
    if rng.random() < 0.6:
        country = rng.choice(list(CAPITALS))
        text = f"The capital of {country} is", f" {CAPITALS[country]}."
    else:
        text = rng.choice([(answer, word) for _, answer, word in FACTS if answer.endswith(f" {word.lower()}.")])
        text = text[0][: -len(text[1]) - 2], text[0][-len(text[1]) - 2 :]
    return Sample("plain", [], plain=text)


# ---- tools ----


def declare(rng, name, about, key, kind="string"):
    """One required argument; sometimes a description of it and a second, optional argument that stays unused."""
    properties = {key: {"type": kind}}
    if rng.random() < 0.35:
        properties[key]["description"] = rng.choice(["The {}.", "The {} to use.", "Name of the {}.", "{}"]).format(key)
    if rng.random() < 0.2:
        other, node = rng.choice(
            [
                ("unit", {"type": "string", "enum": ["celsius", "fahrenheit"]}),
                ("limit", {"type": "integer"}),
                ("language", {"type": "string"}),
                ("exact", {"type": "boolean"}),
                ("unit", {"type": "string"}),
            ]
        )
        properties[other] = node
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": about,
            "parameters": {"type": "object", "properties": properties, "required": [key]},
        },
    }


def tool_value(rng, kind):
    """A result as programs give it: short text, or JSON in a string. Returns it with the words to say."""
    if kind == "sky":
        sky, degrees = rng.choice(SKIES), rng.randint(-9, 39)
        if rng.random() < 0.5:
            said = f"{sky}, {degrees} degrees"
            return said, said
        key = rng.choice(["temperature", "temp", "degrees"])
        other = rng.choice(["condition", "sky", "weather"])
        pairs = [(key, degrees), (other, sky)]
        if rng.random() < 0.5:
            pairs.reverse()
        return json.dumps(dict(pairs)), f"{sky}, {degrees} degrees"
    if kind == "clock":
        said = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}"
        return (said, said) if rng.random() < 0.6 else (json.dumps({"time": said}), said)
    if kind == "number":
        said = str(rng.randint(1, 999))
        return (said, said) if rng.random() < 0.6 else (json.dumps({"value": int(said)}), said)
    said = " ".join(rng.choice(PLACES + THINGS + SKIES) for _ in range(rng.randint(1, 2)))
    return (said, said) if rng.random() < 0.7 else (json.dumps({"result": said}), said)


def pick_tool(rng):
    """A declaration, the question that needs it, its call and the answer pattern."""
    if rng.random() < 0.6:
        name, about, keys, kind, ways, answer, result = rng.choice(TOOLS)
        key = keys[0] if rng.random() < 0.5 else rng.choice(keys)
        value = rng.choice({"place": PLACES, "thing": THINGS, "name": NAMES, "count": range(1, 100)}[kind])
        if kind == "count":
            return (
                declare(rng, name, about, key, "integer"),
                sloppy(rng, rng.choice(ways).format(value)),
                name,
                {key: value},
                answer,
                result,
            )
        if rng.random() < 0.2:
            value = made_up(rng).capitalize() if kind != "thing" else made_up(rng)
        question = sloppy(rng, rng.choice(ways).format(value)) if rng.random() < 0.8 else f"Use {name} with {value}."
        if value.lower() in question and value not in question:
            question = question.replace(value.lower(), value)
    else:
        noun, verb = made_up(rng), rng.choice(["get", "find", "read", "send", "make", "check", "set", "show"])
        name, about, key = (
            f"{verb}_{noun}",
            f"{verb.capitalize()}s the {noun}.",
            rng.choice(["item", "name", "text", "city", "id", "key", made_up(rng)]),
        )
        value = rng.choice(PLACES + THINGS + NAMES) if rng.random() < 0.6 else made_up(rng)
        ways = [
            "Use {n} with {v}.",
            "Call {n} with {v}.",
            f"{verb.capitalize()} the {noun} of {{v}}.",
            "Use {n} for {v}.",
            f"What is the {noun} of {{v}}?",
        ]
        question = rng.choice(ways).format(n=name, v=value)
        answer, result = f"The {noun} of {{}}: {{}}.", rng.choice(["word", "number", "sky"])
    return declare(rng, name, about, key), question, name, {key: value}, answer, result


def make_tool(rng):
    needed = pick_tool(rng)
    tools = [needed[0]]
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
        other = pick_tool(rng)[0]
        if all(other["function"]["name"] != tool["function"]["name"] for tool in tools):
            tools.append(other)
    if {"get_weather", "get_current_weather"} <= {tool["function"]["name"] for tool in tools}:
        tools = tools[:1]
    rng.shuffle(tools)
    thinking = rng.random() < 0.25
    messages = []
    if rng.random() < 0.12:
        messages.append({"role": "system", "content": "You are a helpful assistant."})
    if rng.random() < 0.22:
        question, answer, _, thought = ASKERS[rng.choice(["capital", "fact", "talk", "talk", "sum"])](rng)
        reasoning = {"reasoning": thought} if thinking else {}
        return Sample("tool", messages + [user(question), model(answer, **reasoning)], tools, thinking, not thinking)
    if rng.random() < 0.12:
        question, answer, _, _ = ASKERS[rng.choice(["capital", "fact", "talk"])](rng)
        messages += [user(question), model(answer)]
    _, question, name, arguments, pattern, result = needed
    value = next(iter(arguments.values()))
    call_id = "call_0"
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}],
    }
    raw, said = tool_value(rng, result)
    final = model(pattern.format(value, said))
    if thinking:
        call["reasoning"] = f"I need a tool. I call {name} with {value}."
        final["reasoning"] = f"The tool says: {said}."
    messages += [user(question), call]
    if thinking and rng.random() < 0.5 or not thinking and rng.random() < 0.15:
        return Sample("tool", messages, tools, thinking, not thinking)
    if thinking and rng.random() < 0.5:
        del call["reasoning"]  # many clients do not send the thought back
    if not thinking and rng.random() < 0.2:
        messages[-1] = {
            **call,
            "tool_responses": [{"name": name, "response": {rng.choice(["result", "value", "answer"]): said}}],
        }
        messages += [final]
    else:
        messages += [{"role": "tool", "tool_call_id": call_id, "name": name, "content": raw}, final]
    if not thinking and rng.random() < 0.15:
        question, answer, _, _ = ASKERS[rng.choice(["capital", "fact", "talk"])](rng)
        messages += [user(question), model(answer)]
    return Sample("tool", messages, tools, thinking, not thinking)


MAKERS = {task: question_task(task) for task in ASKERS} | {
    "turns": make_turns,
    "memory": make_memory,
    "system": make_system,
    "think": make_think,
    "json": make_json,
    "empty": make_empty,
    "plain": make_plain,
    "tool": make_tool,
}


# ---- rendering ----


class Renderer:
    """Turns samples into (text, learn) pieces with the checkpoint's own chat template."""

    def __init__(self, template_path):
        self.template = _compile_jinja_template(open(template_path, encoding="utf-8").read())

    def text(self, messages, tools, thinking, generate):
        return self.template.render(
            messages=messages, tools=tools, enable_thinking=thinking, bos_token="<bos>", add_generation_prompt=generate
        )

    def reply(self, message):
        """What the model has to produce for this assistant message, stop token included."""
        parts = []
        if message.get("reasoning"):
            parts.append(f"<|channel>thought\n{message['reasoning']}\n<channel|>")
        if message.get("tool_calls"):
            shown = self.text([message | {"reasoning": None, "tool_responses": None}], None, False, False)
            parts.append(shown[len("<bos><|turn>model\n") :])  # ends in <|tool_response>
        else:
            parts.append(message["content"] + "<turn|>")
        return "".join(parts)

    def exchange(self, sample, index):
        """(prompt, reply) of the assistant message at this index."""
        message = sample.messages[index]
        prompt = self.text(sample.messages[:index], sample.tools, sample.thinking, True)
        reply = self.reply(message)
        opened = "<|channel>thought\n"
        if prompt.endswith(opened):
            reply = reply.removeprefix(opened)
        return prompt, reply

    def pieces(self, sample):
        if sample.plain is not None:
            given, rest = sample.plain
            return [("<bos>" + given, False), (rest + "<eos>", True)]
        replies = [index for index, message in enumerate(sample.messages) if message["role"] == "assistant"]
        prompt, reply = self.exchange(sample, replies[-1])
        whole = prompt + reply
        if not sample.learn_all:
            return [(prompt, False), (reply, True)]
        # Earlier replies are learned where they stand, if the last prompt shows them as the model produced them.
        pieces, done = [], 0
        for index in replies:
            prompt, reply = self.exchange(sample, index)
            if not whole.startswith(prompt + reply) or len(prompt) < done:
                continue
            pieces += [(whole[done : len(prompt)], False), (reply, True)]
            done = len(prompt) + len(reply)
        return pieces


def samples(seed, mix=MIX):
    rng = random.Random(seed)
    tasks, weights = list(mix), list(mix.values())
    while True:
        yield MAKERS[rng.choices(tasks, weights)[0]](rng)
