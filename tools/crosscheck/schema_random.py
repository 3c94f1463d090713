"""Random JSON schemas of the kinds that are enforced, and patterns, for schema_crosscheck.py."""

import random

FORMATS = ["date", "time", "date-time", "duration", "uuid", "ipv4", "ipv6", "hostname", "email", "uri"]

PATTERNS = [
    r"[a-z]{3,8}",
    r"(foo|bar)+-\d{2,4}",
    r"[^\d\s]{1,10}",
    r".{0,20}",
    r"[A-Z][a-z]*( [A-Z][a-z]*){0,3}",
    r"\w+@\w+\.(com|org)",
    r"(a|b(c|d)*)?e{2,}",
    r"[\u00e0-\u00ff\U0001F600-\U0001F64F]+".encode().decode("unicode_escape"),
    r"\"\\\/\{\}",
    r"\S+\D\W",
]

# Patterns for strings in JSON: found anywhere, or tied to the ends.
SEARCHED = [r"^[a-z]+$", r"\d{3}", r"^[A-Z]", r"^(yes|no)", r"^(\"[^\"]{0,3}\"|\\)$", r"[^a-z]", r"^.{2,5}$", r"\s\S"]

WORDS = ["name", "age", "tags", "city", "a", "b", "ab", "total amount", "größe", "x/y~z", "quo\"te", "", "\n", "日本"]
BARE_WORDS = ["name", "age", "tags", "city", "a", "b", "ab", "total amount", "größe", "x.y-z", "日本"]  # keys of calls


class Schemas:
    """One random schema, with definitions that it may refer to, recursively."""

    def __init__(self, seed, number, words=None):
        self.words = words or WORDS
        self.random = random.Random(f"{seed} {number}")
        self.definitions = {}

    def schema(self):
        if self.random.random() < 0.3:
            self.definitions["node"] = True  # taken, so that parts may refer to it
            self.definitions["node"] = self.recursive_definition()
        schema = self.part(3)
        if self.definitions:
            schema = {**schema, "$defs": self.definitions}
        return schema

    def tool(self, name):
        """A function whose parameters keep to keys that a call can hold."""
        parameters = self.object(2)
        if self.flip(0.2):
            return {"name": name}
        return {"name": name, "parameters": parameters}

    def recursive_definition(self):
        link = {"$ref": "#/$defs/node"}
        return {
            "type": "object",
            "properties": {"value": self.part(1), "next": {"anyOf": [{"type": "null"}, link]},
                           "children": {"type": "array", "items": link}},
            "required": self.random.choice([["value"], ["value", "next"], ["children"]]),
        }

    def part(self, depth):
        kinds = [self.string, self.integer, self.number, self.listed, self.plain]
        if depth > 0:
            kinds += [self.object, self.object, self.array, self.alternatives, self.tagged, self.merged]
        if self.definitions:
            kinds.append(lambda _: {"$ref": "#/$defs/node"})
        schema = self.random.choice(kinds)(depth)
        if self.random.random() < 0.2:
            schema = {"title": "A part", "description": "…", **schema}
        return schema

    def flip(self, probability=0.5):
        return self.random.random() < probability

    def string(self, _):
        schema = {"type": "string"}
        kind = self.random.randrange(4)
        if kind == 0:
            schema["format"] = self.random.choice(FORMATS)
        elif kind == 1:
            schema["pattern"] = self.random.choice(SEARCHED)
        elif kind == 2:
            low = self.random.randrange(6)
            schema["minLength"] = low
            if self.flip():
                schema["maxLength"] = low + self.random.randrange(10)
        return schema

    def bounds(self, draw, step):
        low = draw()
        high = low + self.random.randrange(1, 500) * step
        schema = {}
        if self.flip(0.7):
            schema[self.random.choice(["minimum", "exclusiveMinimum"])] = low
        if self.flip(0.7):
            schema[self.random.choice(["maximum", "exclusiveMaximum"])] = round(high + step, 6)
        return schema

    def integer(self, _):
        scale = self.random.choice([1, 10, 1000, 10**6, 2**53])
        bounds = self.bounds(lambda: self.random.randrange(-scale, scale + 1), 2)
        if self.flip(0.1):
            bounds["multipleOf"] = 1
        return {"type": "integer", **bounds}

    def number(self, _):
        digits = self.random.randrange(5)
        bounds = self.bounds(lambda: round(self.random.uniform(-1000, 1000), digits), self.random.choice([0.001, 0.5, 3]))
        return {"type": "number", **bounds}

    def any_json(self, depth):
        kind = self.random.randrange(7 if depth > 0 else 5)
        if kind == 5:
            return [self.any_json(depth - 1) for _ in range(self.random.randrange(3))]
        if kind == 6:
            names = self.random.sample(self.words, self.random.randrange(3))
            return {name: self.any_json(depth - 1) for name in names}
        return [None, self.flip(), self.random.randrange(-99, 99), round(self.random.uniform(-9, 9), 3),
                self.random.choice(WORDS)][kind]

    def listed(self, _):
        if self.flip(0.3):
            return {"const": self.any_json(2)}
        return {"enum": [self.any_json(2) for _ in range(self.random.randrange(1, 6))]}

    def plain(self, _):
        return self.random.choice([{"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"]}, {},
                                   {"type": "object"}, {"type": ["integer", "boolean"]}, {"type": "array"}])

    def object(self, depth):
        names = self.random.sample(self.words, self.random.randrange(1, 5))
        schema = {"type": "object", "properties": {name: self.part(depth - 1) for name in names}}
        if self.flip(0.8):
            schema["required"] = [name for name in names if self.flip(0.6)]
        if self.flip(0.4):
            schema["additionalProperties"] = self.random.choice([False, True, {"type": "integer"}])
        return schema

    def array(self, depth):
        schema = {"type": "array"}
        if self.flip(0.3):
            schema["prefixItems"] = [self.part(depth - 1) for _ in range(self.random.randrange(1, 3))]
        if self.flip(0.8):
            schema["items"] = self.part(depth - 1)
        low = self.random.randrange(3)
        if self.flip(0.4):
            schema["minItems"] = low
        if self.flip(0.5):
            schema["maxItems"] = low + self.random.randrange(4)
        return schema

    def alternatives(self, depth):
        if self.flip(0.3):
            return {"oneOf": [{"type": "string", "maxLength": 5}, self.object(depth), {"type": "number"}]}
        return {"anyOf": [self.part(depth - 1) for _ in range(self.random.randrange(1, 4))]}

    def tagged(self, depth):
        def branch(tag):
            return {"type": "object", "properties": {"kind": {"const": tag}, "body": self.part(depth - 1)},
                    "required": ["kind"]}

        return {"oneOf": [branch("x"), branch("y"), branch(3)]}

    def merged(self, depth):
        return {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "number", "minimum": 1}, "b": self.part(depth - 1)}},
                {"properties": {"a": {"type": ["integer", "null"]}, "c": {"type": "boolean"}}, "required": ["a"]},
            ],
            "anyOf": [{"required": ["b"]}, {"required": ["c"]}],
        }
