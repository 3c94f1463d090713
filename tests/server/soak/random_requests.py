"""Random but valid requests, the same for the same seed: lengths, sampling, stops, choices, tools, schemas."""

import random

PLACES = ["France", "Peru", "Japan", "Italy", "Norway", "Kenya", "Chile", "Egypt", "Spain", "Cuba"]
WORDS = ("the capital of is a river city in north and south old new sea people live there with many small red blue "
         "houses 1 22 303 4.5 Größe naïve 東京 Москва 🙂 (see) \"quoted\" ... - x=y; END").split()
STOPS = [" is", ".", "P", "aris", "e", " the", "\n", "zzz never", "ar", "s."]
TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a place",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
                                           "size": {"type": "integer", "minimum": 0, "maximum": 999},
                                           "is_old": {"type": "boolean"}},
          "required": ["name", "size", "is_old"], "additionalProperties": False}


class Requests:
    """Draws requests whose prompts often begin alike, so that caches have something to find."""

    def __init__(self, seed, longest_words=120):
        self.random = random.Random(f"requests {seed}")
        self.longest_words = longest_words
        self.systems = [self.words(longest_words) for _ in range(4)]
        self.talks = [self.talk() for _ in range(12)]

    def words(self, most):
        return " ".join(self.random.choices(WORDS, k=self.random.randint(1, most)))

    def question(self):
        place = self.random.choice(PLACES)
        return self.random.choice([f"What is the capital of {place}?", f"Tell me about {place}. {self.words(12)}",
                                   self.words(40), "Hello!"])

    def talk(self):
        messages = []
        if self.random.random() < 0.6:
            messages.append({"role": "system", "content": self.random.choice(self.systems)})
        for _ in range(self.random.randrange(4)):
            messages.append({"role": "user", "content": self.question()})
            messages.append({"role": "assistant", "content": self.words(20)})
        return messages

    def draw(self):
        """A path and a body, without `stream`."""
        if self.random.random() < 0.5:
            body = self.chat()
            path = "/v1/chat/completions"
        else:
            body = self.completion()
            path = "/v1/completions"
        self.add_sampling(body)
        return path, body

    def chat(self):
        messages = [*self.random.choice(self.talks), {"role": "user", "content": self.question()}]
        body = {"messages": messages, "max_tokens": self.reply_length(), "logprobs": True,
                "top_logprobs": self.random.randrange(4)}
        kind = self.random.random()
        if kind < 0.15:
            body["tools"] = [TOOL]
            body["tool_choice"] = self.random.choice(["auto", "required", "none"])
        elif kind < 0.3:
            body["response_format"] = {"type": "json_schema",
                                       "json_schema": {"name": "a", "strict": True, "schema": SCHEMA}}
        elif kind < 0.45:
            body["reasoning_effort"] = "high"
        return body

    def completion(self):
        prompt = f"{self.random.choice(self.systems)} {self.question()}"
        if self.random.random() < 0.1:
            prompt = [prompt, self.question()]
        elif self.random.random() < 0.15:
            prompt = [2, *(self.random.randrange(120, 700) for _ in range(self.random.randint(1, 60)))]
        body = {"prompt": prompt, "max_tokens": self.reply_length(), "logprobs": self.random.randrange(4)}
        if self.random.random() < 0.2:
            body["echo"] = True
        return body

    def reply_length(self):
        draw = self.random
        return draw.choice([1, draw.randint(2, 9), draw.randint(3, 30), draw.randint(20, 90), draw.randint(100, 300)])

    def add_sampling(self, body):
        draw = self.random
        body["temperature"] = draw.choice([0, 0, 0.3, 1, 1.7])
        body["seed"] = draw.randrange(2**40)
        if draw.random() < 0.3:
            body["top_p"] = round(draw.uniform(0.1, 1), 3)
        if draw.random() < 0.3:
            body["top_k"] = draw.randint(1, 60)
        if draw.random() < 0.2:
            body["min_p"] = round(draw.uniform(0, 0.4), 3)
        if draw.random() < 0.2:
            body[draw.choice(["frequency_penalty", "presence_penalty"])] = round(draw.uniform(-1, 1.5), 3)
        if draw.random() < 0.15:
            body["repetition_penalty"] = round(draw.uniform(0.9, 1.5), 3)
        if draw.random() < 0.1:
            body["logit_bias"] = {str(draw.randrange(100, 900)): draw.choice([-100, -2, 3]) for _ in range(3)}
        if draw.random() < 0.3:
            body["stop"] = draw.sample(STOPS, draw.randint(1, 3))
        if draw.random() < 0.15:
            body["n"] = draw.randint(2, 3)
        if draw.random() < 0.4 and "response_format" not in body:
            body["ignore_eos"] = True
        if draw.random() < 0.1:
            body["min_tokens"] = min(draw.randint(1, 8), body["max_tokens"])
