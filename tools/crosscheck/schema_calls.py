"""Reads Gemma 4's tool calls, for schema_crosscheck.py: <|tool_call>call:NAME{key:value,…}<tool_call|>, any number."""

import json
import re

QUOTE = '<|"|>'
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
WORDS = {"true": True, "false": False, "null": None}


class CallReader:
    """One pass over a text; ValueError where it is not as it should be."""

    def __init__(self, text):
        self.text = text
        self.at = 0

    def take(self, literal):
        if not self.text.startswith(literal, self.at):
            raise ValueError(f"expected {literal!r} at {self.at}: {self.text[self.at:self.at + 30]!r}")
        self.at += len(literal)

    def looks_at(self, literal):
        return self.text.startswith(literal, self.at)

    def until(self, literal):
        end = self.text.index(literal, self.at)
        part = self.text[self.at:end]
        self.at = end
        return part

    def calls(self):
        found = []
        while self.at < len(self.text):
            self.take("<|tool_call>call:")
            name = self.until("{")
            found.append((name, self.value()))
            self.take("<tool_call|>")
        if not found:
            raise ValueError("there is no call")
        return found

    def value(self):
        if self.looks_at(QUOTE):
            self.take(QUOTE)
            text = self.until(QUOTE)
            self.take(QUOTE)
            return text
        if self.looks_at("{"):
            return self.members()
        if self.looks_at("["):
            return self.elements()
        for word, value in WORDS.items():
            if self.looks_at(word):
                self.take(word)
                return value
        number = NUMBER.match(self.text, self.at)
        if not number:
            raise ValueError(f"no value at {self.at}: {self.text[self.at:self.at + 30]!r}")
        self.at = number.end()
        return json.loads(number.group())

    def members(self):
        found = {}
        self.take("{")
        while not self.looks_at("}"):
            if found:
                self.take(",")
            key = self.until(":")
            if not key or key != key.strip() or set(key) & set('{}[],"'):
                raise ValueError(f"{key!r} is no bare key")
            self.take(":")
            found[key] = self.value()
        self.take("}")
        return found

    def elements(self):
        found = []
        self.take("[")
        while not self.looks_at("]"):
            if found:
                self.take(",")
            found.append(self.value())
        self.take("]")
        return found
